/* A canary: what a network answers to one row that is always the same. It tells whether a device still
 * computes as it did: a device can give wrong numbers without reporting an error.
 *
 * Two answers of one plan in one process are equal bit by bit: compare their hashes. Answers of two processes
 * may come from different kernels, because a tuner chose others, and are compared within a bound: samples of
 * each output, relative to the largest number of that output.
 *
 * The bound is there to tell garbage from rounding, not to measure precision. What a kernel of this product
 * may differ by in one layer is 1e-5 of the layer's largest result in fp32, and about 1e-3 in tf32 and fp16
 * (docs/kernels.md). Errors of L layers add up like a random walk, sqrt(L): in 100 layers to 1e-4 and 1e-2.
 * A softmax behind that turns an error e of logits into e times its result. The bounds are ten times that or
 * more. An answer that is off by less is found by the bits, as long as the process lives, and by the
 * checksums of the weights. */
#ifndef CONVOY_ENGINE_CANARY_H
#define CONVOY_ENGINE_CANARY_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_CANARY_SAMPLES 64 /* of all outputs together; at least 4 of each output that has so many */

struct convoy_canary {
    uint64_t hash; /* of all numbers */
    bool finite;   /* all numbers are */
    uint32_t count;
    float values[CONVOY_CANARY_SAMPLES];
    float ranges[CONVOY_CANARY_SAMPLES]; /* of each sample: the largest finite magnitude of its output */
};

/* The allowed deviation relative to a range, where the model accepts no less than fp32, and where it accepts
 * tf32 or fp16. */
#define CONVOY_CANARY_BOUND_FP32 0.01f
#define CONVOY_CANARY_BOUND_LESS 0.25f
#define CONVOY_CANARY_LEAST      1e-6f /* smaller differences are none: of outputs that are all but zero */

/* One sample in so many may be off by any amount: outputs that jump (rounded numbers, comparisons) do so for
 * other inputs when kernels round otherwise. So none where there are fewer samples. */
#define CONVOY_CANARY_STRAY 32

/* Takes the canary of one row's outputs, which lie one after the other. output_count is at least 1 and at
 * most CONVOY_CANARY_SAMPLES / 4; elements has that many counts, each at least 1. */
void convoy_canary_take(const float *outputs, uint32_t output_count, const uint32_t *elements,
                        struct convoy_canary *canary);

/* Fills row with `bytes` bytes that are the same for each call with that size. pixels: bytes from 64 to 191,
 * the middle of what a picture has, so that no activation is larger than pictures make it; else float32 from
 * 0 to 1. */
void convoy_canary_fill(void *row, size_t bytes, bool pixels);

/* Whether `now` is what `first` was, within bound. When it is not, *error has a sentence (error may be NULL).
 * Numbers that were not finite in `first` are not compared. */
bool convoy_canary_agrees(const struct convoy_canary *first, const struct convoy_canary *now, float bound,
                          struct convoy_error *error);

#endif
