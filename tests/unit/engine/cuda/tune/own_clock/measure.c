/* How the tuner measures: which runs count, how often a short kernel is launched, and when a slow one is
 * given up. The CUDA runtime is the test's own, with a clock that says what the test wants. */
#include "engine/cuda/tune/measure.h"

#include <criterion/criterion.h>
#include <errno.h>

#define RUNS CONVOY_CUDA_TIMED_RUNS

static float clock_us[16]; /* what the next runs take for one launch */
static int runs_seen, launches, launches_in_run[16];
static int launches_off_the_clock; /* before the first mark of a run */
static bool run_begun;
static cudaError_t record_result;

/* ---- In place of the CUDA runtime ---- */

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    run_begun = !run_begun;
    if (run_begun) {
        launches_off_the_clock += launches;
        launches = 0;
    }
    return record_result;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    cr_assert(from != NULL && to != NULL && from != to);
    *ms = clock_us[runs_seen] * (float)launches / 1000;
    launches_in_run[runs_seen++] = launches;
    launches = 0;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    static char events[8];
    static int used;
    (void)flags;
    *event = (cudaEvent_t)(void *)&events[used++ % 8];
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    (void)error;
    return "a message";
}

const char *cudaGetErrorName(cudaError_t error)
{
    (void)error;
    return "a name";
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    (void)pointer, (void)bytes;
    return cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *pointer)
{
    (void)pointer;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = 0;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)to, (void)from, (void)bytes, (void)kind;
    return cudaSuccess;
}

cudaError_t convoy_launch_copy(const struct convoy_strided_copy *copy, const float *x, float *y,
                               cudaStream_t stream)
{
    (void)copy, (void)x, (void)y, (void)stream;
    return cudaSuccess;
}

static int launch(void *context, cudaStream_t stream, struct convoy_error *error)
{
    (void)stream, (void)error;
    cr_assert(context == &launches);
    launches++;
    return 0;
}

static struct convoy_cuda_measure measure;
static const struct convoy_cuda_gpu gpu;

/* Runs a series to its end; returns the last result. */
static int run_all(int max_launches, float hopeless_us, float *us)
{
    struct convoy_error error;
    struct convoy_cuda_series series = {.launch = launch,
                                        .context = &launches,
                                        .shortest_us = 50,
                                        .max_launches = max_launches,
                                        .hopeless_us = hopeless_us};
    int got;
    while ((got = convoy_cuda_measure_run(&measure, &gpu, &series, us, &error)) > 0)
        cr_assert_leq(runs_seen, RUNS);
    convoy_cuda_measure_free(&measure);
    return got;
}

static void set_clock(const float *us, int count)
{
    for (int i = 0; i < count; i++)
        clock_us[i] = us[i];
}

Test(measure, the_first_run_warms_up_and_the_median_of_the_others_counts)
{
    static const float times[RUNS + 1] = {900, 70, 300, 60, 80, 90};
    float us;
    set_clock(times, RUNS + 1);
    cr_assert_eq(run_all(16, 0, &us), 0);
    cr_assert_eq(runs_seen, RUNS + 1);
    cr_assert_float_eq(us, 80, 0.01, "%f", (double)us);
}

Test(measure, code_is_loaded_before_the_clock_runs)
{
    static const float times[RUNS + 1] = {10, 10, 10, 10, 10, 10};
    float us;
    set_clock(times, RUNS + 1);
    cr_assert_eq(run_all(16, 0, &us), 0);
    cr_expect_eq(launches_off_the_clock, 1, "%d launches", launches_off_the_clock);
    cr_expect_eq(launches_in_run[0], 1);
}

Test(measure, a_short_kernel_is_launched_until_a_run_takes_50_us)
{
    static const float times[RUNS + 1] = {10, 10, 10, 10, 10, 10};
    float us;
    set_clock(times, RUNS + 1);
    cr_assert_eq(run_all(16, 0, &us), 0);
    cr_assert_eq(launches_in_run[0], 1);
    for (int i = 1; i <= RUNS; i++)
        cr_assert_eq(launches_in_run[i], 6, "run %d has %d launches", i, launches_in_run[i]);
    cr_assert_float_eq(us, 10, 0.01, "%f", (double)us);
}

Test(measure, a_run_has_no_more_launches_than_allowed)
{
    static const float times[RUNS + 1] = {0, 1, 1, 1, 1, 1}; /* the clock may not have moved at first */
    float us;
    set_clock(times, RUNS + 1);
    cr_assert_eq(run_all(16, 0, &us), 0);
    cr_assert_eq(launches_in_run[1], 16);
    runs_seen = 0;
    cr_assert_eq(run_all(1, 0, &us), 0);
    cr_assert_eq(launches_in_run[1], 1);
}

Test(measure, a_hopeless_kernel_is_given_up_after_one_run)
{
    static const float times[] = {500, 301, 1};
    float us;
    set_clock(times, 3);
    cr_assert_eq(run_all(16, 300, &us), 0);
    cr_assert_eq(runs_seen, 2, "%d runs", runs_seen);
    cr_assert_float_eq(us, 301, 0.01, "%f", (double)us);
}

/* The warm-up may be slow: the clock of an idle chip rises. */
Test(measure, the_warm_up_is_never_hopeless)
{
    static const float times[RUNS + 1] = {5000, 70, 70, 70, 70, 70};
    float us;
    set_clock(times, RUNS + 1);
    cr_assert_eq(run_all(16, 100, &us), 0);
    cr_assert_eq(runs_seen, RUNS + 1);
}

Test(measure, a_failed_call_ends_the_series)
{
    float us;
    record_result = cudaErrorIllegalAddress;
    cr_assert_eq(run_all(16, 0, &us), -EIO);
    cr_assert_eq(launches, 0);
}

/* Constants are not overwritten, and nothing is made for them. */
Test(measure, noise_needs_a_place_in_the_workspace)
{
    struct convoy_error error;
    struct convoy_cuda_place constant = {.where = CONVOY_CUDA_CONSTANT};
    struct convoy_cuda_place place = {.where = CONVOY_CUDA_WORKSPACE};
    cr_assert_eq(convoy_cuda_measure_noise(&measure, &gpu, NULL, &constant, 10, &error), 0);
    cr_assert_eq(convoy_cuda_measure_noise(&measure, &gpu, NULL, &place, 10, &error), -ENOMEM);
    cr_assert_null(measure.noise);
}
