#include "engine/onnx/scatter.h"

#include "engine/onnx/attributes.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <stdlib.h>

static int no_grid(struct onnx_importer *importer)
{
    return onnx_refuse(
        importer, ONNX_WRITE_SLICES,
        "it writes into what depends on the model's input at places that are no grid (from, to and "
        "step along each dimension)");
}

static int other_images(struct onnx_importer *importer)
{
    return onnx_refuse(importer, ONNX_IMAGES_APART, "it writes into some of the images of a batch");
}

/* Where an index points to along a dimension of `size`; -1 where it is outside. Along the batch axis the
 * places of an image are its own part of it. */
static int64_t place_of(struct onnx_int index, int64_t size, bool each_image)
{
    int64_t place = index.fixed + (index.fixed < 0 && !each_image ? size : 0);
    bool own = index.batch == 0 && index.image == (each_image ? size : 0);
    return own && place >= 0 && place < size ? place : -1;
}

/* ---- Into a grid ---- */

/* What is written into, and what is written, as tensors that both have the batch. */
struct writing {
    int tensor, updates;
    struct convoy_shape shape; /* the tensor's */
};

/* Gives a constant the batch. */
static int with_batch(struct onnx_importer *importer, int tensor, int batch_axis, int *result)
{
    struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    *result = tensor;
    if (shape.batch_axis >= 0)
        return 0;
    shape.batch_axis = batch_axis;
    return onnx_emit_for_each_image(importer, tensor, &shape, result);
}

/* The tensor that is written into. A constant of a file whose batch is 1 has its batch first. */
static int begin(struct onnx_importer *importer, struct writing *writing)
{
    const struct onnx_value *x = importer->inputs[0];
    int status = onnx_need_tensor(importer, 0, &writing->tensor);
    if (status != 0)
        return status;
    if (x->kind != ONNX_ACTIVATION && (importer->batch != 1 || x->shape.rank == 0 || x->shape.dims[0] != 1))
        return onnx_refuse(
            importer, ONNX_BATCH_OF_ONE,
            "it writes what depends on the model's input into a constant that is the same for all "
            "images of a batch");
    status = with_batch(importer, writing->tensor, 0, &writing->tensor);
    writing->shape = importer->graph->tensors[writing->tensor].shape;
    return status;
}

