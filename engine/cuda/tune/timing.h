/* Which kernel runs one step of a plan fastest, found by running each that may: a few at a time, so that work
 * that comes meanwhile does not wait long.
 *
 * A step is timed where it is: on stream 0, in that stream's workspace, on random numbers (a chip runs faster
 * on zeros), its weights packed and its scratch allocated for the while. */
#ifndef CONVOY_ENGINE_CUDA_TIMING_H
#define CONVOY_ENGINE_CUDA_TIMING_H

#include "engine/cuda/plan/choice.h"
#include "engine/cuda/plan/plan.h"
#include "engine/cuda/plan/weights.h"

#define CONVOY_CUDA_MAX_CANDIDATES 32
#ifndef CONVOY_CUDA_TIMED_RUNS /* the emulation's clock says the same each time */
#define CONVOY_CUDA_TIMED_RUNS 5
#endif

struct convoy_device;
struct convoy_net;

struct convoy_cuda_candidate {
    const struct convoy_conv_kernel *conv; /* one of the two */
    const struct convoy_gemm_kernel *gemm;
    float guess_us;
};

struct convoy_cuda_timing {
    struct convoy_net *net; /* NULL: nothing is being timed */
    struct convoy_cuda_step step;
    struct convoy_cuda_key key;
    int count, at; /* candidates; the one that is being timed */
    struct convoy_cuda_candidate candidates[CONVOY_CUDA_MAX_CANDIDATES];
    int run, repeat; /* -1: not prepared, 0: warming up; launches in a run */
    float us[CONVOY_CUDA_TIMED_RUNS];
    const char *best;
    float best_us;
    struct convoy_error no_room;        /* what the last candidate without room was told */
    struct convoy_cuda_weights weights; /* of this step's candidates */
    /* until all is tuned */
    cudaEvent_t marks[2];
    void *noise, *scratch;
    size_t scratch_bytes;
};

/* Begins with a step (of a plan of net) of kind CONV or GEMM. 0, -ENOMEM, -EIO. */
int convoy_cuda_timing_begin(struct convoy_cuda_timing *timing, struct convoy_device *device,
                             struct convoy_net *net, const struct convoy_cuda_step *step,
                             struct convoy_error *error);

/* One run of one kernel. 1: there is more to do; 0: best and best_us are known, and nothing is being timed
 * any more; -ENOMEM, -EIO. Nothing may be in flight. */
int convoy_cuda_timing_go_on(struct convoy_cuda_timing *timing, struct convoy_device *device,
                             struct convoy_error *error);

/* Fills floats at place, in a workspace, with random numbers, and makes ready the events of timing. 0,
 * -ENOMEM, -EIO. */
int convoy_cuda_timing_noise(struct convoy_cuda_timing *timing, struct convoy_device *device, void *workspace,
                             const struct convoy_cuda_place *place, int64_t floats,
                             struct convoy_error *error);

/* Breaks off. */
void convoy_cuda_timing_stop(struct convoy_cuda_timing *timing);
/* Gives back what is kept from step to step. */
void convoy_cuda_timing_free(struct convoy_cuda_timing *timing);

#endif
