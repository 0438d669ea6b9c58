/* Tuning: when the device is idle, the kernels that may run a network's convolutions and matrix products are
 * timed, for each size of batch, then the ways to run the network as a whole; and its plans are made anew
 * with the fastest. Until then the network serves with those that are guessed to be. */
#ifndef CONVOY_ENGINE_CUDA_TUNER_H
#define CONVOY_ENGINE_CUDA_TUNER_H

#include "engine/backend.h"
#include "engine/cuda/tune/timing.h"
#include "engine/cuda/tune/trial.h"

/* All zero: nothing is tuned. */
struct convoy_cuda_tuner {
    enum convoy_tuning mode;
    struct convoy_net *net; /* that is being tuned, or NULL */
    int turn;               /* of its buckets: first the smallest, then the largest, then the others */
    int measured;           /* shapes of this network */
    bool renewed;
    uint64_t spent_us;
    struct convoy_cuda_timing timing; /* of kernels */
    struct convoy_cuda_trial trial;   /* then of ways to run the whole */
};

/* backend.h's idle(). */
int convoy_cuda_idle(struct convoy_device *device, int64_t budget_us, struct convoy_error *error);

/* net is about to be unloaded. */
void convoy_cuda_tuner_forget(struct convoy_cuda_tuner *tuner, const struct convoy_net *net);
void convoy_cuda_tuner_free(struct convoy_cuda_tuner *tuner);

#endif
