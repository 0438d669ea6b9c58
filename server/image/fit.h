/* How an image of one size comes to lie in another. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_FIT_H
#define CONVOY_SERVER_IMAGE_FIT_H

#include "server/image/target.h"

#include <stdbool.h>
#include <stdint.h>

/* The whole source axis is scaled to `scaled` pixels, of which [first, first + out) are wanted.
 *
 * Where the image was decoded in N / 8 of its size, `in` pixels were decoded, and the image has part of one
 * of them less than that: it begins at `start` and is `extent` long, in decoded pixels. Elsewhere 0 and `in`.
 */
struct convoy_axis {
    int64_t in, scaled, first;
    double start, extent;
    int out;
    enum convoy_image_filter filter;
};

/* The axes that bring a width x height image to the target.
 *
 * Stretch: all of it, to the target's size. Crop: the smallest scale at which it covers the target's cover
 * size, the longer side's length rounded down, and of that the centre, whose offset is rounded half to even:
 * torchvision's Resize and CenterCrop. Pad: the largest scale at which it fits into the target, the other
 * side's length rounded half to even, at least 1: Pillow's ImageOps.contain. The out of one axis may then be
 * less than the target's. */
void convoy_image_fit(const struct convoy_image_target *target, int width, int height, struct convoy_axis *x,
                      struct convoy_axis *y);

/* The same axis over an image of which eighths / 8 were decoded. mirrored: the part of a pixel that the image
 * has less is at the axis's beginning. */
void convoy_axis_reduce(struct convoy_axis *axis, int eighths, bool mirrored);

/* Pixels of `pixels` decoded in eighths / 8 of the size, as libjpeg rounds. */
int64_t convoy_reduced(int64_t pixels, int eighths);

/* Whether an axis keeps the pixels as they are (all of them or some). */
bool convoy_axis_is_copy(const struct convoy_axis *axis);

/* Pixels that are left free before an image of `image` pixels in the middle of `room`. */
int64_t convoy_image_padding(int image, int room);

/* Lays an image of width x height into the middle of row, on the target's colour: Pillow's ImageOps.pad.
 * Both have the target's channels; a single one gets the colour's grey (image.h). */
void convoy_image_pad(const struct convoy_image_target *target, const uint8_t *image, int width, int height,
                      uint8_t *row);

#endif
