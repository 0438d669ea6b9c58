/* A network on a GPU: resident weights, a plan for each size of batch (bucket) and layout of input, and a
 * recorded graph of each plan for each stream. A job runs in the smallest bucket that holds its rows; the
 * results of the bucket's other rows are thrown away. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_NET_H
#define CONVOY_ENGINE_CUDA_NET_H

#include "engine/cuda/net/bucket.h"
#include "engine/cuda/net/overflow.h"
#include "engine/cuda/plan/groups.h"

#define CONVOY_CUDA_MAX_BUCKETS 48

struct convoy_net {
    struct convoy_net *next; /* in the list of the device, in order of loading */
    char name[96];           /* for messages */
    struct convoy_net_info info;
    struct convoy_cuda_source source; /* what plans are made from; the caller owns the graph */
    struct convoy_cuda_groups groups;
    uint32_t max_batch;
    bool takes_u8;
    struct convoy_image_fitting fitting; /* of JPEG rows, with the network's size filled in */
    bool waits_for_decoder;              /* may take JPEG files when the decoder is prepared */
    size_t input_stride[CONVOY_ROW_LAYOUTS], output_stride; /* bytes, as in source.h */
    struct convoy_cuda_weights weights;
    int *layer_of_group;
    struct convoy_layer_info *layers;
    int bucket_count;
    struct convoy_cuda_bucket buckets[CONVOY_CUDA_MAX_BUCKETS];
    struct convoy_cuda_workspace *workspace;
    struct convoy_cuda_overflow overflow;
    cudaEvent_t *profile_marks[CONVOY_CUDA_MAX_STREAMS]; /* layers + 1 each */
    bool profiling[CONVOY_CUDA_MAX_STREAMS];
    bool verifying_wide; /* convoy_cuda_net_verify() has read this network's own weights */
    bool tuned;          /* or tuning was given up, or is not wanted: nothing is left to do for the tuner */
};

/* backend.h's load() and unload(). choices: which kernels are fastest; read whenever plans are made, until
 * the network is unloaded. The caller keeps the list of networks. */
int convoy_cuda_net_load(struct convoy_cuda_gpu *gpu, const struct convoy_cuda_kernel_choices *choices,
                         const struct convoy_graph *graph, const struct convoy_load_options *options,
                         struct convoy_net **net, struct convoy_net_info *info, struct convoy_error *error);
/* Makes net->overflow.wide, the same network with float32 tensors, products of tf32 and fewer
 * buckets. */
int convoy_cuda_net_load_wide(struct convoy_cuda_gpu *gpu, struct convoy_net *net,
                              struct convoy_error *error);
void convoy_cuda_net_unload(struct convoy_cuda_gpu *gpu, struct convoy_net *net);

/* Returns the smallest bucket that holds so many rows, 1 to max_batch. */
const struct convoy_cuda_bucket *convoy_cuda_bucket(const struct convoy_net *net, uint32_t rows);

/* Makes the plans and graphs of one bucket again with the kernels that are known to be fastest now. If they
 * need a larger workspace, all graphs of the network are made again. Nothing may be in flight. 0, -ENOMEM or
 * -EIO; after a failure everything is as before. */
int convoy_cuda_rebuild(struct convoy_cuda_gpu *gpu, struct convoy_net *net, int bucket,
                        struct convoy_error *error);
/* Frees the constants that no plan of the network reads, nor `other`, a plan of it that it does not have
 * (NULL: none). Nothing may be in flight. */
void convoy_cuda_sweep(struct convoy_net *net, const struct convoy_cuda_plan *other);
/* After the last rebuild: frees constants that no plan reads any more, and updates info. */
void convoy_cuda_rebuilt(struct convoy_net *net);
/* Returns the least exact arithmetic that any kernel of the network uses. */
enum convoy_compute_type convoy_cuda_precision(const struct convoy_net *net);
/* Writes into info.layers which kernels the layers run on, in the largest bucket. */
void convoy_cuda_name_kernels(struct convoy_net *net);

/* Launches a plan step by step on stream number `stream`, with an event between layers. */
int convoy_cuda_run_profiled(struct convoy_cuda_gpu *gpu, struct convoy_net *net,
                             const struct convoy_cuda_plan *plan, uint32_t stream,
                             struct convoy_error *error);
/* When that has ended: writes microseconds for each layer to layer_us, which may be NULL. */
int convoy_cuda_read_profile(struct convoy_net *net, uint32_t stream, float *layer_us,
                             struct convoy_error *error);

/* verify() of backend.h, of both networks where there is a second one. */
int convoy_cuda_net_verify(struct convoy_cuda_gpu *gpu, struct convoy_net *net, int64_t budget_us,
                           struct convoy_error *error);

#endif
