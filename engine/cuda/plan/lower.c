#include "engine/cuda/plan/lowering.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)256) /* as kernels.h wants tensors */

static size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

size_t convoy_cuda_input_stride(const struct convoy_cuda_source *source, enum convoy_input_layout layout)
{
    size_t elements = (size_t)source->channels * (size_t)source->pixels;
    return rounded(elements * (layout == CONVOY_LAYOUT_U8_HWC ? 1 : sizeof(float)), 64);
}

size_t convoy_cuda_output_stride(const struct convoy_cuda_source *source)
{
    return rounded(source->outputs_per_row * sizeof(float), 64);
}

int convoy_cuda_dims(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[CONVOY_MAX_RANK])
{
    const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape->dims[i] * (i == shape->batch_axis ? l->plan->rows : 1);
    return shape->rank;
}

int64_t convoy_cuda_elements(const struct convoy_cuda_lowering *l, int tensor)
{
    const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
    return convoy_shape_elements(shape) * (shape->batch_axis >= 0 ? l->plan->rows : 1);
}

void convoy_cuda_strides(int rank, const int64_t *dims, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= dims[i];
    }
}

/* The number of a new buffer, or -ENOMEM. */
static int new_buffer(struct convoy_cuda_lowering *l, size_t bytes, int last)
{
    if (l->buffer_count == l->buffer_capacity) {
        int capacity = l->buffer_capacity > 0 ? l->buffer_capacity * 2 : 32;
        struct convoy_cuda_buffer *grown = realloc(l->buffers, (size_t)capacity * sizeof(*grown));
        if (grown == NULL)
            return convoy_fail(l->error, -ENOMEM, "no memory to place %d tensors", capacity);
        l->buffers = grown;
        l->buffer_capacity = capacity;
    }
    l->buffers[l->buffer_count] = (struct convoy_cuda_buffer){rounded(bytes, ALIGNMENT), l->group, last};
    return l->buffer_count++;
}

int convoy_cuda_reads(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place)
{
    int code = 0;
    if (l->graph->tensors[tensor].data != NULL) {
        place->where = CONVOY_CUDA_CONSTANT;
        place->constant = convoy_cuda_weights_plain(l->source->weights, l->graph, tensor, &code, l->error);
        return code;
    }
    place->where = CONVOY_CUDA_WORKSPACE;
    place->offset = CONVOY_CUDA_BUFFER(l->buffer_of[tensor]);
    return 0;
}

int convoy_cuda_writes(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place)
{
    int buffer = new_buffer(l, (size_t)convoy_cuda_elements(l, tensor) * sizeof(float),
                            l->source->groups->last_use[tensor]);
    if (buffer < 0)
        return buffer;
    l->buffer_of[tensor] = buffer;
    place->where = CONVOY_CUDA_WORKSPACE;
    place->offset = CONVOY_CUDA_BUFFER(buffer);
    return 0;
}

int convoy_cuda_scratch(struct convoy_cuda_lowering *l, size_t bytes, struct convoy_cuda_place *place)
{
    if (bytes == 0)
        return 0;
    int buffer = new_buffer(l, bytes, l->group);
    if (buffer < 0)
        return buffer;
    place->where = CONVOY_CUDA_WORKSPACE;
    place->offset = CONVOY_CUDA_BUFFER(buffer);
    return 0;
}

