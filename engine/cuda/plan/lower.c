#include "engine/cuda/plan/lower.h"

#include "engine/cuda/plan/branches.h"
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

/* Keeps a buffer for as long as the tensor is read that is another name for it. */
static void keep(struct convoy_cuda_lowering *l, int buffer, int tensor)
{
    if (l->buffers[buffer].last < l->source->groups->last_use[tensor])
        l->buffers[buffer].last = l->source->groups->last_use[tensor];
}

void convoy_cuda_name_nhwc(struct convoy_cuda_lowering *l, int from, int to)
{
    l->nhwc_of[to] = l->nhwc_of[from];
    keep(l, l->nhwc_of[to].buffer, to);
}

static int lower_view(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    int from = l->node->inputs[0], to = group->output;
    if (l->buffers == NULL)
        return convoy_fail(l->error, -EINVAL, "node '%s' reads a tensor that nothing computes",
                           l->node->name);
    if (l->nhwc_of[from].buffer >= 0 && convoy_cuda_is_pixel_view(l->graph, l->node, l->channels)) {
        convoy_cuda_name_nhwc(l, from, to);
        return 0;
    }
    int code = convoy_cuda_want_planes(l, from);
    if (code)
        return code;
    l->buffer_of[to] = l->buffer_of[from];
    keep(l, l->buffer_of[to], to);
    return 0;
}

/* A transposition whose result has the same numbers in the same places of 16 bits, channels last. */
static bool transposes_nothing(const struct convoy_cuda_lowering *l)
{
    return l->nhwc && l->node->op == CONVOY_OP_TRANSPOSE && l->node->inputs[0] != l->graph->input &&
           convoy_cuda_is_pixel_view(l->graph, l->node, l->channels);
}

static int lower_one(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    if (group->attention != NULL)
        return convoy_cuda_lower_attention(l, group);
    if (group->rows != NULL)
        return convoy_cuda_lower_rows(l, group);
    if (group->view)
        return lower_view(l, group);
    if (transposes_nothing(l)) {
        int code = convoy_cuda_want_nhwc(l, l->node->inputs[0]);
        if (code == 0)
            convoy_cuda_name_nhwc(l, l->node->inputs[0], group->output);
        return code;
    }
    if (l->nhwc) {
        bool done = false;
        int code = convoy_cuda_lower_bottleneck(l, group, &done);
        if (code == 0 && !done)
            code = convoy_cuda_lower_excite(l, &done);
        if (code == 0 && !done)
            code = convoy_cuda_lower_nhwc(l, group, &done);
        if (code || done)
            return code;
    }
    if (group->pick != NULL)
        return convoy_fail(l->error, -ENOTSUP, "node '%s' (%s): no kernel computes some of its rows",
                           l->node->name, l->node->onnx_op);
    int code = group->residual >= 0 ? convoy_cuda_want_planes(l, group->residual) : 0;
    for (int i = 0; i < l->node->input_count && !code; i++)
        code = convoy_cuda_want_planes(l, l->node->inputs[i]);
    if (code)
        return code;
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

static int lower_group(struct convoy_cuda_lowering *l, int index)
{
    const struct convoy_cuda_group *group = &l->source->groups->groups[index];
    l->group = index;
    l->node = &l->graph->nodes[group->anchor];
    return group->pick != NULL ? convoy_cuda_lower_picked(l, group, lower_one) : lower_one(l, group);
}

/* Copies the outputs of the network to the output rows: for each image all outputs, one after the other. */
static int lower_outputs(struct convoy_cuda_lowering *l)
{
    int64_t row_floats = (int64_t)(convoy_cuda_output_stride(l->source) / sizeof(float));
    size_t offset = l->plan->input_bytes;
    for (int i = 0; i < l->graph->output_count; i++) {
        int tensor = l->graph->outputs[i];
        const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
        struct convoy_cuda_place to = {.where = CONVOY_CUDA_WORKSPACE, .offset = offset};
        struct convoy_cuda_step *step;
        bool done = false;
        offset += (size_t)convoy_shape_elements(shape) * sizeof(float);
        int failed = convoy_cuda_write_out(l, tensor, &to, row_floats, &done);
        if (!failed && done)
            continue;
        if (!failed)
            failed = convoy_cuda_want_planes(l, tensor);
        if (!failed)
            failed = convoy_cuda_step(l, CONVOY_CUDA_COPY, &step);
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
        step->y = to;
    }
    return 0;
}

bool convoy_cuda_uses_nhwc(const struct convoy_cuda_source *source)
{
    return !source->wide && source->compute_type >= CONVOY_COMPUTE_FP16 && convoy_nhwc_here();
}

int convoy_cuda_lower(const struct convoy_cuda_source *source, struct convoy_cuda_plan *plan,
                      struct convoy_error *error)
{
    struct convoy_cuda_lowering l = {.source = source, .graph = source->graph, .plan = plan, .error = error};
    plan->input_bytes = convoy_cuda_aligned(plan->rows * convoy_cuda_input_stride(source, plan->layout));
    plan->output_bytes = convoy_cuda_aligned(plan->rows * convoy_cuda_output_stride(source));
    l.buffer_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(int));
    l.nhwc_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.nhwc_of[0]));
    int covered = 0, failed = 0;
    bool done = false;
    l.part_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.part_of[0]));
    l.ahead_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.ahead_of[0]));
    l.changed_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.changed_of[0]));
    l.sums_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.sums_of[0]));
    l.channels = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.channels[0]));
    l.before = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.before[0]));
    l.pick_of = calloc((size_t)l.graph->tensor_count + 1, sizeof(l.pick_of[0]));
    if (l.buffer_of == NULL || l.nhwc_of == NULL || l.part_of == NULL || l.ahead_of == NULL ||
        l.changed_of == NULL || l.sums_of == NULL || l.channels == NULL || l.before == NULL ||
        l.pick_of == NULL)
        failed = convoy_fail(error, -ENOMEM, "no memory to place %d tensors", l.graph->tensor_count);
    else
        convoy_cuda_find_channels(l.graph, l.channels, l.before);
    for (int t = 0; t < l.graph->tensor_count && !failed; t++)
        l.buffer_of[t] = l.nhwc_of[t].buffer = l.part_of[t].whole = l.changed_of[t].x = -1;
    if (!failed && !source->groups->nhwc)
        failed = convoy_cuda_lower_fused(&l, &covered, &done);
    l.nhwc = plan->marks = covered == 0 && convoy_cuda_uses_nhwc(source);
    if (!failed && l.nhwc)
        convoy_cuda_find_parts(&l);
    if (!failed && l.nhwc)
        failed = convoy_cuda_find_bottlenecks(&l);
    if (!failed && l.nhwc)
        failed = convoy_cuda_find_siblings(&l);
    if (!failed)
        failed = lower_input(&l);
    for (int i = covered; i < source->groups->count && !failed; i++)
        failed = lower_group(&l, i);
    if (!failed && !done)
        failed = lower_outputs(&l);
    if (!failed)
        failed = convoy_cuda_find_branches(&l);
    if (!failed)
        failed = convoy_cuda_place_buffers(&l);
    free(l.buffers);
    free(l.buffer_of);
    free(l.nhwc_of);
    free(l.part_of);
    free(l.ahead_of);
    free(l.siblings);
    free(l.changed_of);
    free(l.sums_of);
    free(l.channels);
    free(l.before);
    free(l.pick_of);
    free(l.picked);
    for (int i = 0; i < l.order_count; i++)
        free(l.orders[i]);
    free(l.orders);
    return failed;
}
