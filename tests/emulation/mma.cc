/* What a warp does together for the tensor cores, a step and the loading of its rows: kernels/device/mma.cuh
 * says how the operands are spread over the lanes. */
#include "kernels/device/mma.cuh"
#include "emulation.h"

#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <vector>

#define ROWS      16u
#define COLUMNS   8u
#define WORDS     6u           /* of operands that a lane brings: its share of A, then of B */
#define LANE      (WORDS + 5u) /* with its share of the sums, and whether they are what comes out */
#define REDUCTION 16u          /* of halves; of tf32 the first 8 are used */

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

/* Puts a word, one tf32 or two fp16 that follow each other in the reduction, where its operand has word k of
 * a row or column. */
void place(double *operand, size_t pitch, unsigned k, uint32_t word, bool halves)
{
    if (halves) {
#ifdef __F16C__
        __m128 both = _mm_cvtph_ps(_mm_cvtsi32_si128((int)word));
        operand[2 * k * pitch] = both[0];
        operand[(2 * k + 1) * pitch] = both[1];
#else
        operand[2 * k * pitch] = halves_decoded[word & 0xffff];
        operand[(2 * k + 1) * pitch] = halves_decoded[word >> 16];
#endif
    } else {
        operand[k * pitch] = convoy_bits_float(word & 0xffffe000u);
    }
}

/* Lane l has words of rows l / 4 and 8 below of A and of column l / 4 of B, word l % 4 of the reduction and 4
 * behind; of the sums rows l / 4 and 8 below, columns 2 (l % 4) and the next. */
void multiply(uint32_t *lanes, bool halves)
{
    double a[ROWS][REDUCTION], b[REDUCTION][COLUMNS], sums[ROWS][COLUMNS];
    for (unsigned lane = 0; lane < 32; lane++) {
        const uint32_t *words = lanes + lane * LANE;
        unsigned group = lane / 4, k = lane % 4;
        for (unsigned i = 0; i < 4; i++) {
            place(a[group + i % 2 * 8], 1, k + i / 2 * 4, words[i], halves);
            sums[group + i / 2 * 8][2 * k + i % 2] = convoy_bits_float(words[WORDS + i]);
        }
        for (unsigned i = 0; i < 2; i++)
            place(&b[0][group], COLUMNS, k + i * 4, words[4 + i], halves);
    }
    for (unsigned row = 0; row < ROWS; row++)
        for (unsigned k = 0; k < (halves ? REDUCTION : REDUCTION / 2); k++)
            for (unsigned column = 0; column < COLUMNS; column++)
                sums[row][column] += a[row][k] * b[k][column];
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++)
            lanes[lane * LANE + WORDS + i] =
                convoy_float_bits((float)sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
}

} // namespace

const float *const convoy_emulated_halves = halves_decoded.data();

/* The lane that is first behind the meeting multiplies for all. */
void convoy_emulated_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool halves)
{
    uint32_t words[LANE] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(words + WORDS, d, sizeof d);
    uint32_t *lanes = convoy_emulated_gather(words, LANE);
    uint32_t &multiplied = lanes[LANE - 1];
    if (multiplied == 0) {
        multiply(lanes, halves);
        multiplied = 1;
    }
    memcpy(d, lanes + (unsigned)convoy_emulated_lane() * LANE + WORDS, sizeof d);
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
