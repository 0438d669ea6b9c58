/* Attention in one kernel (attention.h says what is recognised). */
#include "engine/cuda/plan/lower_internal.h"

#include "engine/base/hash.h"

#include <errno.h>
#include <stdlib.h>

#define BIAS   UINT64_C(0x617474656e64)
#define FACTOR UINT64_C(0x666163746f72)

/* Uploads numbers of one kind once for all plans: they are told apart by the attention's result. */
static const void *table_of(struct convoy_cuda_lowering *l, const struct convoy_cuda_attention *attention,
                            uint64_t kind, const float *numbers, size_t count, int *code)
{
    const int which = attention->tensor[CONVOY_CUDA_ATTENTION_SIDES - 1];
    uint64_t key = convoy_hash(kind, &which, sizeof(which));
    const float *there = convoy_cuda_weights_find(l->source->weights, key);
    return there != NULL ? there
                         : convoy_cuda_weights_add(l->source->weights, key, numbers, count * sizeof(float),
                                                   code, l->error);
}

/* Normalised rows, for this group alone. Queries and keys are mostly parts of one tensor, which is normalised
 * once where both are alike. */
struct normalized {
    int tensor; /* -1: none */
    struct convoy_cuda_place place;
};

/* Copies `count` channels of each pixel, so that pixels have no gaps. */
static int copy_channels(struct convoy_cuda_lowering *l, int64_t n, int64_t pixels, int64_t count,
                         int64_t pixel, struct convoy_cuda_place *x)
{
    struct convoy_cuda_place from = *x;
    struct convoy_cuda_step *step;
    int code = convoy_cuda_scratch(l, (size_t)(n * pixels * count) * sizeof(convoy_fp16), x);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_SCALE_SHIFT, &step);
    if (code)
        return code;
    step->x = from;
    step->y = *x;
    step->nhwc_scale_shift.n = n;
    step->nhwc_scale_shift.pixels = pixels;
    step->nhwc_scale_shift.c = count;
    step->nhwc_scale_shift.x_pixel = pixel;
    step->nhwc_scale_shift.y_pixel = count;
    return 0;
}

/* Replaces the place of a side by one where the channels of its heads are normalised, pixels without gaps.
 * *channel: the first one of the first head. */
static int normalize_side(struct convoy_cuda_lowering *l, const struct convoy_cuda_attention *attention,
                          int side, struct normalized *normalized, struct convoy_cuda_place *place,
                          int64_t *pixel, int64_t *channel)
{
    const struct convoy_node *node = &l->graph->nodes[attention->normalize[side]];
    int64_t dims[4] = {0}, d = attention->shape.d, from = *pixel, count;
    struct convoy_cuda_step *step;
    struct convoy_cuda_place x = *place, y = {0};
    int tensor = attention->tensor[side], code = 0, next = 1;
    convoy_cuda_image_dims(l, tensor, dims);
    int64_t pixels = dims[2] * dims[3];
    count = attention->alike ? dims[1] : attention->shape.heads * d;
    *pixel = count;
    if (attention->alike && normalized->tensor == tensor) {
        *place = normalized->place;
        return 0;
    }
    if (!attention->alike) {
        x.offset += (size_t)*channel * sizeof(convoy_fp16);
        *channel = 0;
    }
    if (from != count) /* it lies among other channels */
        code = copy_channels(l, dims[0], pixels, count, from, &x);
    if (code == 0)
        code = convoy_cuda_scratch(l, (size_t)(dims[0] * pixels * count) * sizeof(convoy_fp16), &y);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_NORMALIZE, &step);
    if (code)
        return code;
    step->x = x;
    step->y = y;
    step->nhwc_normalize.shape = (struct convoy_nhwc_normalize){.n = dims[0],
                                                                .pixels = pixels * (count / d),
                                                                .c = d,
                                                                .x_pixel = d,
                                                                .y_pixel = d,
                                                                .epsilon = node->normalize.epsilon,
                                                                .rms = node->normalize.rms};
    if (!attention->alike && node->normalize.has_scale)
        code = convoy_cuda_reads(l, node->inputs[next++], &step->nhwc_normalize.scale);
    if (code == 0 && !attention->alike && node->normalize.has_shift)
        code = convoy_cuda_reads(l, node->inputs[next], &step->nhwc_normalize.shift);
    *normalized = (struct normalized){tensor, y};
    *place = y;
    return code;
}

/* The pixel of each row of a side; NULL: no memory. */
static int32_t *pixels_of(struct convoy_cuda_lowering *l, const struct convoy_cuda_attention *attention,
                          int side, int64_t count)
{
    const int32_t *order = l->nhwc_of[attention->tensor[side]].order, *rows = attention->rows[side];
    int32_t *pixels = malloc(((size_t)count + 1) * sizeof(pixels[0]));
    for (int64_t i = 0; i < count && pixels != NULL; i++)
        pixels[i] = order != NULL ? order[rows[i]] : rows[i];
    if (pixels == NULL)
        (void)convoy_fail(l->error, -ENOMEM, "no memory for %lld rows", (long long)count);
    return pixels;
}

