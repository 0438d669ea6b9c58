#include "engine/cuda/plan/plan.h"
#include "engine/cuda/runtime/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct convoy_cuda_step *convoy_cuda_plan_add(struct convoy_cuda_plan *plan)
{
    if (plan->step_count == plan->step_capacity) {
        int capacity = plan->step_capacity > 0 ? plan->step_capacity * 2 : 16;
        struct convoy_cuda_step *steps = realloc(plan->steps, (size_t)capacity * sizeof(*steps));
        if (steps == NULL)
            return NULL;
        plan->steps = steps;
        plan->step_capacity = capacity;
    }
    struct convoy_cuda_step *step = &plan->steps[plan->step_count++];
    memset(step, 0, sizeof(*step));
    return step;
}

int convoy_cuda_plan_note(struct convoy_cuda_plan *plan, const struct convoy_cuda_bottleneck *bottleneck)
{
    size_t count = (size_t)plan->bottleneck_count + 1;
    struct convoy_cuda_bottleneck *grown = realloc(plan->bottlenecks, count * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    plan->bottlenecks = grown;
    grown[plan->bottleneck_count++] = *bottleneck;
    return 0;
}

int convoy_cuda_plan_cover(struct convoy_cuda_plan *plan, int group, int by)
{
    struct convoy_cuda_covered *grown =
        realloc(plan->covered, ((size_t)plan->covered_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    plan->covered = grown;
    grown[plan->covered_count++] = (struct convoy_cuda_covered){group, by};
    return 0;
}

void convoy_cuda_plan_free(struct convoy_cuda_plan *plan)
{
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == CONVOY_CUDA_FUSED)
            convoy_fused_plan_free(plan->steps[i].fused.plan);
    free(plan->steps);
    free(plan->bottlenecks);
    free(plan->covered);
    memset(plan, 0, sizeof(*plan));
}

int convoy_cuda_step_places(struct convoy_cuda_step *step,
                            struct convoy_cuda_place *places[CONVOY_CUDA_PLACES], int *writes)
{
    int count = 0;
    places[count++] = &step->y;
    if (step->kind == CONVOY_CUDA_FUSED)
        places[count++] = &step->fused.scratch;
    else if (step->kind == CONVOY_CUDA_CONV) {
        places[count++] = &step->conv.scratch;
        places[count++] = &step->conv.moments;
    } else if (step->kind == CONVOY_CUDA_GEMM)
        places[count++] = &step->gemm.scratch;
    else if (step->kind == CONVOY_CUDA_BOTTLENECK)
        places[count++] = &step->bottleneck.sums;
    *writes = count;
    places[count++] = &step->x;
    switch (step->kind) {
    case CONVOY_CUDA_CONV:
        places[count++] = &step->conv.residual;
        places[count++] = &step->conv.gates;
        places[count++] = &step->conv.sums;
        places[count++] = &step->conv.input_moments;
        break;
    case CONVOY_CUDA_GEMM:
        places[count++] = &step->gemm.b;
        break;
    case CONVOY_CUDA_BINARY:
        places[count++] = &step->binary.b;
        break;
    case CONVOY_CUDA_NHWC_BINARY:
        places[count++] = &step->nhwc_binary.b;
        break;
    case CONVOY_CUDA_NHWC_ATTENTION:
        places[count++] = &step->nhwc_attention.k;
        places[count++] = &step->nhwc_attention.v;
        break;
    default: /* scale and shift are constants */
        break;
    }
    return count;
}

static const float *read_at(const struct convoy_cuda_place *place, const void *workspace)
{
    if (place->where == CONVOY_CUDA_WORKSPACE)
        return (const float *)(const void *)((const char *)workspace + place->offset);
    return place->where == CONVOY_CUDA_CONSTANT ? place->constant : NULL;
}

static float *write_at(const struct convoy_cuda_place *place, void *workspace)
{
    if (place->where == CONVOY_CUDA_WORKSPACE)
        return (float *)(void *)((char *)workspace + place->offset);
    return place->where == CONVOY_CUDA_OUTSIDE ? place->memory : NULL;
}

static struct convoy_overflow overflow_of(const struct convoy_cuda_step *step,
                                          const struct convoy_cuda_memory *memory)
{
    return (struct convoy_overflow){memory->overflow, (uint32_t)step->group + 1};
}

static cudaError_t launch_conv(const struct convoy_cuda_step *step, const struct convoy_cuda_memory *memory,
                               cudaStream_t stream)
{
    void *workspace = memory->workspace;
    const struct convoy_cuda_conv_step *conv = &step->conv;
    struct convoy_conv_operands operands = {
        .x = conv->images,
        .weights = read_at(&conv->weights, workspace),
        .bias = read_at(&conv->bias, workspace),
        .residual = read_at(&conv->residual, workspace),
        .y = write_at(&step->y, workspace),
        .scratch = write_at(&conv->scratch, workspace),
        .gates = read_at(&conv->gates, workspace),
        .input_scale = read_at(&conv->input_scale, workspace),
        .input_shift = read_at(&conv->input_shift, workspace),
        .excitation = read_at(&conv->excitation, workspace),
        .excitation_bias = {read_at(&conv->excitation_bias[0], workspace),
                            read_at(&conv->excitation_bias[1], workspace)},
        .sums = read_at(&conv->sums, workspace),
        .input_sums = read_at(&conv->input_sums, workspace),
        .input_moments = read_at(&conv->input_moments, workspace),
        .moments = write_at(&conv->moments, workspace),
        .overflow = overflow_of(step, memory)};
    operands.x.data = read_at(&step->x, workspace);
    return conv->kernel->launch(&conv->shape, &operands, stream);
}

static cudaError_t launch_gemm(const struct convoy_cuda_step *step, void *workspace, cudaStream_t stream)
{
    const struct convoy_cuda_gemm_step *gemm = &step->gemm;
    struct convoy_gemm_operands operands = {.a = read_at(&step->x, workspace),
                                            .b = read_at(&gemm->b, workspace),
                                            .bias = read_at(&gemm->bias, workspace),
                                            .y = write_at(&step->y, workspace),
                                            .scratch = write_at(&gemm->scratch, workspace)};
    return gemm->kernel->launch(&gemm->shape, &operands, stream);
}

static cudaError_t launch_fused(const struct convoy_cuda_step *step, void *workspace, cudaStream_t stream)
{
    const struct convoy_cuda_fused_step *fused = &step->fused;
    struct convoy_fused_operands operands = {.x = fused->images,
                                             .weights = read_at(&fused->weights, workspace),
                                             .tables = read_at(&fused->tables, workspace),
                                             .scratch = write_at(&fused->scratch, workspace),
                                             .y = write_at(&step->y, workspace)};
    operands.x.data = read_at(&step->x, workspace);
    return convoy_launch_fused(fused->plan, &operands, stream);
}

static cudaError_t launch_bottleneck(const struct convoy_cuda_step *step,
                                     const struct convoy_cuda_memory *memory, cudaStream_t stream)
{
    const struct convoy_cuda_bottleneck_step *own = &step->bottleneck;
    struct convoy_bottleneck_operands operands = {.x = (const void *)read_at(&step->x, memory->workspace),
                                                  .weights = read_at(&own->weights, memory->workspace),
                                                  .y = (void *)write_at(&step->y, memory->workspace),
                                                  .sums = write_at(&own->sums, memory->workspace),
                                                  .overflow = memory->overflow};
    for (int layer = 0; layer < CONVOY_BOTTLENECK_LAYERS; layer++) {
        operands.bias[layer] = read_at(&own->bias[layer], memory->workspace);
        operands.marks[layer] = (uint32_t)own->groups[layer] + 1;
    }
    return own->kernel->launch(&own->shape, &operands, stream);
}

static cudaError_t launch_nhwc(const struct convoy_cuda_step *step, const void *x, void *y,
                               const struct convoy_cuda_memory *memory, cudaStream_t stream)
{
    const void *workspace = memory->workspace;
    struct convoy_overflow overflow = overflow_of(step, memory);
    switch (step->kind) {
    case CONVOY_CUDA_NHWC_READ: {
        struct convoy_images images = step->nhwc_read.images;
        images.data = x;
        return convoy_launch_nhwc_read(&images, &step->nhwc_read.rows, y, overflow, stream);
    }
    case CONVOY_CUDA_NHWC_PATCHES: {
        struct convoy_images images = step->nhwc_patches.images;
        images.data = x;
        return convoy_launch_nhwc_read_patches(&images, &step->nhwc_patches.shape, y, overflow, stream);
    }
    case CONVOY_CUDA_NHWC_FROM_PLANES:
        return convoy_launch_nhwc_from_planes(&step->nhwc_convert, x, y, overflow, stream);
    case CONVOY_CUDA_NHWC_TO_PLANES:
        return convoy_launch_nhwc_to_planes(&step->nhwc_convert, x, y, stream);
    case CONVOY_CUDA_NHWC_POOL:
        return convoy_launch_nhwc_pool(&step->nhwc_pool.shape, step->nhwc_pool.c, x, step->nhwc_pool.x_pixel,
                                       read_at(&step->nhwc_pool.padding, workspace), y,
                                       step->nhwc_pool.y_pixel, stream);
    case CONVOY_CUDA_NHWC_BINARY:
        return convoy_launch_nhwc_binary(&step->nhwc_binary.shape, x,
                                         (const void *)read_at(&step->nhwc_binary.b, workspace), y, overflow,
                                         stream);
    case CONVOY_CUDA_NHWC_SCALE_SHIFT:
        return convoy_launch_nhwc_scale_shift(step->nhwc_scale_shift.n, step->nhwc_scale_shift.pixels,
                                              step->nhwc_scale_shift.c, step->nhwc_scale_shift.act, x,
                                              step->nhwc_scale_shift.x_pixel,
                                              read_at(&step->nhwc_scale_shift.scale, workspace),
                                              read_at(&step->nhwc_scale_shift.shift, workspace), y,
                                              step->nhwc_scale_shift.y_pixel, overflow, stream);
    case CONVOY_CUDA_NHWC_NORMALIZE:
        return convoy_launch_nhwc_normalize(
            &step->nhwc_normalize.shape, x, read_at(&step->nhwc_normalize.scale, workspace),
            read_at(&step->nhwc_normalize.shift, workspace), y, overflow, stream);
    case CONVOY_CUDA_NHWC_GATHER:
        return convoy_launch_nhwc_gather(&step->nhwc_gather.shape, x,
                                         read_at(&step->nhwc_gather.add, workspace), y, overflow, stream);
    case CONVOY_CUDA_NHWC_ATTENTION:
        return convoy_launch_nhwc_attention(
            &step->nhwc_attention.shape, x, (const void *)read_at(&step->nhwc_attention.k, workspace),
            (const void *)read_at(&step->nhwc_attention.v, workspace),
            read_at(&step->nhwc_attention.bias, workspace), y, overflow, stream);
    case CONVOY_CUDA_NHWC_EXCITE:
        return convoy_launch_nhwc_excite(&step->nhwc_excite.shape, x,
                                         read_at(&step->nhwc_excite.weights, workspace),
                                         read_at(&step->nhwc_excite.bias[0], workspace),
                                         read_at(&step->nhwc_excite.bias[1], workspace), y, overflow, stream);
    default:
        return cudaErrorInvalidValue;
    }
}

static cudaError_t launch(const struct convoy_cuda_step *step, const struct convoy_cuda_memory *memory,
                          cudaStream_t stream)
{
    void *workspace = memory->workspace;
    const float *x = read_at(&step->x, workspace);
    float *y = write_at(&step->y, workspace);

    switch (step->kind) {
    case CONVOY_CUDA_READ: {
        struct convoy_images images = step->read.images;
        images.data = x;
        return convoy_launch_read_images(&images, step->read.n, step->read.c, step->read.pixels, y, stream);
    }
    case CONVOY_CUDA_FUSED:
        return launch_fused(step, workspace, stream);
    case CONVOY_CUDA_CONV:
        return launch_conv(step, memory, stream);
    case CONVOY_CUDA_GEMM:
        return launch_gemm(step, workspace, stream);
    case CONVOY_CUDA_UNARY:
        return convoy_launch_unary(step->unary.count, step->unary.act, x, y, stream);
    case CONVOY_CUDA_BINARY:
        return convoy_launch_binary(&step->binary.broadcast, x, read_at(&step->binary.b, workspace), y,
                                    stream);
    case CONVOY_CUDA_SCALE_SHIFT:
        return convoy_launch_scale_shift(step->scale_shift.outer, step->scale_shift.channels,
                                         step->scale_shift.inner, step->scale_shift.act, x,
                                         read_at(&step->scale_shift.scale, workspace),
                                         read_at(&step->scale_shift.shift, workspace), y, stream);
    case CONVOY_CUDA_POOL:
        return convoy_launch_pool(&step->pool, x, y, stream);
    case CONVOY_CUDA_SOFTMAX:
        return convoy_launch_softmax(step->softmax.outer, step->softmax.length, step->softmax.inner,
                                     step->softmax.log, x, y, stream);
    case CONVOY_CUDA_NORMALIZE:
        return convoy_launch_normalize(&step->normalize.shape, x, read_at(&step->normalize.scale, workspace),
                                       read_at(&step->normalize.shift, workspace), y, stream);
    case CONVOY_CUDA_TOP:
        return convoy_launch_top(&step->top, x, y, stream);
    case CONVOY_CUDA_COPY:
        return convoy_launch_copy(&step->copy, x, y, stream);
    case CONVOY_CUDA_ZERO:
        return convoy_launch_zero(step->zero, y, stream);
    case CONVOY_CUDA_BOTTLENECK:
        return launch_bottleneck(step, memory, stream);
    default:
        return launch_nhwc(step, x, y, memory, stream);
    }
}

int convoy_cuda_step_launch(const struct convoy_cuda_step *step, const struct convoy_cuda_memory *memory,
                            cudaStream_t stream, struct convoy_error *error)
{
    convoy_cuda_count(CONVOY_CUDA_cudaLaunchKernelExC);
    return convoy_cuda_check(launch(step, memory, stream), convoy_cuda_step_name(step), error);
}

static bool is_there(const struct convoy_cuda_place *place, const float *constant)
{
    return place->where == CONVOY_CUDA_CONSTANT && place->constant == constant;
}

static bool step_uses(const struct convoy_cuda_step *step, const float *constant)
{
    if (is_there(&step->x, constant))
        return true;
    switch (step->kind) {
    case CONVOY_CUDA_FUSED:
        return is_there(&step->fused.weights, constant) || is_there(&step->fused.tables, constant);
    case CONVOY_CUDA_CONV:
        return is_there(&step->conv.weights, constant) || is_there(&step->conv.bias, constant) ||
               is_there(&step->conv.input_scale, constant) || is_there(&step->conv.input_shift, constant) ||
               is_there(&step->conv.residual, constant) || is_there(&step->conv.excitation, constant) ||
               is_there(&step->conv.excitation_bias[0], constant) ||
               is_there(&step->conv.excitation_bias[1], constant) ||
               is_there(&step->conv.input_sums, constant);
    case CONVOY_CUDA_GEMM:
        return is_there(&step->gemm.b, constant) || is_there(&step->gemm.bias, constant);
    case CONVOY_CUDA_BINARY:
        return is_there(&step->binary.b, constant);
    case CONVOY_CUDA_SCALE_SHIFT:
        return is_there(&step->scale_shift.scale, constant) || is_there(&step->scale_shift.shift, constant);
    case CONVOY_CUDA_NORMALIZE:
        return is_there(&step->normalize.scale, constant) || is_there(&step->normalize.shift, constant);
    case CONVOY_CUDA_NHWC_POOL:
        return is_there(&step->nhwc_pool.padding, constant);
    case CONVOY_CUDA_NHWC_SCALE_SHIFT:
        return is_there(&step->nhwc_scale_shift.scale, constant) ||
               is_there(&step->nhwc_scale_shift.shift, constant);
    case CONVOY_CUDA_NHWC_NORMALIZE:
        return is_there(&step->nhwc_normalize.scale, constant) ||
               is_there(&step->nhwc_normalize.shift, constant);
    case CONVOY_CUDA_NHWC_GATHER: {
        const void *pieces = constant;
        return is_there(&step->nhwc_gather.add, constant) || step->nhwc_gather.shape.pieces_of == pieces;
    }
    case CONVOY_CUDA_NHWC_ATTENTION: {
        const struct convoy_nhwc_attention *shape = &step->nhwc_attention.shape;
        const void *rows = constant;
        return is_there(&step->nhwc_attention.bias, constant) || shape->q.rows == rows ||
               shape->k.rows == rows || shape->v.rows == rows || shape->y.rows == rows ||
               shape->head_scale == constant;
    }
    case CONVOY_CUDA_NHWC_EXCITE:
        return is_there(&step->nhwc_excite.weights, constant) ||
               is_there(&step->nhwc_excite.bias[0], constant) ||
               is_there(&step->nhwc_excite.bias[1], constant);
    case CONVOY_CUDA_BOTTLENECK: {
        const struct convoy_cuda_bottleneck_step *own = &step->bottleneck;
        return is_there(&own->weights, constant) || is_there(&own->bias[0], constant) ||
               is_there(&own->bias[1], constant) || is_there(&own->bias[2], constant);
    }
    default:
        return false;
    }
}

bool convoy_cuda_plan_uses(const struct convoy_cuda_plan *plan, const float *constant)
{
    for (int i = 0; i < plan->step_count; i++)
        if (step_uses(&plan->steps[i], constant))
            return true;
    return false;
}

const char *convoy_cuda_step_name(const struct convoy_cuda_step *step)
{
    static const char *const names[] = {[CONVOY_CUDA_READ] = "read",
                                        [CONVOY_CUDA_UNARY] = "unary",
                                        [CONVOY_CUDA_BINARY] = "binary",
                                        [CONVOY_CUDA_SCALE_SHIFT] = "scale_shift",
                                        [CONVOY_CUDA_POOL] = "pool",
                                        [CONVOY_CUDA_SOFTMAX] = "softmax",
                                        [CONVOY_CUDA_NORMALIZE] = "normalize",
                                        [CONVOY_CUDA_TOP] = "top",
                                        [CONVOY_CUDA_COPY] = "copy",
                                        [CONVOY_CUDA_ZERO] = "zero",
                                        [CONVOY_CUDA_NHWC_READ] = "nhwc_read",
                                        [CONVOY_CUDA_NHWC_PATCHES] = "nhwc_patches",
                                        [CONVOY_CUDA_NHWC_FROM_PLANES] = "nhwc_from_planes",
                                        [CONVOY_CUDA_NHWC_TO_PLANES] = "nhwc_to_planes",
                                        [CONVOY_CUDA_NHWC_POOL] = "nhwc_pool",
                                        [CONVOY_CUDA_NHWC_BINARY] = "nhwc_binary",
                                        [CONVOY_CUDA_NHWC_SCALE_SHIFT] = "nhwc_scale_shift",
                                        [CONVOY_CUDA_NHWC_NORMALIZE] = "nhwc_normalize",
                                        [CONVOY_CUDA_NHWC_GATHER] = "nhwc_gather",
                                        [CONVOY_CUDA_NHWC_ATTENTION] = "nhwc_attention",
                                        [CONVOY_CUDA_NHWC_EXCITE] = "nhwc_excite"};
    switch (step->kind) {
    case CONVOY_CUDA_FUSED:
        return step->fused.kernel->name;
    case CONVOY_CUDA_CONV:
        return step->conv.kernel->name;
    case CONVOY_CUDA_GEMM:
        return step->gemm.kernel->name;
    case CONVOY_CUDA_BOTTLENECK:
        return step->bottleneck.kernel->name;
    default:
        return names[step->kind];
    }
}

/* May a step of this kind compute other groups, too? Steps around it convert. */
static bool covers(enum convoy_cuda_kind kind)
{
    return kind == CONVOY_CUDA_CONV || kind == CONVOY_CUDA_NHWC_EXCITE || kind == CONVOY_CUDA_BOTTLENECK;
}

/* The name of the step of a group that covers others; NULL: it has none. */
static const char *step_of(const struct convoy_cuda_plan *plan, int group)
{
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i].group == group && covers(plan->steps[i].kind))
            return convoy_cuda_step_name(&plan->steps[i]);
    return NULL;
}

const char *convoy_cuda_plan_covers(const struct convoy_cuda_plan *plan, int group)
{
    for (int i = 0; i < plan->bottleneck_count; i++)
        for (int layer = convoy_bottleneck_first(&plan->bottlenecks[i].shape);
             layer + 1 < convoy_bottleneck_end(&plan->bottlenecks[i].shape); layer++)
            if (plan->bottlenecks[i].kernel != NULL && plan->bottlenecks[i].groups[layer] == group)
                return plan->bottlenecks[i].kernel->name;
    for (int i = 0; i < plan->covered_count; i++)
        if (plan->covered[i].group == group)
            return step_of(plan, plan->covered[i].by);
    return NULL;
}
