/* Gemm and MatMul: a dense layer where the right side is a constant matrix, else a product of tensors. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* factor * m, transposed or not, as a new constant. m is rows x columns. */
static int scaled_matrix(struct onnx_importer *importer, const struct onnx_value *m, bool transpose,
                         double factor, int *tensor)
{
    int64_t rows = m->shape.dims[0], columns = m->shape.dims[1];
    struct convoy_shape shape = {.rank = 2, .batch_axis = -1, .dims = {rows, columns}};
    if (transpose) {
        shape.dims[0] = columns;
        shape.dims[1] = rows;
    }
    void *data;
    int status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    const float *from = onnx_floats(importer, m);
    float *to = data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[transpose ? c * rows + r : r * columns + c] = (float)(factor * from[r * columns + c]);
    return onnx_emit_constant(importer, m->name, &shape, data, tensor);
}

/* The weight of a DENSE, [K, M], from B as it stands in the file. */
static int dense_weight(struct onnx_importer *importer, const struct onnx_value *b, bool is_transposed,
                        double alpha, int *tensor)
{
    *tensor = b->tensor;
    return is_transposed && alpha == 1 ? 0 : scaled_matrix(importer, b, !is_transposed, alpha, tensor);
}

/* y = x W^T + bias for x of [rows, M]; bias -1 where there is none. */
static int emit_dense(struct onnx_importer *importer, int x, int weight, int bias, int *result)
{
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    const struct convoy_shape filter = importer->graph->tensors[weight].shape;
    if (in.dims[1] != filter.dims[1])
        return onnx_fail(importer, -EINVAL, "its matrix takes %" PRId64 " numbers, its input has %" PRId64,
                         filter.dims[1], in.dims[1]);
    if (in.batch_axis > 0)
        return onnx_fail(importer, -ENOTSUP, "it would add up over the images of a batch");
    struct convoy_shape shape = in;
    shape.dims[1] = filter.dims[0];
    int inputs[3] = {x, weight, bias};
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_DENSE, inputs, bias >= 0 ? 3 : 2, &shape, &node);
    if (status == 0)
        *result = node->output;
    return status;
}

/* The batch of one operand of a matrix product, or a refusal where the product would add up over it. */
static int check_contraction(struct onnx_importer *importer, const struct convoy_shape *shape, int contracted)
{
    if (shape->batch_axis >= 0 && shape->batch_axis == contracted)
        return onnx_fail(importer, -ENOTSUP, "it would add up over the images of a batch");
    return 0;
}

/* numpy.matmul of two tensors, at least the first of which is an activation. */
static int emit_matmul(struct onnx_importer *importer, int a_tensor, int b_tensor, int *result)
{
    const struct convoy_shape a = importer->graph->tensors[a_tensor].shape;
    const struct convoy_shape b = importer->graph->tensors[b_tensor].shape;
    if (a.rank < 1 || b.rank < 1)
        return onnx_fail(importer, -EINVAL, "one of its inputs is a single number");
    int b_inner = b.rank > 1 ? b.rank - 2 : 0;
    int status = check_contraction(importer, &a, a.rank - 1);
    if (status == 0)
        status = check_contraction(importer, &b, b_inner);
    if (status != 0)
        return status;
    if (a.dims[a.rank - 1] != b.dims[b_inner])
        return onnx_fail(importer, -EINVAL, "its matrix takes %" PRId64 " numbers, its input has %" PRId64,
                         b.dims[b_inner], a.dims[a.rank - 1]);
    if (a.rank > CONVOY_MAX_RANK || b.rank > CONVOY_MAX_RANK)
        return onnx_fail(importer, -EINVAL, "its inputs have too many dimensions");

    /* A vector is a matrix of one row or column whose dimension is dropped afterwards. */
    struct convoy_shape left = a, right = b, out;
    if (a.rank == 1)
        left = (struct convoy_shape){.rank = 2, .batch_axis = -1, .dims = {1, a.dims[0]}};
    if (b.rank == 1)
        right = (struct convoy_shape){.rank = 2, .batch_axis = -1, .dims = {b.dims[0], 1}};
    bool rows_are_batch = left.batch_axis == left.rank - 2 && left.batch_axis >= 0;
    bool columns_are_batch = right.batch_axis == right.rank - 1 && right.batch_axis >= 0;
    if ((rows_are_batch && right.batch_axis >= 0) || (columns_are_batch && left.batch_axis >= 0))
        return onnx_fail(importer, -ENOTSUP, "it would combine every image of a batch with every other");
    status = onnx_broadcast(importer, &left, &right, 2, &out);
    if (status != 0)
        return status;
    if (rows_are_batch)
        out.batch_axis = out.rank;
    if (a.rank > 1)
        out.dims[out.rank++] = left.dims[left.rank - 2];
    if (columns_are_batch)
        out.batch_axis = out.rank;
    if (b.rank > 1)
        out.dims[out.rank++] = right.dims[right.rank - 1];

    int inputs[2] = {a_tensor, b_tensor};
    struct convoy_node *node;
    status = onnx_emit(importer, CONVOY_OP_MATMUL, inputs, 2, &out, &node);
    if (status == 0)
        *result = node->output;
    return status;
}

