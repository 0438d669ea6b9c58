#include "engine/onnx/constants.h"

#include "engine/onnx/fail.h"

#include <errno.h>
#include <stdlib.h>

/* A weight is transposed, scaled or reshaped a few times before it is what the graph wants. */
#define COMPUTED_PER_STORED 4

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

void onnx_release(struct onnx_importer *importer, const struct convoy_shape *shape, bool ints)
{
    size_t size = ints ? sizeof(struct onnx_int) : sizeof(float);
    int64_t elements = 1; /* counted as onnx_allocate() did */
    for (int axis = 0; axis < shape->rank; axis++)
        elements *= shape->dims[axis] > 0 ? shape->dims[axis] : 1;
    importer->computed_left += elements * (int64_t)(size / sizeof(float));
}
