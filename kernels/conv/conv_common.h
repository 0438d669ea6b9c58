/* What the convolutions share on the host: the list of them, arithmetic and traffic of a shape, an estimate
 * of times. */
#ifndef CONVOY_KERNELS_CONV_COMMON_H
#define CONVOY_KERNELS_CONV_COMMON_H

#include "kernels/device/chip.h"
#include "kernels/device/launch.cuh"
#include "kernels/kernels.h"

#include <string.h>

/* Each kernel is one constant, convoy_conv_NAME; conv.cu makes the list. The templates of three files come as
 * X-macros, so that instances and list cannot part: filter, stride, rows and maps of a thread; K and pixels
 * of a tile. */
#define CONVOY_PER_LAYER_INSTANCES(X)                                                                        \
    X(7, 1, 6, 12)                                                                                           \
    X(7, 1, 9, 8)                                                                                            \
    X(7, 1, 8, 8)                                                                                            \
    X(7, 1, 4, 16)                                                                                           \
    X(7, 2, 8, 8)                                                                                            \
    X(7, 2, 4, 16)                                                                                           \
    X(5, 1, 6, 12)                                                                                           \
    X(5, 1, 6, 10)                                                                                           \
    X(5, 1, 8, 8)                                                                                            \
    X(5, 1, 12, 5)                                                                                           \
    X(5, 1, 8, 5)                                                                                            \
    X(5, 1, 4, 16)                                                                                           \
    X(5, 2, 6, 8)                                                                                            \
    X(3, 1, 8, 8)                                                                                            \
    X(3, 1, 7, 8)                                                                                            \
    X(3, 1, 6, 12)                                                                                           \
    X(3, 1, 4, 16)                                                                                           \
    X(3, 1, 8, 4)                                                                                            \
    X(3, 2, 8, 8)                                                                                            \
    X(3, 2, 4, 16)                                                                                           \
    X(1, 1, 8, 8)                                                                                            \
    X(1, 1, 4, 16)                                                                                           \
    X(1, 2, 8, 8)

#define CONVOY_FUSED_GEMM_INSTANCES(X)                                                                       \
    X(128, 128)                                                                                              \
    X(128, 64)                                                                                               \
    X(64, 128)                                                                                               \
    X(64, 64)                                                                                                \
    X(32, 256)                                                                                               \
    X(32, 128)                                                                                               \
    X(16, 256)

/* Outputs and maps of a block, in each of three precisions. */
#define CONVOY_TENSOR_INSTANCES(X)                                                                           \
    X(256, 16)                                                                                               \
    X(256, 24)                                                                                               \
    X(256, 32)                                                                                               \
    X(128, 8)                                                                                                \
    X(128, 16)                                                                                               \
    X(128, 24)                                                                                               \
    X(128, 32)                                                                                               \
    X(128, 64)                                                                                               \
    X(64, 16)                                                                                                \
    X(64, 24)                                                                                                \
    X(64, 32)                                                                                                \
    X(64, 64)

/* Too many sums for fp32, which has them twice. */
#define CONVOY_TENSOR_WIDE_INSTANCES(X) X(256, 64)

#define CONVOY_DECLARE_PER_LAYER(filter, stride, rows, maps)                                                 \
    extern const struct convoy_conv_kernel convoy_conv_per_layer_##filter##_##stride##_##rows##_##maps;
#define CONVOY_DECLARE_FUSED_GEMM(bm, bn)                                                                    \
    extern const struct convoy_conv_kernel convoy_conv_fused_gemm_##bm##_##bn;
#define CONVOY_DECLARE_TENSOR_WIDE(outputs, maps)                                                            \
    extern const struct convoy_conv_kernel convoy_conv_tensor_tf32_##outputs##_##maps,                       \
        convoy_conv_tensor_fp16_##outputs##_##maps;
#define CONVOY_DECLARE_TENSOR(outputs, maps)                                                                 \
    extern const struct convoy_conv_kernel convoy_conv_tensor_##outputs##_##maps;                            \
    CONVOY_DECLARE_TENSOR_WIDE(outputs, maps)

CONVOY_TENSOR_WIDE_INSTANCES(CONVOY_DECLARE_TENSOR_WIDE)
CONVOY_TENSOR_INSTANCES(CONVOY_DECLARE_TENSOR)
CONVOY_PER_LAYER_INSTANCES(CONVOY_DECLARE_PER_LAYER)
CONVOY_FUSED_GEMM_INSTANCES(CONVOY_DECLARE_FUSED_GEMM)
extern const struct convoy_conv_kernel convoy_conv_direct, convoy_conv_tiled, convoy_conv_unroll_gemm,
    convoy_conv_unrolled, convoy_conv_depthwise;

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
