/* What kernels for convolutions share on the host: arithmetic and traffic of a shape, an estimate of times,
 * and the simplest of what struct convoy_conv_kernel wants. */
#ifndef CONVOY_KERNELS_CONV_SHAPE_H
#define CONVOY_KERNELS_CONV_SHAPE_H

#include "kernels/device/chip.h"
#include "kernels/device/launch.cuh"
#include "kernels/kernels.h"

#include <string.h>

static inline double convoy_conv_flops(const struct convoy_conv_shape *s)
{
    return 2.0 * s->n * s->k * s->oh * s->ow * (s->c / s->groups) * s->r * s->s;
}

/* Input and residual read once, output written once. */
static inline double convoy_conv_bytes(const struct convoy_conv_shape *s)
{
    double input = (s->u8 ? 1.0 : 4.0) * s->n * s->c * s->h * s->w;
    double output = 4.0 * s->n * s->k * (s->oh / s->pool) * (s->ow / s->pool);
    return input + output * (s->residual ? 2 : 1) + 4.0 * s->k * (s->c / s->groups) * s->r * s->s;
}

/* Microseconds of a kernel of blocks equal blocks that reaches these shares of the peaks on a full chip and
 * moves traffic times the least bytes. Whole waves of blocks are paid for. */
static inline float convoy_conv_estimate(const struct convoy_conv_shape *s, double blocks, double flops_share,
                                         double traffic)
{
    double per_sm = convoy_div_up((int64_t)blocks, CONVOY_ESTIMATE_SMS);
    double quantised = per_sm * CONVOY_ESTIMATE_SMS / blocks;
    double compute = convoy_conv_flops(s) / (flops_share * CONVOY_ESTIMATE_FLOPS_PER_US) * quantised;
    double memory = convoy_conv_bytes(s) * traffic / CONVOY_ESTIMATE_BYTES_PER_US;
    return (float)((compute > memory ? compute : memory) + CONVOY_ESTIMATE_LAUNCH_US);
}

/* Weights as they come, k x (c / groups) x r x s, for kernels that want no layout of their own. */
static inline size_t convoy_plain_floats(const struct convoy_conv_shape *s)
{
    return (size_t)s->k * (s->c / s->groups) * s->r * s->s;
}

static inline void convoy_plain_pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    memcpy(packed, weights, convoy_plain_floats(s) * sizeof(float));
}

static inline size_t convoy_no_scratch(const struct convoy_conv_shape *)
{
    return 0;
}

static inline bool convoy_is_square(const struct convoy_conv_shape *s, int filter, int stride)
{
    return s->r == filter && s->s == filter && s->stride[0] == stride && s->stride[1] == stride &&
           s->dilation[0] == 1 && s->dilation[1] == 1;
}

#endif
