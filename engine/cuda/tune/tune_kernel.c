#include "engine/cuda/tune/tune_kernel.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>
#include <string.h>

/* Times the least estimate. Of 42 layers of one group in 16 bits, to which estimates were fitted
 * (kernels/nhwc/conv_job.cuh), the fastest kernel had at most 1.27. */
#define WORTH_TRYING 4.0f
#define WORTH_FITTED 2.0f
#define HOPELESS     3.0f  /* times the best */
#define SHORTEST_US  50.0f /* of a run */
#define MAX_LAUNCHES 16

/* Inserts a candidate in order of estimates; the worst is dropped when the list is full. */
static void add_candidate(struct convoy_cuda_tune_kernel *tuning, struct convoy_cuda_candidate candidate)
{
    int at = tuning->count;
    while (at > 0 && candidate.estimate_us < tuning->candidates[at - 1].estimate_us)
        at--;
    if (at == CONVOY_CUDA_MAX_CANDIDATES)
        return;
    int last = tuning->count < CONVOY_CUDA_MAX_CANDIDATES ? tuning->count : CONVOY_CUDA_MAX_CANDIDATES - 1;
    memmove(&tuning->candidates[at + 1], &tuning->candidates[at],
            (size_t)(last - at) * sizeof(tuning->candidates[0]));
    tuning->candidates[at] = candidate;
    tuning->count = last + 1;
}

static void list_candidates(struct convoy_cuda_tune_kernel *tuning)
{
    float worth = WORTH_TRYING;
    int count;
    tuning->count = 0;
    if (tuning->step.kind == CONVOY_CUDA_CONV) {
        const struct convoy_conv_shape *shape = &tuning->step.conv.shape;
        if (shape->nhwc.on && !shape->nhwc.images && shape->groups == 1 &&
            (shape->nhwc.input == CONVOY_NHWC_AS_IS || shape->nhwc.input == CONVOY_NHWC_NORMALIZED))
            worth = WORTH_FITTED;
        const struct convoy_conv_kernel *const *kernels = convoy_conv_kernels(&count);
        for (int i = 0; i < count; i++)
            if (convoy_conv_takes(kernels[i], shape))
                add_candidate(tuning, (struct convoy_cuda_candidate){
                                          .conv = kernels[i], .estimate_us = kernels[i]->estimate_us(shape)});
    } else {
        const struct convoy_gemm_shape *shape = &tuning->step.gemm.shape;
        const struct convoy_gemm_kernel *const *kernels = convoy_gemm_kernels(&count);
        for (int i = 0; i < count; i++)
            if (kernels[i]->takes(shape))
                add_candidate(tuning, (struct convoy_cuda_candidate){
                                          .gemm = kernels[i], .estimate_us = kernels[i]->estimate_us(shape)});
    }
    while (tuning->count > 1 &&
           tuning->candidates[tuning->count - 1].estimate_us > worth * tuning->candidates[0].estimate_us)
        tuning->count--;
}

/* A tensor of 16 bits that is a part of another one's pixels ends with its own channels: floats less. */
static int64_t beyond_last_pixel(int64_t pixel, int64_t channels)
{
    int64_t own = convoy_nhwc_channels(channels);
    return pixel > own ? (pixel - own) / 2 : 0;
}

/* Random numbers where the step reads its operands. */
static int fill_operands(const struct convoy_cuda_tune_kernel *tuning, struct convoy_cuda_measure *measure,
                         const struct convoy_cuda_gpu *gpu, struct convoy_error *error)
{
    const struct convoy_cuda_step *step = &tuning->step;
    void *workspace = tuning->net->workspace->memory[0];
    const struct convoy_cuda_place *other;
    int64_t x_floats, other_floats;
    int failed = 0;
    if (step->kind == CONVOY_CUDA_CONV) {
        const struct convoy_conv_shape *s = &step->conv.shape;
        x_floats = s->n * step->conv.images.image_bytes / (int64_t)sizeof(float);
        if (s->nhwc.on)
            x_floats -= beyond_last_pixel(s->nhwc.pixel, s->c);
        other = &step->conv.residual;
        other_floats = s->nhwc.on ? (int64_t)s->n * s->oh * s->ow * s->nhwc.residual_pixel / 2 -
                                        beyond_last_pixel(s->nhwc.residual_pixel, s->k)
                                  : (int64_t)s->n * s->k * (s->oh / s->pool) * (s->ow / s->pool);
        if (s->nhwc.input == CONVOY_NHWC_EXCITED)
            failed = convoy_cuda_measure_noise(measure, gpu, workspace, &step->conv.sums,
                                               (int64_t)s->n * s->nhwc.excitation.patches * s->c, error);
        if (s->nhwc.input == CONVOY_NHWC_GATED)
            failed = convoy_cuda_measure_noise(
                measure, gpu, workspace, &step->conv.gates,
                s->n * s->nhwc.gate_pixel / 2 - beyond_last_pixel(s->nhwc.gate_pixel, s->c), error);
    } else {
        const struct convoy_gemm_shape *s = &step->gemm.shape;
        int64_t last = s->batch - 1;
        x_floats = last * s->a_stride + s->m * s->k;
        other = &step->gemm.b;
        other_floats = last * s->b_stride + s->k * s->n;
    }
    if (!failed)
        failed = convoy_cuda_measure_noise(measure, gpu, workspace, &step->x, x_floats, error);
    return failed ? failed : convoy_cuda_measure_noise(measure, gpu, workspace, other, other_floats, error);
}