/* The tensor that is written, in the shape of the grid, and the writing. */
static int finish(struct onnx_importer *importer, struct writing *writing, const struct onnx_grid *grid)
{
    const struct onnx_value *updates = importer->inputs[2];
    struct convoy_shape shape = writing->shape;
    int batch_axis = shape.batch_axis, result;
    for (int axis = 0; axis < shape.rank; axis++)
        shape.dims[axis] = grid->count[axis];
    if (shape.dims[batch_axis] != writing->shape.dims[batch_axis])
        return other_images(importer);
    if (convoy_shape_elements(&updates->shape) != convoy_shape_elements(&shape))
        return onnx_fail(importer, -EINVAL, "its indices or updates do not go together with its data");
    if (updates->kind == ONNX_ACTIVATION &&
        onnx_product(&updates->shape, 0, updates->shape.batch_axis) != onnx_product(&shape, 0, batch_axis))
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "the images of its updates lie otherwise than those of its data");
    shape.batch_axis = updates->kind == ONNX_ACTIVATION ? batch_axis : -1;
    int status = onnx_need_tensor(importer, 2, &writing->updates);
    if (status == 0)
        status = onnx_emit_reshape(importer, writing->updates, &shape, &writing->updates);
    if (status == 0)
        status = with_batch(importer, writing->updates, batch_axis, &writing->updates);
    if (status == 0)
        status = onnx_emit_written(importer, writing->tensor, grid, writing->updates, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* ---- ScatterND ---- */

/* Whether index i of `count` points where the grid's i-th place is. */
static bool is_in_order(const struct onnx_int *index, int depth, int64_t i, const struct onnx_grid *grid,
                        const struct convoy_shape *shape, bool by_image)
{
    for (int axis = depth - 1; axis >= 0; axis--) {
        int64_t wanted = grid->start[axis] + i % grid->count[axis] * grid->step[axis];
        if (place_of(index[axis], shape->dims[axis], by_image && axis == shape->batch_axis) != wanted)
            return false;
        i /= grid->count[axis];
    }
    return true;
}

/* The grid that `count` indices of `depth` numbers form: the first is its first place. */
static int find_grid(struct onnx_importer *importer, const struct onnx_value *indices, int depth,
                     int64_t count, const struct convoy_shape *shape, struct onnx_grid *grid)
{
    bool by_image = indices->shape.batch_axis >= 0;
    int64_t places = 1;
    for (int axis = 0; axis < shape->rank; axis++) {
        int64_t span = 0, step = 0;
        for (int64_t i = 0; axis < depth && i < count; i++) {
            int64_t place = place_of(indices->ints[i * depth + axis], shape->dims[axis],
                                     by_image && axis == shape->batch_axis);
            if (place < 0 && axis == shape->batch_axis)
                return other_images(importer);
            if (place < 0)
                return onnx_fail(importer, -EINVAL, "one of its indices is outside its data");
            grid->start[axis] = i == 0 ? place : grid->start[axis];
            int64_t ahead = place - grid->start[axis];
            if (ahead < 0)
                return no_grid(importer);
            span = ahead > span ? ahead : span;
            step = ahead > 0 && (step == 0 || ahead < step) ? ahead : step;
        }
        if (axis >= depth) { /* whole slices */
            grid->start[axis] = 0;
            span = shape->dims[axis] - 1;
        }
        grid->step[axis] = step > 0 ? step : 1;
        grid->count[axis] = span / grid->step[axis] + 1;
        places *= axis < depth ? grid->count[axis] : 1;
    }
    if (places != count)
        return no_grid(importer);
    for (int64_t i = 0; i < count; i++)
        if (!is_in_order(indices->ints + i * depth, depth, i, grid, shape, by_image))
            return no_grid(importer);
    return 0;
}

int onnx_scatter_slices(struct onnx_importer *importer, const struct onnx_value *x,
                        const struct onnx_value *indices, const struct onnx_value *updates)
{
    struct writing writing;
    struct onnx_grid grid;
    int64_t depth = indices->shape.rank > 0 ? indices->shape.dims[indices->shape.rank - 1] : 0;
    int64_t count = depth > 0 ? convoy_shape_elements(&indices->shape) / depth : 0;
    int batch_axis = indices->shape.batch_axis;
    if (depth < 1 || depth > x->shape.rank || count < 1 || batch_axis == indices->shape.rank - 1)
        return onnx_fail(importer, -EINVAL, "its indices do not go together with its data");
    if (batch_axis >= 0 && updates->kind == ONNX_ACTIVATION && updates->shape.batch_axis != batch_axis)
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "the images of its updates lie otherwise than those of its indices");
    int status = begin(importer, &writing);
    if (status == 0 && writing.shape.batch_axis < depth && batch_axis < 0 && importer->batch != 1)
        status = other_images(importer);
    if (status == 0)
        status = find_grid(importer, indices, (int)depth, count, &writing.shape, &grid);
    return status == 0 ? finish(importer, &writing, &grid) : status;
}

/* ---- GatherND ---- */

/* The elements of the first `depth` dimensions, taken as one, that the indices name. */
static int find_places(struct onnx_importer *importer, const struct convoy_shape *x,
                       const struct onnx_value *indices, int depth, int64_t count, int64_t *places)
{
    for (int64_t i = 0; i < count; i++) {
        places[i] = 0;
        for (int axis = 0; axis < depth; axis++) {
            int64_t place = place_of(indices->ints[i * depth + axis], x->dims[axis], false);
            if (place < 0)
                return onnx_fail(importer, -EINVAL, "one of its indices is outside its data");
            places[i] = places[i] * x->dims[axis] + place;
        }
    }
    return 0;
}

