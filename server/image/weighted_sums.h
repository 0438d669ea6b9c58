/* Weighted means of pixels in fixed point: the inner loops of resizing. Inside server/image/ only.
 *
 * A mean is (sum of pixel x weight + 2^21) >> 22, cut to 0..255; weights add up to 2^22, and the positive
 * ones to less than 2^23, so that 32 bits hold every sum. The sums are whole numbers: vectors of any width
 * give the same bits. AVX-512 with its products of bytes is used where the processor has it
 * (weighted_sums_vbmi.c, weighted_sums_avx512.c), or AVX2 (weighted_sums_avx2.c), otherwise what the compiler
 * makes of plain loops (SSE2, NEON). */
#ifndef CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_H
#define CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_H

#include "server/image/taps.h"

#include <stddef.h>
#include <stdint.h>

/* Along rows, which lie row_stride bytes apart: pixel i of out in each row of to is the mean of taps[i].count
 * pixels of that row, with the weights from weights[i x stride] on, where each pixel's weight stands once for
 * each of its channels, 1, 3 or 4. to has no bytes between its rows. */
void convoy_mean_along_rows(const uint8_t *rows, size_t row_stride, size_t row_count, int channels,
                            size_t out, const struct convoy_taps *taps, const int32_t *weights, size_t stride,
                            uint8_t *to);

/* Down columns: byte b of to is the mean of byte b of count rows, which lie stride bytes apart. */
void convoy_mean_of_rows(const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                         size_t bytes, uint8_t *to);

/* The same of rows that come a few at a time: sums holds what was added so far, of `bytes` bytes, and
 * convoy_sums_begin() sets it to nothing; convoy_sums_end() tells the means. */
void convoy_sums_begin(int32_t *sums, size_t bytes);
void convoy_sums_add(int32_t *sums, const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                     size_t bytes);
void convoy_sums_end(const int32_t *sums, size_t bytes, uint8_t *to);

#endif
