/* Of the kernels that were fastest for a step by themselves, finds the one with which the network is fastest.
 * A kernel that is timed behind itself finds its weights in the cache and starts while another copy of it
 * ends; between other kernels that differs by a microsecond or so, which for a few images is a tenth of its
 * time. So the network as a whole is timed with each of them (tune_network.h). */
#ifndef CONVOY_ENGINE_CUDA_TUNE_FINALISTS_H
#define CONVOY_ENGINE_CUDA_TUNE_FINALISTS_H

#include "engine/cuda/tune/tune_kernel.h"
#include "engine/cuda/tune/tune_network.h"

/* Lists the kernels that are worth it, of a step whose timing has ended, in a plan of net with this layout of
 * input; the fastest by itself first. False: it is chosen already. */
bool convoy_cuda_tune_finalists_begin(struct convoy_cuda_tune_network *tuning,
                                      const struct convoy_cuda_tune_kernel *kernel, struct convoy_net *net,
                                      uint32_t rows, enum convoy_input_layout layout);

#endif