int onnx_gather_slices(struct onnx_importer *importer, const struct onnx_value *x,
                       const struct onnx_value *indices)
{
    const struct convoy_shape *in = &x->shape, *at = &indices->shape;
    int depth = (int)at->dims[at->rank - 1], lead = at->rank - 1, tensor = x->tensor;
    int64_t count = onnx_product(at, 0, lead);
    struct convoy_shape flat = {.rank = 1 + in->rank - depth, .batch_axis = in->batch_axis - depth + 1},
                        shape = {.rank = lead + in->rank - depth,
                                 .batch_axis = in->batch_axis - depth + lead};
    if (count < 1 || in->batch_axis < depth || at->batch_axis >= 0)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it takes some of the images of a batch");
    flat.dims[0] = onnx_product(in, 0, depth);
    for (int axis = 0; axis < lead; axis++)
        shape.dims[axis] = at->dims[axis];
    for (int axis = depth; axis < in->rank; axis++)
        flat.dims[1 + axis - depth] = shape.dims[lead + axis - depth] = in->dims[axis];
    int64_t *places = malloc((size_t)count * sizeof *places);
    if (places == NULL)
        return onnx_out_of_memory(importer);
    int status = find_places(importer, in, indices, depth, count, places);
    if (status == 0)
        status = onnx_emit_reshape(importer, tensor, &flat, &tensor);
    if (status == 0)
        status = onnx_emit_take(importer, tensor, 0, places, count, &tensor);
    free(places);
    if (status == 0)
        status = onnx_emit_reshape(importer, tensor, &shape, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

/* ---- ScatterElements and GatherElements ---- */

/* *places are the indices along the axis, owned by the caller; refuses those that differ along another. */
static int places_along(struct onnx_importer *importer, const struct onnx_value *indices, int axis,
                        int64_t size, int64_t **places)
{
    int64_t count = indices->shape.dims[axis], elements = convoy_shape_elements(&indices->shape);
    int64_t inner = onnx_product(&indices->shape, axis + 1, indices->shape.rank);
    if (elements < 1)
        return onnx_fail(importer, -EINVAL, "its indices do not go together with its data");
    *places = malloc((size_t)count * sizeof **places);
    if (*places == NULL)
        return onnx_out_of_memory(importer);
    for (int64_t i = 0; i < elements; i++) {
        int64_t place = place_of(indices->ints[i], size, false), at = i / inner % count;
        bool first = i < count * inner && i % inner == 0;
        if (place >= 0 && (first || (*places)[at] == place)) {
            (*places)[at] = place;
            continue;
        }
        free(*places);
        *places = NULL;
        return place < 0
                   ? onnx_fail(importer, -EINVAL, "one of its indices is outside its data")
                   : onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                                 "its indices differ along other dimensions than %d, which is not supported "
                                 "where its data depend on the model's input",
                                 axis);
    }
    return 0;
}

/* Refuses indices along the batch, and those that reach past the data along other dimensions. */
static int check_elements(struct onnx_importer *importer, const struct convoy_shape *x,
                          const struct convoy_shape *indices, int axis)
{
    bool alike = indices->batch_axis == x->batch_axis || (indices->batch_axis < 0 && importer->batch == 1);
    if (x->batch_axis < 0 || axis == x->batch_axis || !alike ||
        indices->dims[x->batch_axis] != x->dims[x->batch_axis])
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it takes or writes some of the images of a batch");
    for (int i = 0; i < x->rank; i++)
        if (i != axis && indices->dims[i] > x->dims[i])
            return onnx_fail(importer, -EINVAL, "its indices do not go together with its data");
    return 0;
}

int onnx_scatter_elements(struct onnx_importer *importer, const struct onnx_value *x,
                          const struct onnx_value *indices, const struct onnx_value *updates, int axis)
{
    struct writing writing;
    struct onnx_grid grid;
    int64_t *places = NULL;
    (void)x;
    if (updates->shape.rank != indices->shape.rank)
        return onnx_fail(importer, -EINVAL, "its indices or updates do not go together with its data");
    int status = begin(importer, &writing);
    if (status == 0)
        status = check_elements(importer, &writing.shape, &indices->shape, axis);
    if (status == 0)
        status = places_along(importer, indices, axis, writing.shape.dims[axis], &places);
    if (status != 0)
        return status;
    int64_t count = indices->shape.dims[axis], step = count > 1 ? places[1] - places[0] : 1;
    for (int i = 0; i < writing.shape.rank; i++) {
        grid.start[i] = i == axis ? places[0] : 0;
        grid.step[i] = i == axis ? step : 1;
        grid.count[i] = indices->shape.dims[i];
    }
    for (int64_t i = 1; i < count && status == 0; i++)
        if (step < 1 || places[i] - places[i - 1] != step)
            status = no_grid(importer);
    free(places);
    return status == 0 ? finish(importer, &writing, &grid) : status;
}

int onnx_gather_elements(struct onnx_importer *importer, const struct onnx_value *x,
                         const struct onnx_value *indices, int axis)
{
    int64_t *places = NULL;
    int tensor = x->tensor;
    int status = check_elements(importer, &x->shape, &indices->shape, axis);
    if (status == 0)
        status = places_along(importer, indices, axis, x->shape.dims[axis], &places);
    if (status == 0)
        status = onnx_emit_take(importer, tensor, axis, places, indices->shape.dims[axis], &tensor);
    free(places);
    for (int i = 0; i < x->shape.rank && status == 0; i++)
        if (i != axis)
            status = onnx_emit_crop(importer, tensor, i, 0, indices->shape.dims[i], &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}
