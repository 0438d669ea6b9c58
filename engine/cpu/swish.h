/* y = x / (1 + e^-x), which oneDNN computes slowly on AVX2: fused behind a convolution it takes twice the
 * time of a pass of its own over the result (2.2 and 1.0 ns a value; a quarter of EfficientNet's time was
 * this). */
#ifndef CONVOY_ENGINE_CPU_SWISH_H
#define CONVOY_ENGINE_CPU_SWISH_H

#include <stdbool.h>
#include <stdint.h>

/* True where convoy_cpu_swish() runs and is the faster one: the processor has AVX2 and FMA, and oneDNN
 * computes with AVX2 (with AVX-512 its own takes half as many instructions). */
bool convoy_cpu_swish_suits(void);

/* count values; y may be x. A value's result depends on it alone, not on its place. NaN gives NaN. The
 * error relative to the result is at most 3e-7 + 9e-8 |x|; results nearer to 0 than 1e-35 may be any that
 * are. */
void convoy_cpu_swish(const float *x, int64_t count, float *y);

#endif
