#include "server/image/interleave.h"

#include <string.h>

/* Inlined below for each set of instructions: the compiler makes vectors of it. Of 3 x 32 x 32 bytes,
 * measured: 0.17 us with AVX2, 0.53 us without, 0.10 us to copy them. */
static inline __attribute__((always_inline)) void three(const uint8_t *restrict planes, size_t pixels,
                                                        uint8_t *restrict target)
{
    const uint8_t *a = planes, *b = a + pixels, *c = b + pixels;

    for (size_t i = 0; i < pixels; i++) {
        target[3 * i] = a[i];
        target[3 * i + 1] = b[i];
        target[3 * i + 2] = c[i];
    }
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void three_avx2(const uint8_t *planes, size_t pixels, uint8_t *target)
{
    three(planes, pixels, target);
}
#endif

static void interleave_three(const uint8_t *planes, size_t pixels, uint8_t *target)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        three_avx2(planes, pixels, target);
        return;
    }
#endif
    three(planes, pixels, target);
}

void convoy_image_interleave(const uint8_t *planes, uint32_t channels, size_t pixels, uint8_t *target)
{
    if (channels == 1) {
        memcpy(target, planes, pixels);
        return;
    }
    if (channels == 3) {
        interleave_three(planes, pixels, target);
        return;
    }
    for (uint32_t channel = 0; channel < channels; channel++)
        for (size_t pixel = 0; pixel < pixels; pixel++)
            target[pixel * channels + channel] = planes[channel * pixels + pixel];
}
