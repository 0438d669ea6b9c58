#include "engine/cpu/plan.h"
#include "engine/cpu/check.h"
#include "engine/cpu/openmp.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/swish.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int grow(void **array, int *capacity, int count, size_t size)
{
    if (count < *capacity)
        return 0;
    int wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = realloc(*array, (size_t)wanted * size);
    if (grown == NULL)
        return -ENOMEM;
    *array = grown;
    *capacity = wanted;
    return 0;
}

int convoy_cpu_plan_add_buffer(struct convoy_cpu_plan *plan, size_t bytes)
{
    if (grow((void **)&plan->buffers, &plan->buffer_capacity, plan->buffer_count, sizeof(plan->buffers[0])))
        return -ENOMEM;
    if (grow((void **)&plan->last_groups, &plan->last_group_capacity, plan->buffer_count,
             sizeof(plan->last_groups[0])))
        return -ENOMEM;
    plan->last_groups[plan->buffer_count] = -1;
    plan->buffers[plan->buffer_count] =
        (struct convoy_arena_item){.bytes = bytes, .first = INT_MAX, .last = 0};
    return plan->buffer_count++;
}

int convoy_cpu_plan_add_rep(struct convoy_cpu_plan *plan, const dnnl_memory_desc_t *md, int buffer,
                            void *constant)
{
    if (grow((void **)&plan->reps, &plan->rep_capacity, plan->rep_count, sizeof(plan->reps[0])))
        return -ENOMEM;
    plan->reps[plan->rep_count] = (struct convoy_cpu_rep){.md = *md, .buffer = buffer, .constant = constant};
    return plan->rep_count++;
}

static void touch(struct convoy_cpu_plan *plan, int rep, int step)
{
    int buffer = plan->reps[rep].buffer;
    if (buffer < 0)
        return;
    if (step < plan->buffers[buffer].first)
        plan->buffers[buffer].first = step;
    if (step > plan->buffers[buffer].last)
        plan->buffers[buffer].last = step;
}

int convoy_cpu_plan_add_step(struct convoy_cpu_plan *plan, const struct convoy_cpu_step *step,
                             const struct convoy_cpu_use *uses, int use_count)
{
    struct convoy_cpu_use *copy = malloc((size_t)use_count * sizeof(*copy));
    if (copy == NULL ||
        grow((void **)&plan->steps, &plan->step_capacity, plan->step_count, sizeof(plan->steps[0]))) {
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, uses, (size_t)use_count * sizeof(*copy));
    plan->steps[plan->step_count] = *step;
    plan->steps[plan->step_count].uses = copy;
    plan->steps[plan->step_count].use_count = use_count;
    for (int i = 0; i < use_count; i++)
        touch(plan, uses[i].rep, plan->step_count + 1);
    return plan->step_count++;
}

int convoy_cpu_plan_place(struct convoy_cpu_plan *plan, struct convoy_error *error)
{
    touch(plan, plan->input, 0);
    for (int i = 0; i < CONVOY_MAX_OUTPUTS; i++)
        if (plan->outputs[i] >= 0)
            touch(plan, plan->outputs[i], plan->step_count + 1);
    int failed = convoy_arena_place(plan->buffers, plan->buffer_count, &plan->arena_bytes);
    if (failed)
        return convoy_fail(error, failed, "no memory to place %d tensors of one pass of %ld images",
                           plan->buffer_count, (long)plan->rows);
    for (int i = 0; i < plan->step_count; i++) {
        size_t bytes = dnnl_memory_desc_get_size(&plan->steps[i].scratch_md);
        if (bytes > plan->scratch_bytes)
            plan->scratch_bytes = bytes;
    }
    return 0;
}

