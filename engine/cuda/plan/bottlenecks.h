/* Bottlenecks of residual networks and inverted residuals, which one kernel may compute
 * (kernels/bottleneck.h): a convolution of 1 x 1, one of 3 x 3 or a depthwise one, and another one of 1 x 1,
 * to whose result the first one's input is added; of inverted residuals it is added or not, and the first or
 * the last layer may be missing. Which way each runs, as a whole or layer by layer, is chosen here;
 * "bottleneck" means all of these. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_BOTTLENECKS_H
#define CONVOY_ENGINE_CUDA_BOTTLENECKS_H

#include "engine/cuda/plan/lowering.h"

/* Is `group`, an index, the last layer of a bottleneck of tensors in 16 bits that has layers `first` to
 * before `end`? All, or of an inverted residual the first or the last two. Then fills in the indices of all
 * their groups, and the shape, whose tensors have no other channels between them. */
bool convoy_cuda_find_bottleneck(const struct convoy_cuda_lowering *l, int group, int first, int end,
                                 int groups[CONVOY_BOTTLENECK_LAYERS], struct convoy_bottleneck_shape *shape);

/* Does a kernel take the shape? */
bool convoy_cuda_takes_bottleneck(const struct convoy_bottleneck_shape *shape);

/* "bottleneck n1 x256x56x56 m64 ...", "inverted n1 x24x56x56 m144 k24 3x3/1 ...", "separable ...": as the
 * keys of kernel_choice.h, with which these choices are kept. */
void convoy_cuda_bottleneck_key(const struct convoy_bottleneck_shape *shape, struct convoy_cuda_key *key);

/* Is it known which way is fastest, or was it said? Environment variable CONVOY_BOTTLENECK, for tests and
 * measurements: the kernel that runs all bottlenecks that it takes, or CONVOY_CUDA_LAYERS. */
bool convoy_cuda_knows_bottleneck(const struct convoy_cuda_source *source,
                                  const struct convoy_bottleneck_shape *shape);

/* Returns the kernel that runs the shape, which is static; NULL: its layers do. Before that was
 * measured the estimates decide, or with source->layers_first, and of inverted residuals, the layers run. */
const struct convoy_bottleneck_kernel *
convoy_cuda_choose_bottleneck(const struct convoy_cuda_source *source,
                              const struct convoy_bottleneck_shape *shape);

/* Returns the estimated microseconds of the layers, each with its own kernel. */
float convoy_cuda_estimate_layers(const struct convoy_cuda_source *source,
                                  const struct convoy_bottleneck_shape *shape);

#endif
