/* A network's constants on the device, each uploaded once in each layout that its kernels want. */
#ifndef CONVOY_ENGINE_CUDA_WEIGHTS_H
#define CONVOY_ENGINE_CUDA_WEIGHTS_H

#include "engine/cuda/runtime/gpu.h"
#include "engine/graph/graph.h"
#include "kernels/kernels.h"

struct convoy_cuda_weight {
    int tensor; /* of the graph; -1: what a key of the maker's own stands for */
    uint64_t key;
    void (*pack)(const struct convoy_conv_shape *shape, const float *weights,
                 float *packed); /* NULL: as is */
    int groups;                  /* of the shape that it was packed for: layouts depend on them */
    float *data;                 /* device memory */
    size_t bytes;
};

/* All zero is empty. The thread that works with the device. */
struct convoy_cuda_weights {
    int count, capacity;
    struct convoy_cuda_weight *weights;
    size_t bytes;                      /* resident */
    const struct convoy_cuda_gpu *gpu; /* pauses and long steps go through it; NULL: without */
};

/* Calls work(argument), which lays out so many bytes and needs no device; if that takes long, while the
 * worker serves other networks. */
void convoy_cuda_weights_lay_out(const struct convoy_cuda_weights *weights, size_t bytes,
                                 void (*work)(void *argument), void *argument);

/* A constant as it is in the graph. NULL and a sentence on failure; *code says -ENOMEM or -EIO. */
const float *convoy_cuda_weights_plain(struct convoy_cuda_weights *weights, const struct convoy_graph *graph,
                                       int tensor, int *code, struct convoy_error *error);

/* A convolution's weights as kernel wants them. */
const float *convoy_cuda_weights_packed(struct convoy_cuda_weights *weights, const struct convoy_graph *graph,
                                        int tensor, const struct convoy_conv_kernel *kernel,
                                        const struct convoy_conv_shape *shape, int *code,
                                        struct convoy_error *error);

/* Something else that is constant, under a key of the caller's; NULL if it is not there yet. */
const float *convoy_cuda_weights_find(const struct convoy_cuda_weights *weights, uint64_t key);
/* Puts it there. NULL and a sentence on failure, as above. */
const float *convoy_cuda_weights_add(struct convoy_cuda_weights *weights, uint64_t key, const void *data,
                                     size_t bytes, int *code, struct convoy_error *error);

/* Frees those of which used() says no; nothing may be running that reads them. */
void convoy_cuda_weights_sweep(struct convoy_cuda_weights *weights,
                               bool (*used)(const void *context, const float *data), const void *context);

/* Frees the device's memory too; nothing may be running that reads it. */
void convoy_cuda_weights_free(struct convoy_cuda_weights *weights);

#endif
