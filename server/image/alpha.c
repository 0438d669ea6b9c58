#include "server/image/alpha.h"

void convoy_alpha_multiply(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++, pixels += 4)
        for (int c = 0; c < 3; c++)
            pixels[c] = convoy_alpha_scaled(pixels[c], pixels[3]);
}

void convoy_alpha_divide(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++, pixels += 4) {
        unsigned alpha = pixels[3];
        for (int c = 0; c < 3 && alpha != 0 && alpha != 255; c++) {
            unsigned level = 255u * pixels[c] / alpha;
            pixels[c] = (uint8_t)(level > 255 ? 255 : level);
        }
    }
}
