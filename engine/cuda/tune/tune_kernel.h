/* Finds the fastest kernel for one step of a plan (a convolution or a matrix product) by running each kernel
 * that takes it. One piece of the work is one run of one kernel, so that jobs wait only a short time.
 *
 * A step runs where its plan has it: on stream 0, in that stream's workspace, on random numbers. Its weights
 * are packed for each candidate, and its scratch memory is allocated, for the duration of the timing. */
#ifndef CONVOY_ENGINE_CUDA_TUNE_KERNEL_H
#define CONVOY_ENGINE_CUDA_TUNE_KERNEL_H

#include "engine/cuda/plan/kernel_choice.h"
#include "engine/cuda/plan/weights.h"
#include "engine/cuda/tune/measure.h"

#define CONVOY_CUDA_MAX_CANDIDATES 64

struct convoy_net;

struct convoy_cuda_candidate {
    const struct convoy_conv_kernel *conv; /* one of the two; the other is NULL */
    const struct convoy_gemm_kernel *gemm;
    float estimate_us;
    float us; /* measured; 0: it was not */
};

struct convoy_cuda_tune_kernel {
    struct convoy_net *net; /* NULL: nothing is being timed */
    struct convoy_cuda_step step;
    struct convoy_cuda_key key;
    int count, at; /* of candidates: their number; the one that is being timed */
    struct convoy_cuda_candidate candidates[CONVOY_CUDA_MAX_CANDIDATES]; /* in order of estimates */
    bool prepared; /* the step is set to candidate `at`, and series is its own */
    struct convoy_cuda_series series;
    const char *best; /* static text */
    float best_us;
    struct convoy_error no_room;        /* of the last candidate for which memory did not suffice */
    struct convoy_cuda_weights weights; /* the candidates' packed weights */
    /* kept from step to step */
    void *scratch;
    size_t scratch_bytes;
};

/* Begins to time the kernels of a step of kind CONV or GEMM, of a plan of net. 0, -ENOMEM, -EIO. */
int convoy_cuda_tune_kernel_begin(struct convoy_cuda_tune_kernel *tuning, struct convoy_cuda_measure *measure,
                                  const struct convoy_cuda_gpu *gpu, struct convoy_net *net,
                                  const struct convoy_cuda_step *step, struct convoy_error *error);

/* Does one run of one kernel. Nothing may be in flight. Returns 1: there is more to do; 0: best and best_us
 * are known and the timing has ended; -ENOMEM, -EIO. */
int convoy_cuda_tune_kernel_go_on(struct convoy_cuda_tune_kernel *tuning, struct convoy_cuda_measure *measure,
                                  const struct convoy_cuda_gpu *gpu, struct convoy_error *error);

/* Ends the timing of a step and frees its candidates' weights. */
void convoy_cuda_tune_kernel_stop(struct convoy_cuda_tune_kernel *tuning);

/* Stops, and frees what is kept from step to step. */
void convoy_cuda_tune_kernel_free(struct convoy_cuda_tune_kernel *tuning);

#endif
