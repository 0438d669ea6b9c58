/* Operators that find the largest or smallest numbers along an axis: ArgMax, ArgMin, TopK. Places are
 * integers in the file; in the graph they are floats, which hold them exactly. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/reduce.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MOST_PLACES (INT64_C(1) << 24) /* whole numbers that a float holds */
/* Comparisons for one image: a backend reads a row once for each number that is asked for. */
#define MOST_WORK (INT64_C(1) << 28)

/* The input as a tensor, and the axis. */
static int read_input(struct onnx_importer *importer, int64_t absent, int *tensor, struct convoy_top *top)
{
    const struct onnx_value *x;
    int64_t axis;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0 && x->kind == ONNX_INTS)
        status = onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it works on integers, which is not supported");
    if (status == 0)
        status = onnx_need_tensor(importer, 0, tensor);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", absent, &axis);
    if (status == 0)
        status = onnx_settle_axis(importer, axis, x->shape.rank, &top->axis);
    if (status != 0)
        return status;
    if (top->axis == x->shape.batch_axis)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it compares the images of a batch");
    if (x->shape.dims[top->axis] > MOST_PLACES)
        return onnx_refuse(importer, ONNX_CUT, "its axis has more than %" PRId64 " elements", MOST_PLACES);
    return 0;
}

static int emit_top(struct onnx_importer *importer, int tensor, int64_t count, const struct convoy_top *top,
                    int *result)
{
    struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    struct convoy_node *node;
    int64_t length = shape.dims[top->axis], work;
    shape.dims[top->axis] = count;
    if (__builtin_mul_overflow(convoy_shape_elements(&shape), length, &work) ||
        (count > 1 && work > MOST_WORK))
        return onnx_refuse(importer, ONNX_CUT,
                           "it sorts %" PRId64 " of %" PRId64 " numbers, which takes too long", count,
                           length);
    int status = onnx_emit(importer, CONVOY_OP_TOP, &tensor, 1, &shape, &node);
    if (status != 0)
        return status;
    node->top = *top;
    *result = node->output;
    return 0;
}

static int read_arg(struct onnx_importer *importer)
{
    struct convoy_top top = {.places = true, .smallest = strcmp(importer->op, "ArgMin") == 0};
    int64_t keep_dims = 1, last = 0;
    int tensor, result = -1;
    int status = read_input(importer, 0, &tensor, &top);
    if (status == 0)
        status = onnx_attribute_int(importer, "keepdims", 1, &keep_dims);
    if (status == 0)
        status = onnx_attribute_int(importer, "select_last_index", 0, &last);
    if (status != 0)
        return status;
    top.last = last != 0;
    struct convoy_shape shape =
        onnx_reduced_shape(&importer->graph->tensors[tensor].shape, 1U << top.axis, keep_dims != 0);
    status = emit_top(importer, tensor, 1, &top, &result);
    if (status == 0)
        status = onnx_emit_reshape(importer, result, &shape, &result);
    return status == 0 ? onnx_set_integers(importer, result, ONNX__TENSOR_PROTO__DATA_TYPE__INT64) : status;
}

static int read_count(struct onnx_importer *importer, int64_t length, int64_t *count)
{
    double given = 0;
    int status = importer->opset < 10 ? onnx_attribute_int(importer, "k", 0, count)
                                      : onnx_input_scalar(importer, 1, 0, &given);
    if (status != 0)
        return status;
    if (importer->opset >= 10)
        *count = given >= 1 && given <= (double)length ? (int64_t)given : 0;
    return *count >= 1 && *count <= length
               ? 0
               : onnx_fail(importer, -EINVAL, "its k is not 1 to %" PRId64 ", the elements along its axis",
                           length);
}

static int read_top_k(struct onnx_importer *importer)
{
    struct convoy_top top = {0};
    int64_t largest = 1, count = 0;
    int tensor, result = -1;
    int status = read_input(importer, -1, &tensor, &top);
    if (status == 0)
        status = read_count(importer, importer->graph->tensors[tensor].shape.dims[top.axis], &count);
    if (status == 0)
        status = onnx_attribute_int(importer, "largest", 1, &largest);
    if (status != 0)
        return status;
    top.smallest = largest == 0; /* `sorted` = 0 allows any order */
    for (size_t k = 0; k < 2 && k < importer->node->n_output && status == 0; k++) {
        if (importer->node->output[k][0] == '\0')
            continue;
        importer->output = (int)k;
        top.places = k == 1;
        status = emit_top(importer, tensor, count, &top, &result);
        if (status == 0)
            status = top.places ? onnx_set_integers(importer, result, ONNX__TENSOR_PROTO__DATA_TYPE__INT64)
                                : onnx_set_tensor(importer, result);
    }
    return status;
}

const struct onnx_operator onnx_top_operators[] = {
    {"ArgMax", 1, 1, read_arg, ONNX_ANY_ORDER},
    {"ArgMin", 1, 1, read_arg, ONNX_ANY_ORDER},
    {"TopK", 1, 2, read_top_k, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
