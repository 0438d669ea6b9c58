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

/* A word: one tf32 (and nothing), or two fp16. */
struct pair {
    float low, high;
};

pair decoded(uint32_t word, bool halves)
{
    if (halves)
        return {half(word & 0xffff), half(word >> 16)};
    return {__int_as_float((int)(word & 0xffffe000u)), 0};
}

} // namespace

const float *const convoy_emulated_halves = halves_decoded.data();

/* Each lane decodes what it brings, which 4 lanes (of A) or 8 (of B) read. */
void convoy_emulated_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool halves)
{
    const uint32_t words[WORDS] = {a[0], a[1], a[2], a[3], b0, b1};
    pair mine[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        mine[i] = decoded(words[i], halves);
    uint32_t bits[2 * WORDS];
    memcpy(bits, mine, sizeof bits);
    const pair *all = (const pair *)(const void *)convoy_emulated_gather(bits, 2 * WORDS);
    unsigned lane = (unsigned)convoy_emulated_lane();
    double sums[4] = {d[0], d[1], d[2],
                      d[3]}; /* rows lane / 4 and 8 below, of columns lane % 4 * 2 and the next */
    for (unsigned k = 0; k < 8; k++) {
        const pair *from_a = all + (lane / 4 * 4 + k % 4) * WORDS + k / 4 * 2;
        const pair *from_b = all + (lane % 4 * 8 + k % 4) * WORDS + A_WORDS + k / 4;
        for (int row = 0; row < 2; row++)
            for (int column = 0; column < 2; column++) {
                const pair &x = from_a[row], &y = from_b[(unsigned)column * 4 * WORDS];
                sums[row * 2 + column] += (double)x.low * y.low + (double)x.high * y.high;
            }
    }
    for (int i = 0; i < 4; i++)
        d[i] = (float)sums[i];
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
