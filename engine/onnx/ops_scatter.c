/* Operators that read or write at indices: GatherND, GatherElements, ScatterND, ScatterElements. Of constants
 * any, of what depends on the model's input those that scatter.h can follow. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/scatter.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An index into a dimension, which may count from the end; -1 where it is outside. */
static int64_t place_of(struct onnx_int index, int64_t size)
{
    int64_t place = index.fixed + (index.fixed < 0 ? size : 0);
    return index.batch == 0 && place >= 0 && place < size ? place : -1;
}

static int outside(struct onnx_importer *importer)
{
    return onnx_fail(importer, -EINVAL, "one of its indices is outside its data");
}

/* Of a constant no places differ from image to image. */
static int no_images(struct onnx_importer *importer, const struct onnx_value *indices)
{
    if (indices->shape.batch_axis < 0)
        return 0;
    return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                       "its indices differ from image to image, but its data do not");
}

/* ---- Slices, each at an index of several dimensions ---- */

struct slices {
    int depth;             /* dimensions of an index */
    int64_t count, length; /* how many slices, and the elements of each */
};

static int read_slices(struct onnx_importer *importer, const struct onnx_value *x,
                       const struct onnx_value *indices, struct slices *slices)
{
    int64_t depth = indices->shape.rank > 0 ? indices->shape.dims[indices->shape.rank - 1] : 0;
    if (indices->kind != ONNX_INTS || depth < 1 || depth > x->shape.rank)
        return onnx_fail(importer, -EINVAL, "its indices do not go together with its data");
    *slices = (struct slices){.depth = (int)depth,
                              .count = convoy_shape_elements(&indices->shape) / depth,
                              .length = onnx_product(&x->shape, (int)depth, x->shape.rank)};
    return 0;
}

/* The first element of slice i; -1 where its index is outside. */
static int64_t start_of(const struct onnx_value *x, const struct onnx_value *indices,
                        const struct slices *slices, int64_t i)
{
    int64_t at = 0;
    for (int axis = 0; axis < slices->depth; axis++) {
        int64_t place = place_of(indices->ints[i * slices->depth + axis], x->shape.dims[axis]);
        if (place < 0)
            return -1;
        at = at * x->shape.dims[axis] + place;
    }
    return at * slices->length;
}

static int read_gather_nd(struct onnx_importer *importer)
{
    const struct onnx_value *x, *indices;
    struct slices slices = {0, 0, 0};
    struct convoy_shape shape = {.batch_axis = -1};
    int64_t batch_dims;
    size_t size;
    void *data;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_need_constant(importer, 1, &indices);
    if (status == 0)
        status = onnx_attribute_int(importer, "batch_dims", 0, &batch_dims);
    if (status == 0 && batch_dims != 0)
        status = onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its batch_dims are not supported");
    if (status == 0)
        status = read_slices(importer, x, indices, &slices);
    if (status != 0)
        return status;
    if (indices->shape.rank - 1 + x->shape.rank - slices.depth > CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its result has more than %d dimensions",
                           CONVOY_MAX_RANK);
    if (x->kind == ONNX_ACTIVATION)
        return onnx_gather_slices(importer, x, indices);
    status = no_images(importer, indices);
    if (status != 0)
        return status;
    for (int i = 0; i < indices->shape.rank - 1; i++)
        shape.dims[shape.rank++] = indices->shape.dims[i];
    for (int i = slices.depth; i < x->shape.rank; i++)
        shape.dims[shape.rank++] = x->shape.dims[i];
    status = onnx_allocate(importer, &shape, x->kind == ONNX_INTS, &data);
    if (status != 0)
        return status;
    const uint8_t *from = onnx_bytes(importer, x, &size);
    size_t bytes = (size_t)slices.length * size;
    for (int64_t i = 0; i < slices.count; i++) {
        int64_t start = start_of(x, indices, &slices, i);
        if (start < 0) {
            free(data);
            return outside(importer);
        }
        memcpy((uint8_t *)data + (size_t)i * bytes, from + (size_t)start * size, bytes);
    }
    return onnx_set_like(importer, x, &shape, data);
}

/* A copy of a constant, to be written to. */
static int copy_of(struct onnx_importer *importer, const struct onnx_value *x, void **data)
{
    size_t size;
    int status = onnx_allocate(importer, &x->shape, x->kind == ONNX_INTS, data);
    if (status != 0)
        return status;
    const uint8_t *from = onnx_bytes(importer, x, &size);
    memcpy(*data, from, (size_t)convoy_shape_elements(&x->shape) * size);
    return 0;
}

static int read_scatter_inputs(struct onnx_importer *importer, const struct onnx_value **x,
                               const struct onnx_value **indices, const struct onnx_value **updates)
{
    char reduction[16];
    int status = onnx_need_input(importer, 0, x);
    if (status == 0)
        status = onnx_need_constant(importer, 1, indices);
    if (status == 0)
        status = onnx_need_input(importer, 2, updates);
    if (status == 0)
        status = onnx_attribute_text(importer, "reduction", reduction, sizeof reduction);
    if (status == 0 && reduction[0] != '\0' && strcmp(reduction, "none") != 0)
        status = onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its reduction is not supported");
    bool alike = status == 0 && ((*updates)->kind == (*x)->kind || (*x)->kind == ONNX_ACTIVATION ||
                                 (*updates)->kind == ONNX_ACTIVATION);
    if (status == 0 && ((*indices)->kind != ONNX_INTS || !alike))
        status = onnx_fail(importer, -EINVAL, "its indices or updates do not go together with its data");
    return status;
}

static bool is_constant(const struct onnx_value *x, const struct onnx_value *updates)
{
    return x->kind != ONNX_ACTIVATION && updates->kind != ONNX_ACTIVATION;
}

