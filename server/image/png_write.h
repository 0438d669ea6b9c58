/* Pixels to a PNG file. Any thread. */
#ifndef CONVOY_SERVER_IMAGE_PNG_WRITE_H
#define CONVOY_SERVER_IMAGE_PNG_WRITE_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Writes a grey picture of width x height bytes, row after row, as a PNG of 8 bits. *bytes is malloc'd, the
 * caller's to free. -ENOMEM; -EINVAL: libspng refuses the picture. */
int convoy_png_write_grey(const uint8_t *pixels, uint32_t width, uint32_t height, uint8_t **bytes,
                          size_t *length, struct convoy_error *error);

#endif
