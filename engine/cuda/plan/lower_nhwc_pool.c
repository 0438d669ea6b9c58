/* Pooling of tensors in 16 bits, channels last: by itself, and behind a convolution. */
#include "engine/cuda/plan/lower_internal.h"

static int add_pool(struct convoy_cuda_lowering *l, const struct convoy_pool_shape *pool, int64_t c,
                    const struct convoy_cuda_place *x, int64_t x_pixel,
                    const struct convoy_cuda_place *padding, int output)
{
    struct convoy_cuda_step *step;
    int code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_POOL, &step);
    if (code)
        return code;
    step->x = *x;
    step->nhwc_pool.shape = *pool;
    step->nhwc_pool.c = c;
    step->nhwc_pool.x_pixel = x_pixel;
    step->nhwc_pool.padding = *padding;
    return convoy_cuda_writes_nhwc(l, output, &step->y, &step->nhwc_pool.y_pixel);
}

struct convoy_pool_shape convoy_cuda_pool_shape(const struct convoy_pool *pool, const int64_t *x,
                                                const int64_t *y, struct convoy_unary act)
{
    struct convoy_pool_shape shape = {.planes = x[0],
                                      .h = (int)x[2],
                                      .w = (int)x[3],
                                      .oh = (int)y[2],
                                      .ow = (int)y[3],
                                      .average = pool->kind == CONVOY_POOL_AVERAGE,
                                      .count_padding = pool->count_include_pad,
                                      .act = act};
    for (int i = 0; i < 2; i++) {
        shape.window[i] = (int)pool->window[i];
        shape.stride[i] = (int)pool->stride[i];
        shape.dilation[i] = (int)pool->dilation[i];
        shape.pad[i] = (int)pool->pad[i];
        shape.pad[i + 2] = (int)pool->pad[i + 2];
    }
    return shape;
}

int convoy_cuda_nhwc_pool_behind(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                 const struct convoy_conv_shape *shape, const struct convoy_node *left,
                                 const struct convoy_cuda_place *bias, const struct convoy_cuda_place *y)
{
    const struct convoy_cuda_place nowhere = {0};
    const struct convoy_pool maxima = {.kind = CONVOY_POOL_MAX,
                                       .window = {group->pool, group->pool},
                                       .stride = {group->pool, group->pool},
                                       .dilation = {1, 1}};
    const int64_t from[] = {shape->n, shape->k, shape->oh, shape->ow};
    const int64_t to[] = {shape->n, shape->k, shape->oh / group->pool, shape->ow / group->pool};
    struct convoy_pool_shape pool = left != NULL
                                        ? convoy_cuda_pool_shape(&left->pool, from, from, group->act)
                                        : convoy_cuda_pool_shape(&maxima, from, to, (struct convoy_unary){0});
    return add_pool(l, &pool, shape->k, y, shape->nhwc.y_pixel, left != NULL ? bias : &nowhere,
                    group->output);
}

int convoy_cuda_lower_nhwc_pool(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                bool *done)
{
    const struct convoy_pool *pool = &l->node->pool;
    struct convoy_cuda_place from = {0}, nowhere = {0};
    int64_t x[4] = {0}, y[4] = {0}, pixel;
    if (l->nhwc_of[group->output].buffer >= 0) { /* the convolution before it pooled */
        *done = true;
        return 0;
    }
    bool rows = l->channels[l->node->inputs[0]] == CONVOY_CUDA_CHANNELS_LAST;
    bool (*dims)(const struct convoy_cuda_lowering *, int, int64_t *) =
        rows ? convoy_cuda_image_dims : convoy_cuda_channels_first;
    if (!dims(l, l->node->inputs[0], x) || !dims(l, group->output, y) ||
        rows != (l->channels[group->output] == CONVOY_CUDA_CHANNELS_LAST))
        return 0;
    int code = convoy_cuda_leave_pool(l, group, done);
    if (code || *done)
        return code;
    /* What the graph has as rows and columns are pixels and channels of tensors of rows. */
    struct convoy_pool turned = *pool;
    for (int i = 0; i < 2 && rows; i++) {
        turned.window[i] = pool->window[1 - i];
        turned.stride[i] = pool->stride[1 - i];
        turned.dilation[i] = pool->dilation[1 - i];
        turned.pad[i] = pool->pad[1 - i];
        turned.pad[i + 2] = pool->pad[3 - i];
    }
    struct convoy_pool_shape shape = convoy_cuda_pool_shape(&turned, x, y, group->act);
    bool all = rows && shape.window[1] == shape.w && shape.ow == 1; /* in whatever order */
    *done = true;
    code = (all ? convoy_cuda_want_nhwc : convoy_cuda_want_in_order)(l, l->node->inputs[0]);
    if (code == 0)
        code = convoy_cuda_reads_nhwc(l, l->node->inputs[0], &from, &pixel);
    return code ? code : add_pool(l, &shape, x[1], &from, pixel, &nowhere, group->output);
}
