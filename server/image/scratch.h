/* The buffers that one thread reuses from image to image. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_SCRATCH_H
#define CONVOY_SERVER_IMAGE_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

struct convoy_image_buffer {
    void *bytes; /* aligned as malloc aligns */
    size_t capacity;
};

struct convoy_image_scratch {
    struct convoy_image_buffer pixels;  /* the oriented image before resizing */
    struct convoy_image_buffer inner;   /* the resized image before padding */
    struct convoy_image_buffer line;    /* one stored row before conversion */
    struct convoy_image_buffer staging; /* an interlaced PNG or a WebP before conversion */
    struct convoy_image_buffer
        packed; /* a row of a PNG of fewer than 8 bits a pixel, or of palette indices */
    struct convoy_image_buffer middle;  /* between the two passes of resizing */
    struct convoy_image_buffer weights; /* of one axis */
    struct convoy_image_buffer windows; /* of one axis */
    struct convoy_image_buffer sums;    /* of output rows that are not finished */
    struct convoy_image_buffer batch;   /* stored rows that wait to be resized together */
    struct convoy_image_buffer spans;   /* of the other axis than windows */
    struct convoy_image_buffer span_weights;
    struct convoy_image_buffer row; /* finished ones before they are turned */
};

/* Makes the buffer at least a x b x c bytes; its old content is lost. NULL when that overflows or memory is
 * out. Never returns NULL for 0 bytes. */
void *convoy_image_buffer_reserve(struct convoy_image_buffer *buffer, size_t a, size_t b, size_t c);

/* Gives back every buffer that a large image grew past what most images need. */
void convoy_image_scratch_trim(struct convoy_image_scratch *scratch);

/* Gives back every buffer. */
void convoy_image_scratch_clear(struct convoy_image_scratch *scratch);

#endif
