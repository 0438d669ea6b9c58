/* Finds the fastest way to run the bottlenecks of one shape in a network (bottlenecks.h), for one size of
 * batch: layer by layer, each layer with the kernel that was measured to be fastest, or as a whole with one
 * of the kernels for that. The network as a whole is timed in each way (tune_network.h), since what a launch
 * costs shows only between others. */
#ifndef CONVOY_ENGINE_CUDA_TUNE_BOTTLENECK_H
#define CONVOY_ENGINE_CUDA_TUNE_BOTTLENECK_H

#include "engine/cuda/tune/tune_network.h"
#include "kernels/bottleneck.h"

/* Returns a shape in the plans of a bucket for which the fastest way is not known, and the layout of the
 * plan; NULL: none. Valid until the bucket is rebuilt. */
const struct convoy_bottleneck_shape *convoy_cuda_tune_bottleneck_wanted(const struct convoy_net *net,
                                                                         int bucket,
                                                                         enum convoy_input_layout *layout);

/* Does the bucket run a bottleneck as a whole because of an estimate alone? Then its layers cannot be timed.
 */
bool convoy_cuda_tune_bottleneck_guessed(const struct convoy_net *net, int bucket);

/* Lists the ways to run a shape in net->buckets[bucket]; convoy_cuda_tune_network_go_on() times them. */
void convoy_cuda_tune_bottleneck_begin(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                       int bucket, enum convoy_input_layout layout,
                                       const struct convoy_bottleneck_shape *shape);

#endif
