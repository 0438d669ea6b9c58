/* The list of the convolutions of float32 in planes. */
#ifndef CONVOY_KERNELS_CONV_COMMON_H
#define CONVOY_KERNELS_CONV_COMMON_H

#include "kernels/device/conv_shape.h"

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

#endif
