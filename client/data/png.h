/* Encodes grey pixels as PNG, for data sets that contain raw pixels. */
#ifndef CONVOY_CLIENT_PNG_H
#define CONVOY_CLIENT_PNG_H

#include <stddef.h>
#include <stdint.h>

/* Encodes height rows of width 8-bit grey pixels (0 is black) in row-major order; both are 1 to 65535. The
 * caller frees *png. Returns 0 or -ENOMEM. Chunks and filter types: PNG specification (W3C, second edition).
 * Any thread. */
int client_png_encode(const uint8_t *pixels, uint32_t width, uint32_t height, uint8_t **png, size_t *size);

#endif
