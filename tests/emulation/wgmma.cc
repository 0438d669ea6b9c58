/* Products of a warpgroup and barriers in shared memory: kernels/device/wgmma.cuh,
 * kernels/device/bulk_copy.cuh. A thread computes its own share of a product, and no earlier than it has to
 * be there: so code that writes to a matrix too early, or reads sums too early, gives something else than it
 * should. */
#include "emulation.h"

#include <cstdlib>
#include <unordered_map>
#include <vector>

namespace
{

struct product {
    float (*sum)[4];
    int tiles;
    uint64_t a, b;
    unsigned group; /* that it belongs to, of its thread's */
};

struct pending {
    std::vector<product> products;
    unsigned groups; /* that were ended */
};

std::unordered_map<size_t, pending> all; /* of each thread */

/* Eight fp16 of a row (of a column of B): piece 0 or 1 of the reduction. */
const uint16_t *row_of(uint64_t matrix, int row, int piece)
{
    size_t along = (matrix >> 16 & 0x3fff) << 4, across = (matrix >> 32 & 0x3fff) << 4;
    unsigned swizzle = (unsigned)(matrix >> 62);
    if (swizzle != 0) { /* rows of 128, 64 or 32 bytes, whose cells are exchanged by their addresses */
        static const size_t bits[4] = {0, 0x70, 0x30, 0x10};
        size_t at = ((matrix & 0x3fff) << 4) + (size_t)(row / 8) * across +
                    (size_t)(row % 8) * (256u >> swizzle) + (size_t)piece * 16;
        return (const uint16_t *)((const char *)convoy_emulated_shared() + (at ^ (at >> 3 & bits[swizzle])));
    }
    size_t at = ((matrix & 0x3fff) << 4) + (size_t)piece * along + (size_t)(row / 8) * across;
    return (const uint16_t *)((const char *)convoy_emulated_shared() + at + (size_t)(row % 8) * 16);
}

void multiply(const product &p)
{
    int lane = convoy_emulated_lane(), warp = (int)threadIdx.x / 32 % 4;
    for (int tile = 0; tile < p.tiles; tile++)
        for (int i = 0; i < 4; i++) {
            int row = warp * 16 + lane / 4 + i / 2 * 8, column = tile * 8 + lane % 4 * 2 + i % 2;
            double sum = p.sum[tile][i];
            for (int piece = 0; piece < 2; piece++) {
                const uint16_t *a = row_of(p.a, row, piece), *b = row_of(p.b, column, piece);
                for (int k = 0; k < 8; k++)
                    sum += (double)convoy_emulated_halves[a[k]] * convoy_emulated_halves[b[k]];
            }
            p.sum[tile][i] = (float)sum;
        }
}

/* A barrier in 8 bytes. */
struct barrier {
    uint16_t arrivals, left;
    uint32_t phase;
};

} // namespace

void convoy_emulated_wgmma(float (*sum)[4], int tiles, uint64_t a, uint64_t b)
{
    pending &mine = all[convoy_emulated_fiber()];
    mine.products.push_back({sum, tiles, a, b, mine.groups});
}

void convoy_emulated_wgmma_end()
{
    all[convoy_emulated_fiber()].groups++;
}

void convoy_emulated_wgmma_wait(int groups)
{
    pending &mine = all[convoy_emulated_fiber()];
    size_t done = 0;
    for (; done < mine.products.size() && mine.products[done].group + (unsigned)groups < mine.groups; done++)
        multiply(mine.products[done]);
    mine.products.erase(mine.products.begin(), mine.products.begin() + (long)done);
    /* No thread goes on before the whole warpgroup is there; the emulation has a barrier of warps alone. */
    __syncwarp();
}

void convoy_emulated_group_sync()
{
    struct meeting {
        unsigned there, phase;
    };
    static std::unordered_map<size_t, meeting> meetings; /* of each warpgroup of a cluster */
    meeting &mine = meetings[convoy_emulated_fiber() / 128];
    unsigned phase = mine.phase;
    if (++mine.there < 128) {
        convoy_emulated_wait([&mine, phase] { return mine.phase != phase; });
        return;
    }
    mine.there = 0;
    mine.phase++;
    convoy_emulated_happened();
}

void convoy_emulated_barrier_make(uint64_t *place, int arrivals)
{
    *(barrier *)(void *)place = {(uint16_t)arrivals, (uint16_t)arrivals, 0};
}

void convoy_emulated_barrier_arrive(uint64_t *place)
{
    barrier *b = (barrier *)(void *)place;
    if (b->left == 0)
        abort();
    if (--b->left > 0)
        return;
    b->left = b->arrivals;
    b->phase++;
    convoy_emulated_happened();
}

void convoy_emulated_barrier_wait(uint64_t *place, int parity)
{
    const barrier *b = (const barrier *)(const void *)place;
    convoy_emulated_wait([b, parity] { return (int)(b->phase & 1) != parity; });
}
