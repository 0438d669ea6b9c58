#include "engine/cuda/plan/lower.h"

#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>
#include <stdlib.h>

/* A step that turns the input rows into a dense tensor, unless one convolution alone reads them. */
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
    step->read.images = convoy_cuda_images(source, l->plan->layout);
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

/* Copies the outputs of the network to the output rows: for each image all outputs, one after the other. */
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
        /* From [outer, N, chunk], or from [outer, chunk] if the output is the same for every image. */
        step->copy = (struct convoy_strided_copy){
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

int convoy_cuda_lower(const struct convoy_cuda_source *source, struct convoy_cuda_plan *plan,
                      struct convoy_error *error)
{
    struct convoy_cuda_lowering l = {.source = source, .graph = source->graph, .plan = plan, .error = error};
    plan->input_bytes = convoy_cuda_aligned(plan->rows * convoy_cuda_input_stride(source, plan->layout));
    plan->output_bytes = convoy_cuda_aligned(plan->rows * convoy_cuda_output_stride(source));
    l.buffer_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(int));
    if (l.buffer_of == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to place %d tensors", l.graph->tensor_count);
    int covered = 0;
    bool done = false;
    int failed = convoy_cuda_lower_fused(&l, &covered, &done);
    if (!failed)
        failed = lower_input(&l);
    for (int i = covered; i < source->groups->count && !failed; i++)
        failed = lower_group(&l, i);
    if (!failed && !done)
        failed = lower_outputs(&l);
    if (!failed)
        failed = convoy_cuda_place_buffers(&l);
    free(l.buffers);
    free(l.buffer_of);
    return failed;
}
