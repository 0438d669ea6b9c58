/* Which part of an image the target shows. Any thread. */
#ifndef CONVOY_SERVER_IMAGE_COVERAGE_H
#define CONVOY_SERVER_IMAGE_COVERAGE_H

#include "server/image/target.h"

/* Parts of the image's width and height after EXIF orientation, from its upper left corner: 0, 0, 1, 1 is all
 * of it. A target that crops shows less; of one that pads the box reaches beyond the image. */
struct convoy_image_box {
    double left, top, right, bottom;
};

/* width, height: the image's, after EXIF orientation. */
void convoy_image_coverage(const struct convoy_image_target *target, int width, int height,
                           struct convoy_image_box *box);

#endif
