/* The lowering of single groups: what lower.c calls, one file for each kind of operator. Each function adds
 * the steps of one group to the plan and returns 0 or a negative errno with a sentence (-ENOTSUP names the
 * node). */
#ifndef CONVOY_ENGINE_CUDA_LOWER_INTERNAL_H
#define CONVOY_ENGINE_CUDA_LOWER_INTERNAL_H

#include "engine/cuda/plan/lower.h"
#include "engine/cuda/plan/lowering.h"

/* Lowers the beginning of the network to one step, if a kernel was chosen for it. *groups: how many groups
 * that covers (0: none); *done: the outputs of the network are already in the output rows. */
int convoy_cuda_lower_fused(struct convoy_cuda_lowering *l, int *groups, bool *done);

int convoy_cuda_lower_conv(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_dense(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_matmul(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_other(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);

#endif
