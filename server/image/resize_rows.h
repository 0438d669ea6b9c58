/* Resizing an image whose rows come one after the other, from the first to the last, as a decoder makes them:
 * none is kept longer than a few others need it, so memory grows with the image's sides and not with its
 * pixels. The result is convoy_image_resize()'s of the turned image, bit for bit: rows go through both passes
 * as they were stored, with the weights that they have where they are shown, and each finished row or column
 * is put where it is shown. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_RESIZE_ROWS_H
#define CONVOY_SERVER_IMAGE_RESIZE_ROWS_H

#include "server/image/fit.h"
#include "server/image/raster.h"
#include "server/image/scratch.h"
#include "server/image/taps.h"

#include <stdbool.h>
#include <stdint.h>

/* The stored rows [start, end) that a row (or, of a turned image, a column) of the result is a mean of. */
struct convoy_row_span {
    int start, end;
};

struct convoy_row_resizer {
    struct convoy_raster_sink sink; /* the first member */
    bool multiplies;                /* colours by their alpha */
    bool down_first;                /* as stored: columns are passed before rows */
    bool turned;                    /* rows of the result are stored columns */
    bool mirrored_down;
    int width, channels;
    /* along stored rows */
    size_t out; /* pixels that are made of those that the sink reads */
    const struct convoy_taps *taps;
    const int32_t *weights;
    size_t weights_stride;
    /* down stored columns */
    int spans_count, next; /* next: the first that is not finished */
    int coming;            /* the first that ends behind the last row that came */
    const struct convoy_row_span *spans;
    const int32_t *span_weights;
    size_t span_stride;
    int open_most; /* so many spans at most have begun and not ended between two batches */
    int32_t *sums; /* of these */
    /* rows that wait to be passed together, at most batch_most: stored rows [batch_first, batch_first +
     * batch_count) */
    uint8_t *batch;
    size_t batch_stride;
    int batch_most, batch_first, batch_count;
    uint8_t *between; /* what the first pass made */
    int made[2];      /* down_first: which spans the rows in between are of */
    int made_count;
    uint8_t *row; /* one or two of the result */
    uint8_t *result;
};

/* Whether these axes can be resized so: weights are whole numbers. */
bool convoy_resize_rows_can(const struct convoy_axis *x, const struct convoy_axis *y);

/* Begins. x and y: the axes of the shown image; channels: of the result, 1, 3 or 4; multiplies: pixels have
 * alpha, and colours are multiplied by it. result: as convoy_image_resize()'s, which is whole when the last
 * stored row has been taken. The buffers are scratch's. 0 or -ENOMEM. */
int convoy_resize_rows_begin(struct convoy_row_resizer *resizer, struct convoy_image_scratch *scratch,
                             const struct convoy_stored_image *stored, int channels, bool multiplies,
                             const struct convoy_axis *x, const struct convoy_axis *y, uint8_t *result);

#endif
