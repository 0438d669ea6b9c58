/* A bucket between two others (net.h) takes over what is known of the larger one, in place of timing its
 * own shapes: nearly twice as many buckets then cost the tuner no time. Loading makes their plans and graphs.
 */
#ifndef CONVOY_ENGINE_CUDA_TUNE_ADOPT_H
#define CONVOY_ENGINE_CUDA_TUNE_ADOPT_H

#include "engine/cuda/plan/kernel_choice.h"

struct convoy_net;

/* Notes for each shape in the plans of net->buckets[bucket] that is not known, and for the choices of its
 * bottlenecks and the whole network (plans of so many rows have no branches to choose), what is known of that
 * shape with the rows of the next bucket that is not between others. What that one lacks stays unknown.
 * Returns how many were noted, or -ENOMEM. */
int convoy_cuda_tune_adopt(const struct convoy_net *net, int bucket,
                           struct convoy_cuda_kernel_choices *choices);

#endif
