#include "engine/cuda/tune/timing.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOISE_FLOATS 65536 /* repeated over a tensor */
#define WORTH_TRYING 4.0f  /* times the least guess */
#define HOPELESS     3.0f  /* times the best, after one run */
#define SHORTEST_US                                                                                          \
    50.0f /* a run: shorter kernels are launched several times, the clock's step is 0.5 us                   \
           */
#define MOST_LAUNCHES 16

/* Keeps the list in order of guesses, and the best of it. */
static void add_candidate(struct convoy_cuda_timing *timing, struct convoy_cuda_candidate candidate)
{
    int at = timing->count;
    while (at > 0 && candidate.guess_us < timing->candidates[at - 1].guess_us)
        at--;
    if (at == CONVOY_CUDA_MAX_CANDIDATES)
        return;
    int last = timing->count < CONVOY_CUDA_MAX_CANDIDATES ? timing->count : CONVOY_CUDA_MAX_CANDIDATES - 1;
    memmove(&timing->candidates[at + 1], &timing->candidates[at],
            (size_t)(last - at) * sizeof(timing->candidates[0]));
    timing->candidates[at] = candidate;
    timing->count = last + 1;
}

static void list_candidates(struct convoy_cuda_timing *timing)
{
    int count;
    timing->count = 0;
    if (timing->step.kind == CONVOY_CUDA_CONV) {
        const struct convoy_conv_shape *shape = &timing->step.conv.shape;
        const struct convoy_conv_kernel *const *kernels = convoy_conv_kernels(&count);
        for (int i = 0; i < count; i++)
            if (!kernels[i]->ladder_only && kernels[i]->takes(shape))
                add_candidate(timing, (struct convoy_cuda_candidate){
                                          .conv = kernels[i], .guess_us = kernels[i]->guess_us(shape)});
    } else {
        const struct convoy_gemm_shape *shape = &timing->step.gemm.shape;
        const struct convoy_gemm_kernel *const *kernels = convoy_gemm_kernels(&count);
        for (int i = 0; i < count; i++)
            if (kernels[i]->takes(shape))
                add_candidate(timing, (struct convoy_cuda_candidate){
                                          .gemm = kernels[i], .guess_us = kernels[i]->guess_us(shape)});
    }
    while (timing->count > 1 &&
           timing->candidates[timing->count - 1].guess_us > WORTH_TRYING * timing->candidates[0].guess_us)
        timing->count--;
}

/* What is the same for all steps: made once. */
static int make_ready(struct convoy_cuda_timing *timing, struct convoy_error *error)
{
    size_t bytes = NOISE_FLOATS * sizeof(float);
    int failed = 0;
    for (int i = 0; i < 2 && !failed; i++)
        if (timing->marks[i] == NULL)
            failed = CONVOY_CUDA(error, cudaEventCreateWithFlags, (&timing->marks[i], cudaEventDefault));
    if (failed || timing->noise != NULL)
        return failed;
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
    failed = convoy_cuda_allocate(bytes, "timing kernels", &timing->noise, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaMemcpy, (timing->noise, noise, bytes, cudaMemcpyHostToDevice));
    free(noise);
    return failed;
}

int convoy_cuda_timing_noise(struct convoy_cuda_timing *timing, struct convoy_device *device, void *workspace,
                             const struct convoy_cuda_place *place, int64_t floats,
                             struct convoy_error *error)
{
    if (place->where != CONVOY_CUDA_WORKSPACE)
        return 0;
    int failed = make_ready(timing, error);
    if (failed)
        return failed;
    float *to = (float *)(void *)((char *)workspace + place->offset);
    int64_t tiles = floats / NOISE_FLOATS;
    struct convoy_walk walks[2] = {
        {.rank = 2, .dims = {tiles, NOISE_FLOATS}, .x_stride = {0, 1}, .y_stride = {NOISE_FLOATS, 1}},
        {.rank = 1, .dims = {floats % NOISE_FLOATS}, .x_stride = {1}, .y_stride = {1}}};
    for (int i = 0; i < 2 && !failed; i++) {
        if (walks[i].dims[0] == 0)
            continue;
        convoy_cuda_count(CONVOY_CUDA_cudaLaunchKernelExC);
        failed = convoy_cuda_check(convoy_launch_copy(&walks[i], timing->noise,
                                                      to + (i == 1 ? tiles * NOISE_FLOATS : 0),
                                                      device->streams[0]),
                                   "copy", error);
    }
    return failed;
}

