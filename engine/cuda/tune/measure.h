/* Measuring time on the device: random numbers to compute on, and runs between two events, repeated until the
 * median is known. Shared by what times single kernels and what times whole networks.
 *
 * Everything runs on stream 0; nothing else may be in flight. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_MEASURE_H
#define CONVOY_ENGINE_CUDA_MEASURE_H

#include "engine/cuda/plan/plan.h"
#include "engine/cuda/runtime/gpu.h"

#ifndef CONVOY_CUDA_TIMED_RUNS /* the emulation sets 1: its clock says the same each time */
#define CONVOY_CUDA_TIMED_RUNS 5
#endif

/* What all measurements share: made by the first one, kept until convoy_cuda_measure_free(). All zero:
 * nothing is made yet. */
struct convoy_cuda_measure {
    cudaEvent_t marks[2];
    void *noise; /* random numbers in device memory */
};

/* The runs of one candidate: a launch that loads its code, a run to warm up, from whose time the number of
 * launches of a run follows, then CONVOY_CUDA_TIMED_RUNS that count. Set the first five fields and zero the
 * rest. */
struct convoy_cuda_series {
    int (*launch)(void *context, cudaStream_t stream, struct convoy_error *error); /* as CONVOY_CUDA() */
    void *context;
    float shortest_us; /* of a run, where max_launches allows it: the clock's step is 0.5 us */
    int max_launches;  /* in a run: short launches are repeated up to so often */
    float hopeless_us; /* a run longer than this ends the series; 0: no run does */
    int runs, repeat;
    float us[CONVOY_CUDA_TIMED_RUNS];
};

/* Does the next run of a series. Returns 1: the series needs more runs; 0: *us is the median time of one
 * launch, over the runs up to the hopeless one if there was one; or as CONVOY_CUDA(). */
int convoy_cuda_measure_run(struct convoy_cuda_measure *measure, const struct convoy_cuda_gpu *gpu,
                            struct convoy_cuda_series *series, float *us, struct convoy_error *error);

/* Fills `floats` numbers at place with random values in [-1, 1), if place lies in the workspace; does nothing
 * for constants. A chip runs faster on zeros than on such numbers. 0, -ENOMEM, -EIO. */
int convoy_cuda_measure_noise(struct convoy_cuda_measure *measure, const struct convoy_cuda_gpu *gpu,
                              void *workspace, const struct convoy_cuda_place *place, int64_t floats,
                              struct convoy_error *error);

void convoy_cuda_measure_free(struct convoy_cuda_measure *measure);

#endif