static int bind_step(struct convoy_cpu_plan *plan, struct convoy_cpu_step *step, dnnl_engine_t engine,
                     void *scratch, struct convoy_error *error)
{
    if (step->kind != CONVOY_CPU_PRIMITIVE)
        return 0;
    step->args = calloc((size_t)step->use_count + 1, sizeof(step->args[0]));
    if (step->args == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for the arguments of a step");
    for (int i = 0; i < step->use_count; i++) {
        step->args[i].arg = step->uses[i].argument;
        step->args[i].memory = plan->reps[step->uses[i].rep].memory;
    }
    step->arg_count = step->use_count;
    if (dnnl_memory_desc_get_size(&step->scratch_md) == 0)
        return 0;
    dnnl_status_t status = dnnl_memory_create(&step->scratch, &step->scratch_md, engine, scratch);
    step->args[step->arg_count].arg = DNNL_ARG_SCRATCHPAD;
    step->args[step->arg_count++].memory = step->scratch;
    return convoy_cpu_check(status, error, "scratchpad", "describe memory");
}

int convoy_cpu_plan_finish(struct convoy_cpu_plan *plan, dnnl_engine_t engine, void *arena, void *scratch,
                           struct convoy_error *error)
{
    for (int i = 0; i < plan->rep_count; i++) {
        struct convoy_cpu_rep *rep = &plan->reps[i];
        rep->data =
            rep->buffer < 0 ? rep->constant : (float *)((char *)arena + plan->buffers[rep->buffer].offset);
        int failed = convoy_cpu_check(dnnl_memory_create(&rep->memory, &rep->md, engine, rep->data), error,
                                      "tensor", "describe memory");
        if (failed)
            return failed;
    }
    for (int i = 0; i < plan->step_count; i++) {
        int failed = bind_step(plan, &plan->steps[i], engine, scratch, error);
        if (failed)
            return failed;
    }
    return 0;
}

static float *use_data(const struct convoy_cpu_plan *plan, const struct convoy_cpu_step *step, int use)
{
    return plan->reps[step->uses[use].rep].data;
}

/* A step that threads share. */
struct shared_step {
    const struct convoy_cpu_step *step;
    const float *x, *gate; /* or a scale for each number of a row, or NULL */
    const float *shift;    /* the same */
    float *y;
};

static void run_gate(void *context, struct convoy_cpu_range range)
{
    const struct shared_step *shared = context;
    convoy_cpu_gate(&shared->step->gate, range.first, range.end, shared->x, shared->gate, shared->y);
}

static void run_swish(void *context, struct convoy_cpu_range range)
{
    const struct shared_step *shared = context;
    convoy_cpu_swish(shared->x + range.first, range.end - range.first, shared->y + range.first);
}

/* Rows from the range's first to its end. */
static void run_normalize(void *context, struct convoy_cpu_range range)
{
    const struct shared_step *shared = context;
    struct convoy_cpu_normalize rows = shared->step->normalize;
    int64_t first = range.first * rows.length * rows.inner;
    rows.outer = range.end - range.first;
    convoy_cpu_normalize(&rows, shared->x + first, shared->gate, shared->shift, shared->y + first);
}

static int run_step(const struct convoy_cpu_plan *plan, const struct convoy_cpu_step *step,
                    dnnl_stream_t stream, struct convoy_error *error)
{
    float *first = use_data(plan, step, 0);
    float *second = use_data(plan, step, 1);
    omp_set_num_threads(step->threads);
    switch (step->kind) {
    case CONVOY_CPU_PRIMITIVE:
        return convoy_cpu_check(dnnl_primitive_execute(step->primitive, stream, step->arg_count, step->args),
                                error, "step", "run a primitive");
    case CONVOY_CPU_BROADCAST_LOOP:
        convoy_cpu_broadcast(&step->broadcast, first, second, use_data(plan, step, 2));
        return 0;
    case CONVOY_CPU_GATE_LOOP:
        convoy_cpu_parallel(
            step->threads, step->gate.outer * step->gate.middle, run_gate,
            &(struct shared_step){.step = step, .x = first, .gate = second, .y = use_data(plan, step, 2)});
        return 0;
    case CONVOY_CPU_SWISH_LOOP:
        convoy_cpu_parallel(step->threads, step->swish_count, run_swish,
                            &(struct shared_step){.step = step, .x = first, .y = second});
        return 0;
    case CONVOY_CPU_PAD_LOOP:
        convoy_cpu_pad(&step->pad, first, second);
        return 0;
    case CONVOY_CPU_POOL_LOOP:
        convoy_cpu_pool(&step->pool, first, second);
        return 0;
    case CONVOY_CPU_UNARY_LOOP:
        convoy_cpu_unary(&step->unary, first, second);
        return 0;
    case CONVOY_CPU_SOFTMAX_LOOP:
        convoy_cpu_softmax(&step->softmax, first, second);
        return 0;
    case CONVOY_CPU_TOP_LOOP:
        convoy_top(&step->top, first, second);
        return 0;
    case CONVOY_CPU_NORMALIZE_LOOP: {
        const struct convoy_cpu_normalize *normalize = &step->normalize;
        const float *scale = normalize->has_scale ? use_data(plan, step, 2) : NULL;
        const float *shift = normalize->has_shift ? use_data(plan, step, normalize->has_scale ? 3 : 2) : NULL;
        convoy_cpu_parallel(step->threads, normalize->outer, run_normalize,
                            &(struct shared_step){step, first, scale, shift, second});
        return 0;
    }
    }
    return convoy_fail(error, -EINVAL, "a plan holds a step of unknown kind %d", (int)step->kind);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int convoy_cpu_plan_run(const struct convoy_cpu_plan *plan, dnnl_stream_t stream,
                        const struct convoy_cpu_progress *progress, float *group_us,
                        struct convoy_error *error)
{
    /* A CPU stream is in order and synchronous: a primitive has run when execute returns, so a loop may
     * follow it at once and the clock needs no wait. */
    double before = group_us != NULL ? now_us() : 0;
    for (int i = 0; i < plan->step_count; i++) {
        int failed = run_step(plan, &plan->steps[i], stream, error);
        if (failed)
            return failed;
        if (progress->report != NULL)
            progress->report(progress->context);
        if (group_us != NULL) {
            double after = now_us();
            group_us[plan->steps[i].group] += (float)(after - before);
            before = after;
        }
    }
    return convoy_cpu_check(dnnl_stream_wait(stream), error, "stream", "wait for a plan");
}

void convoy_cpu_plan_free(struct convoy_cpu_plan *plan)
{
    for (int i = 0; i < plan->step_count; i++) {
        dnnl_primitive_destroy(plan->steps[i].primitive);
        dnnl_memory_destroy(plan->steps[i].scratch);
        free(plan->steps[i].args);
        free(plan->steps[i].uses);
    }
    for (int i = 0; i < plan->rep_count; i++)
        dnnl_memory_destroy(plan->reps[i].memory);
    free(plan->steps);
    free(plan->reps);
    free(plan->buffers);
    free(plan->last_groups);
    memset(plan, 0, sizeof(*plan));
}
