/* Products of a warpgroup and barriers in shared memory: kernels/device/wgmma.cuh,
 * kernels/device/bulk_copy.cuh. A thread computes its own share of a product, and no earlier than it has to
 * be there: so code that writes to a matrix too early, or reads sums too early, gives something else than it
 * should. */
#include "emulation.h"

#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <unordered_map>
#include <vector>

namespace
{

struct product {
    float (*sum)[4];
    int tiles;
    const uint32_t *registers; /* a; nullptr: it is in shared memory */
    bool transposed;           /* b */
    uint64_t a, b;
    unsigned group; /* that it belongs to, of its thread's */
};

struct pending {
    std::vector<product> products;
    unsigned groups; /* that were ended */
};

std::unordered_map<size_t, pending> all; /* of each thread */

/* Where a descriptor says that a matrix lies. */
struct matrix {
    const char *shared;
    size_t start, along, across;
    unsigned swizzle;

    explicit matrix(uint64_t descriptor)
        : shared((const char *)convoy_emulated_shared()), start((descriptor & 0x3fff) << 4),
          along((descriptor >> 16 & 0x3fff) << 4), across((descriptor >> 32 & 0x3fff) << 4),
          swizzle((unsigned)(descriptor >> 62))
    {
    }

    /* Eight fp16 of a row (of a column of B): piece 0 or 1 of the reduction. */
    const uint16_t *row_of(int row, int piece) const
    {
        size_t at = start + (size_t)(row / 8) * across;
        if (swizzle == 0)
            return (const uint16_t *)(shared + at + (size_t)piece * along + (size_t)(row % 8) * 16);
        /* Rows of 128, 64 or 32 bytes, whose cells are exchanged by their addresses. */
        static const size_t bits[4] = {0, 0x70, 0x30, 0x10};
        at += (size_t)(row % 8) * (256u >> swizzle) + (size_t)piece * 16;
        return (const uint16_t *)(shared + (at ^ (at >> 3 & bits[swizzle])));
    }

    /* A column of 64 whose rows are 128 bytes, swizzled. */
    void decode_column(int column, float (&values)[16]) const
    {
        for (int k = 0; k < 16; k++) {
            size_t at = start + (size_t)(k / 8) * across + (size_t)(k % 8) * 128 + (size_t)column * 2;
            values[k] =
                convoy_emulated_halves[*(const uint16_t *)(const void *)(shared + (at ^ (at >> 3 & 0x70)))];
        }
    }

    void decode(int row, float (&values)[16]) const
    {
        for (int piece = 0; piece < 2; piece++) {
            const uint16_t *from = row_of(row, piece);
#ifdef __F16C__
            _mm256_storeu_ps(&values[piece * 8],
                             _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)from)));
#else
            for (int k = 0; k < 8; k++)
                values[piece * 8 + k] = convoy_emulated_halves[from[k]];
#endif
        }
    }
};

/* The two rows of a thread, of which it holds a quarter in registers. */
void collect_rows(const uint32_t *registers, float (&rows)[2][16])
{
    int first = convoy_emulated_lane() / 4 * 4;
    for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < 4; lane++) {
            uint32_t word = __shfl_sync(0xffffffffu, registers[i], first + lane);
            rows[i % 2][i / 2 * 8 + lane * 2] = convoy_emulated_halves[word & 0xffff];
            rows[i % 2][i / 2 * 8 + lane * 2 + 1] = convoy_emulated_halves[word >> 16];
        }
}

typedef float four __attribute__((vector_size(16)));
typedef float eight __attribute__((vector_size(32)));
typedef eight sixteen[2];

/* Neighbours added up: of a those of the lower half, of b those of the upper one. Results go back through
 * memory: registers for them are not on every machine. */
