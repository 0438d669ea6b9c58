#include "engine/onnx/results.h"

#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/names.h"

#include <stdlib.h>
#include <string.h>

/* The output that is set, or NULL where nothing names it. */
static struct onnx_value *current_output(struct onnx_importer *importer)
{
    return onnx_find(importer, importer->node->output[importer->output]);
}

int onnx_set_tensor(struct onnx_importer *importer, int tensor)
{
    struct onnx_value *output = current_output(importer);
    struct convoy_tensor *made = &importer->graph->tensors[tensor];
    if (output == NULL)
        return 0;
    output->tensor = tensor;
    output->shape = made->shape;
    output->kind = made->data != NULL ? ONNX_FLOATS : ONNX_ACTIVATION;
    output->outer = made->data == NULL && made->shape.batch_axis >= 0 ? importer->outer : 1;
    if (made->name != NULL && strcmp(made->name, importer->op) == 0) {
        char *name = strdup(output->name);
        if (name == NULL)
            return onnx_out_of_memory(importer);
        free(made->name);
        made->name = name;
    }
    return 0;
}

int onnx_set_integers(struct onnx_importer *importer, int tensor, int type)
{
    struct onnx_value *output = current_output(importer);
    if (output != NULL)
        output->integer_type = type;
    return onnx_set_tensor(importer, tensor);
}

int onnx_set_value(struct onnx_importer *importer, const struct onnx_value *same)
{
    if (same->kind != ONNX_INTS)
        return onnx_set_tensor(importer, same->tensor);
    int status = onnx_set_reshaped(importer, same, &same->shape);
    struct onnx_value *output = current_output(importer);
    if (status == 0 && output != NULL)
        output->type = same->type;
    return status;
}

int onnx_set_floats(struct onnx_importer *importer, const struct convoy_shape *shape, float *data)
{
    int tensor;
    int status = onnx_emit_constant(importer, importer->op, shape, data, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

int onnx_set_ints(struct onnx_importer *importer, const struct convoy_shape *shape, struct onnx_int *ints)
{
    struct onnx_value *output = current_output(importer);
    if (output == NULL) {
        free(ints);
        return 0;
    }
    free(output->ints);
    output->kind = ONNX_INTS;
    output->shape = *shape;
    output->ints = ints;
    return 0;
}

int onnx_set_empty(struct onnx_importer *importer, const struct convoy_shape *shape)
{
    void *nothing;
    int status = onnx_allocate(importer, shape, true, &nothing);
    return status == 0 ? onnx_set_ints(importer, shape, nothing) : status;
}

int onnx_set_like(struct onnx_importer *importer, const struct onnx_value *like,
                  const struct convoy_shape *shape, void *data)
{
    if (like->kind == ONNX_INTS)
        return onnx_set_ints(importer, shape, data);
    return onnx_set_floats(importer, shape, data);
}

int onnx_set_reshaped(struct onnx_importer *importer, const struct onnx_value *value,
                      const struct convoy_shape *shape)
{
    size_t size;
    void *data;
    int status = onnx_allocate(importer, shape, value->kind == ONNX_INTS, &data);
    if (status != 0)
        return status;
    const uint8_t *from = onnx_bytes(importer, value, &size);
    size_t elements = (size_t)convoy_shape_elements(shape);
    if (elements > 0)
        memcpy(data, from, size * elements);
    return onnx_set_like(importer, value, shape, data);
}

int onnx_set_strided(struct onnx_importer *importer, const struct onnx_value *value,
                     const struct convoy_shape *shape, int64_t start, const int64_t *steps)
{
    size_t size;
    void *data;
    int status = onnx_allocate(importer, shape, value->kind == ONNX_INTS, &data);
    if (status != 0)
        return status;
    const uint8_t *from = onnx_bytes(importer, value, &size);
    uint8_t *to = data;
    int64_t index[CONVOY_MAX_RANK] = {0}, at = start, elements = convoy_shape_elements(shape);
    for (int64_t i = 0; i < elements; i++, to += size) {
        memcpy(to, from + (size_t)at * size, size);
        /* Count the index up like an odometer. */
        for (int axis = shape->rank - 1; axis >= 0; axis--) {
            at += steps[axis];
            if (++index[axis] < shape->dims[axis])
                break;
            at -= steps[axis] * shape->dims[axis];
            index[axis] = 0;
        }
    }
    return onnx_set_like(importer, value, shape, data);
}
