#include "engine/onnx/importer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const void *elements_of(const struct onnx_importer *importer, const struct onnx_value *value,
                               size_t *size)
{
    *size = value->kind == ONNX_INTS ? sizeof(struct onnx_int) : sizeof(float);
    return value->kind == ONNX_INTS ? (const void *)value->ints : onnx_floats(importer, value);
}

static int set_data(struct onnx_importer *importer, const struct onnx_value *like,
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
    const void *from = elements_of(importer, value, &size);
    size_t elements = (size_t)convoy_shape_elements(shape);
    if (elements > 0)
        memcpy(data, from, size * elements);
    return set_data(importer, value, shape, data);
}

int onnx_set_strided(struct onnx_importer *importer, const struct onnx_value *value,
                     const struct convoy_shape *shape, int64_t start, const int64_t *steps)
{
    size_t size;
    void *data;
    int status = onnx_allocate(importer, shape, value->kind == ONNX_INTS, &data);
    if (status != 0)
        return status;
    const uint8_t *from = elements_of(importer, value, &size);
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
    return set_data(importer, value, shape, data);
}
