/* Of the kernels that were fastest for a step by themselves, finds the one with which the network is fastest.
 * What a kernel takes behind itself is not what it takes between others: chosen by the time of the network as
 * a whole (tune_network.h) networks were up to 13 % faster. Why was not looked into; behind itself a kernel
 * has its weights in the cache. */
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
