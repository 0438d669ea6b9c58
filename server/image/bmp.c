#include "server/image/bmp.h"

#include "engine/base/clock.h"
#include "server/image/bmp_rle.h"

#include <errno.h>
#include <string.h>

static int truncated(struct convoy_error *error)
{
    return convoy_fail(error, -EBADMSG, "the BMP image ends before its last pixel: send the whole file");
}

/* R, G, B of every palette index; what the palette lacks is black. True when all are grey. */
static bool read_palette(const struct convoy_bmp *bmp, uint8_t colours[256][3])
{
    const struct convoy_bmp_header *header = &bmp->header;
    const uint8_t *entry = bmp->bytes + header->palette_at;
    bool grey = true;
    memset(colours, 0, (size_t)256 * 3);
    for (size_t i = 0; i < header->palette_entries; i++, entry += header->entry_bytes) {
        colours[i][0] = entry[2];
        colours[i][1] = entry[1];
        colours[i][2] = entry[0];
        grey = grey && entry[0] == entry[1] && entry[1] == entry[2];
    }
    return grey;
}

int convoy_bmp_open(struct convoy_bmp *bmp, const uint8_t *bytes, size_t length,
                    struct convoy_stored_image *stored, struct convoy_error *error)
{
    uint8_t unused[256][3];
    int code = convoy_bmp_header_read(bytes, length, &bmp->header, error);
    if (code != 0)
        return code;
    bmp->bytes = bytes;
    bmp->length = length;
    stored->width = bmp->header.width;
    stored->height = bmp->header.height;
    stored->orientation = 1;
    if (bmp->header.bits <= 8)
        stored->pixel = read_palette(bmp, unused) ? CONVOY_PIXEL_GREY : CONVOY_PIXEL_RGB;
    else
        stored->pixel = bmp->header.masks[3].bits > 0 ? CONVOY_PIXEL_RGBA : CONVOY_PIXEL_RGB;
    return 0;
}

int convoy_bmp_check(const struct convoy_bmp *bmp, size_t length, struct convoy_error *error)
{
    uint64_t pixels = (uint64_t)bmp->header.width * (uint64_t)bmp->header.height;
    return bmp->header.coding != CONVOY_BMP_PLAIN && pixels / 128 > length ? truncated(error) : 0;
}

static bool is_late(int row, uint64_t deadline_us)
{
    return deadline_us != 0 && row % 16 == 0 && convoy_now_us() >= deadline_us;
}

static int late(struct convoy_error *error)
{
    return convoy_fail(error, -ETIMEDOUT, "the deadline passed while the image was decoded");
}

/* The image's row that stands there in the file. */
static int row_at(const struct convoy_bmp_header *header, int stored)
{
    return header->top_down ? stored : header->height - 1 - stored;
}

static void put_indexed(const struct convoy_raster *raster, int y, const uint8_t *indices,
                        uint8_t colours[256][3])
{
    uint8_t *to = convoy_raster_line(raster, y);
    int width = raster->stored.width;
    if (raster->stored.pixel == CONVOY_PIXEL_GREY)
        for (int x = 0; x < width; x++)
            to[x] = colours[indices[x]][0];
    else
        for (int x = 0; x < width; x++, to += 3)
            memcpy(to, colours[indices[x]], 3);
    convoy_raster_place(raster, y);
}

/* Indices of 1, 4 or 8 bits, the first in the highest bits. */
static void unpack(const uint8_t *from, int bits, int width, uint8_t *indices)
{
    if (bits == 8)
        memcpy(indices, from, (size_t)width);
    else if (bits == 4)
        for (int x = 0; x < width; x++)
            indices[x] = x % 2 == 0 ? from[x / 2] >> 4 : from[x / 2] & 15;
    else
        for (int x = 0; x < width; x++)
            indices[x] = from[x / 8] >> (7 - x % 8) & 1;
}

/* The levels that a component of 16 and 32 bits a pixel has. One of more than 8 bits keeps the highest. */
struct component {
    int shift;
    uint32_t mask;
    uint8_t levels[256];
};

