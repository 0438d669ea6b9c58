#include "engine/onnx/reduce.h"

#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/window.h"

#include <errno.h>

struct convoy_shape onnx_reduced_shape(const struct convoy_shape *in, unsigned mask, bool keep_dims)
{
    struct convoy_shape out = {.batch_axis = -1};
    for (int axis = 0; axis < in->rank; axis++) {
        bool reduced = (mask & (1U << axis)) != 0;
        if (reduced && !keep_dims)
            continue;
        if (axis == in->batch_axis)
            out.batch_axis = out.rank;
        out.dims[out.rank++] = reduced ? 1 : in->dims[axis];
    }
    return out;
}

/* Pools over a run of neighbouring axes, where the batch is the first dimension or there is none. */
static int pool_run(struct onnx_importer *importer, int tensor, enum convoy_pool_kind kind, int first,
                    int last, int *result)
{
    const struct convoy_shape in = importer->graph->tensors[tensor].shape;
    if (in.rank == 4 && first >= 2)
        return onnx_emit_pooled(importer, tensor, kind, first == 2 ? in.dims[2] : 1,
                                last == 3 ? in.dims[3] : 1, result);
    int from = in.batch_axis == 0 ? 1 : 0;
    struct convoy_shape images = {.rank = 4,
                                  .batch_axis = in.batch_axis,
                                  .dims = {from == 1 ? in.dims[0] : 1, onnx_product(&in, from, first),
                                           onnx_product(&in, first, last + 1),
                                           onnx_product(&in, last + 1, in.rank)}};
    int status = onnx_emit_reshape(importer, tensor, &images, result);
    return status == 0 ? onnx_emit_pooled(importer, *result, kind, images.dims[2], 1, result) : status;
}

int onnx_emit_reduced(struct onnx_importer *importer, int tensor, enum convoy_pool_kind kind, unsigned mask,
                      int *result)
{
    const struct convoy_shape in = importer->graph->tensors[tensor].shape;
    const struct convoy_shape out = onnx_reduced_shape(&in, mask, true);
    *result = tensor;
    if (in.batch_axis >= 0 && (mask & (1U << in.batch_axis)) != 0)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it combines the images of a batch");
    if (mask == 0)
        return 0;
    int first = __builtin_ctz(mask), last = 31 - __builtin_clz(mask), status;
    if (mask == (2U << last) - (1U << first) && in.batch_axis <= 0) {
        status = pool_run(importer, tensor, kind, first, last, result);
        return status == 0 ? onnx_emit_reshape(importer, *result, &out, result) : status;
    }
    /* The batch, what is kept, what is reduced; and back again. */
    int perm[CONVOY_MAX_RANK], back[CONVOY_MAX_RANK], count = 0;
    if (in.batch_axis >= 0)
        perm[count++] = in.batch_axis;
    for (int reduced = 0; reduced < 2; reduced++) {
        if (reduced == 1)
            first = count;
        for (int axis = 0; axis < in.rank; axis++)
            if (axis != in.batch_axis && (int)((mask >> axis) & 1U) == reduced)
                perm[count++] = axis;
    }
    struct convoy_shape apart = {.rank = in.rank, .batch_axis = in.batch_axis >= 0 ? 0 : -1};
    for (int i = 0; i < in.rank; i++) {
        back[perm[i]] = i;
        apart.dims[i] = out.dims[perm[i]];
    }
    status = onnx_emit_transpose(importer, tensor, perm, result);
    if (status == 0)
        status = pool_run(importer, *result, kind, first, in.rank - 1, result);
    if (status == 0)
        status = onnx_emit_reshape(importer, *result, &apart, result);
    return status == 0 ? onnx_emit_transpose(importer, *result, back, result) : status;
}

static int64_t reduced_elements(const struct convoy_shape *shape, unsigned mask)
{
    int64_t elements = 1;
    for (int axis = 0; axis < shape->rank; axis++)
        elements *= (mask & (1U << axis)) != 0 ? shape->dims[axis] : 1;
    return elements;
}

int onnx_emit_sum(struct onnx_importer *importer, int tensor, unsigned mask, int *result)
{
    int64_t elements = reduced_elements(&importer->graph->tensors[tensor].shape, mask);
    int status = onnx_emit_reduced(importer, tensor, CONVOY_POOL_AVERAGE, mask, result);
    if (status != 0 || elements == 1)
        return status;
    return onnx_emit_with_scalar(importer, CONVOY_MUL, *result, (double)elements, result);
}
