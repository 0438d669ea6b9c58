/* Tensors whose rows are those of another one (rows.h), and orders of rows. */
#include "engine/cuda/plan/lower_internal.h"

#include "engine/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(const struct convoy_cuda_lowering *l, int64_t rows)
{
    return convoy_fail(l->error, -ENOMEM, "no memory for %lld rows", (long long)rows);
}

const void *convoy_cuda_row_table(struct convoy_cuda_lowering *l, const void *data, size_t bytes, int *code)
{
    uint64_t key = convoy_hash(UINT64_C(0x726f7773), data, bytes);
    const float *there = *code == 0 ? convoy_cuda_weights_find(l->source->weights, key) : NULL;
    return there != NULL || *code != 0
               ? there
               : convoy_cuda_weights_add(l->source->weights, key, data, bytes, code, l->error);
}

static int64_t rows_of(const struct convoy_cuda_lowering *l, int tensor)
{
    int64_t dims[4] = {0};
    return convoy_cuda_image_dims(l, tensor, dims) ? dims[2] * dims[3] : 0;
}

int convoy_cuda_set_order(struct convoy_cuda_lowering *l, int tensor, int32_t *order)
{
    int64_t rows = rows_of(l, tensor);
    bool plain = true;
    for (int64_t i = 0; i < rows && plain; i++)
        plain = order[i] == i; // NOLINT(clang-analyzer-core.*): it does not see that all are there
    l->nhwc_of[tensor].order = NULL;
    if (plain) {
        free(order);
        return 0;
    }
    int32_t **grown = realloc(l->orders, ((size_t)l->order_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        free(order);
        return no_memory(l, rows);
    }
    l->orders = grown;
    l->orders[l->order_count++] = order;
    l->nhwc_of[tensor].order = order;
    return 0;
}

bool convoy_cuda_same_order(const struct convoy_cuda_lowering *l, int a, int b)
{
    const int32_t *one = l->nhwc_of[a].order, *other = l->nhwc_of[b].order;
    int64_t rows = rows_of(l, a);
    if (one == other)
        return true;
    return one != NULL && other != NULL && rows == rows_of(l, b) &&
           memcmp(one, other, (size_t)rows * sizeof(one[0])) == 0;
}

int convoy_cuda_gather(struct convoy_cuda_lowering *l, const struct convoy_cuda_nhwc *from, int64_t from_rows,
                       const struct convoy_cuda_rows *rows, const struct convoy_cuda_place *y,
                       int64_t y_pixel)
{
    int64_t count = rows->count * rows->pieces;
    int32_t *cells = malloc(((size_t)count + 1) * sizeof(cells[0]));
    struct convoy_cuda_step *step;
    int code = 0;
    if (cells == NULL)
        return no_memory(l, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t piece = rows->pieces_of[i], row = piece / rows->per_row;
        int64_t pixel = from->order != NULL && piece >= 0 ? from->order[row] : row;
        cells[i] =
            piece < 0 ? -1 : (int32_t)((pixel * from->pixel + piece % rows->per_row * rows->width) / 8);
    }
    const void *table = convoy_cuda_row_table(l, cells, (size_t)count * sizeof(cells[0]), &code);
    free(cells);
    const void *add =
        rows->add != NULL && code == 0
            ? convoy_cuda_row_table(l, rows->add, (size_t)(count * rows->width) * sizeof(float), &code)
            : NULL;
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_GATHER, &step);
    if (code)
        return code;
    step->nhwc_gather.shape = (struct convoy_nhwc_gather){.n = l->plan->rows,
                                                          .rows = rows->count,
                                                          .x_image = from_rows * from->pixel,
                                                          .y_pixel = y_pixel,
                                                          .width = (int)rows->width,
                                                          .pieces = rows->pieces,
                                                          .pieces_of = table};
    step->x.where = CONVOY_CUDA_WORKSPACE;
    step->x.offset = CONVOY_CUDA_BUFFER(from->buffer) + (size_t)from->first * sizeof(convoy_fp16);
    step->y = *y;
    if (add != NULL)
        step->nhwc_gather.add = (struct convoy_cuda_place){.where = CONVOY_CUDA_CONSTANT, .constant = add};
    return 0;
}

int convoy_cuda_want_in_order(struct convoy_cuda_lowering *l, int tensor)
{
    struct convoy_cuda_place y = {0};
    int64_t dims[4] = {0}, y_pixel;
    int code = convoy_cuda_want_nhwc(l, tensor);
    if (code || l->nhwc_of[tensor].order == NULL)
        return code;
    convoy_cuda_image_dims(l, tensor, dims);
    const struct convoy_cuda_nhwc from = l->nhwc_of[tensor];
    struct convoy_cuda_rows rows = {.base = tensor,
                                    .count = dims[2] * dims[3],
                                    .width = convoy_nhwc_channels(dims[1]),
                                    .pieces = 1,
                                    .per_row = 1};
    rows.pieces_of = malloc(((size_t)rows.count + 1) * sizeof(rows.pieces_of[0]));
    if (rows.pieces_of == NULL)
        return no_memory(l, rows.count);
    for (int64_t i = 0; i < rows.count; i++)
        rows.pieces_of[i] = (int32_t)i;
    l->nhwc_of[tensor] = (struct convoy_cuda_nhwc){.buffer = -1};
    l->part_of[tensor].whole = -1; /* as a part of another tensor it would be written over what is read */
    code = convoy_cuda_writes_nhwc(l, tensor, &y, &y_pixel);
    if (code == 0)
        code = convoy_cuda_gather(l, &from, rows.count, &rows, &y, y_pixel);
    free(rows.pieces_of);
    return code;
}

int convoy_cuda_lower_rows(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    const struct convoy_cuda_rows *rows = group->rows;
    struct convoy_cuda_place y = {0};
    int64_t dims[4] = {0}, y_pixel;
    int code = convoy_cuda_want_nhwc(l, rows->base);
    if (code)
        return code;
    if (l->pick_of[rows->base] == rows || group->pick != NULL) {
        convoy_cuda_name_nhwc(l, rows->base, group->output);
        return 0;
    }
    const struct convoy_cuda_nhwc from = l->nhwc_of[rows->base];
    if (rows->copies) {
        convoy_cuda_image_dims(l, rows->base, dims);
        code = convoy_cuda_writes_nhwc(l, group->output, &y, &y_pixel);
        return code ? code : convoy_cuda_gather(l, &from, dims[2] * dims[3], rows, &y, y_pixel);
    }
    int32_t *order = malloc(((size_t)rows->count + 1) * sizeof(order[0]));
    if (order == NULL)
        return no_memory(l, rows->count);
    for (int64_t i = 0; i < rows->count; i++)
        order[i] = from.order != NULL ? from.order[rows->pieces_of[i]] : rows->pieces_of[i];
    convoy_cuda_name_nhwc(l, rows->base, group->output);
    return convoy_cuda_set_order(l, group->output, order);
}
