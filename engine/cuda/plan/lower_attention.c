/* Attention in one kernel (attention.h says what is recognised). */
#include "engine/cuda/plan/lower_internal.h"

#include "engine/base/hash.h"

/* Uploads a table of the attention once for all plans: they are told apart by its result and number. */
static const void *table(struct convoy_cuda_lowering *l, const struct convoy_cuda_attention *attention,
                         int number, const void *data, size_t bytes, int *code)
{
    const int which[2] = {attention->tensor[CONVOY_CUDA_ATTENTION_SIDES - 1], number};
    uint64_t key = convoy_hash(UINT64_C(0x617474656e64), which, sizeof(which));
    const float *there = convoy_cuda_weights_find(l->source->weights, key);
    return there != NULL || *code != 0
               ? there
               : convoy_cuda_weights_add(l->source->weights, key, data, bytes, code, l->error);
}

static bool in_order(const int32_t *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (rows[i] != i)
            return false;
    return true;
}

int convoy_cuda_lower_attention(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    const struct convoy_cuda_attention *attention = group->attention;
    struct convoy_cuda_place places[CONVOY_CUDA_ATTENTION_SIDES] = {{0}};
    struct convoy_nhwc_attention shape = attention->shape;
    struct convoy_nhwc_rows_of_heads *sides[] = {&shape.q, &shape.k, &shape.v, &shape.y};
    struct convoy_cuda_step *step;
    int code = 0;
    shape.n = l->plan->rows;
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES && code == 0; i++) {
        bool last = i == CONVOY_CUDA_ATTENTION_SIDES - 1;
        int64_t dims[4] = {0},
                rows = (int64_t)shape.windows * (i == 1 || i == 2 ? shape.keys : shape.queries);
        if (!last)
            code = convoy_cuda_want_nhwc(l, attention->tensor[i]);
        if (code == 0)
            code = (last ? convoy_cuda_writes_nhwc : convoy_cuda_reads_nhwc)(l, attention->tensor[i],
                                                                             &places[i], &sides[i]->pixel);
        places[i].offset += (size_t)attention->channel[i] * sizeof(convoy_fp16);
        convoy_cuda_image_dims(l, attention->tensor[i], dims);
        sides[i]->image = dims[2] * dims[3] * sides[i]->pixel;
        if (!in_order(attention->rows[i], rows))
            sides[i]->rows =
                table(l, attention, i, attention->rows[i], (size_t)rows * sizeof(int32_t), &code);
    }
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
    step->nhwc_attention.bias.where = CONVOY_CUDA_CONSTANT;
    step->nhwc_attention.bias.constant = table(
        l, attention, CONVOY_CUDA_ATTENTION_SIDES, attention->bias,
        (size_t)(shape.windows * shape.heads * shape.queries * shape.bias_query) * sizeof(float), &code);
    return code;
}
