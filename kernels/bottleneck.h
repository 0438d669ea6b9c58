/* A block of three convolutions in one launch, of tensors in 16 bits, channels last (nhwc.h):
 *
 *   y = act2(conv 1 x 1(act1(conv side x side(act0(conv 1 x 1(x))))) + x)
 *
 * each with a bias or without; the middle one is padded by side / 2. Either a bottleneck of a residual
 * network: side 3, stride 1, as many channels inside as outside, x added. Or an inverted residual
 * (MobileNetV2): the middle layer is depthwise, and x is added or not. Or its first two layers alone, where
 * others come before the last one (EfficientNet); or its last two, a separable convolution (MobileNetV1, and
 * the first block of many others). What lies between the layers is rounded to fp16 and never in device
 * memory. The conventions are those of kernels.h and nhwc.h. */
#ifndef CONVOY_KERNELS_BOTTLENECK_H
#define CONVOY_KERNELS_BOTTLENECK_H

#include "kernels/nhwc.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CONVOY_BOTTLENECK_LAYERS 3

struct convoy_bottleneck_shape {
    int n, h, w;
    int c, mid;                  /* channels of x, and of y unless depthwise; of what lies between */
    bool depthwise, residual;    /* an inverted residual; which adds x */
    bool separable;              /* of one: it begins with the depthwise layer, and mid is c */
    int k, side, stride, oh, ow; /* of one: channels of y, 0: it ends behind the depthwise layer, with mid;
                                    of the depthwise layer; size of y */
    int64_t x_pixel, y_pixel;    /* numbers from pixel to pixel */
    bool bias[CONVOY_BOTTLENECK_LAYERS];
    struct convoy_unary act[CONVOY_BOTTLENECK_LAYERS]; /* of CONVOY_UNARY_NHWC_KINDS */
};

/* Which layers a shape has: from the first one to before the end. */
static inline int convoy_bottleneck_first(const struct convoy_bottleneck_shape *shape)
{
    return shape->separable ? 1 : 0;
}
static inline int convoy_bottleneck_end(const struct convoy_bottleneck_shape *shape)
{
    return shape->depthwise && shape->k == 0 ? CONVOY_BOTTLENECK_LAYERS - 1 : CONVOY_BOTTLENECK_LAYERS;
}

/* All in device memory. y does not overlap x, which blocks read while others write y. */
struct convoy_bottleneck_operands {
    const convoy_fp16 *x;
    const void *weights;                         /* as this kernel's pack() laid them out; 256-byte aligned */
    const float *bias[CONVOY_BOTTLENECK_LAYERS]; /* mid, mid and c (or k); NULL: none */
    convoy_fp16 *y;
    float *sums;        /* n x patches x mid, or NULL: for each patch of a kernel that has some (below) the
                           sum over its outputs of each channel of y */
    uint32_t *overflow; /* as in struct convoy_overflow: of each image; NULL: it is not said */
    uint32_t marks[CONVOY_BOTTLENECK_LAYERS]; /* what is written there, by the layer whose result it was */
};

/* One kernel; as struct convoy_conv_kernel where nothing else is said. */
struct convoy_bottleneck_kernel {
    const char *name; /* "nhwc_bottleneck:32x1": maps inside that a block makes, blocks that fit into a
                         multiprocessor */
    bool (*takes)(const struct convoy_bottleneck_shape *shape);
    float (*estimate_us)(const struct convoy_bottleneck_shape *shape);
    /* Depends on the channels, `side` and which layers there are alone. */
    size_t (*packed_bytes)(const struct convoy_bottleneck_shape *shape);
    /* From weights of mid x c, mid x mid x 3 x 3 and c x mid; or mid x c, mid x side x side and k x mid, of
     * those layers that there are. All in host memory. What is written depends on these, the channels, `side`
     * and `stride` alone. */
    void (*pack)(const struct convoy_bottleneck_shape *shape,
                 const float *const weights[CONVOY_BOTTLENECK_LAYERS], void *packed);
    /* Patches of an image whose sums it can write; 0: none. */
    int (*patches)(const struct convoy_bottleneck_shape *shape);
    cudaError_t (*launch)(const struct convoy_bottleneck_shape *shape,
                          const struct convoy_bottleneck_operands *operands, cudaStream_t stream);
};

/* All kernels: those that take a shape give the same bits. Static; never freed. */
const struct convoy_bottleneck_kernel *const *convoy_bottleneck_kernels(int *count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
