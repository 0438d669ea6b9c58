/* Colours multiplied by their alpha, and back, as Pillow's "RGBa" has them. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_ALPHA_H
#define CONVOY_SERVER_IMAGE_ALPHA_H

#include <stddef.h>
#include <stdint.h>

/* round(a b / 255) for 0 <= a, b <= 255, without a division (J. Blinn, "Dirty Pixels", 1998). */
static inline uint8_t convoy_alpha_scaled(unsigned a, unsigned b)
{
    unsigned t = a * b + 128;
    return (uint8_t)((t + (t >> 8)) >> 8);
}

/* R, G, B of each pixel of R, G, B, A become round(c a / 255). */
void convoy_alpha_multiply(uint8_t *pixels, size_t count);

/* R, G, B become floor(255 c / a), at most 255; where alpha is 0 or 255 they stay. */
void convoy_alpha_divide(uint8_t *pixels, size_t count);

#endif