static int swap_last_two(struct onnx_importer *importer, int tensor, int *result)
{
    int rank = importer->graph->tensors[tensor].shape.rank, perm[CONVOY_MAX_RANK];
    for (int axis = 0; axis < rank; axis++)
        perm[axis] = axis;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    return onnx_emit_transpose(importer, tensor, perm, result);
}

/* A constant on the left: A x = (x^T A^T)^T. */
static int matmul_from_left(struct onnx_importer *importer, const struct onnx_value *a,
                            const struct onnx_value *x, int *result)
{
    if (a->kind != ONNX_FLOATS || x->kind != ONNX_ACTIVATION || a->shape.rank != 2 || x->shape.rank < 2)
        return onnx_fail(
            importer, -ENOTSUP,
            "its first input is a constant, which is supported for matrices times an activation only");
    int weight = -1, turned = -1;
    int status = scaled_matrix(importer, a, true, 1, &weight);
    if (status == 0)
        status = swap_last_two(importer, x->tensor, &turned);
    if (status == 0)
        status = emit_matmul(importer, turned, weight, result);
    return status == 0 ? swap_last_two(importer, *result, result) : status;
}

static int read_matmul(struct onnx_importer *importer)
{
    const struct onnx_value *a = importer->inputs[0], *b = importer->inputs[1];
    int status, weight = -1, result = -1;
    if (a == NULL || b == NULL || b->kind == ONNX_INTS)
        return onnx_fail(importer, -EINVAL, "an input is missing or made of integers");
    if (a->kind != ONNX_ACTIVATION) {
        status = matmul_from_left(importer, a, b, &result);
    } else if (b->kind == ONNX_FLOATS && b->shape.rank == 2 && a->shape.rank == 2) {
        status = dense_weight(importer, b, false, 1, &weight);
        if (status == 0)
            status = emit_dense(importer, a->tensor, weight, -1, &result);
    } else {
        status = emit_matmul(importer, a->tensor, b->tensor, &result);
    }
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int scalar_constant(struct onnx_importer *importer, float value, int *tensor)
{
    struct convoy_shape scalar = {.rank = 0, .batch_axis = -1};
    float *data = malloc(sizeof *data);
    if (data == NULL)
        return onnx_out_of_memory(importer);
    *data = value;
    return onnx_emit_constant(importer, "factor", &scalar, data, tensor);
}

/* factor * tensor; the tensor itself for 1. */
static int emit_scaled(struct onnx_importer *importer, int tensor, float factor, int *result)
{
    int constant = -1;
    *result = tensor;
    if (factor == 1)
        return 0;
    int status = scalar_constant(importer, factor, &constant);
    return status == 0 ? onnx_emit_binary(importer, CONVOY_MUL, tensor, constant, result) : status;
}

/* beta * C as the bias of a DENSE of K outputs where C is the same for every row; *bias stays -1 where not.
 */
static int bias_of(struct onnx_importer *importer, const struct onnx_value *c, float beta, int64_t outputs,
                   int *bias)
{
    *bias = -1;
    if (c == NULL || c->kind != ONNX_FLOATS || c->shape.rank > 2)
        return 0;
    int64_t elements = convoy_shape_elements(&c->shape);
    int64_t last = c->shape.rank > 0 ? c->shape.dims[c->shape.rank - 1] : 1;
    if (elements != last || (last != 1 && last != outputs))
        return 0;
    struct convoy_shape shape = {.rank = 1, .batch_axis = -1, .dims = {outputs}};
    void *data;
    int status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    const float *from = onnx_floats(importer, c);
    for (int64_t i = 0; i < outputs; i++)
        ((float *)data)[i] = beta * from[last == 1 ? 0 : i];
    return onnx_emit_constant(importer, c->name, &shape, data, bias);
}

/* beta * C where it is no bias: added afterwards. C may not make the product larger. */
static int add_c(struct onnx_importer *importer, const struct onnx_value *c, float beta, int *result)
{
    int scaled = -1;
    if (c->kind == ONNX_INTS)
        return onnx_fail(importer, -EINVAL, "its C is made of integers");
    const struct convoy_shape product = importer->graph->tensors[*result].shape;
    int status = 0;
    if (c->kind == ONNX_ACTIVATION) {
        status = emit_scaled(importer, c->tensor, beta, &scaled);
    } else if (beta == 1) {
        scaled = c->tensor;
    } else {
        void *data;
        status = onnx_allocate(importer, &c->shape, false, &data);
        if (status != 0)
            return status;
        for (int64_t i = 0; i < convoy_shape_elements(&c->shape); i++)
            ((float *)data)[i] = beta * onnx_floats(importer, c)[i];
        status = onnx_emit_constant(importer, c->name, &c->shape, data, &scaled);
    }
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_ADD, *result, scaled, result);
    const struct convoy_shape *sum = &importer->graph->tensors[*result].shape;
    if (status == 0 && (sum->rank != 2 || sum->dims[0] != product.dims[0] || sum->dims[1] != product.dims[1]))
        status = onnx_fail(importer, -EINVAL, "its C is larger than the product that it is added to");
    return status;
}

