/* The loops of weighted_sums.h on AVX-512 with its products of bytes. Called where the processor has both;
 * x86-64 alone. */
#ifndef CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_AVX512_H
#define CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_AVX512_H

#include "server/image/taps.h"

#include <stdbool.h>
#include <stdint.h>

bool convoy_has_avx512_bytes(void);

/* Four rows or more, of three channels, that lie 16 bytes apart or more. False: a pixel has a weight of
 * 127 / 64 or more, or more than 1,024 taps; then some may have been made. */
bool convoy_mean_along_rows_avx512(const uint8_t *rows, size_t row_stride, size_t row_count, size_t out,
                                   const struct convoy_taps *taps, const int32_t *weights, size_t stride,
                                   uint8_t *to);

/* How many of the bytes it made: as many as are whole vectors; none with such weights, or with more than
 * 1,024 rows. */
size_t convoy_mean_of_rows_avx512(const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                                  size_t bytes, uint8_t *to);

#endif