static void prepare(const struct convoy_bmp_mask *mask, struct component *component)
{
    int kept = mask->bits < 8 ? mask->bits : 8;
    uint32_t top = (1u << kept) - 1;
    component->shift = mask->shift + mask->bits - kept;
    component->mask = top;
    for (uint32_t i = 0; i <= top; i++)
        component->levels[i] = (uint8_t)(top == 0 ? 0 : i * 255 / top);
}

static uint8_t level(const struct component *component, uint32_t pixel)
{
    return component->levels[pixel >> component->shift & component->mask];
}

/* Pixels of 16 or 32 bits. */
static void put_masked(const uint8_t *from, int bits, int width, const struct component components[4],
                       int count, uint8_t *to)
{
    for (int x = 0; x < width; x++) {
        uint32_t pixel = (uint32_t)from[1] << 8 | from[0];
        if (bits == 32)
            pixel |= (uint32_t)from[3] << 24 | (uint32_t)from[2] << 16;
        for (int i = 0; i < count; i++)
            *to++ = level(&components[i], pixel);
        from += bits / 8;
    }
}

static void put_24(const uint8_t *from, int width, uint8_t *to)
{
    for (int x = 0; x < width; x++, from += 3, to += 3) {
        to[0] = from[2];
        to[1] = from[1];
        to[2] = from[0];
    }
}

static int read_runs(const struct convoy_bmp *bmp, const struct convoy_raster *raster, uint64_t deadline_us,
                     uint8_t *indices, struct convoy_error *error)
{
    uint8_t colours[256][3];
    struct convoy_bmp_rle rle = {.bytes = bmp->bytes,
                                 .length = bmp->length,
                                 .at = bmp->header.pixels_at,
                                 .bits = bmp->header.bits,
                                 .width = bmp->header.width};
    (void)read_palette(bmp, colours);
    for (int i = 0; i < bmp->header.height; i++) {
        if (is_late(i, deadline_us))
            return late(error);
        if (convoy_bmp_rle_row(&rle, indices, i == bmp->header.height - 1) != 0)
            return truncated(error);
        put_indexed(raster, row_at(&bmp->header, i), indices, colours);
    }
    return 0;
}

static int read_rows(const struct convoy_bmp *bmp, const struct convoy_raster *raster, uint64_t deadline_us,
                     uint8_t *indices, struct convoy_error *error)
{
    uint8_t colours[256][3];
    struct component components[4];
    const struct convoy_bmp_header *header = &bmp->header;
    uint64_t row_bits = (uint64_t)header->width * (uint64_t)header->bits;
    uint64_t stride = (row_bits + 31) / 32 * 4;
    const uint8_t *from = bmp->bytes + header->pixels_at;
    /* Rows are filled up to four bytes; of the last one, that may be missing. */
    if (stride * (uint64_t)(header->height - 1) + (row_bits + 7) / 8 > bmp->length - header->pixels_at)
        return truncated(error);
    if (header->bits <= 8)
        (void)read_palette(bmp, colours);
    for (int i = 0; i < 4; i++)
        prepare(&header->masks[i], &components[i]);
    for (int i = 0; i < header->height; i++, from += stride) {
        int y = row_at(header, i);
        if (is_late(i, deadline_us))
            return late(error);
        if (header->bits <= 8) {
            unpack(from, header->bits, header->width, indices);
            put_indexed(raster, y, indices, colours);
            continue;
        }
        if (header->bits == 24)
            put_24(from, header->width, convoy_raster_line(raster, y));
        else
            put_masked(from, header->bits, header->width, components,
                       convoy_pixel_bytes(raster->stored.pixel), convoy_raster_line(raster, y));
        convoy_raster_place(raster, y);
    }
    return 0;
}

int convoy_bmp_read(const struct convoy_bmp *bmp, const struct convoy_raster *raster, uint64_t deadline_us,
                    struct convoy_image_scratch *scratch, struct convoy_error *error)
{
    uint8_t *indices = convoy_image_buffer_reserve(&scratch->packed, (size_t)bmp->header.width, 1, 1);
    if (indices == NULL)
        return convoy_fail(error, -ENOMEM,
                           "out of memory while decoding a BMP image: send a smaller one or try again");
    return bmp->header.coding == CONVOY_BMP_PLAIN ? read_rows(bmp, raster, deadline_us, indices, error)
                                                  : read_runs(bmp, raster, deadline_us, indices, error);
}
