#include "engine/cuda/tune/measure.h"

#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOISE_FLOATS 65536 /* repeated over a tensor */

static int make_marks(struct convoy_cuda_measure *measure, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < 2 && !failed; i++)
        if (measure->marks[i] == NULL)
            failed = CONVOY_CUDA(error, cudaEventCreateWithFlags, (&measure->marks[i], cudaEventDefault));
    return failed;
}

static int make_noise(struct convoy_cuda_measure *measure, struct convoy_error *error)
{
    size_t bytes = NOISE_FLOATS * sizeof(float);
    if (measure->noise != NULL)
        return 0;
    float *noise = malloc(bytes);
    if (noise == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for random numbers");
    uint32_t state = 1;
    for (int i = 0; i < NOISE_FLOATS; i++) { /* xorshift32 (Marsaglia, 2003); uniform in [-1, 1) */
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        noise[i] = (float)state / 2147483648.0f - 1.0f;
    }
    int failed = convoy_cuda_allocate(bytes, "timing kernels", &measure->noise, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaMemcpy, (measure->noise, noise, bytes, cudaMemcpyHostToDevice));
    free(noise);
    return failed;
}

int convoy_cuda_measure_noise(struct convoy_cuda_measure *measure, const struct convoy_cuda_gpu *gpu,
                              void *workspace, const struct convoy_cuda_place *place, int64_t floats,
                              struct convoy_error *error)
{
    if (place->where != CONVOY_CUDA_WORKSPACE)
        return 0;
    int failed = make_noise(measure, error);
    if (failed)
        return failed;
    float *to = (float *)(void *)((char *)workspace + place->offset);
    int64_t tiles = floats / NOISE_FLOATS;
    struct convoy_strided_copy copies[2] = {
        {.rank = 2, .dims = {tiles, NOISE_FLOATS}, .x_stride = {0, 1}, .y_stride = {NOISE_FLOATS, 1}},
        {.rank = 1, .dims = {floats % NOISE_FLOATS}, .x_stride = {1}, .y_stride = {1}}};
    for (int i = 0; i < 2 && !failed; i++) {
        if (copies[i].dims[0] == 0)
            continue;
        convoy_cuda_count(CONVOY_CUDA_cudaLaunchKernelExC);
        failed =
            convoy_cuda_check(convoy_launch_copy(&copies[i], measure->noise,
                                                 to + (i == 1 ? tiles * NOISE_FLOATS : 0), gpu->streams[0]),
                              "copy", error);
    }
    return failed;
}

/* One run: series->repeat launches between two events; *us is the time of one. */
static int run(struct convoy_cuda_measure *measure, const struct convoy_cuda_gpu *gpu,
               const struct convoy_cuda_series *series, float *us, struct convoy_error *error)
{
    cudaStream_t stream = gpu->streams[0];
    float ms = 0;
    int failed = CONVOY_CUDA(error, cudaEventRecord, (measure->marks[0], stream));
    for (int i = 0; i < series->repeat && !failed; i++)
        failed = series->launch(series->context, stream, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (measure->marks[1], stream));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaStreamSynchronize, (stream));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventElapsedTime, (&ms, measure->marks[0], measure->marks[1]));
    *us = ms * 1000 / (float)series->repeat;
    return failed;
}

static int ascending(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

int convoy_cuda_measure_run(struct convoy_cuda_measure *measure, const struct convoy_cuda_gpu *gpu,
                            struct convoy_cuda_series *series, float *us, struct convoy_error *error)
{
    bool warm = series->repeat > 0;
    int failed = make_marks(measure, error);
    if (!warm && !failed) {
        /* A kernel's code is loaded by its first launch, which must not decide how many launches a run has.
         */
        series->repeat = 1;
        failed = series->launch(series->context, gpu->streams[0], error);
    }
    if (!failed)
        failed = run(measure, gpu, series, us, error);
    if (failed)
        return failed;
    if (!warm) {
        float wanted = *us > 0 ? series->shortest_us / *us + 1 : (float)series->max_launches;
        series->repeat = wanted < (float)series->max_launches ? (int)wanted : series->max_launches;
        return 1;
    }
    series->us[series->runs++] = *us;
    bool hopeless = series->hopeless_us > 0 && *us > series->hopeless_us;
    if (!hopeless && series->runs < CONVOY_CUDA_TIMED_RUNS)
        return 1;
    qsort(series->us, (size_t)series->runs, sizeof(series->us[0]), ascending);
    *us = series->us[series->runs / 2];
    return 0;
}

void convoy_cuda_measure_free(struct convoy_cuda_measure *measure)
{
    struct convoy_error ignored;
    convoy_cuda_release(measure->noise);
    for (int i = 0; i < 2; i++)
        if (measure->marks[i] != NULL)
            (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (measure->marks[i]));
    memset(measure, 0, sizeof(*measure));
}
