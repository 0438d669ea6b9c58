/* Taking elements at places along an axis, and writing at places that form a grid, with nodes that the graph
 * has: PAD with negative amounts crops, CONCAT joins. */
#include "engine/onnx/emit.h"

#include "engine/onnx/fail.h"

#include <stdlib.h>

/* Pieces into which an activation is cut for one node of the file, at most. */
#define MOST_PIECES 4096

/* Cuts `count` rows of `step` along an axis from start on; the last one is filled up with zeros where the
 * axis is too short. *rows is their shape: the axis is two, the second of `step`. */
static int cut_into_rows(struct onnx_importer *importer, int tensor, int axis, int64_t start, int64_t step,
                         int64_t count, struct convoy_shape *rows, int *result)
{
    struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    int64_t size = shape.dims[axis];
    struct convoy_node *node;
    shape.dims[axis] = count * step;
    int status = onnx_emit(importer, CONVOY_OP_PAD, &tensor, 1, &shape, &node);
    if (status != 0)
        return status;
    node->pad.before[axis] = -start;
    node->pad.after[axis] = start + count * step - size;
    *rows = (struct convoy_shape){.batch_axis = -1};
    for (int i = 0; i < shape.rank; i++) {
        if (i == shape.batch_axis)
            rows->batch_axis = rows->rank;
        rows->dims[rows->rank++] = i == axis ? count : shape.dims[i];
        if (i == axis)
            rows->dims[rows->rank++] = step;
    }
    return onnx_emit_reshape(importer, node->output, rows, result);
}

/* `count` elements from start on, `step` > 1 apart, along an axis: the axis is cut into rows of `step`, of
 * which the first column is taken. */
static int emit_strided(struct onnx_importer *importer, int tensor, int axis, int64_t start, int64_t step,
                        int64_t count, int *result)
{
    struct convoy_shape shape = importer->graph->tensors[tensor].shape, rows;
    if (axis == shape.batch_axis)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it takes some of the images of a batch");
    int status = cut_into_rows(importer, tensor, axis, start, step, count, &rows, result);
    if (status == 0)
        status = onnx_emit_crop(importer, *result, axis + 1, 0, 1, result);
    shape.dims[axis] = count;
    return status == 0 ? onnx_emit_reshape(importer, *result, &shape, result) : status;
}

/* How many of the indices, from the first on, are `step` apart. */
static int64_t run_of(const int64_t *indices, int64_t count, int64_t *step)
{
    int64_t length = 1;
    *step = count > 1 ? indices[1] - indices[0] : 1;
    while (length < count && indices[length] - indices[length - 1] == *step)
        length++;
    return length;
}

int onnx_emit_take(struct onnx_importer *importer, int tensor, int axis, const int64_t *indices,
                   int64_t count, int *result)
{
    const struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    int *parts = malloc(((size_t)count + 1) * sizeof *parts);
    int64_t made = 0;
    int status = 0;
    if (parts == NULL)
        return onnx_out_of_memory(importer);
    for (int64_t i = 0; i < count && status == 0;) {
        int64_t step, length = run_of(indices + i, count - i, &step);
        if (made == MOST_PIECES)
            status = onnx_refuse(importer, ONNX_CUT,
                                 "it cuts what depends on the model's input into more than %d pieces",
                                 MOST_PIECES);
        else if (step == 1)
            status = onnx_emit_crop(importer, tensor, axis, indices[i], length, &parts[made++]);
        else if (step > 1 && length > 2 && shape.rank < CONVOY_MAX_RANK)
            status = emit_strided(importer, tensor, axis, indices[i], step, length, &parts[made++]);
        else
            status = onnx_emit_crop(importer, tensor, axis, indices[i], length = 1, &parts[made++]);
        i += length;
    }
    if (status == 0)
        status = onnx_emit_concat(importer, parts, made, axis, result);
    free(parts);
    return status;
}

/* Writes `count` elements along an axis, which lie in the tensor `written`, into the places start,
 * start + step and so on of the tensor `around`. */
static int write_axis(struct onnx_importer *importer, int around, int written, int axis, int64_t start,
                      int64_t count, int *result)
{
    int64_t size = importer->graph->tensors[around].shape.dims[axis], end = start + count;
    int parts[3], made = 0, status = 0;
    if (start > 0)
        status = onnx_emit_crop(importer, around, axis, 0, start, &parts[made++]);
    parts[made++] = written;
    if (status == 0 && end < size)
        status = onnx_emit_crop(importer, around, axis, end, size - end, &parts[made++]);
    return status == 0 ? onnx_emit_concat(importer, parts, made, axis, result) : status;
}

/* The same `step` > 1 apart: from the first place on the axis is cut into rows of `step`, whose first column
 * is written. */
static int write_strided(struct onnx_importer *importer, int around, int written, int axis, int64_t start,
                         int64_t step, int64_t count, int *result)
{
    struct convoy_shape shape = importer->graph->tensors[around].shape, rows;
    int64_t size = shape.dims[axis], span = (count - 1) * step + 1;
    int64_t whole = start + count * step <= size ? count * step : span; /* the last row may be cut short */
    int inside;
    if (shape.rank == CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                           "it writes into a tensor of %d dimensions at places with gaps", CONVOY_MAX_RANK);
    int status = cut_into_rows(importer, around, axis, start, step, count, &rows, &inside);
    shape.dims[axis] = count * step;
    rows.dims[axis + 1] = 1;
    if (status == 0)
        status = onnx_emit_reshape(importer, written, &rows, &written);
    if (status == 0)
        status = write_axis(importer, inside, written, axis + 1, 0, 1, &inside);
    if (status == 0)
        status = onnx_emit_reshape(importer, inside, &shape, &inside);
    if (status == 0)
        status = onnx_emit_crop(importer, inside, axis, 0, whole, &inside);
    return status == 0 ? write_axis(importer, around, inside, axis, start, whole, result) : status;
}

/* The places of the grid along the axes before `end`. */
static int crop_to_grid(struct onnx_importer *importer, int tensor, const struct onnx_grid *grid, int end,
                        int *result)
{
    int status = 0;
    *result = tensor;
    for (int axis = 0; axis < end && status == 0; axis++) {
        int64_t count = grid->count[axis], *places;
        if (count == importer->graph->tensors[tensor].shape.dims[axis])
            continue;
        places = malloc((size_t)count * sizeof *places);
        if (places == NULL)
            return onnx_out_of_memory(importer);
        for (int64_t i = 0; i < count; i++)
            places[i] = grid->start[axis] + i * grid->step[axis];
        status = onnx_emit_take(importer, *result, axis, places, count, result);
        free(places);
    }
    return status;
}

int onnx_emit_written(struct onnx_importer *importer, int tensor, const struct onnx_grid *grid, int updates,
                      int *result)
{
    const struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    int status = 0;
    *result = updates;
    for (int axis = shape.rank - 1; axis >= 0 && status == 0; axis--) {
        int around;
        if (grid->count[axis] == shape.dims[axis])
            continue;
        status = crop_to_grid(importer, tensor, grid, axis, &around);
        if (status != 0)
            break;
        if (grid->step[axis] == 1)
            status =
                write_axis(importer, around, *result, axis, grid->start[axis], grid->count[axis], result);
        else
            status = write_strided(importer, around, *result, axis, grid->start[axis], grid->step[axis],
                                   grid->count[axis], result);
    }
    return status;
}
