/* What kind of bytes these are, told by their beginning. Any thread. */
#ifndef CONVOY_SERVER_IMAGE_SNIFF_H
#define CONVOY_SERVER_IMAGE_SNIFF_H

#include <stddef.h>
#include <stdint.h>

/* What is read; all else is OTHER. */
enum convoy_image_kind {
    CONVOY_IMAGE_OTHER,
    CONVOY_IMAGE_JPEG,
    CONVOY_IMAGE_PNG,
    CONVOY_IMAGE_WEBP,
    CONVOY_IMAGE_BMP,
    CONVOY_IMAGE_GIF
};

/* The formats, as sentences name them. */
#define CONVOY_IMAGE_FORMATS "JPEG, PNG, WebP, BMP or GIF"

/* Four bytes are enough for PNG and GIF: one whose signature is damaged or cut after that is a broken image
 * of its format, not an unknown format. */
enum convoy_image_kind convoy_image_sniff(const uint8_t *bytes, size_t length);

/* A noun phrase for what convoy_image_sniff() calls OTHER, e.g. "a TIFF image"; "not an image" where nothing
 * fits. */
const char *convoy_image_stranger(const uint8_t *bytes, size_t length);

#endif