void add_pairs(const eight &a, const eight &b, eight &sums)
{
    sums = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

/* Adds each row's products with each column. Products of halves are exact in single precision, which is that
 * of the hardware's sums. */
void add_dots(float (&sum)[4], const sixteen (&rows)[2], const sixteen (&columns)[2])
{
    eight both[2], pairs; /* of a row: four sums of its products with the one column, four with the other */
    for (int i = 0; i < 2; i++) {
        const eight one = rows[i][0] * columns[0][0] + rows[i][1] * columns[0][1];
        const eight other = rows[i][0] * columns[1][0] + rows[i][1] * columns[1][1];
        add_pairs(one, other, both[i]);
    }
    add_pairs(both[0], both[1], pairs);
    four before;
    memcpy(&before, sum, sizeof before);
    before +=
        __builtin_shufflevector(pairs, pairs, 0, 2, 4, 6) + __builtin_shufflevector(pairs, pairs, 1, 3, 5, 7);
    memcpy(sum, &before, sizeof before);
}

/* A thread has two rows, and two columns of each tile. */
void multiply(const product &p)
{
    int lane = convoy_emulated_lane(), warp = (int)threadIdx.x / 32 % 4;
    const matrix a(p.a), b(p.b);
    float rows[2][16], values[2][16];
    if (p.registers != nullptr)
        collect_rows(p.registers, rows);
    for (int i = 0; i < 2 && p.registers == nullptr; i++)
        a.decode(warp * 16 + lane / 4 + i * 8, rows[i]);
    sixteen both[2], columns[2];
    memcpy(both, rows, sizeof both);
    for (int tile = 0; tile < p.tiles; tile++) {
        for (int j = 0; j < 2; j++) {
            if (p.transposed)
                b.decode_column(tile * 8 + lane % 4 * 2 + j, values[j]);
            else
                b.decode(tile * 8 + lane % 4 * 2 + j, values[j]);
        }
        memcpy(columns, values, sizeof columns);
        add_dots(p.sum[tile], both, columns);
    }
}

/* A barrier in 8 bytes. */
struct barrier {
    uint8_t arrivals, left;
    uint16_t phase;
    int32_t bytes; /* that are expected and have not come; negative: that came before they were expected */
};

/* A phase ends when nothing is waited for. */
void look_at(barrier *b)
{
    if (b->left > 0 || b->bytes != 0)
        return;
    b->left = b->arrivals;
    b->phase++;
    convoy_emulated_happened();
}

} // namespace

void convoy_emulated_wgmma(float (*sum)[4], int tiles, uint64_t a, uint64_t b)
{
    pending &mine = all[convoy_emulated_fiber()];
    mine.products.push_back({sum, tiles, nullptr, false, a, b, mine.groups});
}

void convoy_emulated_wgmma_registers(float (*sum)[4], int tiles, const uint32_t (&a)[4], uint64_t b,
                                     bool transposed)
{
    pending &mine = all[convoy_emulated_fiber()];
    mine.products.push_back({sum, tiles, a, transposed, 0, b, mine.groups});
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
    if (arrivals < 1 || arrivals > UINT8_MAX)
        abort();
    *(barrier *)(void *)place = {(uint8_t)arrivals, (uint8_t)arrivals, 0, 0};
}

void convoy_emulated_barrier_arrive(uint64_t *place)
{
    barrier *b = (barrier *)(void *)place;
    if (b->left == 0)
        abort();
    b->left--;
    look_at(b);
}

void convoy_emulated_barrier_expect(uint64_t *place, int bytes)
{
    ((barrier *)(void *)place)->bytes += bytes;
    convoy_emulated_barrier_arrive(place);
}

void convoy_emulated_barrier_came(uint64_t *place, int bytes)
{
    barrier *b = (barrier *)(void *)place;
    b->bytes -= bytes;
    look_at(b);
}

void convoy_emulated_barrier_wait(uint64_t *place, int parity)
{
    const barrier *b = (const barrier *)(const void *)place;
    convoy_emulated_wait([b, parity] { return (int)(b->phase & 1) != parity; });
}
