#include "engine/cuda/plan/lower_internal.h"
#include "engine/graph/top.h"

#include <errno.h>
#include <string.h>

static int lower_activation(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    int code = convoy_cuda_step(l, CONVOY_CUDA_UNARY, &step);
    if (code)
        return code;
    step->unary.count = convoy_cuda_elements(l, group->output);
    step->unary.act = group->act;
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

struct convoy_unary convoy_cuda_planes_act(const struct convoy_cuda_group *group)
{
    struct convoy_unary none = {CONVOY_UNARY_NONE, 0, 0};
    return group->act.kind < CONVOY_UNARY_FUSED_KINDS ? group->act : none;
}

int convoy_cuda_activate_planes(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    if (group->act.kind < CONVOY_UNARY_FUSED_KINDS)
        return 0;
    int code = convoy_cuda_step(l, CONVOY_CUDA_UNARY, &step);
    if (code)
        return code;
    step->unary.count = convoy_cuda_elements(l, group->output);
    step->unary.act = group->act;
    code = convoy_cuda_reads(l, group->output, &step->x);
    step->y = step->x;
    return code;
}

/* The strides of an operand along the dimensions of the output, broadcast as in numpy: the last dimensions
 * are aligned, and a dimension of 1 is repeated. */
static void broadcast_strides(const struct convoy_cuda_lowering *l, int tensor, int rank, int64_t *strides)
{
    int64_t dims[CONVOY_MAX_RANK], own[CONVOY_MAX_RANK];
    int have = convoy_cuda_dims(l, tensor, dims);
    convoy_cuda_strides(have, dims, own);
    for (int i = 0; i < rank; i++) {
        int axis = i - (rank - have);
        strides[i] = axis < 0 || dims[axis] == 1 ? 0 : own[axis];
    }
}

enum convoy_binary_operator convoy_cuda_binary_operator(enum convoy_binary_kind kind)
{
    static const enum convoy_binary_operator operators[CONVOY_BINARY_KINDS] = {
        [CONVOY_ADD] = CONVOY_BINARY_ADD,     [CONVOY_SUB] = CONVOY_BINARY_SUB,
        [CONVOY_MUL] = CONVOY_BINARY_MUL,     [CONVOY_DIV] = CONVOY_BINARY_DIV,
        [CONVOY_MAX] = CONVOY_BINARY_MAX,     [CONVOY_MIN] = CONVOY_BINARY_MIN,
        [CONVOY_POWER] = CONVOY_BINARY_POWER, [CONVOY_EQUAL] = CONVOY_BINARY_EQUAL,
        [CONVOY_LESS] = CONVOY_BINARY_LESS,   [CONVOY_LESS_EQUAL] = CONVOY_BINARY_LESS_EQUAL,
        [CONVOY_KEEP] = CONVOY_BINARY_KEEP};
    return operators[kind];
}

static int lower_binary(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    int code = convoy_cuda_step(l, CONVOY_CUDA_BINARY, &step);
    if (code)
        return code;
    struct convoy_broadcast *broadcast = &step->binary.broadcast;
    broadcast->rank = convoy_cuda_dims(l, group->output, broadcast->dims);
    broadcast_strides(l, l->node->inputs[0], broadcast->rank, broadcast->a_stride);
    broadcast_strides(l, l->node->inputs[1], broadcast->rank, broadcast->b_stride);
    broadcast->op = convoy_cuda_binary_operator(l->node->binary);
    broadcast->act = group->act;
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    if (code == 0)
        code = convoy_cuda_reads(l, l->node->inputs[1], &step->binary.b);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

static int lower_scale_shift(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    int64_t dims[CONVOY_MAX_RANK];
    int rank = convoy_cuda_dims(l, group->output, dims);
    int code = convoy_cuda_step(l, CONVOY_CUDA_SCALE_SHIFT, &step);
    if (code)
        return code;
    step->scale_shift.outer = dims[0];
    step->scale_shift.channels = rank > 1 ? dims[1] : 1;
    step->scale_shift.inner = 1;
    for (int i = 2; i < rank; i++)
        step->scale_shift.inner *= dims[i];
    step->scale_shift.act = group->act;
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    if (code == 0)
        code = convoy_cuda_reads(l, l->node->inputs[1], &step->scale_shift.scale);
    if (code == 0)
        code = convoy_cuda_reads(l, l->node->inputs[2], &step->scale_shift.shift);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

static int lower_pool(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    int64_t x[CONVOY_MAX_RANK], y[CONVOY_MAX_RANK];
    convoy_cuda_dims(l, l->node->inputs[0], x);
    convoy_cuda_dims(l, l->node->output, y);
    int code = convoy_cuda_step(l, CONVOY_CUDA_POOL, &step);
    if (code)
        return code;
    step->pool = convoy_cuda_pool_shape(&l->node->pool, x, y, group->act);
    step->pool.planes = x[0] * x[1];
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

static int lower_softmax(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    int64_t dims[CONVOY_MAX_RANK];
    int rank = convoy_cuda_dims(l, group->output, dims);
    int code = convoy_cuda_step(l, CONVOY_CUDA_SOFTMAX, &step);
    if (code)
        return code;
    step->softmax.outer = step->softmax.length = step->softmax.inner = 1;
    for (int i = 0; i < rank; i++) {
        if (i < l->node->softmax.axis)
            step->softmax.outer *= dims[i];
        else if (i < l->node->softmax.axis_end)
            step->softmax.length *= dims[i];
        else
            step->softmax.inner *= dims[i];
    }
    step->softmax.log = l->node->softmax.log;
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

static int lower_top(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    const struct convoy_tensor *tensors = l->graph->tensors;
    int x = l->node->inputs[0];
    int code = convoy_cuda_step(l, CONVOY_CUDA_TOP, &step);
    if (code)
        return code;
    const struct convoy_top_rows rows =
        convoy_top_rows(&l->node->top, &tensors[x].shape, &tensors[l->node->output].shape, l->plan->rows);
    step->top = (struct convoy_top_shape){.outer = rows.outer,
                                          .length = rows.length,
                                          .inner = rows.inner,
                                          .count = rows.count,
                                          .smallest = rows.top.smallest,
                                          .last = rows.top.last,
                                          .places = rows.top.places};
    code = convoy_cuda_reads(l, x, &step->x);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

static int lower_normalize(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    const struct convoy_normalize *normalize = &l->node->normalize;
    struct convoy_cuda_step *step;
    int64_t dims[CONVOY_MAX_RANK];
    int rank = convoy_cuda_dims(l, group->output, dims), next = 1;
    int code = convoy_cuda_step(l, CONVOY_CUDA_NORMALIZE, &step);
    if (code)
        return code;
    struct convoy_normalize_shape *shape = &step->normalize.shape;
    *shape = (struct convoy_normalize_shape){
        .outer = 1, .length = 1, .inner = 1, .epsilon = normalize->epsilon, .rms = normalize->rms};
    for (int i = 0; i < rank; i++) {
        if (i < normalize->axis)
            shape->outer *= dims[i];
        else if (i < normalize->axis_end)
            shape->length *= dims[i];
        else
            shape->inner *= dims[i];
    }
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    if (code == 0 && normalize->has_scale)
        code = convoy_cuda_reads(l, l->node->inputs[next++], &step->normalize.scale);
    if (code == 0 && normalize->has_shift)
        code = convoy_cuda_reads(l, l->node->inputs[next], &step->normalize.shift);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

/* A copy with the elements in another order, or in the same order (a constant that is reshaped). */
static int lower_transpose(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    int64_t from[CONVOY_MAX_RANK], strides[CONVOY_MAX_RANK];
    int code = convoy_cuda_step(l, CONVOY_CUDA_COPY, &step);
    if (code)
        return code;
    struct convoy_strided_copy *copy = &step->copy;
    copy->rank = convoy_cuda_dims(l, group->output, copy->dims);
    convoy_cuda_strides(copy->rank, copy->dims, copy->y_stride);
    memcpy(copy->x_stride, copy->y_stride, sizeof(copy->x_stride));
    if (l->node->op == CONVOY_OP_TRANSPOSE) {
        convoy_cuda_strides(convoy_cuda_dims(l, l->node->inputs[0], from), from, strides);
        for (int i = 0; i < copy->rank; i++)
            copy->x_stride[i] = strides[l->node->perm[i]];
    }
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    return code ? code : convoy_cuda_writes(l, group->output, &step->y);
}

/* Zeros, then a copy of the part of the input that remains. */
static int lower_pad(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_cuda_step *step;
    struct convoy_strided_copy copy = {0};
    int64_t x[CONVOY_MAX_RANK], y[CONVOY_MAX_RANK];
    size_t x_offset = 0, y_offset = 0;
    bool grows = false, empty = false;
    copy.rank = convoy_cuda_dims(l, group->output, y);
    convoy_cuda_dims(l, l->node->inputs[0], x);
    convoy_cuda_strides(copy.rank, x, copy.x_stride);
    convoy_cuda_strides(copy.rank, y, copy.y_stride);
    for (int i = 0; i < copy.rank; i++) {
        int64_t before = l->node->pad.before[i], after = l->node->pad.after[i];
        copy.dims[i] = x[i] + (before < 0 ? before : 0) + (after < 0 ? after : 0);
        empty = empty || copy.dims[i] < 1;
        grows = grows || before > 0 || after > 0;
        x_offset += (size_t)((before < 0 ? -before : 0) * copy.x_stride[i]);
        y_offset += (size_t)((before > 0 ? before : 0) * copy.y_stride[i]);
    }
    struct convoy_cuda_place to = {0};
    int code = convoy_cuda_writes(l, group->output, &to);
    if (code == 0 && (grows || empty)) {
        code = convoy_cuda_step(l, CONVOY_CUDA_ZERO, &step);
        if (code == 0) {
            step->zero = convoy_cuda_elements(l, group->output);
            step->y = to;
        }
    }
    if (code || empty)
        return code;
    code = convoy_cuda_step(l, CONVOY_CUDA_COPY, &step);
    if (code)
        return code;
    step->copy = copy;
    step->y = to;
    step->y.offset += y_offset * sizeof(float);
    code = convoy_cuda_reads(l, l->node->inputs[0], &step->x);
    if (step->x.where == CONVOY_CUDA_CONSTANT)
        step->x.constant += x_offset;
    else
        step->x.offset += x_offset * sizeof(float);
    return code;
}

static int lower_concat(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    int64_t y[CONVOY_MAX_RANK], y_stride[CONVOY_MAX_RANK];
    int rank = convoy_cuda_dims(l, group->output, y), axis = l->node->axis;
    struct convoy_cuda_place to = {0};
    convoy_cuda_strides(rank, y, y_stride);
    int code = convoy_cuda_writes(l, group->output, &to);
    for (int k = 0; k < l->node->input_count && code == 0; k++) {
        struct convoy_cuda_step *step;
        code = convoy_cuda_step(l, CONVOY_CUDA_COPY, &step);
        if (code)
            return code;
        step->copy.rank = convoy_cuda_dims(l, l->node->inputs[k], step->copy.dims);
        convoy_cuda_strides(rank, step->copy.dims, step->copy.x_stride);
        memcpy(step->copy.y_stride, y_stride, sizeof(y_stride));
        step->y = to;
        to.offset += (size_t)(step->copy.dims[axis] * y_stride[axis]) * sizeof(float);
        code = convoy_cuda_reads(l, l->node->inputs[k], &step->x);
    }
    return code;
}

int convoy_cuda_lower_other(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    switch (l->node->op) {
    case CONVOY_OP_ACTIVATION:
        return lower_activation(l, group);
    case CONVOY_OP_BINARY:
        return lower_binary(l, group);
    case CONVOY_OP_SCALE_SHIFT:
        return lower_scale_shift(l, group);
    case CONVOY_OP_POOL:
        return lower_pool(l, group);
    case CONVOY_OP_SOFTMAX:
        return lower_softmax(l, group);
    case CONVOY_OP_NORMALIZE:
        return lower_normalize(l, group);
    case CONVOY_OP_TOP:
        return lower_top(l, group);
    case CONVOY_OP_RESHAPE:
    case CONVOY_OP_TRANSPOSE:
        return lower_transpose(l, group);
    case CONVOY_OP_PAD:
        return lower_pad(l, group);
    case CONVOY_OP_CONCAT:
        return lower_concat(l, group);
    default:
        return convoy_fail(l->error, -ENOTSUP, "node '%s' (%s) is nothing that the CUDA backend runs",
                           l->node->name, l->node->onnx_op);
    }
}
