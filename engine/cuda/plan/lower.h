/* Lowering: a graph and its groups become a plan for one batch size and one layout of input. */
#ifndef CONVOY_ENGINE_CUDA_LOWER_H
#define CONVOY_ENGINE_CUDA_LOWER_H

#include "engine/cuda/plan/groups.h"
#include "engine/cuda/plan/kernel_choice.h"
#include "engine/cuda/plan/plan.h"
#include "engine/cuda/plan/weights.h"

/* What a plan is made from; all of a network's plans share it. */
struct convoy_cuda_source {
    enum convoy_products products; /* the least exact that will do */
    const struct convoy_graph *graph;
    const struct convoy_cuda_groups *groups;
    struct convoy_cuda_weights *weights;
    const struct convoy_cuda_kernel_choices *choices; /* what the tuner knows */
    const char *whole; /* while variants of running the network are timed: the name of this one; else NULL */
    uint32_t channels, outputs_per_row;
    int64_t pixels;
    float multiply[CONVOY_MAX_U8_CHANNELS], add[CONVOY_MAX_U8_CHANNELS];
};

/* Bytes from row to row: what the channel uses, and what a plan's copies take at once. */
size_t convoy_cuda_input_stride(const struct convoy_cuda_source *source, enum convoy_input_layout layout);
size_t convoy_cuda_output_stride(const struct convoy_cuda_source *source);

/* Fills plan (zeroed but for rows and layout; to be freed whatever is returned). -ENOTSUP names the node,
 * -ENOMEM, -EIO. */
int convoy_cuda_lower(const struct convoy_cuda_source *source, struct convoy_cuda_plan *plan,
                      struct convoy_error *error);

#endif
