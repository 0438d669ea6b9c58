/* What a warp does together for the tensor cores, a step and the loading of its rows: kernels/device/mma.cuh
 * says how the operands are spread over the lanes. */
#include "emulation.h"

#include <cmath>
#include <cstring>
#include <vector>

#define A_WORDS 4u
#define WORDS   6u /* that a lane brings: its share of A, then of B */

namespace
{

float decode_half(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    float fraction = (float)(bits & 1023), sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexpf(fraction, -24) : ldexpf(fraction + 1024, exponent - 25));
}

/* All of them, because decoding is most of the work. */
const std::vector<float> halves_decoded = [] {
    std::vector<float> all(1 << 16);
    for (uint32_t i = 0; i < all.size(); i++)
        all[i] = decode_half(i);
    return all;
}();

float half(uint32_t bits)
{
    return halves_decoded[bits];
}

/* The sum of the products that a word of each makes: one of tf32, or two of fp16. */
double product(uint32_t a, uint32_t b, bool halves)
{
    if (halves)
        return (double)half(a & 0xffff) * half(b & 0xffff) + (double)half(a >> 16) * half(b >> 16);
    return (double)__int_as_float((int)(a & 0xffffe000u)) * __int_as_float((int)(b & 0xffffe000u));
}

/* Word (row, k) of A and word (k, column) of B, in what the lanes brought. */
uint32_t word_a(const uint32_t *all, int row, int k)
{
    return all[(unsigned)(row % 8 * 4 + k % 4) * WORDS + (unsigned)(row / 8 + k / 4 * 2)];
}

uint32_t word_b(const uint32_t *all, int k, int column)
{
    return all[(unsigned)(column * 4 + k % 4) * WORDS + A_WORDS + (unsigned)(k / 4)];
}

} // namespace

const float *const convoy_emulated_halves = halves_decoded.data();

void convoy_emulated_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool halves)
{
    const uint32_t mine[WORDS] = {a[0], a[1], a[2], a[3], b0, b1};
    const uint32_t *all = convoy_emulated_gather(mine, WORDS);
    int lane = convoy_emulated_lane();
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        double sum = d[i];
        for (int k = 0; k < 8; k++)
            sum += product(word_a(all, row, k), word_b(all, k, column), halves);
        d[i] = (float)sum;
    }
    __syncwarp(); /* before the next words come */
}

/* ldmatrix of four matrices of 8 rows of 16 bytes, lane l giving the address of row l % 8 of matrix l / 8. */
void convoy_emulated_load_matrices(uint32_t (&a)[4], const void *row)
{
    uint32_t mine[2];
    memcpy(mine, &row, sizeof mine);
    const uint32_t *all = convoy_emulated_gather(mine, 2);
    int lane = convoy_emulated_lane();
    for (int matrix = 0; matrix < 4; matrix++) {
        const uint32_t *from;
        memcpy(&from, &all[(matrix * 8 + lane / 4) * 2], sizeof from);
        a[matrix] = from[lane % 4];
    }
    __syncwarp();
}

/* The same with .trans: column lane / 4 of each matrix, rows 2 (lane % 4) and the next. */
void convoy_emulated_load_transposed(uint32_t (&a)[4], const void *row)
{
    uint32_t mine[2];
    memcpy(mine, &row, sizeof mine);
    const uint32_t *all = convoy_emulated_gather(mine, 2);
    int lane = convoy_emulated_lane();
    for (int matrix = 0; matrix < 4; matrix++) {
        a[matrix] = 0;
        for (int i = 0; i < 2; i++) {
            const uint16_t *from;
            memcpy(&from, &all[(matrix * 8 + lane % 4 * 2 + i) * 2], sizeof from);
            a[matrix] |= (uint32_t)from[lane / 4] << (16 * i);
        }
    }
    __syncwarp();
}

void convoy_emulated_store_matrices(void *row, const uint32_t (&a)[4])
{
    uint32_t mine[2];
    memcpy(mine, &row, sizeof mine);
    const uint32_t *all = convoy_emulated_gather(mine, 2);
    int lane = convoy_emulated_lane();
    for (int matrix = 0; matrix < 4; matrix++) {
        uint32_t *to;
        memcpy(&to, &all[(matrix * 8 + lane / 4) * 2], sizeof to);
        to[lane % 4] = a[matrix];
    }
    __syncwarp();
}
