/* A network on a GPU: resident weights, a plan for each size of batch (bucket) and layout of input, and a
 * recorded graph of each plan for each stream. A job runs in the smallest bucket that holds its rows; what
 * the bucket's other rows hold is computed and thrown away. */
#ifndef CONVOY_ENGINE_CUDA_NET_H
#define CONVOY_ENGINE_CUDA_NET_H

#include "engine/cuda/net/bucket.h"
#include "engine/cuda/plan/groups.h"

#define CONVOY_CUDA_MAX_BUCKETS 40

struct convoy_net {
    struct convoy_net *next; /* of the device's, in the order in which they were loaded */
    char name[96];           /* for messages */
    struct convoy_net_info info;
    struct convoy_cuda_source source; /* what plans are made from; the graph is the caller's */
    struct convoy_cuda_groups groups;
    uint32_t max_batch;
    bool takes_u8;
    size_t input_stride[CONVOY_SLOT_LAYOUTS], output_stride; /* as the plans' copies want them */
    struct convoy_cuda_weights weights;
    int *layer_of_group;
    struct convoy_layer_info *layers;
    int bucket_count;
    struct convoy_cuda_bucket buckets[CONVOY_CUDA_MAX_BUCKETS];
    struct convoy_cuda_workspace *workspace;
    cudaEvent_t *profile_marks[CONVOY_CUDA_MAX_STREAMS]; /* layers + 1 each */
    bool profiling[CONVOY_CUDA_MAX_STREAMS];
    bool tuned; /* or given up: nothing is left for the tuner */
};

/* backend.h's load() and unload(). choices: which kernels are fastest; read whenever plans are made, until
 * the network is unloaded. The caller keeps the list of networks. */
int convoy_cuda_net_load(struct convoy_cuda_gpu *gpu, const struct convoy_cuda_kernel_choices *choices,
                         const struct convoy_graph *graph, const struct convoy_load_options *options,
                         struct convoy_net **net, struct convoy_net_info *info, struct convoy_error *error);
void convoy_cuda_net_unload(struct convoy_cuda_gpu *gpu, struct convoy_net *net);

/* The bucket that holds so many rows, 1 to max_batch. */
const struct convoy_cuda_bucket *convoy_cuda_bucket(const struct convoy_net *net, uint32_t rows);

/* Makes a bucket's plans and graphs anew with what is known now; with a larger workspace all graphs. Nothing
 * may be in flight. After a failure everything is as before: -ENOMEM, or -EIO. */
int convoy_cuda_rebuild(struct convoy_cuda_gpu *gpu, struct convoy_net *net, int bucket,
                        struct convoy_error *error);
/* After that: frees constants that no plan reads any more, and brings info up to date. */
void convoy_cuda_rebuilt(struct convoy_net *net);
/* The least exact arithmetic that any of its kernels uses. */
enum convoy_precision convoy_cuda_precision(const struct convoy_net *net);
/* Says in info which kernels the layers run on. */
void convoy_cuda_name_kernels(struct convoy_net *net);

/* Launches a plan layer by layer on a stream of its own, with profile_marks between. */
int convoy_cuda_run_profiled(struct convoy_cuda_gpu *gpu, struct convoy_net *net,
                             const struct convoy_cuda_plan *plan, uint32_t stream,
                             struct convoy_error *error);
/* After that has ended: fills layer_us. */
int convoy_cuda_read_profile(struct convoy_net *net, uint32_t stream, float *layer_us,
                             struct convoy_error *error);

#endif
