#include "engine/onnx/importer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int onnx_fail(const struct onnx_importer *importer, int code, const char *format, ...)
{
    char sentence[CONVOY_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    const Onnx__NodeProto *node = importer->node;
    const char *op = node->op_type != NULL ? node->op_type : "";
    if (node->name != NULL && node->name[0] != '\0')
        return convoy_fail(importer->error, code, "node '%.80s' (%.40s): %s", node->name, op, sentence);
    const char *output = node->n_output > 0 ? node->output[0] : "";
    return convoy_fail(importer->error, code, "node %d (%.40s, computes '%.80s'): %s", importer->node_index,
                       op, output, sentence);
}

int onnx_out_of_memory(const struct onnx_importer *importer)
{
    return convoy_fail(importer->error, -ENOMEM, "out of memory while reading the model");
}

int onnx_check_shape(const struct onnx_importer *importer, const struct convoy_shape *shape)
{
    int64_t elements = 1;
    for (int axis = 0; axis < shape->rank; axis++) {
        if (shape->dims[axis] < 1)
            return onnx_fail(importer, -EINVAL,
                             "dimension %d of its result would be %" PRId64 ", less than 1", axis,
                             shape->dims[axis]);
        if (__builtin_mul_overflow(elements, shape->dims[axis], &elements) || elements > INT32_MAX)
            return onnx_fail(importer, -EINVAL, "its result would have more than 2^31-1 elements");
    }
    return 0;
}

/* A weight is transposed, scaled or reshaped once or twice before it is what the graph wants. */
#define COMPUTED_PER_STORED 2

int onnx_count_stored(struct onnx_importer *importer, const Onnx__TensorProto *tensor)
{
    int64_t elements = 1;
    for (size_t axis = 0; axis < tensor->n_dims; axis++)
        if (tensor->dims[axis] > 0 &&
            (__builtin_mul_overflow(elements, tensor->dims[axis], &elements) || elements > INT32_MAX))
            return 0; /* onnx_decode_tensor() refuses its shape */
    if (elements > importer->stored_left)
        return convoy_fail(importer->error, -EINVAL,
                           "the model's constants, up to '%.80s', are more than convoyd takes (2 GiB)",
                           tensor->name != NULL ? tensor->name : "");
    importer->stored_left -= elements;
    importer->computed_left += COMPUTED_PER_STORED * elements;
    return 0;
}

int onnx_allocate(struct onnx_importer *importer, const struct convoy_shape *shape, bool ints, void **data)
{
    int64_t elements = 1; /* a dimension of zero counts as one: it must not hide what others multiply to */
    size_t size = ints ? sizeof(struct onnx_int) : sizeof(float);
    *data = NULL;
    for (int axis = 0; axis < shape->rank; axis++)
        if (shape->dims[axis] < 0 ||
            __builtin_mul_overflow(elements, shape->dims[axis] > 0 ? shape->dims[axis] : 1, &elements))
            return onnx_fail(importer, -EINVAL, "the shape of a constant overflows");
    if (elements > importer->computed_left / (int64_t)(size / sizeof(float)))
        return onnx_fail(importer, -EINVAL,
                         "the constants that the model computes grow beyond what convoyd takes: let the "
                         "exporter fold them");
    importer->computed_left -= elements * (int64_t)(size / sizeof(float));
    *data = calloc((size_t)elements + 1, size);
    return *data != NULL ? 0 : onnx_out_of_memory(importer);
}

int onnx_emit_constant(struct onnx_importer *importer, const char *name, const struct convoy_shape *shape,
                       float *data, int *tensor)
{
    *tensor = convoy_graph_add_tensor(importer->graph, name, shape, data);
    return *tensor >= 0 ? 0 : onnx_out_of_memory(importer);
}

/* Names of tensors in the middle of a node do not matter; the one that becomes the node's output is named for
 * it by onnx_set_tensor(). */
int onnx_emit(struct onnx_importer *importer, enum convoy_op op, const int *inputs, int input_count,
              const struct convoy_shape *shape, struct convoy_node **node)
{
    int status = onnx_check_shape(importer, shape);
    if (status != 0)
        return status;
    int output = convoy_graph_add_tensor(importer->graph, importer->op, shape, NULL);
    if (output < 0)
        return onnx_out_of_memory(importer);
    *node = convoy_graph_add_node(importer->graph, op, importer->node->name, importer->op, inputs,
                                  input_count, output);
    return *node != NULL ? 0 : onnx_out_of_memory(importer);
}

static bool same_shape(const struct convoy_shape *a, const struct convoy_shape *b)
{
    return a->rank == b->rank && a->batch_axis == b->batch_axis &&
           memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank) == 0;
}

int onnx_emit_reshape(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                      int *result)
{
    *result = tensor;
    if (same_shape(&importer->graph->tensors[tensor].shape, shape))
        return 0;
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_RESHAPE, &tensor, 1, shape, &node);
    if (status == 0)
        *result = node->output;
    return status;
}

int onnx_emit_transpose(struct onnx_importer *importer, int tensor, const int *perm, int *result)
{
    const struct convoy_shape in = importer->graph->tensors[tensor].shape;
    struct convoy_shape out = {.rank = in.rank, .batch_axis = -1};
    bool moved = false;
    for (int axis = 0; axis < in.rank; axis++) {
        out.dims[axis] = in.dims[perm[axis]];
        if (perm[axis] == in.batch_axis)
            out.batch_axis = axis;
        moved |= perm[axis] != axis;
    }
    *result = tensor;
    if (!moved)
        return 0;
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_TRANSPOSE, &tensor, 1, &out, &node);
    if (status != 0)
        return status;
    memcpy(node->perm, perm, sizeof *perm * (size_t)in.rank);
    *result = node->output;
    return 0;
}

static struct onnx_value *first_output(struct onnx_importer *importer)
{
    return onnx_find(importer, importer->node->output[0]);
}

int onnx_set_tensor(struct onnx_importer *importer, int tensor)
{
    struct onnx_value *output = first_output(importer);
    struct convoy_tensor *made = &importer->graph->tensors[tensor];
    output->tensor = tensor;
    output->shape = made->shape;
    output->kind = made->data != NULL ? ONNX_FLOATS : ONNX_ACTIVATION;
    if (made->name != NULL && strcmp(made->name, importer->op) == 0) {
        char *name = strdup(output->name);
        if (name == NULL)
            return onnx_out_of_memory(importer);
        free(made->name);
        made->name = name;
    }
    return 0;
}

int onnx_set_value(struct onnx_importer *importer, const struct onnx_value *same)
{
    if (same->kind != ONNX_INTS)
        return onnx_set_tensor(importer, same->tensor);
    return onnx_set_reshaped(importer, same, &same->shape);
}

int onnx_set_floats(struct onnx_importer *importer, const struct convoy_shape *shape, float *data)
{
    int tensor;
    int status = onnx_emit_constant(importer, importer->op, shape, data, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

int onnx_set_ints(struct onnx_importer *importer, const struct convoy_shape *shape, struct onnx_int *ints)
{
    struct onnx_value *output = first_output(importer);
    output->kind = ONNX_INTS;
    output->shape = *shape;
    output->ints = ints;
    return 0;
}
