/* Finds the fastest variant of running a network, for one size of batch and one layout of input: layer by
 * layer, or its beginning by one of the kernels of fused_net.h. Each variant is planned, recorded and run as
 * it would be for a job, on stream 0, on random numbers. Variants of a part of it (tune_bottleneck.h) and of
 * its order (tune_branches.h) are timed in the same way. One piece of the work is one variant with all its
 * runs, so that no device memory is held between pieces. */
#ifndef CONVOY_ENGINE_CUDA_TUNE_NETWORK_H
#define CONVOY_ENGINE_CUDA_TUNE_NETWORK_H

#include "engine/cuda/plan/kernel_choice.h"
#include "engine/cuda/tune/measure.h"

#define CONVOY_CUDA_MAX_VARIANTS 64

struct convoy_net;

struct convoy_cuda_tune_network {
    struct convoy_net *net; /* NULL: nothing is being timed */
    uint32_t rows;
    enum convoy_input_layout layout;
    struct convoy_cuda_key key; /* of the choice that the variants are of */
    int count, at;
    struct {
        const char *name;
        float estimate_us; /* 0: none; the variant is always timed */
    } variants[CONVOY_CUDA_MAX_VARIANTS];
    const char *best;
    float best_us;
    size_t weight_bytes; /* of the network when the variants were listed */
};

/* Is there a layout of input for which the fastest variant for `rows` rows is not known? Sets *layout to it.
 */
bool convoy_cuda_tune_network_wanted(const struct convoy_net *net, uint32_t rows,
                                     enum convoy_input_layout *layout);

/* Lists the variants for the rows and layout of convoy_cuda_tune_network_wanted(). 0 or -ENOMEM. */
int convoy_cuda_tune_network_begin(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                   uint32_t rows, enum convoy_input_layout layout,
                                   struct convoy_error *error);

/* Begins a list of variants of the choice that the key names. first: static text, as in
 * convoy_cuda_tune_network_add(). */
void convoy_cuda_tune_network_open(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                   uint32_t rows, enum convoy_input_layout layout,
                                   const struct convoy_cuda_key *key, const char *first);
/* Adds a variant. name is static; estimate_us: microseconds. A full list leaves it out. */
void convoy_cuda_tune_network_add(struct convoy_cuda_tune_network *tuning, const char *name,
                                  float estimate_us);

/* Times one variant. Nothing may be in flight. Returns 1: there are more; 0: best and best_us are known and
 * the tuning has ended; -ENOMEM, -EIO. */
int convoy_cuda_tune_network_go_on(struct convoy_cuda_tune_network *tuning,
                                   struct convoy_cuda_measure *measure, const struct convoy_cuda_gpu *gpu,
                                   struct convoy_error *error);

#endif
