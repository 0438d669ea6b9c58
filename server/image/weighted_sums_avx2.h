/* The loops of weighted_sums.h on AVX2. Called where the processor has it; x86-64 alone. */
#ifndef CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_AVX2_H
#define CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_AVX2_H

#include "server/image/taps.h"

#include <stdint.h>

/* Two rows, of three channels. */
void convoy_mean_along_two_rows_avx2(const uint8_t *rows, size_t row_stride, size_t out,
                                     const struct convoy_taps *taps, const int32_t *weights, size_t stride,
                                     uint8_t *to);

/* How many of the bytes it made: as many as are whole vectors. */
size_t convoy_mean_of_rows_avx2(const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                                size_t bytes, uint8_t *to);
size_t convoy_sums_add_avx2(int32_t *sums, const uint8_t *rows, size_t stride, size_t count,
                            const int32_t *weights, size_t bytes);

#endif
