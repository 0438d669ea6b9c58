/* Finds out whether a network's graph is faster with all branches that it can have (plan/branches.h), for one
 * size of batch, once its kernels are known. Both ways are timed as the variants of tune_network.h. */
#ifndef CONVOY_ENGINE_CUDA_TUNE_BRANCHES_H
#define CONVOY_ENGINE_CUDA_TUNE_BRANCHES_H

#include "engine/cuda/tune/tune_network.h"

/* Is there a plan of this bucket of which that is not known? Sets *layout to its layout of input. */
bool convoy_cuda_tune_branches_wanted(const struct convoy_net *net, int bucket,
                                      enum convoy_input_layout *layout);

/* Lists the two variants for the layout of convoy_cuda_tune_branches_wanted(). */
void convoy_cuda_tune_branches_begin(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                     int bucket, enum convoy_input_layout layout);

#endif