int convoy_cuda_step(struct convoy_cuda_lowering *l, enum convoy_cuda_kind kind,
                     struct convoy_cuda_step **step)
{
    *step = convoy_cuda_plan_add(l->plan);
    if (*step == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory for a plan of %d steps", l->plan->step_count + 1);
    (*step)->kind = kind;
    (*step)->group = l->group;
    return 0;
}

/* Rows as they come, or a dense tensor where somebody but one convolution reads them. */
static int lower_input(struct convoy_cuda_lowering *l)
{
    const struct convoy_cuda_source *source = l->source;
    struct convoy_cuda_step *step;
    int input = l->graph->input;
    if (source->groups->last_use[input] < 0 || convoy_cuda_reads_rows(l->graph))
        return 0;
    int failed = convoy_cuda_step(l, CONVOY_CUDA_READ, &step);
    if (failed)
        return failed;
    step->read.images = convoy_cuda_images(l);
    step->read.n = (int)l->plan->rows;
    step->read.c = (int)source->channels;
    step->read.pixels = source->pixels;
    step->x.where = CONVOY_CUDA_WORKSPACE;
    return convoy_cuda_writes(l, input, &step->y);
}

static int lower_view(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    int from = l->node->inputs[0];
    int buffer = l->buffer_of[from];
    if (l->buffers == NULL)
        return convoy_fail(l->error, -EINVAL, "node '%s' reads a tensor that nothing computes",
                           l->node->name);
    l->buffer_of[group->output] = buffer;
    if (l->buffers[buffer].last < l->source->groups->last_use[group->output])
        l->buffers[buffer].last = l->source->groups->last_use[group->output];
    return 0;
}

static int lower_group(struct convoy_cuda_lowering *l, int index)
{
    const struct convoy_cuda_group *group = &l->source->groups->groups[index];
    l->group = index;
    l->node = &l->graph->nodes[group->anchor];
    if (group->view)
        return lower_view(l, group);
    switch (l->node->op) {
    case CONVOY_OP_CONV:
        return convoy_cuda_lower_conv(l, group);
    case CONVOY_OP_DENSE:
        return convoy_cuda_lower_dense(l, group);
    case CONVOY_OP_MATMUL:
        return convoy_cuda_lower_matmul(l, group);
    default:
        return convoy_cuda_lower_other(l, group);
    }
}

/* The outputs of each image one after the other, image after image. */
static int lower_outputs(struct convoy_cuda_lowering *l)
{
    int64_t row_floats = (int64_t)(convoy_cuda_output_stride(l->source) / sizeof(float));
    size_t offset = l->plan->input_bytes;
    for (int i = 0; i < l->graph->output_count; i++) {
        int tensor = l->graph->outputs[i];
        const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
        struct convoy_cuda_step *step;
        int failed = convoy_cuda_step(l, CONVOY_CUDA_COPY, &step);
        if (failed)
            return failed;
        int64_t elements = convoy_shape_elements(shape), outer = 1, rows = l->plan->rows;
        for (int axis = 0; axis < shape->batch_axis; axis++)
            outer *= shape->dims[axis];
        int64_t chunk = elements / outer;
        /* Of [outer, N, chunk], or of [outer, chunk] for every image alike. */
        step->copy = (struct convoy_walk){
            .rank = 3,
            .dims = {rows, outer, chunk},
            .x_stride = {shape->batch_axis < 0 ? 0 : chunk, shape->batch_axis < 0 ? chunk : rows * chunk, 1},
            .y_stride = {row_floats, chunk, 1}};
        failed = convoy_cuda_reads(l, tensor, &step->x);
        if (failed)
            return failed;
        step->y.where = CONVOY_CUDA_WORKSPACE;
        step->y.offset = offset;
        offset += (size_t)elements * sizeof(float);
    }
    return 0;
}

static void place(struct convoy_cuda_place *place, size_t base, const struct convoy_arena_item *items)
{
    size_t buffer = place->offset >> CONVOY_CUDA_BUFFER_SHIFT;
    if (place->where != CONVOY_CUDA_WORKSPACE || buffer == 0)
        return;
    size_t within = place->offset & (((size_t)1 << CONVOY_CUDA_BUFFER_SHIFT) - 1);
    place->offset = base + items[buffer - 1].offset + within;
}

static void place_step(struct convoy_cuda_step *step, size_t base, const struct convoy_arena_item *items)
{
    place(&step->x, base, items);
    place(&step->y, base, items);
    switch (step->kind) {
    case CONVOY_CUDA_WHOLE:
        place(&step->whole.scratch, base, items);
        break;
    case CONVOY_CUDA_CONV:
        place(&step->conv.residual, base, items);
        place(&step->conv.scratch, base, items);
        break;
    case CONVOY_CUDA_GEMM:
        place(&step->gemm.b, base, items);
        place(&step->gemm.scratch, base, items);
        break;
    case CONVOY_CUDA_BINARY:
        place(&step->binary.b, base, items);
        break;
    default: /* scale and shift are constants */
        break;
    }
}

/* Buffers into the arena behind the rows. */
static int place_all(struct convoy_cuda_lowering *l)
{
    struct convoy_cuda_plan *plan = l->plan;
    size_t base = plan->input_bytes + plan->output_bytes, total = 0;
    struct convoy_arena_item *items = calloc((size_t)l->buffer_count + 1, sizeof(*items));
    if (items == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory to place %d tensors", l->buffer_count);
    for (int i = 0; i < l->buffer_count; i++)
        items[i] = (struct convoy_arena_item){
            .bytes = l->buffers[i].bytes, .first = l->buffers[i].first, .last = l->buffers[i].last};
    int failed = convoy_arena_place(items, l->buffer_count, &total);
    if (failed)
        convoy_error_fill(l->error, "the tensors of a batch of %u cannot be placed", plan->rows);
    for (int i = 0; i < plan->step_count && !failed; i++)
        place_step(&plan->steps[i], base, items);
    plan->workspace_bytes = base + rounded(total, ALIGNMENT);
    free(items);
    return failed;
}

int convoy_cuda_lower(const struct convoy_cuda_source *source, struct convoy_cuda_plan *plan,
                      struct convoy_error *error)
{
    struct convoy_cuda_lowering l = {.source = source, .graph = source->graph, .plan = plan, .error = error};
    plan->input_bytes = rounded(plan->rows * convoy_cuda_input_stride(source, plan->layout), ALIGNMENT);
    plan->output_bytes = rounded(plan->rows * convoy_cuda_output_stride(source), ALIGNMENT);
    l.buffer_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(int));
    if (l.buffer_of == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to place %d tensors", l.graph->tensor_count);
    int whole = 0;
    bool done = false;
    int failed = convoy_cuda_lower_whole(&l, &whole, &done);
    if (!failed)
        failed = lower_input(&l);
    for (int i = whole; i < source->groups->count && !failed; i++)
        failed = lower_group(&l, i);
    if (!failed && !done)
        failed = lower_outputs(&l);
    if (!failed)
        failed = place_all(&l);
    free(l.buffers);
    free(l.buffer_of);
    return failed;
}
