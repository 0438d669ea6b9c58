/* Which way of running a network is fastest for one size of batch and one layout of input: layer by layer, or
 * its beginning by one of whole_net.h's kernels. Each way is planned, recorded and run as it would be for a
 * job, on stream 0, on random numbers. */
#ifndef CONVOY_ENGINE_CUDA_TRIAL_H
#define CONVOY_ENGINE_CUDA_TRIAL_H

#include "engine/cuda/plan/choice.h"
#include "engine/cuda/plan/lower.h"

#define CONVOY_CUDA_MAX_WAYS 64

struct convoy_device;
struct convoy_net;

struct convoy_cuda_trial {
    struct convoy_net *net; /* NULL: nothing is being tried */
    uint32_t rows;
    enum convoy_input_layout layout;
    struct convoy_cuda_key key;
    int count, at;
    struct {
        const char *name;
        float guess_us; /* 0: none, tried in any case */
    } ways[CONVOY_CUDA_MAX_WAYS];
    const char *best;
    float best_us;
};

/* Is there a layout for which the ways of running a bucket's rows are not known? */
bool convoy_cuda_trial_wanted(const struct convoy_net *net, uint32_t rows, enum convoy_input_layout *layout);

/* Begins, with what convoy_cuda_trial_wanted() said. 0, -ENOMEM. */
int convoy_cuda_trial_begin(struct convoy_cuda_trial *trial, struct convoy_net *net, uint32_t rows,
                            enum convoy_input_layout layout, struct convoy_error *error);

/* One way. 1: there are more; 0: best and best_us are known, and nothing is being tried any more; -ENOMEM,
 * -EIO. Nothing may be in flight. */
int convoy_cuda_trial_go_on(struct convoy_cuda_trial *trial, struct convoy_device *device,
                            struct convoy_error *error);

#endif
