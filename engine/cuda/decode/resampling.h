/* Which pixels of a picture a pixel of the network's input is made of, along each axis, and with what
 * weights: Pillow's fixed-point arithmetic. server/image/resize.h defines it for pictures that the processor
 * decodes; the numbers here are the same to the bit, which tests/unit/engine/backends/backend_jpeg.c checks.
 * Pure functions; any thread. */
#ifndef CONVOY_ENGINE_CUDA_RESAMPLING_H
#define CONVOY_ENGINE_CUDA_RESAMPLING_H

#include "engine/base/image_axis.h"
#include "engine/base/jpeg_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_resampling {
    struct convoy_axis x, y;
    int left, top;   /* of the network's input that is free before the picture */
    bool rows_first; /* the pass along y comes first */
};

/* For an upright picture of width x height. */
void convoy_resampling_choose(const struct convoy_image_fitting *fitting, uint32_t width, uint32_t height,
                              struct convoy_resampling *resampling);

/* The most source pixels that a pixel of the result is made of; 0: so many that a table of weights is the
 * wrong way, and the processor has to do it. */
size_t convoy_resampling_taps(const struct convoy_axis *axis);

/* The most source pixels, from the first to the last, that `count` pixels of the result beside each other are
 * made of. taps: as above. */
int64_t convoy_resampling_span(const struct convoy_axis *axis, size_t taps, int count);

/* Writes out x (2 + taps) numbers, as struct convoy_fit_axis (kernels/fit_images.h) has them. taps: as above,
 * not 0. */
void convoy_resampling_fill(const struct convoy_axis *axis, size_t taps, int32_t *table);

#endif
