/* Planes to pixels: C x H x W bytes to H x W x C. Pure, any thread. */
#ifndef CONVOY_SERVER_IMAGE_INTERLEAVE_H
#define CONVOY_SERVER_IMAGE_INTERLEAVE_H

#include <stddef.h>
#include <stdint.h>

/* pixels: H times W. planes and target have channels times pixels bytes each and do not overlap. */
void convoy_image_interleave(const uint8_t *planes, uint32_t channels, size_t pixels, uint8_t *target);

#endif