/* alpha op(A) op(B) + beta C */
static int read_gemm(struct onnx_importer *importer)
{
    const struct onnx_value *a, *b = importer->inputs[1], *c = importer->inputs[2];
    int64_t turn_a, turn_b;
    float alpha, beta;
    int left, right = -1, bias = -1, result = -1;
    int status = onnx_need_activation(importer, 0, &a);
    if (status == 0)
        status = onnx_attribute_int(importer, "transA", 0, &turn_a);
    if (status == 0)
        status = onnx_attribute_int(importer, "transB", 0, &turn_b);
    if (status == 0)
        status = onnx_attribute_float(importer, "alpha", 1, &alpha);
    if (status == 0)
        status = onnx_attribute_float(importer, "beta", 1, &beta);
    if (status != 0)
        return status;
    if (b == NULL || b->kind == ONNX_INTS || a->shape.rank != 2 || b->shape.rank != 2)
        return onnx_fail(importer, -EINVAL, "its inputs are not two matrices");
    left = a->tensor;
    if (turn_a != 0)
        status = swap_last_two(importer, left, &left);
    if (status != 0)
        return status;
    if (b->kind == ONNX_FLOATS) {
        status = dense_weight(importer, b, turn_b != 0, alpha, &right);
        if (status == 0)
            status = bias_of(importer, c, beta, importer->graph->tensors[right].shape.dims[0], &bias);
        if (status == 0)
            status = emit_dense(importer, left, right, bias, &result);
    } else {
        right = b->tensor;
        if (turn_b != 0)
            status = swap_last_two(importer, right, &right);
        if (status == 0)
            status = emit_matmul(importer, left, right, &result);
        if (status == 0)
            status = emit_scaled(importer, result, alpha, &result);
    }
    if (status == 0 && c != NULL && bias < 0)
        status = add_c(importer, c, beta, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_dense_operators[] = {
    {"Gemm", 2, 3, read_gemm},
    {"MatMul", 2, 2, read_matmul},
    {NULL, 0, 0, NULL},
};