static bool is_permutation(const int32_t *pixels, int64_t count)
{
    bool *seen = calloc((size_t)count + 1, sizeof(seen[0])), fits = seen != NULL;
    for (int64_t i = 0; i < count && fits; i++) {
        fits = pixels[i] < count && !seen[pixels[i]];
        if (fits)
            seen[pixels[i]] = true;
    }
    free(seen);
    return fits;
}

/* Each row of the result takes the place of the row that asked for it, so that what was cut into windows is
 * whole again in memory. Rows that are picked follow each other. */
static int place_result(struct convoy_cuda_lowering *l, const struct convoy_cuda_attention *attention,
                        const int32_t *queries, int64_t count)
{
    int64_t dims[4] = {0};
    int result = attention->tensor[CONVOY_CUDA_ATTENTION_SIDES - 1];
    const int32_t *rows = attention->rows[CONVOY_CUDA_ATTENTION_SIDES - 1];
    if (l->pick_of[result] != NULL || !convoy_cuda_image_dims(l, result, dims) ||
        dims[2] * dims[3] != count || !is_permutation(queries, count) || !is_permutation(rows, count))
        return 0;
    int32_t *order = malloc(((size_t)count + 1) * sizeof(order[0]));
    if (order == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory for %lld rows", (long long)count);
    for (int64_t i = 0; i < count; i++)
        order[rows[i]] = queries[i];
    return convoy_cuda_set_order(l, result, order);
}

static bool in_order(const int32_t *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (rows[i] != i)
            return false;
    return true;
}

/* Where a side is: its place and its rows. The result comes last. */
static int place_side(struct convoy_cuda_lowering *l, const struct convoy_cuda_attention *attention, int i,
                      struct normalized *normalized, struct convoy_cuda_place *place,
                      struct convoy_nhwc_rows_of_heads *to)
{
    const struct convoy_nhwc_attention *shape = &attention->shape;
    int tensor = attention->tensor[i];
    bool last = i == CONVOY_CUDA_ATTENTION_SIDES - 1;
    int64_t dims[4] = {0}, channel = attention->channel[i],
            count = (int64_t)shape->windows * (i == 1 || i == 2 ? shape->keys : shape->queries);
    int code =
        last ? convoy_cuda_writes_nhwc(l, tensor, place, &to->pixel) : convoy_cuda_want_nhwc(l, tensor);
    if (code == 0 && !last)
        code = convoy_cuda_reads_nhwc(l, tensor, place, &to->pixel);
    if (code == 0 && i < 2 && attention->normalize[i] >= 0)
        code = normalize_side(l, attention, i, normalized, place, &to->pixel, &channel);
    if (code == 0 && last) {
        int32_t *queries = pixels_of(l, attention, 0, count);
        code = queries == NULL ? -ENOMEM : place_result(l, attention, queries, count);
        free(queries);
    }
    if (code)
        return code;
    place->offset += (size_t)channel * sizeof(convoy_fp16);
    convoy_cuda_image_dims(l, tensor, dims);
    to->image = dims[2] * dims[3] * to->pixel;
    int32_t *pixels = pixels_of(l, attention, i, count);
    if (pixels == NULL)
        return -ENOMEM;
    if (!in_order(pixels, count))
        to->rows = convoy_cuda_row_table(l, pixels, (size_t)count * sizeof(pixels[0]), &code);
    free(pixels);
    return code;
}

int convoy_cuda_lower_attention(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    const struct convoy_cuda_attention *attention = group->attention;
    struct convoy_cuda_place places[CONVOY_CUDA_ATTENTION_SIDES] = {{0}};
    struct convoy_nhwc_attention shape = attention->shape;
    struct convoy_nhwc_rows_of_heads *sides[] = {&shape.q, &shape.k, &shape.v, &shape.y};
    struct normalized normalized = {.tensor = -1};
    struct convoy_cuda_step *step;
    int code = 0;
    shape.n = l->plan->rows;
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES && code == 0; i++)
        code = place_side(l, attention, i, &normalized, &places[i], sides[i]);
    if (code == 0 && attention->head_scale != NULL)
        shape.head_scale = table_of(l, attention, FACTOR, attention->head_scale, (size_t)shape.heads, &code);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_ATTENTION, &step);
    if (code)
        return code;
    step->x = places[0];
    step->y = places[3];
    step->nhwc_attention.k = places[1];
    step->nhwc_attention.v = places[2];
    step->nhwc_attention.shape = shape;
    if (attention->bias == NULL)
        return 0;
    int64_t matrices = (int64_t)(shape.bias_window > 0 ? shape.windows : 1) * shape.heads;
    step->nhwc_attention.bias.where = CONVOY_CUDA_CONSTANT;
    step->nhwc_attention.bias.constant = table_of(
        l, attention, BIAS, attention->bias, (size_t)(matrices * shape.queries * shape.bias_query), &code);
    return code;
}
