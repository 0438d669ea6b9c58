/* y = x / (1 + e^-x), which oneDNN (2.6) computes slowly: on AVX2 2.2 ns a value on a Zen core, this loop 1.0
 * with reading and writing; on AVX-512 0.23 on a Zen 5 core, this loop 0.09. With a pass of this behind each
 * convolution efficientnet_b0 takes 29.4 ms (AVX2; sum of the layers' least times) and 5.4 (AVX-512; median
 * of 6 runs' least times) on one thread, with oneDNN's fused into them 36.6 and 6.7. */
#ifndef CONVOY_ENGINE_CPU_SWISH_H
#define CONVOY_ENGINE_CPU_SWISH_H

#include <stdbool.h>
#include <stdint.h>

/* True where convoy_cpu_swish() runs and is used: the processor has AVX-512, or AVX2 and FMA, and oneDNN
 * computes with it (ONEDNN_MAX_CPU_ISA limits that). */
bool convoy_cpu_swish_suits(void);

/* count values; y may be x. A value's result depends on it alone, not on its place. NaN gives NaN. The
 * error relative to the result is at most 3e-7 + 9e-8 |x|; results nearer to 0 than 1e-35 may be any that
 * are. */
void convoy_cpu_swish(const float *x, int64_t count, float *y);

#endif
