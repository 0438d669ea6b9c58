#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* Adds the step of a matrix product; its result is the output of the group. */
static int emit(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                const struct convoy_gemm_shape *shape, const struct convoy_cuda_place *a,
                const struct convoy_cuda_place *b, int bias)
{
    struct convoy_cuda_step *step;
    int code = convoy_cuda_step(l, CONVOY_CUDA_GEMM, &step);
    if (code)
        return code;
    step->x = *a;
    step->gemm.b = *b;
    step->gemm.shape = *shape;
    step->gemm.shape.act = convoy_cuda_planes_act(group);
    step->gemm.shape.compute_type = convoy_cuda_planes_type(l);
    step->gemm.kernel = convoy_cuda_choose_gemm(l->source->choices, &step->gemm.shape);
    if (step->gemm.kernel == NULL)
        return convoy_fail(l->error, -ENOTSUP, "node '%s' (%s): no kernel takes it", l->node->name,
                           l->node->onnx_op);
    if (shape->bias)
        code = convoy_cuda_reads(l, bias, &step->gemm.bias);
    if (code == 0)
        code =
            convoy_cuda_scratch(l, step->gemm.kernel->scratch_bytes(&step->gemm.shape), &step->gemm.scratch);
    if (code == 0)
        code = convoy_cuda_writes(l, group->output, &step->y);
    return code ? code : convoy_cuda_activate_planes(l, group);
}

int convoy_cuda_lower_dense(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    int64_t x[CONVOY_MAX_RANK];
    const int64_t *w = l->graph->tensors[l->node->inputs[1]].shape.dims;
    struct convoy_cuda_place a = {0}, b = {0};
    convoy_cuda_dims(l, l->node->inputs[0], x);
    struct convoy_gemm_shape shape = {
        .m = x[0], .n = w[0], .k = w[1], .batch = 1, .b_transposed = true, .bias = l->node->input_count > 2};
    int code = convoy_cuda_reads(l, l->node->inputs[0], &a);
    if (code == 0)
        code = convoy_cuda_reads(l, l->node->inputs[1], &b);
    return code ? code : emit(l, group, &shape, &a, &b, shape.bias ? l->node->inputs[2] : -1);
}

/* Promotion as in numpy: a vector on the left is a row, on the right a column; missing dimensions are 1. */
static void promote(const int64_t *dims, int rank, bool left, int to, int64_t *out)
{
    int64_t matrix[CONVOY_MAX_RANK];
    int have = rank;
    memcpy(matrix, dims, sizeof(matrix[0]) * (size_t)rank);
    if (rank == 1) {
        have = 2;
        matrix[0] = left ? 1 : dims[0];
        matrix[1] = left ? dims[0] : 1;
    }
    for (int i = 0; i < to; i++)
        out[i] = i < to - have ? 1 : matrix[i - (to - have)];
}

/* Adds a step that repeats an operand's matrices along the dimensions that are broadcast, so that one stride
 * leads from each matrix to the next. */
static int repeat(struct convoy_cuda_lowering *l, struct convoy_cuda_place *operand, int rank,
                  const int64_t *dims, const int64_t *batch)
{
    struct convoy_cuda_step *step;
    int64_t count = 1, full[CONVOY_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        full[i] = i < rank - 2 ? batch[i] : dims[i];
        count *= full[i];
    }
    int code = convoy_cuda_step(l, CONVOY_CUDA_COPY, &step);
    if (code)
        return code;
    step->copy.rank = rank;
    memcpy(step->copy.dims, full, sizeof(full));
    convoy_cuda_strides(rank, dims, step->copy.x_stride);
    convoy_cuda_strides(rank, full, step->copy.y_stride);
    for (int i = 0; i < rank; i++)
        if (dims[i] == 1)
            step->copy.x_stride[i] = 0;
    step->x = *operand;
    code = convoy_cuda_scratch(l, (size_t)count * sizeof(float), &step->y);
    *operand = step->y;
    return code;
}

/* Returns the stride from matrix to matrix; 0: one matrix serves all; -1: no single stride is right. */
static int64_t matrix_stride(int rank, const int64_t *dims, const int64_t *batch)
{
    bool one = true, all = true;
    for (int i = 0; i < rank - 2; i++) {
        one = one && dims[i] == 1;
        all = all && dims[i] == batch[i];
    }
    return all ? dims[rank - 2] * dims[rank - 1] : (one ? 0 : -1);
}

int convoy_cuda_lower_matmul(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    int64_t raw[CONVOY_MAX_RANK], a[CONVOY_MAX_RANK], b[CONVOY_MAX_RANK], batch[CONVOY_MAX_RANK];
    struct convoy_cuda_place places[2] = {{0}, {0}};
    const int *inputs = l->node->inputs;
    int ranks[2] = {l->graph->tensors[inputs[0]].shape.rank, l->graph->tensors[inputs[1]].shape.rank};
    int rank = ranks[0] > ranks[1] ? ranks[0] : ranks[1];
    rank = rank < 2 ? 2 : rank;
    convoy_cuda_dims(l, inputs[0], raw);
    promote(raw, ranks[0], true, rank, a);
    convoy_cuda_dims(l, inputs[1], raw);
    promote(raw, ranks[1], false, rank, b);
    int64_t matrices = 1;
    for (int i = 0; i < rank - 2; i++) {
        batch[i] = a[i] > b[i] ? a[i] : b[i];
        matrices *= batch[i];
    }
    struct convoy_gemm_shape shape = {.m = a[rank - 2], .n = b[rank - 1], .k = a[rank - 1]};
    int code = convoy_cuda_reads(l, inputs[0], &places[0]);
    if (code == 0)
        code = convoy_cuda_reads(l, inputs[1], &places[1]);
    shape.a_stride = matrix_stride(rank, a, batch);
    shape.b_stride = matrix_stride(rank, b, batch);
    if (code == 0 && shape.a_stride < 0) {
        code = repeat(l, &places[0], rank, a, batch);
        shape.a_stride = shape.m * shape.k;
    }
    if (code == 0 && shape.b_stride < 0) {
        code = repeat(l, &places[1], rank, b, batch);
        shape.b_stride = shape.n * shape.k;
    }
    if (code)
        return code;
    if (shape.b_stride == 0 && shape.a_stride > 0) {
        shape.m *= matrices; /* all rows together are one matrix */
        matrices = 1;
    }
    if (matrices > INT_MAX)
        return convoy_fail(l->error, -ENOTSUP, "node '%s' (%s): more matrices than the CUDA backend takes",
                           l->node->name, l->node->onnx_op);
    shape.batch = (int)matrices;
    shape.y_stride = shape.m * shape.n;
    return emit(l, group, &shape, &places[0], &places[1], -1);
}
