#include "server/image/interleave.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MOST 2051 /* pixels: more than whole vectors */

Test(image_interleave, puts_each_plane_where_its_pixels_are)
{
    static uint8_t planes[4 * MOST], target[4 * MOST + 64];
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 1024, MOST};
    for (size_t i = 0; i < sizeof planes; i++)
        planes[i] = (uint8_t)rand();
    for (uint32_t channels = 1; channels <= 4; channels++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            size_t pixels = sizes[s];
            memset(target, 0xa5, sizeof target);
            convoy_image_interleave(planes, channels, pixels, target);
            for (size_t i = 0; i < channels * pixels; i++)
                cr_assert_eq(target[i], planes[i % channels * pixels + i / channels],
                             "%u channels of %zu pixels: byte %zu", channels, pixels, i);
            for (size_t i = channels * pixels; i < channels * pixels + 64; i++)
                cr_assert_eq(target[i], 0xa5, "byte %zu lies behind the last of %zu pixels", i, pixels);
        }
}
