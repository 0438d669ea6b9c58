#include "server/image/weighted_sums.h"

#include "server/image/weighted_sums_avx2.h"
#include "server/image/weighted_sums_avx512.h"
#include "server/image/weighted_sums_vbmi.h"

#define HALF (1 << (CONVOY_WEIGHT_BITS - 1))

static inline uint8_t level(int32_t sum)
{
    int32_t value = sum >> CONVOY_WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Inlined for each number of channels, so that the inner loops are unrolled. */
static inline void along_row(const uint8_t *row, int channels, size_t out, const struct convoy_taps *taps,
                             const int32_t *weights, size_t stride, uint8_t *to)
{
    for (size_t i = 0; i < out; i++, weights += stride, to += channels) {
        const uint8_t *from = row + taps[i].first * (size_t)channels;
        const int32_t *weight = weights;
        int32_t sums[4] = {HALF, HALF, HALF, HALF};
        for (size_t k = 0; k < taps[i].count; k++, from += channels, weight += channels)
            for (int c = 0; c < channels; c++)
                sums[c] += from[c] * weight[c];
        for (int c = 0; c < channels; c++)
            to[c] = level(sums[c]);
    }
}

void convoy_mean_along_rows(const uint8_t *rows, size_t row_stride, size_t row_count, int channels,
                            size_t out, const struct convoy_taps *taps, const int32_t *weights, size_t stride,
                            uint8_t *to)
{
    size_t done = 0;
#ifdef __x86_64__
    if (channels == 3 && row_count >= 4 && convoy_has_vbmi() &&
        convoy_mean_along_rows_vbmi(rows, row_stride, row_count, out, taps, weights, stride, to))
        return;
    if (channels == 3 && row_count >= 4 && row_stride >= 16 && convoy_has_avx512_bytes() &&
        convoy_mean_along_rows_avx512(rows, row_stride, row_count, out, taps, weights, stride, to))
        return;
    if (channels == 3 && __builtin_cpu_supports("avx2"))
        for (; done + 2 <= row_count; done += 2)
            convoy_mean_along_two_rows_avx2(rows + done * row_stride, row_stride, out, taps, weights, stride,
                                            to + done * out * 3);
#endif
    for (; done < row_count; done++) {
        if (channels == 1)
            along_row(rows + done * row_stride, 1, out, taps, weights, stride, to + done * out);
        else if (channels == 4)
            along_row(rows + done * row_stride, 4, out, taps, weights, stride, to + done * out * 4);
        else
            along_row(rows + done * row_stride, 3, out, taps, weights, stride, to + done * out * 3);
    }
}

/* So many bytes of all rows at a time: their sums stay in registers, or near. */
#define BLOCK 64

static void block_of_rows(const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                          size_t bytes, uint8_t *to)
{
    int32_t sums[BLOCK];
    for (size_t b = 0; b < bytes; b++)
        sums[b] = HALF;
    for (size_t r = 0; r < count; r++, rows += stride)
        for (size_t b = 0; b < bytes; b++)
            sums[b] += rows[b] * weights[r];
    for (size_t b = 0; b < bytes; b++)
        to[b] = level(sums[b]);
}

void convoy_mean_of_rows(const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                         size_t bytes, uint8_t *to)
{
    size_t done = 0;
#ifdef __x86_64__
    if (convoy_has_avx512_bytes())
        done = convoy_mean_of_rows_avx512(rows, stride, count, weights, bytes, to);
    if (__builtin_cpu_supports("avx2"))
        done += convoy_mean_of_rows_avx2(rows + done, stride, count, weights, bytes - done, to + done);
#endif
    for (; bytes - done >= BLOCK; done += BLOCK)
        block_of_rows(rows + done, stride, count, weights, BLOCK, to + done);
    if (done < bytes)
        block_of_rows(rows + done, stride, count, weights, bytes - done, to + done);
}

void convoy_sums_begin(int32_t *sums, size_t bytes)
{
    for (size_t b = 0; b < bytes; b++)
        sums[b] = HALF;
}

void convoy_sums_add(int32_t *sums, const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                     size_t bytes)
{
    size_t done = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        done = convoy_sums_add_avx2(sums, rows, stride, count, weights, bytes);
#endif
    for (size_t r = 0; r < count; r++, rows += stride)
        for (size_t b = done; b < bytes; b++)
            sums[b] += rows[b] * weights[r];
}

void convoy_sums_end(const int32_t *sums, size_t bytes, uint8_t *to)
{
    for (size_t b = 0; b < bytes; b++)
        to[b] = level(sums[b]);
}
