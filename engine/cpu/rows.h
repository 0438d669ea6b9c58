/* Converts a job's rows to a plan's input, and a plan's outputs to a job's rows. Any thread. */
#ifndef CONVOY_ENGINE_CPU_ROWS_H
#define CONVOY_ENGINE_CPU_ROWS_H

#include "engine/backend.h"

#include <stddef.h>
#include <stdint.h>

/* The shape of a row: channels x pixels; an input that is not an image is 1 x elements. */
struct convoy_cpu_image {
    int64_t channels, pixels;
    float multiply[CONVOY_MAX_U8_CHANNELS], add[CONVOY_MAX_U8_CHANNELS]; /* for 8-bit rows */
};

/* Reads `count` rows, `stride` bytes apart, and writes as many images of float32 to `to`, planar or
 * interleaved. */
void convoy_cpu_read_rows(const struct convoy_cpu_image *image, enum convoy_input_layout layout,
                          const void *rows, size_t stride, int64_t count, bool interleaved, float *to);

/* Whether a row of float32 has NaN. */
bool convoy_cpu_row_has_nan(const struct convoy_cpu_image *image, const float *row);

/* One of the model's outputs, row-major with the batch at some axis: `outer` stretches of images x chunk
 * values. An output that does not depend on the batch (shared) goes to every row. */
struct convoy_cpu_output {
    int64_t outer, chunk;
    bool shared;
};

/* Copies the output of `count` images from `from` to the rows at `to`, `stride` bytes apart. */
void convoy_cpu_write_rows(const struct convoy_cpu_output *output, const float *from, int64_t count,
                           float *to, size_t stride);

#endif