static int fill_operands(struct convoy_cuda_timing *timing, struct convoy_device *device,
                         struct convoy_error *error)
{
    const struct convoy_cuda_step *step = &timing->step;
    if (step->kind == CONVOY_CUDA_CONV) {
        const struct convoy_conv_shape *s = &step->conv.shape;
        int64_t y = (int64_t)s->n * s->k * (s->oh / s->pool) * (s->ow / s->pool);
        int failed =
            convoy_cuda_timing_noise(timing, device, timing->net->workspace->memory[0], &step->x,
                                     s->n * step->conv.images.image_bytes / (int64_t)sizeof(float), error);
        return failed ? failed
                      : convoy_cuda_timing_noise(timing, device, timing->net->workspace->memory[0],
                                                 &step->conv.residual, y, error);
    }
    const struct convoy_gemm_shape *s = &step->gemm.shape;
    int64_t last = s->batch - 1;
    int failed = convoy_cuda_timing_noise(timing, device, timing->net->workspace->memory[0], &step->x,
                                          last * s->a_stride + s->m * s->k, error);
    return failed ? failed
                  : convoy_cuda_timing_noise(timing, device, timing->net->workspace->memory[0], &step->gemm.b,
                                             last * s->b_stride + s->k * s->n, error);
}

int convoy_cuda_timing_begin(struct convoy_cuda_timing *timing, struct convoy_device *device,
                             struct convoy_net *net, const struct convoy_cuda_step *step,
                             struct convoy_error *error)
{
    timing->net = net;
    timing->step = *step;
    if (step->kind == CONVOY_CUDA_CONV)
        convoy_cuda_conv_key(&step->conv.shape, &timing->key);
    else
        convoy_cuda_gemm_key(&step->gemm.shape, &timing->key);
    list_candidates(timing);
    timing->best = convoy_cuda_step_name(step);
    timing->best_us = 0;
    timing->at = 0;
    timing->run = -1;
    if (timing->count < 2) { /* nothing to choose from */
        timing->at = timing->count;
        return 0;
    }
    return fill_operands(timing, device, error);
}

static int take_scratch(struct convoy_cuda_timing *timing, size_t bytes, struct convoy_cuda_place *place,
                        struct convoy_error *error)
{
    *place = (struct convoy_cuda_place){0};
    if (bytes == 0)
        return 0;
    if (timing->scratch_bytes < bytes) {
        convoy_cuda_release(timing->scratch);
        timing->scratch = NULL;
        timing->scratch_bytes = 0;
        int failed = convoy_cuda_allocate(bytes, "timing a kernel", &timing->scratch, error);
        if (failed)
            return failed;
        timing->scratch_bytes = bytes;
    }
    place->where = CONVOY_CUDA_OUTSIDE;
    place->memory = timing->scratch;
    return 0;
}

