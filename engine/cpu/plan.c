#include "engine/cpu/plan.h"
#include "engine/cpu/check.h"

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
    plan->buffers[plan->buffer_count] =
        (struct convoy_cpu_buffer){.bytes = bytes, .first = INT_MAX, .last = 0};
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

static int compare_bytes(const void *a, const void *b)
{
    const struct convoy_cpu_buffer *x = *(struct convoy_cpu_buffer *const *)a;
    const struct convoy_cpu_buffer *y = *(struct convoy_cpu_buffer *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : 1;
}

static bool live_together(const struct convoy_cpu_buffer *a, const struct convoy_cpu_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which `buffer` overlaps none of the `placed` ones that live when it does: the offset
 * moves past each obstacle until a whole turn finds none. */
static size_t lowest_offset(struct convoy_cpu_buffer **placed, int count,
                            const struct convoy_cpu_buffer *buffer)
{
    size_t offset = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < count; i++) {
            const struct convoy_cpu_buffer *other = placed[i];
            if (live_together(other, buffer) && offset < other->offset + other->bytes &&
                other->offset < offset + buffer->bytes) {
                offset = other->offset + other->bytes;
                moved = true;
            }
        }
    }
    return offset;
}

int convoy_cpu_plan_place(struct convoy_cpu_plan *plan, struct convoy_error *error)
{
    touch(plan, plan->input, 0);
    for (int i = 0; i < CONVOY_MAX_OUTPUTS; i++)
        if (plan->outputs[i] >= 0)
            touch(plan, plan->outputs[i], plan->step_count + 1);

    struct convoy_cpu_buffer **order =
        calloc((size_t)plan->buffer_count + 1, sizeof(struct convoy_cpu_buffer *));
    if (order == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to place %d tensors", plan->buffer_count);
    for (int i = 0; i < plan->buffer_count; i++) {
        plan->buffers[i].bytes = (plan->buffers[i].bytes + 63) / 64 * 64;
        order[i] = &plan->buffers[i];
    }
    qsort((void *)order, (size_t)plan->buffer_count, sizeof(struct convoy_cpu_buffer *), compare_bytes);
    for (int i = 0; i < plan->buffer_count; i++) {
        order[i]->offset = lowest_offset(order, i, order[i]);
        if (order[i]->offset + order[i]->bytes > plan->arena_bytes)
            plan->arena_bytes = order[i]->offset + order[i]->bytes;
    }
    free((void *)order);

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

static int run_step(const struct convoy_cpu_plan *plan, const struct convoy_cpu_step *step,
                    dnnl_stream_t stream, struct convoy_error *error)
{
    float *first = use_data(plan, step, 0);
    float *second = use_data(plan, step, 1);
    switch (step->kind) {
    case CONVOY_CPU_PRIMITIVE:
        return convoy_cpu_check(dnnl_primitive_execute(step->primitive, stream, step->arg_count, step->args),
                                error, "step", "run a primitive");
    case CONVOY_CPU_BROADCAST_LOOP:
        convoy_cpu_broadcast(&step->broadcast, first, second, use_data(plan, step, 2));
        return 0;
    case CONVOY_CPU_GATE_LOOP:
        convoy_cpu_gate(&step->gate, first, second, use_data(plan, step, 2));
        return 0;
    case CONVOY_CPU_PAD_LOOP:
        convoy_cpu_pad(&step->pad, first, second);
        return 0;
    case CONVOY_CPU_POOL_LOOP:
        convoy_cpu_pool(&step->pool, first, second);
        return 0;
    }
    return convoy_fail(error, -EINVAL, "a plan holds a step of unknown kind %d", (int)step->kind);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int convoy_cpu_plan_run(const struct convoy_cpu_plan *plan, dnnl_stream_t stream, float *group_us,
                        struct convoy_error *error)
{
    /* A CPU stream is in order and synchronous: a primitive has run when execute returns, so a loop may
     * follow it at once and the clock needs no wait. */
    double before = group_us != NULL ? now_us() : 0;
    for (int i = 0; i < plan->step_count; i++) {
        int failed = run_step(plan, &plan->steps[i], stream, error);
        if (failed)
            return failed;
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
    memset(plan, 0, sizeof(*plan));
}
