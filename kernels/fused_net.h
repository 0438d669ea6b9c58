/* Fused networks: a network, or its first layers, in one launch. The kernels are called whole_net, front_net,
 * dense_net and dense_product in profiles.
 *
 * One block, or a cluster of blocks on neighbouring multiprocessors, takes an image through all layers;
 * activations stay in shared memory. kernels/fused_net/fused_net.cuh describes the method. The conventions
 * are those of kernels.h. */
#ifndef CONVOY_KERNELS_FUSED_NET_H
#define CONVOY_KERNELS_FUSED_NET_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CONVOY_FUSED_LAYERS  32 /* of a network, at most */
#define CONVOY_FUSED_CLUSTER 16 /* blocks for an image, at most */
#define CONVOY_FUSED_LARGE_DENSE                                                                             \
    (1 << 16) /* weights; a cluster divides dense layers of this size and larger */

enum convoy_fused_kind {
    CONVOY_FUSED_CONV,
    CONVOY_FUSED_DENSE, /* of the tensor flattened as C x H x W */
    CONVOY_FUSED_MEAN   /* over the places of each channel */
};

struct convoy_fused_layer {
    enum convoy_fused_kind kind;
    int input;    /* the layer whose result it reads; -1: the images, only for the first layer */
    int residual; /* CONV: the layer whose result is added before the activation, or -1 */
    /* CONV: all but n, u8, residual and compute_type counts. DENSE: k outputs, bias and act; c, h and w are
     * the input's. MEAN: c, h and w. */
    struct convoy_conv_shape shape;
    const float *weights, *bias; /* in host memory; k x c x r x s, k x (c h w) */
};

/* Output elements of a layer for one image. */
static inline int convoy_fused_outputs(const struct convoy_fused_layer *layer)
{
    const struct convoy_conv_shape *s = &layer->shape;
    if (layer->kind == CONVOY_FUSED_CONV)
        return s->k * (s->oh / s->pool) * (s->ow / s->pool);
    return layer->kind == CONVOY_FUSED_DENSE ? s->k : s->c;
}

struct convoy_fused_shape {
    int n; /* images */
    int count;
    const struct convoy_fused_layer
        *layers; /* in an order in which they can run; the last one computes the result */
    bool u8;
    bool
        softmax; /* of the result, over all elements of an image; only for kernels of span CONVOY_FUSED_ALL */
    enum convoy_compute_type compute_type; /* the least exact that is allowed */
    int64_t y_stride;                      /* floats from image to image of the result */
};

/* The layers that a kernel covers. */
enum convoy_fused_span {
    CONVOY_FUSED_ALL,         /* as many as possible */
    CONVOY_FUSED_FRONT,       /* those before the first dense layer, whose weights many images should share */
    CONVOY_FUSED_FIRST_DENSE, /* those up to it: teams of blocks share its outputs, or images its weights */
    CONVOY_FUSED_SPANS
};

struct convoy_fused_kernel {
    const char *name; /* "whole_net_fp16:16x512": blocks for an image, threads of a block */
    enum convoy_compute_type compute_type;
    enum convoy_fused_span span;
    int teams; /* "dense_net_fp16:6x16x512": clusters for an image, otherwise 1 */
    int cluster, threads;
    /* Both of fp16, on warpgroups, for compute capability 9.0. "whole_net_wgmma:1x512": some convolutions.
     * "dense_product:1x512": the dense layer, which is the last, for all images at once in a second launch
     * (and perhaps a third). */
    bool wgmma, product;
};

const struct convoy_fused_kernel *const *convoy_fused_kernels(int *count);

/* How a kernel runs one network for one number of images: made once, launched often. */
struct convoy_fused_plan;

/* Makes the plan of a kernel for a network. with_tables: for launching; without, the plan serves for an
 * estimate only. Returns 0 and sets *plan, which the caller frees; *plan is NULL where the kernel does not
 * support the operators, the sizes or the current device. Returns -ENOMEM if memory is out. */
int convoy_fused_plan_make(const struct convoy_fused_kernel *kernel, const struct convoy_fused_shape *shape,
                           bool with_tables, struct convoy_fused_plan **plan);
void convoy_fused_plan_free(struct convoy_fused_plan *plan);

/* The estimated time in microseconds. */
float convoy_fused_estimate_us(const struct convoy_fused_plan *plan);

/* What the caller copies to device memory, 256-byte aligned: weights and tables. Plans of equal compute_type
 * and weight form share their weights, for any n; the tables belong to one plan. */
int convoy_fused_weight_form(const struct convoy_fused_plan *plan);
size_t convoy_fused_weight_bytes(const struct convoy_fused_plan *plan);
void convoy_fused_pack_weights(const struct convoy_fused_plan *plan, const struct convoy_fused_shape *shape,
                               void *packed);
/* Device memory that each stream needs while a launch runs; its content is undefined before and afterwards.
 */
size_t convoy_fused_scratch_bytes(const struct convoy_fused_plan *plan);
size_t convoy_fused_table_bytes(const struct convoy_fused_plan *plan);
const void *convoy_fused_tables(const struct convoy_fused_plan *plan);

struct convoy_fused_operands {
    struct convoy_images x;
    const void *weights, *tables;
    void *scratch;
    float *y; /* n x y_stride, of which each image's result comes first, as C x H x W */
};

cudaError_t convoy_launch_fused(const struct convoy_fused_plan *plan,
                                const struct convoy_fused_operands *operands, cudaStream_t stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
