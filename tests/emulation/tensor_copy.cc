/* The copy engine: bulk copies (kernels/device/bulk_copy.cuh), and boxes of a tensor
 * (kernels/device/tensor_copy.cuh). All is copied at once. Rows of a box lie in shared memory as the hardware
 * swizzles them, by their addresses. */
#include "emulation.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{

void die(const char *why)
{
    fprintf(stderr, "emulation: %s\n", why);
    abort();
}

/* Where the 16 bytes at `offset` of a box are, whose rows have row_bytes. */
char *swizzled(void *shared, size_t offset, size_t row_bytes)
{
    size_t base = (size_t)((char *)shared - (char *)convoy_emulated_shared());
    if (base % (row_bytes * 8) != 0)
        die("a box in shared memory does not begin on 8 of its rows");
    size_t bits = row_bytes == 128 ? 0x70 : row_bytes == 64 ? 0x30 : row_bytes == 32 ? 0x10 : 0;
    if (bits == 0)
        die("rows of a box that are not 32, 64 or 128 bytes");
    return (char *)shared + (offset ^ (offset >> 3 & bits));
}

/* The bytes of a row of a box that begins at this column or channel. */
size_t row_bytes_from(const CUtensorMap *map, int first)
{
    if (first % 8 != 0)
        die("a box of a tensor that does not begin on 8 of its columns or channels");
    return (size_t)map->box[0] * 2;
}

const uint16_t *element(const CUtensorMap *map, const int64_t (&at)[4], int rank)
{
    const uint16_t *from = (const uint16_t *)map->data;
    for (int i = 0; i < rank; i++) {
        if (at[i] < 0 || at[i] >= map->dims[i])
            return nullptr;
        from += at[i] * map->strides[i];
    }
    return from;
}

} // namespace

int convoy_emulated_copy_bulk(void *to, const void *from, int bytes)
{
    if (((uintptr_t)to | (uintptr_t)from | (uintptr_t)bytes) % 16 != 0)
        die("a bulk copy whose places or bytes are no multiples of 16");
    memcpy(to, from, (size_t)bytes);
    return bytes;
}

int convoy_emulated_copy_box(void *shared, const CUtensorMap *map, int column, int row)
{
    size_t row_bytes = row_bytes_from(map, column);
    for (int r = 0; r < map->box[1]; r++)
        for (int c = 0; c < map->box[0]; c++) {
            const uint16_t *from = element(map, {column + c, row + r, 0, 0}, 2);
            size_t offset = (size_t)r * row_bytes + (size_t)c * 2;
            *(uint16_t *)(swizzled(shared, offset & ~(size_t)15, row_bytes) + (offset & 15)) =
                from ? *from : 0;
        }
    return map->box[1] * (int)row_bytes;
}

void convoy_emulated_store_box(const CUtensorMap *map, const void *shared, int column, int row)
{
    size_t row_bytes = row_bytes_from(map, column);
    for (int r = 0; r < map->box[1]; r++)
        for (int c = 0; c < map->box[0]; c++) {
            const uint16_t *to = element(map, {column + c, row + r, 0, 0}, 2);
            size_t offset = (size_t)r * row_bytes + (size_t)c * 2;
            if (to != nullptr)
                *(uint16_t *)to =
                    *(const uint16_t *)(swizzled((void *)shared, offset & ~(size_t)15, row_bytes) +
                                        (offset & 15));
        }
}

int convoy_emulated_copy_patch(void *shared, const CUtensorMap *map, int channel, int x, int y, int n)
{
    size_t row_bytes = row_bytes_from(map, channel);
    for (int r = 0; r < map->side[0] * map->side[1]; r++)
        for (int c = 0; c < map->box[0]; c++) {
            const uint16_t *from =
                element(map, {channel + c, x + r % map->side[0], y + r / map->side[0], n}, 4);
            size_t offset = (size_t)r * row_bytes + (size_t)c * 2;
            *(uint16_t *)(swizzled(shared, offset & ~(size_t)15, row_bytes) + (offset & 15)) =
                from ? *from : 0;
        }
    return map->side[0] * map->side[1] * (int)row_bytes;
}

void convoy_emulated_store_patch(const CUtensorMap *map, const void *shared, int channel, int x, int y, int n)
{
    size_t row_bytes = row_bytes_from(map, channel);
    for (int r = 0; r < map->side[0] * map->side[1]; r++)
        for (int c = 0; c < map->box[0]; c++) {
            const uint16_t *to =
                element(map, {channel + c, x + r % map->side[0], y + r / map->side[0], n}, 4);
            size_t offset = (size_t)r * row_bytes + (size_t)c * 2;
            if (to != nullptr)
                *(uint16_t *)to =
                    *(const uint16_t *)(swizzled((void *)shared, offset & ~(size_t)15, row_bytes) +
                                        (offset & 15));
        }
}

/* Walks over the positions of tap 0 (x fastest, then y, then images), of which each box has so many. */
int convoy_emulated_copy_tap(void *shared, const CUtensorMap *map, int channel, int x, int y, int n,
                             int tap_x, int tap_y)
{
    size_t row_bytes = row_bytes_from(map, channel);
    const int64_t end[2] = {map->dims[1] + map->upper[0], map->dims[2] + map->upper[1]};
    int64_t at[3] = {x, y, n};
    for (int r = 0; r < map->box[1]; r++) {
        for (int c = 0; c < map->box[0]; c++) {
            const uint16_t *from = element(map, {channel + c, at[0] + tap_x, at[1] + tap_y, at[2]}, 4);
            size_t offset = (size_t)r * row_bytes + (size_t)c * 2;
            *(uint16_t *)(swizzled(shared, offset & ~(size_t)15, row_bytes) + (offset & 15)) =
                from ? *from : 0;
        }
        at[0] += map->steps[0];
        if (at[0] < end[0])
            continue;
        at[0] = map->lower[0];
        at[1] += map->steps[1];
        if (at[1] < end[1])
            continue;
        at[1] = map->lower[1];
        at[2]++;
    }
    return map->box[1] * (int)row_bytes;
}
