#include "engine/cuda/tune/timing.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>
#include <string.h>

#define WORTH_TRYING 4.0f /* times the least guess */
#define HOPELESS     3.0f /* times the best */
#define MAX_LAUNCHES 16   /* in a run */

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

/* Random numbers where the step reads its operands. */
static int fill_operands(const struct convoy_cuda_timing *timing, struct convoy_cuda_measure *measure,
                         const struct convoy_cuda_gpu *gpu, struct convoy_error *error)
{
    const struct convoy_cuda_step *step = &timing->step;
    void *workspace = timing->net->workspace->memory[0];
    const struct convoy_cuda_place *other;
    int64_t x_floats, other_floats;
    if (step->kind == CONVOY_CUDA_CONV) {
        const struct convoy_conv_shape *s = &step->conv.shape;
        x_floats = s->n * step->conv.images.image_bytes / (int64_t)sizeof(float);
        other = &step->conv.residual;
        other_floats = (int64_t)s->n * s->k * (s->oh / s->pool) * (s->ow / s->pool);
    } else {
        const struct convoy_gemm_shape *s = &step->gemm.shape;
        int64_t last = s->batch - 1;
        x_floats = last * s->a_stride + s->m * s->k;
        other = &step->gemm.b;
        other_floats = last * s->b_stride + s->k * s->n;
    }
    int failed = convoy_cuda_measure_noise(measure, gpu, workspace, &step->x, x_floats, error);
    return failed ? failed : convoy_cuda_measure_noise(measure, gpu, workspace, other, other_floats, error);
}

int convoy_cuda_timing_begin(struct convoy_cuda_timing *timing, struct convoy_cuda_measure *measure,
                             const struct convoy_cuda_gpu *gpu, struct convoy_net *net,
                             const struct convoy_cuda_step *step, struct convoy_error *error)
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
    timing->prepared = false;
    if (timing->count < 2) { /* nothing to choose from */
        timing->at = timing->count;
        return 0;
    }
    return fill_operands(timing, measure, gpu, error);
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

static int launch_step(void *context, cudaStream_t stream, struct convoy_error *error)
{
    const struct convoy_cuda_timing *timing = context;
    return convoy_cuda_step_launch(&timing->step, timing->net->workspace->memory[0], stream, error);
}

/* The step on the candidate whose turn it is. */
static int prepare(struct convoy_cuda_timing *timing, struct convoy_error *error)
{
    const struct convoy_cuda_candidate *candidate = &timing->candidates[timing->at];
    int code = 0;
    timing->prepared = true;
    timing->series = (struct convoy_cuda_series){.launch = launch_step,
                                                 .context = timing,
                                                 .max_launches = MAX_LAUNCHES,
                                                 .hopeless_us = HOPELESS * timing->best_us};
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

static void next_candidate(struct convoy_cuda_timing *timing)
{
    timing->at++;
    timing->prepared = false;
}

int convoy_cuda_timing_go_on(struct convoy_cuda_timing *timing, struct convoy_cuda_measure *measure,
                             const struct convoy_cuda_gpu *gpu, struct convoy_error *error)
{
    float us = 0;
    if (timing->at >= timing->count) {
        convoy_cuda_timing_stop(timing);
        return 0;
    }
    int got = timing->prepared ? 0 : prepare(timing, error);
    bool no_room = got == -ENOMEM; /* for this one: others need less */
    if (got == 0)
        got = convoy_cuda_measure_run(measure, gpu, &timing->series, &us, error);
    if (got > 0)
        return 1;
    if (got < 0 && !no_room && convoy_cuda_is_lost(gpu))
        return got;
    if (no_room)
        timing->no_room = *error;
    else if (got < 0)
        convoy_cuda_log(gpu, "warning", "a kernel is not tried: %s", error->message);
    else if (timing->best_us == 0 || us < timing->best_us) {
        timing->best = convoy_cuda_step_name(&timing->step);
        timing->best_us = us;
    }
    next_candidate(timing);
    return 1;
}

void convoy_cuda_timing_stop(struct convoy_cuda_timing *timing)
{
    convoy_cuda_weights_free(&timing->weights);
    timing->net = NULL;
}

void convoy_cuda_timing_free(struct convoy_cuda_timing *timing)
{
    convoy_cuda_timing_stop(timing);
    convoy_cuda_release(timing->scratch);
    memset(timing, 0, sizeof(*timing));
}
