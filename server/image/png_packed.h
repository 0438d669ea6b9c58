/* PNG images of 1, 2 or 4 bits a pixel, grey or with a palette: their rows are taken from libspng as they are
 * packed, and expanded here. libspng expands them a pixel at a time, and a few KB of such an image can have
 * fifty million pixels. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_PNG_PACKED_H
#define CONVOY_SERVER_IMAGE_PNG_PACKED_H

#include <spng.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_png_packed {
    int bits;                /* of a pixel; 0: the image is not packed */
    int channels;            /* 1: grey, 3: colour */
    uint8_t nibbles[16][12]; /* the pixels of each half of a byte */
};

/* Reads the palette, or the grey levels, of an open image; what is transparent lies on black. bits becomes 0
 * for an image that libspng shall expand. */
void convoy_png_packed_init(struct convoy_png_packed *packed, spng_ctx *decoder,
                            const struct spng_ihdr *header);

/* Bytes of a row of width pixels as it is packed. */
size_t convoy_png_packed_bytes(const struct convoy_png_packed *packed, size_t width);

/* Expands width pixels from from to to, each step pixels behind the last. */
void convoy_png_packed_expand(const struct convoy_png_packed *packed, const uint8_t *from, size_t width,
                              size_t step, uint8_t *to);

#endif
