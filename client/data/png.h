/* Grey pixels as a PNG, for data sets that come as bare pixels. */
#ifndef CONVOY_CLIENT_PNG_H
#define CONVOY_CLIENT_PNG_H

#include <stddef.h>
#include <stdint.h>

/* Encodes height rows of width 8-bit grey pixels (0 black), row after row, both 1 to 65535. *png is for
 * free(). 0 or -ENOMEM. Chunks and filter types as in the PNG specification (W3C, second edition). */
int client_png_encode(const uint8_t *pixels, uint32_t width, uint32_t height, uint8_t **png, size_t *size);

#endif
