/* Along rows as in weighted_sums_avx512.h, on processors that permute the bytes of a vector freely (VBMI).
 * x86-64 alone. */
#ifndef CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_VBMI_H
#define CONVOY_SERVER_IMAGE_WEIGHTED_SUMS_VBMI_H

#include "server/image/taps.h"

#include <stdbool.h>
#include <stdint.h>

bool convoy_has_vbmi(void);

/* Four rows or more, of three channels. False: a pixel has a weight of 127 / 64 or more, or more than 16
 * taps, or the taps of six neighbours lie too far apart (where more than some three pixels become one); then
 * some may have been made. */
bool convoy_mean_along_rows_vbmi(const uint8_t *rows, size_t row_stride, size_t row_count, size_t out,
                                 const struct convoy_taps *taps, const int32_t *weights, size_t stride,
                                 uint8_t *to);

#endif
