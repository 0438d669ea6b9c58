/* Attention as exporters write it: two matrix products with a softmax between them, of queries and keys as
 * they are or normalised, each row of a head by itself (to unit length: Liu et al., Swin Transformer V2,
 * 2022). Where queries, keys and values are rows of channels or images in 16 bits, seen through whatever only
 * moves them (view.h), one kernel does all of that (kernels/nhwc.h). */
#ifndef CONVOY_ENGINE_CUDA_ATTENTION_H
#define CONVOY_ENGINE_CUDA_ATTENTION_H

#include "engine/cuda/plan/view.h"
#include "kernels/nhwc.h"

#define CONVOY_CUDA_ATTENTION_SIDES 4 /* queries, keys, values, result */

struct convoy_cuda_attention {
    struct convoy_nhwc_attention shape;           /* without n and what depends on pixels in memory */
    int tensor[CONVOY_CUDA_ATTENTION_SIDES];      /* rows of channels, or images: a pixel is a row */
    int64_t channel[CONVOY_CUDA_ATTENTION_SIDES]; /* of the first head */
    int32_t *rows[CONVOY_CUDA_ATTENTION_SIDES];   /* windows x rows: which row of the tensor; owned */
    /* Of queries and keys: the node as which each row of a head is normalised first; -1: none. */
    int normalize[2];
    /* Queries and keys alike, whose factors are part of shape.scale. false: each side by itself, with its own
     * factors and shift. */
    bool alike;
    float *head_scale; /* by which the products of each head are multiplied, too; owned; or NULL */
    float *bias;       /* windows (one if bias_window is 0) x heads x queries x bias_query; owned; or NULL */
};

/* Recognises the attention whose softmax the node is. readers: of each tensor. NULL: there is none, or no
 * memory. The caller frees it. */
struct convoy_cuda_attention *convoy_cuda_find_attention(struct convoy_cuda_tracer *tracer, int softmax,
                                                         const int *readers);
void convoy_cuda_attention_free(struct convoy_cuda_attention *attention);

#endif
