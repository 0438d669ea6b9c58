/* The size and the channels that an image is brought to, and how. */
#ifndef CONVOY_SERVER_IMAGE_TARGET_H
#define CONVOY_SERVER_IMAGE_TARGET_H

#include "engine/base/image_filter.h"

#include <stdbool.h>
#include <stdint.h>

enum convoy_image_fit { CONVOY_FIT_STRETCH, CONVOY_FIT_CROP, CONVOY_FIT_PAD };

/* Whether a JPEG image is decoded in 1/2, 1/4 or 1/8 of its size where it is shrunk anyway, which leaves out
 * most of the work: never; where it stays at least twice as large as it is resized to, along both axes; where
 * it stays at least as large. Images of fewer than 65,536 pixels, other formats, and images for
 * CONVOY_FILTER_NEAREST, are decoded whole. */
enum convoy_scaled_decoding { CONVOY_SCALED_OFF, CONVOY_SCALED_AUTO, CONVOY_SCALED_ALWAYS };

/* A row that is read as soon as it is decoded begins so many bytes behind what malloc() gives: libjpeg-turbo
 * writes lines that begin at a multiple of 16 or 32 bytes past the caches, from where they have to come back.
 * For an image of 32 x 32 pixels that was a seventh of the decoding. */
#define CONVOY_IMAGE_ROW_OFFSET 8

/* What a model takes: height x width x channels, 1 channel for grey, 3 for R, G, B, 4 for these and alpha. */
struct convoy_image_target {
    int width, height;
    int channels;
    enum convoy_image_fit fit;
    uint64_t deadline_us; /* convoy_now_us() time after which decoding is given up (-ETIMEDOUT); 0: none */
    enum convoy_image_filter filter;
    /* Crop: scaled until it covers this; stretch: to this; at least width x height, of which the centre is
     * taken; 0: those. */
    int cover_width, cover_height;
    bool cuts_down;   /* its offset is rounded down, not half to even */
    uint8_t color[3]; /* pad: R, G, B of what the image leaves free; it is opaque */
    bool bgr;         /* B, G, R in place of R, G, B */
    enum convoy_scaled_decoding scaled_decoding;
};

#endif
