/* Tuning: while the device is idle, times the kernels that may run a network's convolutions and matrix
 * products, for each size of batch, first by themselves and then the fastest in the network, then the
 * variants of running its bottlenecks, the network as a whole and its branches, and rebuilds its plans with
 * the fastest. Until then the network runs on the kernels that are estimated to be fastest. Compute thread
 * only. */
#ifndef CONVOY_ENGINE_CUDA_TUNER_H
#define CONVOY_ENGINE_CUDA_TUNER_H

#include "engine/backend.h"
#include "engine/cuda/tune/cache.h"
#include "engine/cuda/tune/tune_adopt.h"
#include "engine/cuda/tune/tune_bottleneck.h"
#include "engine/cuda/tune/tune_branches.h"
#include "engine/cuda/tune/tune_finalists.h"
#include "engine/cuda/tune/tune_kernel.h"
#include "engine/cuda/tune/tune_network.h"

struct convoy_cuda_tuner {
    enum convoy_tuning mode;
    struct convoy_cuda_gpu *gpu;
    struct convoy_cuda_kernel_choices *choices; /* what is known; results are added */
    const struct convoy_cuda_cache *cache;
    /* of struct convoy_open_options */
    void *context;
    void (*changed)(void *context, struct convoy_net *net, const struct convoy_net_info *info);
    struct convoy_net *net; /* being tuned, or NULL */
    int turn;               /* of its buckets: the smallest, the largest, the others, those between */
    int measured;           /* shapes of this network */
    bool rebuilt, fresh;    /* the network; its bucket, with all that is known */
    bool noted;             /* something that the cache has not */
    uint64_t spent_us;
    struct convoy_cuda_measure measure;
    struct convoy_cuda_tune_kernel kernel;   /* of kernels by themselves */
    enum convoy_input_layout layout;         /* of the plan that its step is from */
    struct convoy_cuda_tune_network network; /* of variants in the network */
};

/* Keeps the mode and the function `changed` of options, and the pointers. */
void convoy_cuda_tuner_init(struct convoy_cuda_tuner *tuner, const struct convoy_open_options *options,
                            struct convoy_cuda_gpu *gpu, struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_cuda_cache *cache);

/* Tunes the first network in the list `nets` that is not tuned yet, for about budget_us and at least for one
 * piece. Nothing may be in flight. Returns 1: there is more to do; 0: all networks are tuned; negative: the
 * device is lost. */
int convoy_cuda_tuner_go_on(struct convoy_cuda_tuner *tuner, struct convoy_net *nets, int64_t budget_us,
                            struct convoy_error *error);

/* Stops tuning net, which is about to be unloaded. */
void convoy_cuda_tuner_forget(struct convoy_cuda_tuner *tuner, const struct convoy_net *net);

/* Frees device memory and events; call before the GPU's streams are destroyed. */
void convoy_cuda_tuner_free(struct convoy_cuda_tuner *tuner);

#endif
