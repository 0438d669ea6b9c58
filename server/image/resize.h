/* Resizing 8-bit images as Pillow's Image.BILINEAR does it. Inside server/image/ only.
 *
 * Along each axis, output i has its centre at c = (i + 0.5) s in source pixels, s = source / scaled size, and
 * is the weighted mean of the source pixels x with weight 1 - |x + 0.5 - c| / max(s, 1) where that is
 * positive: linear interpolation when enlarging, a triangle as wide as two output pixels when shrinking (P.
 * Heckbert, "Filtered resampling", Graphics Gems III). Two passes with weights in 22-bit fixed point and
 * 8-bit values in between, columns first, which is Pillow's order; rows first where columns first would need
 * more memory than the image, and for strips. Results are within 1 level of Pillow's, also in that case. */
#ifndef CONVOY_SERVER_IMAGE_RESIZE_H
#define CONVOY_SERVER_IMAGE_RESIZE_H

#include "engine/base/error.h"
#include "server/image/scratch.h"
#include "server/image/target.h"

#include <stdbool.h>
#include <stdint.h>

/* The whole source axis is scaled to `scaled` pixels, of which [first, first + out) are wanted. */
struct convoy_axis {
    int64_t in, scaled, first;
    int out;
};

/* The axes that make a width x height image fit target. Crop: the smallest scale that covers the target, the
 * other side's length rounded down, the centre's offset rounded half to even (torchvision's Resize and
 * CenterCrop). */
void convoy_image_fit(const struct convoy_image_target *target, int width, int height, struct convoy_axis *x,
                      struct convoy_axis *y);

/* Whether an axis keeps the pixels as they are (all of them or some). */
bool convoy_axis_is_copy(const struct convoy_axis *axis);

/* source: y->in rows of x->in x channels bytes, no padding; result: y->out rows of x->out x channels bytes,
 * elsewhere. channels is 1 or 3. 0 or -ENOMEM. */
int convoy_image_resize(struct convoy_image_scratch *scratch, const uint8_t *source, int channels,
                        const struct convoy_axis *x, const struct convoy_axis *y, uint8_t *result,
                        struct convoy_error *error);

#endif
