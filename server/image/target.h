/* The size and the channels that an image is brought to. */
#ifndef CONVOY_SERVER_IMAGE_TARGET_H
#define CONVOY_SERVER_IMAGE_TARGET_H

#include <stdint.h>

enum convoy_image_fit { CONVOY_FIT_STRETCH, CONVOY_FIT_CROP };

/* What a model takes: height x width x channels, 1 channel for grey, 3 for R, G, B. */
struct convoy_image_target {
    int width, height;
    int channels;
    enum convoy_image_fit fit;
    uint64_t deadline_us; /* convoy_now_us() time after which decoding is given up (-ETIMEDOUT); 0: none */
};

#endif
