/* How an image of one size comes to lie in another, along each axis: for the front and for devices that
 * resize. Pure functions; any thread. */
#ifndef CONVOY_ENGINE_BASE_IMAGE_AXIS_H
#define CONVOY_ENGINE_BASE_IMAGE_AXIS_H

#include "engine/base/image_filter.h"

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

/* Stretch: all of `in` pixels to `out`. */
struct convoy_axis convoy_axis_of(int64_t in, int out, enum convoy_image_filter filter);

/* Of both: a width or height of 0 is that of the axes, and `down` says how the offset is rounded.
 *
 * Stretch to width x height, and of that the centre, as of a crop: torchvision's Resize of two sides and
 * CenterCrop. */
void convoy_axes_stretch(int64_t width, int64_t height, bool down, struct convoy_axis *x,
                         struct convoy_axis *y);

/* Crop: the smallest scale at which the image covers width x height, the longer side's length rounded down,
 * and of that the centre, whose offset is rounded half to even: torchvision's Resize and CenterCrop; or down,
 * as the image processors of transformers do. */
void convoy_axes_crop(int64_t width, int64_t height, bool down, struct convoy_axis *x, struct convoy_axis *y);

/* Pad: the largest scale at which the image fits, the other side's length rounded half to even, at least 1:
 * Pillow's ImageOps.contain. The out of one axis may become less. */
void convoy_axes_pad(struct convoy_axis *x, struct convoy_axis *y);

/* The pixels before an image of `image` pixels in a room of `room`: half, rounded half to even. */
int64_t convoy_image_padding(int image, int room);

#endif