/* The step on the candidate whose turn it is. */
static int prepare(struct convoy_cuda_timing *timing, struct convoy_error *error)
{
    const struct convoy_cuda_candidate *candidate = &timing->candidates[timing->at];
    int code = 0;
    timing->run = 0;
    timing->repeat = 1;
    if (candidate->conv == NULL) {
        struct convoy_cuda_gemm_step *gemm = &timing->step.gemm;
        gemm->kernel = candidate->gemm;
        return take_scratch(timing, gemm->kernel->scratch_bytes(&gemm->shape), &gemm->scratch, error);
    }
    struct convoy_cuda_conv_step *conv = &timing->step.conv;
    const struct convoy_cuda_source *source = &timing->net->source;
    const struct convoy_node *node = &source->graph->nodes[source->groups->groups[timing->step.group].anchor];
    conv->kernel = candidate->conv;
    conv->weights.constant = convoy_cuda_weights_packed(&timing->weights, source->graph, node->inputs[1],
                                                        conv->kernel, &conv->shape, &code, error);
    return code ? code
                : take_scratch(timing, conv->kernel->scratch_bytes(&conv->shape), &conv->scratch, error);
}

/* One run; us of one launch. */
static int run(struct convoy_cuda_timing *timing, struct convoy_device *device, float *us,
               struct convoy_error *error)
{
    cudaStream_t stream = device->streams[0];
    float ms = 0;
    int failed = CONVOY_CUDA(error, cudaEventRecord, (timing->marks[0], stream));
    for (int i = 0; i < timing->repeat && !failed; i++)
        failed = convoy_cuda_step_launch(&timing->step, timing->net->workspace->memory[0], stream, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (timing->marks[1], stream));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaStreamSynchronize, (stream));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventElapsedTime, (&ms, timing->marks[0], timing->marks[1]));
    *us = ms * 1000 / (float)timing->repeat;
    return failed;
}

static int ascending(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static void next_candidate(struct convoy_cuda_timing *timing)
{
    timing->at++;
    timing->run = -1;
}

static void note_run(struct convoy_cuda_timing *timing, float us)
{
    if (timing->run == 0) {
        float wanted = us > 0 ? SHORTEST_US / us + 1 : MOST_LAUNCHES;
        timing->repeat = wanted < MOST_LAUNCHES ? (int)wanted : MOST_LAUNCHES;
        timing->run = 1;
        return;
    }
    timing->us[timing->run - 1] = us;
    if (timing->best_us > 0 && us > HOPELESS * timing->best_us) {
        next_candidate(timing);
        return;
    }
    if (timing->run++ < CONVOY_CUDA_TIMED_RUNS)
        return;
    qsort(timing->us, CONVOY_CUDA_TIMED_RUNS, sizeof(timing->us[0]), ascending);
    float median = timing->us[CONVOY_CUDA_TIMED_RUNS / 2];
    if (timing->best_us == 0 || median < timing->best_us) {
        timing->best = convoy_cuda_step_name(&timing->step);
        timing->best_us = median;
    }
    next_candidate(timing);
}

int convoy_cuda_timing_go_on(struct convoy_cuda_timing *timing, struct convoy_device *device,
                             struct convoy_error *error)
{
    float us;
    if (timing->at >= timing->count) {
        convoy_cuda_timing_stop(timing);
        return 0;
    }
    int failed = timing->run < 0 ? prepare(timing, error) : 0;
    bool no_room = failed == -ENOMEM; /* for this one: others need less */
    if (!failed)
        failed = run(timing, device, &us, error);
    if (!failed) {
        note_run(timing, us);
    } else if (no_room || !convoy_cuda_is_lost(device)) {
        if (no_room)
            timing->no_room = *error;
        else
            convoy_cuda_log(device, "warning", "a kernel is not tried: %s", error->message);
        next_candidate(timing);
    } else {
        return failed;
    }
    return 1;
}

void convoy_cuda_timing_stop(struct convoy_cuda_timing *timing)
{
    convoy_cuda_weights_free(&timing->weights);
    timing->net = NULL;
}

void convoy_cuda_timing_free(struct convoy_cuda_timing *timing)
{
    struct convoy_error ignored;
    convoy_cuda_timing_stop(timing);
    convoy_cuda_release(timing->noise);
    convoy_cuda_release(timing->scratch);
    for (int i = 0; i < 2; i++)
        if (timing->marks[i] != NULL)
            (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (timing->marks[i]));
    memset(timing, 0, sizeof(*timing));
}
