/* How an image of one size comes to lie in another. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_FIT_H
#define CONVOY_SERVER_IMAGE_FIT_H

#include "engine/base/image_axis.h"
#include "server/image/target.h"

#include <stdbool.h>
#include <stdint.h>

/* The axes that bring a width x height image to the target, as its fit says (engine/base/image_axis.h). */
void convoy_image_fit(const struct convoy_image_target *target, int width, int height, struct convoy_axis *x,
                      struct convoy_axis *y);

/* The same axis over an image of which eighths / 8 were decoded. mirrored: the part of a pixel that the image
 * has less is at the axis's beginning. */
void convoy_axis_reduce(struct convoy_axis *axis, int eighths, bool mirrored);

/* Pixels of `pixels` decoded in eighths / 8 of the size, as libjpeg rounds. */
int64_t convoy_reduced(int64_t pixels, int eighths);

/* Whether an axis keeps the pixels as they are (all of them or some). */
bool convoy_axis_is_copy(const struct convoy_axis *axis);

/* Lays an image of width x height into the middle of row, on the target's colour: Pillow's ImageOps.pad.
 * Both have the target's channels; a single one gets the colour's grey (image.h). */
void convoy_image_pad(const struct convoy_image_target *target, const uint8_t *image, int width, int height,
                      uint8_t *row);

#endif
