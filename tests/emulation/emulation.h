/* Between the two halves of the emulation. */
#ifndef CONVOY_TESTS_EMULATION_H
#define CONVOY_TESTS_EMULATION_H

#include "cuda_runtime.h"

#define CONVOY_EMULATED_CLUSTER_MAX 16u

/* Runs every block of a grid, one cluster of blocks after the other. body is one thread. */
void convoy_emulated_grid(dim3 grid, dim3 block, unsigned cluster, size_t shared_bytes,
                          const std::function<void()> &body);

#define CONVOY_EMULATED_WORDS_MAX 12u

/* Waits until all lanes of the warp have given their words, as many each, and returns them, lane after lane:
 * the same place for all lanes, which they may write to. It stands until the lane's next exchange. */
uint32_t *convoy_emulated_gather(const uint32_t *words, unsigned count);

/* The value of each fp16. */
extern const float *const convoy_emulated_halves;

/* The thread that runs, among those of its cluster. */
size_t convoy_emulated_fiber();

/* Lets other threads run until it is true; a thread that may have made it true calls
 * convoy_emulated_happened(). */
void convoy_emulated_wait(const std::function<bool()> &is_true);
void convoy_emulated_happened();

#endif
