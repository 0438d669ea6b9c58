/* The constants of a network on the device, each uploaded once for each form that a kernel wants it in.
 * Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_WEIGHTS_H
#define CONVOY_ENGINE_CUDA_WEIGHTS_H

#include "engine/cuda/runtime/gpu.h"
#include "engine/graph/graph.h"
#include "kernels/kernels.h"

struct convoy_cuda_weight {
    int tensor;   /* of the graph; -1: found by key instead */
    uint64_t key; /* the caller's own, e.g. a hash of what the data was made from */
    void (*pack)(const struct convoy_conv_shape *shape, const float *weights,
                 float *packed); /* NULL: not packed */
    int groups;                  /* of the shape for which it was packed; the packed form depends on it */
    float *data;                 /* device memory */
    size_t bytes;
    uint64_t checksum; /* of what was uploaded */
};

/* All zero: empty. */
struct convoy_cuda_weights {
    int count, capacity;
    struct convoy_cuda_weight *weights;
    size_t bytes;                      /* resident */
    const struct convoy_cuda_gpu *gpu; /* for pauses and long steps; NULL: none */
    /* where convoy_cuda_weights_verify() goes on, and the checksum of the weight there so far */
    int verified;
    size_t verified_bytes;
    uint64_t verified_hash;
};

/* Calls work(argument), which packs `bytes` of weights and must not use the device. If that takes long, the
 * worker serves other networks meanwhile. */
void convoy_cuda_weights_lay_out(const struct convoy_cuda_weights *weights, size_t bytes,
                                 void (*work)(void *argument), void *argument);

/* Returns the device address of a constant as it is in the graph, uploading it if necessary. On failure NULL,
 * a sentence, and -ENOMEM or -EIO in *code. */
const float *convoy_cuda_weights_plain(struct convoy_cuda_weights *weights, const struct convoy_graph *graph,
                                       int tensor, int *code, struct convoy_error *error);

/* The weights of `layers` tensors, whose maps follow each other; unless scaled_by is -1, each channel's times
 * its number in that tensor, over shape->nhwc.normalization.factor. The caller frees them; NULL: no memory.
 */
float *convoy_cuda_weights_joined(const struct convoy_graph *graph, const int *tensors, int layers,
                                  int scaled_by, const struct convoy_conv_shape *shape);

/* The same on the device, packed for kernel. */
const float *convoy_cuda_weights_packed(struct convoy_cuda_weights *weights, const struct convoy_graph *graph,
                                        const int *tensors, int layers, int scaled_by,
                                        const struct convoy_conv_kernel *kernel,
                                        const struct convoy_conv_shape *shape, int *code,
                                        struct convoy_error *error);

/* Of several tensors at once: the constant under key, or, where there is none yet, the `bytes` that
 * pack(argument, packed) lays out, as convoy_cuda_weights_lay_out() calls it. NULL and failures as above. */
const float *convoy_cuda_weights_made(struct convoy_cuda_weights *weights, uint64_t key, size_t bytes,
                                      void (*pack)(const void *argument, void *packed), const void *argument,
                                      int *code, struct convoy_error *error);

/* Returns the constant that was added under key, or NULL. */
const float *convoy_cuda_weights_find(const struct convoy_cuda_weights *weights, uint64_t key);
/* Uploads data under key. Returns its address; failures as above. */
const float *convoy_cuda_weights_add(struct convoy_cuda_weights *weights, uint64_t key, const void *data,
                                     size_t bytes, int *code, struct convoy_error *error);

/* Reads back for about budget_us what is resident and compares it with what was uploaded: the host computes
 * the checksums, as the device is what is in doubt. Returns 1: there is more to read; 0: all was read;
 * -EBADMSG: it differs; -ENOMEM, -EIO. */
int convoy_cuda_weights_verify(struct convoy_cuda_weights *weights, struct convoy_cuda_gpu *gpu,
                               int64_t budget_us, struct convoy_error *error);

/* Frees the constants for which used() returns false. No running job may read them. */
void convoy_cuda_weights_sweep(struct convoy_cuda_weights *weights,
                               bool (*used)(const void *context, const float *data), const void *context);

/* Frees everything, device memory included. No running job may read it. */
void convoy_cuda_weights_free(struct convoy_cuda_weights *weights);

#endif
