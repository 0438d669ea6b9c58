/* A bottleneck of a residual network in one launch, of tensors in 16 bits, channels last (nhwc.h):
 *
 *   y = act2(conv 1 x 1(act1(conv 3 x 3(act0(conv 1 x 1(x))))) + x)
 *
 * with c channels outside and `mid` inside, stride 1, the middle one padded by 1, each with a bias or
 * without. What lies between the layers is rounded to fp16 and never in device memory. The conventions are
 * those of kernels.h and nhwc.h. */
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
    int c, mid;               /* channels of x and y; of what lies between */
    int64_t x_pixel, y_pixel; /* numbers from pixel to pixel */
    bool bias[CONVOY_BOTTLENECK_LAYERS];
    struct convoy_unary act[CONVOY_BOTTLENECK_LAYERS]; /* of CONVOY_UNARY_NHWC_KINDS */
};

/* All in device memory. y does not overlap x, which blocks read while others write y. */
struct convoy_bottleneck_operands {
    const convoy_fp16 *x;
    const void *weights;                         /* as this kernel's pack() laid them out; 256-byte aligned */
    const float *bias[CONVOY_BOTTLENECK_LAYERS]; /* mid, mid and c; NULL: none */
    convoy_fp16 *y;
    uint32_t *overflow; /* as in struct convoy_overflow: of each image; NULL: it is not said */
    uint32_t marks[CONVOY_BOTTLENECK_LAYERS]; /* what is written there, by the layer whose result it was */
};

/* One kernel; as struct convoy_conv_kernel where nothing else is said. */
struct convoy_bottleneck_kernel {
    const char *name; /* "nhwc_bottleneck:32x1": maps inside that a block makes, blocks that fit into a
                         multiprocessor */
    bool (*takes)(const struct convoy_bottleneck_shape *shape);
    float (*estimate_us)(const struct convoy_bottleneck_shape *shape);
    size_t (*packed_bytes)(const struct convoy_bottleneck_shape *shape); /* depends on c and mid alone */
    /* From weights of mid x c, mid x mid x 3 x 3 and c x mid; all in host memory. */
    void (*pack)(const struct convoy_bottleneck_shape *shape,
                 const float *const weights[CONVOY_BOTTLENECK_LAYERS], void *packed);
    cudaError_t (*launch)(const struct convoy_bottleneck_shape *shape,
                          const struct convoy_bottleneck_operands *operands, cudaStream_t stream);
};

/* All kernels: they give the same bits. Static; never freed. */
const struct convoy_bottleneck_kernel *const *convoy_bottleneck_kernels(int *count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