int convoy_cuda_tune_kernel_begin(struct convoy_cuda_tune_kernel *tuning, struct convoy_cuda_measure *measure,
                                  const struct convoy_cuda_gpu *gpu, struct convoy_net *net,
                                  const struct convoy_cuda_step *step, struct convoy_error *error)
{
    tuning->net = net;
    tuning->step = *step;
    if (step->kind == CONVOY_CUDA_CONV)
        convoy_cuda_conv_key(&step->conv.shape, &tuning->key);
    else
        convoy_cuda_gemm_key(&step->gemm.shape, &tuning->key);
    list_candidates(tuning);
    tuning->best = convoy_cuda_step_name(step);
    tuning->best_us = 0;
    tuning->at = 0;
    tuning->prepared = false;
    if (tuning->count < 2) { /* nothing to choose from */
        tuning->at = tuning->count;
        return 0;
    }
    return fill_operands(tuning, measure, gpu, error);
}

static int take_scratch(struct convoy_cuda_tune_kernel *tuning, size_t bytes, struct convoy_cuda_place *place,
                        struct convoy_error *error)
{
    *place = (struct convoy_cuda_place){0};
    if (bytes == 0)
        return 0;
    if (tuning->scratch_bytes < bytes) {
        convoy_cuda_release(tuning->scratch);
        tuning->scratch = NULL;
        tuning->scratch_bytes = 0;
        int failed = convoy_cuda_allocate(bytes, "timing a kernel", &tuning->scratch, error);
        if (failed)
            return failed;
        tuning->scratch_bytes = bytes;
    }
    place->where = CONVOY_CUDA_OUTSIDE;
    place->memory = tuning->scratch;
    return 0;
}

static int launch_step(void *context, cudaStream_t stream, struct convoy_error *error)
{
    const struct convoy_cuda_tune_kernel *tuning = context;
    const struct convoy_cuda_memory memory = {tuning->net->workspace->memory[0], NULL};
    return convoy_cuda_step_launch(&tuning->step, &memory, stream, error);
}

/* Sets the step to candidate `at`: its kernel, packed weights and scratch. */
static int prepare(struct convoy_cuda_tune_kernel *tuning, struct convoy_error *error)
{
    const struct convoy_cuda_candidate *candidate = &tuning->candidates[tuning->at];
    int code = 0;
    tuning->prepared = true;
    tuning->series = (struct convoy_cuda_series){.launch = launch_step,
                                                 .context = tuning,
                                                 .shortest_us = SHORTEST_US,
                                                 .max_launches = MAX_LAUNCHES,
                                                 .hopeless_us = HOPELESS * tuning->best_us};
    if (candidate->conv == NULL) {
        struct convoy_cuda_gemm_step *gemm = &tuning->step.gemm;
        gemm->kernel = candidate->gemm;
        return take_scratch(tuning, gemm->kernel->scratch_bytes(&gemm->shape), &gemm->scratch, error);
    }
    struct convoy_cuda_conv_step *conv = &tuning->step.conv;
    const struct convoy_cuda_source *source = &tuning->net->source;
    conv->kernel = candidate->conv;
    conv->weights.constant =
        convoy_cuda_weights_packed(&tuning->weights, source->graph, conv->tensors, conv->layers,
                                   conv->scaled_by, conv->kernel, &conv->shape, &code, error);
    return code ? code
                : take_scratch(tuning, conv->kernel->scratch_bytes(&conv->shape), &conv->scratch, error);
}

static void next_candidate(struct convoy_cuda_tune_kernel *tuning)
{
    tuning->at++;
    tuning->prepared = false;
}

int convoy_cuda_tune_kernel_go_on(struct convoy_cuda_tune_kernel *tuning, struct convoy_cuda_measure *measure,
                                  const struct convoy_cuda_gpu *gpu, struct convoy_error *error)
{
    float us = 0;
    if (tuning->at >= tuning->count) {
        convoy_cuda_tune_kernel_stop(tuning);
        return 0;
    }
    int got = tuning->prepared ? 0 : prepare(tuning, error);
    bool no_room = got == -ENOMEM; /* for this kernel; others may need less */
    if (got == 0)
        got = convoy_cuda_measure_run(measure, gpu, &tuning->series, &us, error);
    if (got > 0)
        return 1;
    if (got < 0 && !no_room && convoy_cuda_is_lost(gpu))
        return got;
    if (no_room)
        tuning->no_room = *error;
    else if (got < 0)
        convoy_cuda_log(gpu, "warning", "a kernel is not tried: %s", error->message);
    else
        tuning->candidates[tuning->at].us = us;
    if (got == 0 && (tuning->best_us == 0 || us < tuning->best_us)) {
        tuning->best = convoy_cuda_step_name(&tuning->step);
        tuning->best_us = us;
    }
    next_candidate(tuning);
    return 1;
}

void convoy_cuda_tune_kernel_stop(struct convoy_cuda_tune_kernel *tuning)
{
    convoy_cuda_weights_free(&tuning->weights);
    tuning->net = NULL;
}

void convoy_cuda_tune_kernel_free(struct convoy_cuda_tune_kernel *tuning)
{
    convoy_cuda_tune_kernel_stop(tuning);
    convoy_cuda_release(tuning->scratch);
    memset(tuning, 0, sizeof(*tuning));
}
