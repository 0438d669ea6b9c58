/* Resizing 8-bit images as Pillow does it. Inside server/image/ only.
 *
 * Along each axis, output i has its centre at c = (i + 0.5) s in source pixels, s = source / scaled size, and
 * is the weighted mean of the source pixels x with the filter's weight of (x + 0.5 - c) / max(s, 1)
 * (filter.h). Two passes with weights in 22-bit fixed point and 8-bit values in between, in Pillow 13's
 * order: columns first, unless the height loses more than twice as many pixels as the width. Results are
 * Pillow's within 1 level. Filters with negative weights are cut to 0..255 between the passes, so with them
 * the order shows: before Pillow 13 columns came first in pictures more than twice as high as wide, too.
 *
 * An axis that shrinks so much that a filter would see more than 8,192 pixels is resized with the bilinear
 * one, whose cost does not grow with its width.
 *
 * CONVOY_FILTER_NEAREST takes the source pixel that c lies in. */
#ifndef CONVOY_SERVER_IMAGE_RESIZE_H
#define CONVOY_SERVER_IMAGE_RESIZE_H

#include "engine/base/error.h"
#include "server/image/fit.h"
#include "server/image/scratch.h"

#include <stdint.h>

/* source: y->in rows of x->in x channels bytes, no padding; result: y->out rows of x->out x channels bytes,
 * elsewhere. channels is 1, 3 or 4, of which each is resized by itself. 0 or -ENOMEM. */
int convoy_image_resize(struct convoy_image_scratch *scratch, const uint8_t *source, int channels,
                        const struct convoy_axis *x, const struct convoy_axis *y, uint8_t *result,
                        struct convoy_error *error);

#endif
