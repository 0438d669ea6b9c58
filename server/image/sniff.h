/* What kind of bytes these are, told by their beginning. Any thread. */
#ifndef CONVOY_SERVER_IMAGE_SNIFF_H
#define CONVOY_SERVER_IMAGE_SNIFF_H

#include <stddef.h>
#include <stdint.h>

enum convoy_image_kind { CONVOY_IMAGE_OTHER, CONVOY_IMAGE_JPEG, CONVOY_IMAGE_PNG };

/* Four bytes are enough for PNG: one whose signature is damaged or cut after that is a broken PNG, not an
 * unknown format. */
enum convoy_image_kind convoy_image_sniff(const uint8_t *bytes, size_t length);

/* A noun phrase for what is neither JPEG nor PNG, e.g. "a GIF image"; "not an image" where nothing fits. */
const char *convoy_image_stranger(const uint8_t *bytes, size_t length);

#endif
