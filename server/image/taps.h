/* What one pixel of a resized row is made of. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_TAPS_H
#define CONVOY_SERVER_IMAGE_TAPS_H

#include <stddef.h>

/* Weights are whole numbers that add up to 2^22. */
#define CONVOY_WEIGHT_BITS 22

/* The pixels of a row that one pixel of the result is a mean of. */
struct convoy_taps {
    size_t first; /* pixel of the row */
    size_t count;
};

#endif
