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

static int read_matmul(struct onnx_importer *importer)
{
    const struct onnx_value *a, *b;
    int status = onnx_need_input(importer, 0, &a), left, right, result = -1;
    if (status == 0)
        status = onnx_need_input(importer, 1, &b);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &left);
    if (status == 0)
        status = onnx_need_tensor(importer, 1, &right);
    if (status != 0)
        return status;
    if (a->kind == ONNX_ACTIVATION && b->kind == ONNX_FLOATS && b->shape.rank == 2 && a->shape.rank >= 2) {
        int weight;
        status = dense_weight(importer, b, false, 1, &weight);
        if (status == 0)
            status = onnx_emit_rows_by_matrix(importer, left, weight, -1, &result);
    } else {
        status = onnx_emit_matmul(importer, left, right, &result);
    }
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* factor * tensor; the tensor itself for 1. */
static int emit_scaled(struct onnx_importer *importer, int tensor, float factor, int *result)
{
    *result = tensor;
    return factor == 1 ? 0 : onnx_emit_with_scalar(importer, CONVOY_MUL, tensor, (double)factor, result);
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
static int add_c(struct onnx_importer *importer, int c, float beta, int *result)
{
    int scaled = -1;
    const struct convoy_shape product = importer->graph->tensors[*result].shape;
    int status = emit_scaled(importer, c, beta, &scaled);
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
    const struct onnx_value *a, *b, *c;
    int64_t turn_a, turn_b;
    float alpha, beta;
    int left, right = -1, addend = -1, bias = -1, result = -1;
    int status = onnx_need_input(importer, 0, &a);
    if (status == 0)
        status = onnx_need_input(importer, 1, &b);
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
    c = importer->input_count > 2 ? importer->inputs[2] : NULL;
    if (b->kind == ONNX_INTS || a->kind == ONNX_INTS || a->shape.rank != 2 || b->shape.rank != 2)
        return onnx_fail(importer, -EINVAL, "its inputs are not two matrices");
    left = a->tensor;
    if (turn_a != 0)
        status = onnx_emit_turned(importer, left, &left);
    if (status != 0)
        return status;
    if (b->kind == ONNX_FLOATS && a->kind == ONNX_ACTIVATION) {
        status = dense_weight(importer, b, turn_b != 0, (double)alpha, &right);
        if (status == 0)
            status = bias_of(importer, c, beta, importer->graph->tensors[right].shape.dims[0], &bias);
        if (status == 0)
            status = onnx_emit_dense(importer, left, right, bias, &result);
    } else {
        right = b->tensor;
        if (turn_b != 0)
            status = onnx_emit_turned(importer, right, &right);
        if (status == 0)
            status = onnx_emit_matmul(importer, left, right, &result);
        if (status == 0)
            status = emit_scaled(importer, result, alpha, &result);
    }
    if (status == 0 && c != NULL && bias < 0)
        status = onnx_need_tensor(importer, 2, &addend);
    if (status == 0 && addend >= 0)
        status = add_c(importer, addend, beta, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_dense_operators[] = {
    {"Gemm", 2, 3, read_gemm, ONNX_ANY_ORDER},
    {"MatMul", 2, 2, read_matmul, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