static int read_scatter_nd(struct onnx_importer *importer)
{
    const struct onnx_value *x, *indices, *updates;
    struct slices slices = {0, 0, 0};
    size_t size;
    void *data;
    int status = read_scatter_inputs(importer, &x, &indices, &updates);
    if (status == 0 && !is_constant(x, updates))
        return onnx_scatter_slices(importer, x, indices, updates);
    if (status == 0)
        status = no_images(importer, indices);
    if (status == 0)
        status = read_slices(importer, x, indices, &slices);
    if (status == 0 && convoy_shape_elements(&updates->shape) != slices.count * slices.length)
        status = onnx_fail(importer, -EINVAL, "its indices or updates do not go together with its data");
    if (status == 0)
        status = copy_of(importer, x, &data);
    if (status != 0)
        return status;
    const uint8_t *put = onnx_bytes(importer, updates, &size);
    size_t bytes = (size_t)slices.length * size;
    for (int64_t i = 0; i < slices.count; i++) {
        int64_t start = start_of(x, indices, &slices, i);
        if (start < 0) {
            free(data);
            return outside(importer);
        }
        memcpy((uint8_t *)data + (size_t)start * size, put + (size_t)i * bytes, bytes);
    }
    const struct convoy_shape shape = x->shape;
    return onnx_set_like(importer, x, &shape, data);
}

/* ---- Elements, each at an index along one axis ---- */

/* The element of x that index i stands for; -1 where it is outside. `place` is where i is among the indices.
 */
static int64_t element_at(const struct onnx_value *x, const struct onnx_value *indices, int axis, int64_t i,
                          const int64_t *place)
{
    int64_t at = 0;
    for (int k = 0; k < x->shape.rank; k++) {
        int64_t here = k == axis ? place_of(indices->ints[i], x->shape.dims[k]) : place[k];
        if (here < 0 || here >= x->shape.dims[k])
            return -1;
        at = at * x->shape.dims[k] + here;
    }
    return at;
}

static void count_up(const struct convoy_shape *shape, int64_t *place)
{
    for (int k = shape->rank - 1; k >= 0 && ++place[k] == shape->dims[k]; k--)
        place[k] = 0;
}

static int read_elements_axis(struct onnx_importer *importer, const struct onnx_value *x,
                              const struct onnx_value *indices, int *axis)
{
    int64_t given;
    int status = onnx_attribute_int(importer, "axis", 0, &given);
    if (status == 0)
        status = onnx_settle_axis(importer, given, x->shape.rank, axis);
    if (status == 0 && (indices->kind != ONNX_INTS || indices->shape.rank != x->shape.rank))
        status = onnx_fail(importer, -EINVAL, "its indices do not go together with its data");
    return status;
}

static int read_gather_elements(struct onnx_importer *importer)
{
    const struct onnx_value *x, *indices;
    int64_t place[CONVOY_MAX_RANK] = {0};
    int axis;
    size_t size;
    void *data;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_need_constant(importer, 1, &indices);
    if (status == 0)
        status = read_elements_axis(importer, x, indices, &axis);
    if (status == 0 && x->kind == ONNX_ACTIVATION)
        return onnx_gather_elements(importer, x, indices, axis);
    if (status == 0)
        status = no_images(importer, indices);
    if (status == 0)
        status = onnx_allocate(importer, &indices->shape, x->kind == ONNX_INTS, &data);
    if (status != 0)
        return status;
    const struct convoy_shape shape = indices->shape;
    const uint8_t *from = onnx_bytes(importer, x, &size);
    int64_t elements = convoy_shape_elements(&shape);
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = element_at(x, indices, axis, i, place);
        if (at < 0) {
            free(data);
            return outside(importer);
        }
        memcpy((uint8_t *)data + (size_t)i * size, from + (size_t)at * size, size);
        count_up(&shape, place);
    }
    return onnx_set_like(importer, x, &shape, data);
}

static int read_scatter_elements(struct onnx_importer *importer)
{
    const struct onnx_value *x, *indices, *updates;
    int64_t place[CONVOY_MAX_RANK] = {0};
    int axis;
    size_t size;
    void *data;
    int status = read_scatter_inputs(importer, &x, &indices, &updates);
    if (status == 0)
        status = read_elements_axis(importer, x, indices, &axis);
    if (status == 0 && convoy_shape_elements(&updates->shape) != convoy_shape_elements(&indices->shape))
        status = onnx_fail(importer, -EINVAL, "its indices or updates do not go together with its data");
    if (status == 0 && !is_constant(x, updates))
        return onnx_scatter_elements(importer, x, indices, updates, axis);
    if (status == 0)
        status = no_images(importer, indices);
    if (status == 0)
        status = copy_of(importer, x, &data);
    if (status != 0)
        return status;
    const uint8_t *put = onnx_bytes(importer, updates, &size);
    int64_t elements = convoy_shape_elements(&indices->shape);
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = element_at(x, indices, axis, i, place);
        if (at < 0) {
            free(data);
            return outside(importer);
        }
        memcpy((uint8_t *)data + (size_t)at * size, put + (size_t)i * size, size);
        count_up(&indices->shape, place);
    }
    const struct convoy_shape shape = x->shape;
    return onnx_set_like(importer, x, &shape, data);
}

const struct onnx_operator onnx_scatter_operators[] = {
    {"GatherND", 2, 2, read_gather_nd, ONNX_FILE_ORDER},
    {"GatherElements", 2, 2, read_gather_elements, ONNX_FILE_ORDER},
    {"ScatterND", 3, 3, read_scatter_nd, ONNX_FILE_ORDER},
    {"ScatterElements", 3, 3, read_scatter_elements, ONNX_FILE_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
