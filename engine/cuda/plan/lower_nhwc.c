/* Layers whose tensors are in 16 bits, channels last (kernels/nhwc.h). What has no kernel there is lowered to
 * float32 in planes, and convoy_cuda_want_planes() and convoy_cuda_want_nhwc() convert between the two. */
#include "engine/cuda/plan/lower_internal.h"

#include <limits.h>

/* The strides of a tensor of whole images, rows following each other. */
static void dense_strides(struct convoy_conv_shape *shape, int64_t pixel)
{
    shape->nhwc.pixel = pixel;
    shape->nhwc.row = pixel * shape->w;
    shape->nhwc.image = shape->nhwc.row * shape->h;
}

void convoy_cuda_dense_layout(struct convoy_conv_shape *shape)
{
    shape->pool = 1;
    shape->nhwc.on = true;
    dense_strides(shape, convoy_nhwc_channels(shape->c));
    shape->nhwc.y_pixel = shape->nhwc.residual_pixel = convoy_nhwc_channels(shape->k);
}

/* Rows that a convolution of few channels reads by windows: columns of padding, then the image, and as much
 * as the last window needs; whole cells of 8 numbers. */
static struct convoy_nhwc_rows window_rows(const struct convoy_conv_shape *shape, int window)
{
    int needed = (shape->ow - 1) * shape->stride[1] + shape->s, there = shape->pad[1] + shape->w;
    int cells = 8 / window;
    int row = needed > there ? needed : there;
    return (struct convoy_nhwc_rows){.n = shape->n,
                                     .c = shape->c,
                                     .h = shape->h,
                                     .w = shape->w,
                                     .pixel = window,
                                     .left = shape->pad[1],
                                     .row = (row + cells - 1) / cells * cells};
}

/* Adds the step that reads the input rows. */
static int read_rows(struct convoy_cuda_lowering *l, const struct convoy_nhwc_rows *rows,
                     struct convoy_cuda_place *place)
{
    struct convoy_cuda_step *step;
    int code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_READ, &step);
    if (code)
        return code;
    step->nhwc_read.images = convoy_cuda_images(l->source, l->plan->layout);
    step->nhwc_read.rows = *rows;
    step->x.where = CONVOY_CUDA_WORKSPACE;
    code = convoy_cuda_scratch(
        l, (size_t)rows->n * (size_t)rows->h * (size_t)rows->row * (size_t)rows->pixel * sizeof(convoy_fp16),
        place);
    step->y = *place;
    return code;
}

/* Chooses how the network's input rows reach its first convolution: by windows where there are few channels.
 */
static struct convoy_nhwc_rows input_rows(const struct convoy_cuda_lowering *l,
                                          struct convoy_conv_shape *shape)
{
    struct convoy_nhwc_rows rows;
    int window = shape->c > 4 ? 0 : shape->stride[1] % 2 == 0 ? 4 : 8;
    if (window > 0 && shape->groups == 1) {
        struct convoy_conv_shape windows = *shape;
        rows = window_rows(shape, window);
        windows.nhwc.window = window;
        windows.nhwc.pixel = window;
        windows.nhwc.row = (int64_t)rows.row * window;
        windows.nhwc.image = windows.nhwc.row * shape->h;
        if (convoy_cuda_choose_conv(l->source->choices, &windows) != NULL) {
            *shape = windows;
            return rows;
        }
    }
    rows = (struct convoy_nhwc_rows){.n = shape->n,
                                     .c = shape->c,
                                     .h = shape->h,
                                     .w = shape->w,
                                     .pixel = (int)convoy_nhwc_channels(shape->c),
                                     .row = shape->w};
    dense_strides(shape, rows.pixel);
    return rows;
}

/* Adds the step of a convolution whose shape is complete but for the strides of x, and of what follows it. */
static int add_conv(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                    struct convoy_conv_shape *shape, bool rows, bool *done)
{
    const struct convoy_node *node = l->node;
    const struct convoy_cuda_changed *changed = &l->changed_of[node->inputs[0]];
    struct convoy_cuda_place x = {0}, residual = {0}, y = {0};
    struct convoy_cuda_conv_step changes = {0};
    struct convoy_nhwc_rows read = {0};
    int input = changed->x >= 0 ? changed->x : node->inputs[0];
    const struct convoy_cuda_siblings *siblings = convoy_cuda_siblings_of(l, l->group);
    struct convoy_cuda_step *step;
    if (siblings != NULL)
        convoy_cuda_join_siblings(l, siblings, shape);
    bool pools = group->pool > 1 || changed->pool != NULL;
    if (changed->pool != NULL)
        shape->act = (struct convoy_unary){0};
    convoy_cuda_dense_layout(shape);
    if (rows)
        read = input_rows(l, shape);
    shape->nhwc.input = changed->input;
    shape->nhwc.excitation = changed->excitation;
    shape->nhwc.normalization = changed->normalization;
    shape->bias = shape->bias || (changed->input == CONVOY_NHWC_NORMALIZED && changed->shift >= 0);
    const struct convoy_conv_kernel *kernel = convoy_cuda_choose_conv(l->source->choices, shape);
    if (kernel == NULL)
        return 0;
    *done = true;
    bool by_row = node->op == CONVOY_OP_DENSE;
    int code = rows     ? read_rows(l, &read, &x)
               : by_row ? convoy_cuda_want_nhwc(l, input)
                        : convoy_cuda_want_in_order(l, input);
    if (code == 0 && !rows) {
        code = convoy_cuda_reads_nhwc(l, input, &x, &shape->nhwc.pixel);
        dense_strides(shape, shape->nhwc.pixel);
    }
    if (code == 0)
        code = convoy_cuda_reads_changed(l, changed, shape, &changes);
    if (code == 0 && shape->residual)
        code = convoy_cuda_want_in_order(l, group->residual);
    if (code == 0 && shape->residual)
        code = convoy_cuda_reads_nhwc(l, group->residual, &residual, &shape->nhwc.residual_pixel);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_CONV, &step);
    if (code)
        return code;
    struct convoy_cuda_conv_step *conv = &step->conv;
    *conv = changes;
    conv->kernel = kernel;
    conv->images.image_bytes = shape->nhwc.image * (int64_t)sizeof(convoy_fp16);
    step->x = x;
    conv->residual = residual;
    code = siblings != NULL ? convoy_cuda_sibling_constants(l, siblings, shape, conv)
           : changed->input == CONVOY_NHWC_NORMALIZED
               ? convoy_cuda_normalized_constants(l, changed, shape, conv)
               : convoy_cuda_layer_constants(l, shape, conv);
    if (code == 0)
        code = convoy_cuda_scratch(l, kernel->scratch_bytes(shape), &conv->scratch);
    if (code == 0 && pools)
        code = convoy_cuda_scratch(l,
                                   (size_t)shape->n * (size_t)shape->oh * (size_t)shape->ow *
                                       (size_t)shape->nhwc.y_pixel * sizeof(convoy_fp16),
                                   &y);
    else if (code == 0 && siblings != NULL)
        code = convoy_cuda_writes_siblings(l, siblings, &y, &shape->nhwc.y_pixel);
    else if (code == 0)
        code = convoy_cuda_writes_nhwc(l, group->output, &y, &shape->nhwc.y_pixel);
    if (code == 0 && by_row)
        l->nhwc_of[group->output].order = l->nhwc_of[node->inputs[0]].order;
    step->y = y;
    conv->shape = *shape;
    const struct convoy_cuda_place bias = conv->bias;
    return code == 0 && pools ? convoy_cuda_nhwc_pool_behind(l, group, shape, changed->pool, &bias, &y)
                              : code;
}

/* The group that does nothing but pool the output of this one, over 3 x 3 with stride 2, and is alone in
 * reading it; NULL: none. */
static const struct convoy_cuda_group *overlapping_pool(const struct convoy_cuda_lowering *l,
                                                        const struct convoy_cuda_group *group)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (const struct convoy_cuda_group *next = group + 1; next < groups->groups + groups->count; next++) {
        const struct convoy_node *node = &l->graph->nodes[next->anchor];
        const struct convoy_pool *pool = &node->pool;
        if (node->op != CONVOY_OP_POOL || node->inputs[0] != group->output)
            continue;
        for (int i = 0; i < 2; i++)
            if (pool->window[i] != 3 || pool->stride[i] != 2 || pool->dilation[i] != 1 ||
                pool->pad[i] != pool->pad[0] || pool->pad[i] > 1)
                return NULL;
        bool alone = pool->kind == CONVOY_POOL_MAX && next->act.kind == CONVOY_UNARY_NONE &&
                     !convoy_cuda_read_by_others(l, group->output, next);
        return alone ? next : NULL;
    }
    return NULL;
}

/* The first layer from the images as they come, with the pooling behind it where a kernel has both. */
static int lower_stem(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                      const struct convoy_conv_shape *conv_shape, bool *done)
{
    const struct convoy_cuda_group *pool = overlapping_pool(l, group);
    struct convoy_images images = convoy_cuda_images(l->source, l->plan->layout);
    struct convoy_conv_shape shape = *conv_shape;
    const struct convoy_conv_kernel *kernel = NULL;
    struct convoy_cuda_step *step;
    int64_t y[4] = {0};
    shape.u8 = images.u8;
    shape.nhwc.on = shape.nhwc.images = true;
    shape.nhwc.y_pixel = convoy_nhwc_channels(shape.k);
    if (pool != NULL && convoy_cuda_image_dims(l, pool->output, y)) {
        shape.nhwc.pool =
            (struct convoy_nhwc_pool){(int)y[2], (int)y[3], (int)l->graph->nodes[pool->anchor].pool.pad[0]};
        kernel = convoy_cuda_choose_conv(l->source->choices, &shape);
    }
    if (kernel == NULL) {
        shape.nhwc.pool = (struct convoy_nhwc_pool){0};
        kernel = convoy_cuda_choose_conv(l->source->choices, &shape);
        pool = NULL;
    }
    if (kernel == NULL)
        return 0;
    *done = true;
    int code = convoy_cuda_step(l, CONVOY_CUDA_CONV, &step);
    if (code)
        return code;
    struct convoy_cuda_conv_step *conv = &step->conv;
    conv->kernel = kernel;
    conv->images = images;
    step->x.where = CONVOY_CUDA_WORKSPACE;
    code = convoy_cuda_layer_constants(l, &shape, conv);
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, pool != NULL ? pool->output : group->output, &step->y,
                                       &shape.nhwc.y_pixel);
    conv->shape = shape;
    return code;
}

static int lower_conv(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done)
{
    struct convoy_conv_shape shape;
    int64_t dims[4] = {0};
    const struct convoy_cuda_siblings *siblings = convoy_cuda_siblings_of(l, l->group);
    if (siblings != NULL && siblings->first != l->group) {
        *done = true;
        return convoy_cuda_cover(l, siblings->first);
    }
    bool rows = l->node->inputs[0] == l->graph->input && convoy_cuda_reads_rows(l->graph);
    if (!convoy_cuda_channels_first(l, l->node->inputs[0], dims) ||
        (group->residual >= 0 && !convoy_cuda_channels_first(l, group->residual, dims)) ||
        !convoy_cuda_channels_first(l, group->output, dims) ||
        !convoy_cuda_conv_shape(l->source, group, l->plan->rows, &shape))
        return 0;
    struct convoy_conv_shape as_rows = shape;
    int code = rows ? lower_stem(l, group, &shape, done) : 0;
    if (code == 0 && !*done)
        code = add_conv(l, group, &as_rows, rows, done);
    return code || *done || !rows ? code : convoy_cuda_lower_patches(l, group, &shape, done);
}

bool convoy_cuda_dense_shape(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                             struct convoy_conv_shape *shape)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    const int64_t *w = l->graph->tensors[node->inputs[1]].shape.dims;
    int64_t x[4] = {0}, y[4] = {0};
    if (!convoy_cuda_image_dims(l, node->inputs[0], x) || !convoy_cuda_image_dims(l, group->output, y) ||
        node->inputs[0] == l->graph->input || x[1] != w[1] || y[1] != w[0] || x[2] * x[3] != y[2] * y[3] ||
        x[0] * x[2] * x[3] > INT_MAX || w[0] > INT_MAX / 8 || w[1] > INT_MAX / 8)
        return false;
    *shape = (struct convoy_conv_shape){.n = (int)x[0],
                                        .c = (int)w[1],
                                        .h = 1,
                                        .w = (int)(x[2] * x[3]),
                                        .k = (int)w[0],
                                        .r = 1,
                                        .s = 1,
                                        .groups = 1,
                                        .stride = {1, 1},
                                        .dilation = {1, 1},
                                        .oh = 1,
                                        .ow = (int)(x[2] * x[3]),
                                        .bias = node->input_count > 2,
                                        .act = group->act,
                                        .compute_type = l->source->compute_type};
    return true;
}

/* A dense layer is a convolution of 1 x 1: a pixel for each row of an image. */
static int lower_dense(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done)
{
    struct convoy_conv_shape shape;
    return convoy_cuda_dense_shape(l, group, &shape) ? add_conv(l, group, &shape, false, done) : 0;
}

int convoy_cuda_nhwc_scale_shift(struct convoy_cuda_lowering *l, int input, struct convoy_unary act,
                                 int scale, int shift, const struct convoy_cuda_place *to, int64_t to_pixel,
                                 int output)
{
    struct convoy_cuda_step *step;
    int64_t x[4] = {0};
    int code = convoy_cuda_want_nhwc(l, input);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_SCALE_SHIFT, &step);
    if (code)
        return code;
    convoy_cuda_image_dims(l, input, x);
    step->nhwc_scale_shift.n = x[0];
    step->nhwc_scale_shift.pixels = x[2] * x[3];
    step->nhwc_scale_shift.c = x[1];
    step->nhwc_scale_shift.act = act;
    code = convoy_cuda_reads_nhwc(l, input, &step->x, &step->nhwc_scale_shift.x_pixel);
    if (code == 0 && scale >= 0)
        code = convoy_cuda_reads(l, scale, &step->nhwc_scale_shift.scale);
    if (code == 0 && shift >= 0)
        code = convoy_cuda_reads(l, shift, &step->nhwc_scale_shift.shift);
    if (to != NULL) {
        step->y = *to;
        step->nhwc_scale_shift.y_pixel = to_pixel;
        return code;
    }
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, output, &step->y, &step->nhwc_scale_shift.y_pixel);
    if (code == 0)
        l->nhwc_of[output].order = l->nhwc_of[input].order;
    return code;
}

static int lower_pointwise(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done)
{
    bool scales = l->node->op == CONVOY_OP_SCALE_SHIFT;
    int64_t x[4] = {0};
    if (!(scales ? convoy_cuda_channels_first : convoy_cuda_image_dims)(l, l->node->inputs[0], x) ||
        l->channels[l->node->inputs[0]] != l->channels[group->output])
        return 0;
    int code = scales ? convoy_cuda_leave_scale(l, group, done) : 0;
    if (code || *done)
        return code;
    *done = true;
    return convoy_cuda_nhwc_scale_shift(l, l->node->inputs[0], group->act, scales ? l->node->inputs[1] : -1,
                                        scales ? l->node->inputs[2] : -1, NULL, 0, group->output);
}

/* Copies what is not computed in its place. */
static int lower_concat(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done)
{
    const struct convoy_node *node = l->node;
    struct convoy_cuda_place to = {0};
    int64_t dims[4] = {0}, pixel, first = 0;
    if (!convoy_cuda_concats_nhwc(l, node, group->output))
        return 0;
    *done = true;
    int code = convoy_cuda_writes_nhwc(l, group->output, &to, &pixel);
    for (int i = 0; i < node->input_count && code == 0; i++) {
        const struct convoy_unary none = {0};
        int input = node->inputs[i];
        code = convoy_cuda_want_in_order(l, input);
        const struct convoy_cuda_nhwc *whole = &l->nhwc_of[group->output], *part = &l->nhwc_of[input];
        if (code == 0 && (part->buffer != whole->buffer || part->first != whole->first + first))
            code = convoy_cuda_nhwc_scale_shift(l, input, none, -1, -1, &to, pixel, -1);
        convoy_cuda_image_dims(l, input, dims);
        to.offset += (size_t)dims[1] * sizeof(convoy_fp16);
        first += dims[1];
    }
    return code;
}

int convoy_cuda_lower_nhwc(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done)
{
    switch (l->node->op) {
    case CONVOY_OP_CONV:
        return lower_conv(l, group, done);
    case CONVOY_OP_DENSE:
        return lower_dense(l, group, done);
    case CONVOY_OP_POOL:
        return convoy_cuda_lower_nhwc_pool(l, group, done);
    case CONVOY_OP_ACTIVATION:
    case CONVOY_OP_SCALE_SHIFT:
        return lower_pointwise(l, group, done);
    case CONVOY_OP_BINARY:
        return convoy_cuda_lower_nhwc_binary(l, group, done);
    case CONVOY_OP_NORMALIZE:
        return convoy_cuda_lower_normalize(l, group, done);
    case CONVOY_OP_CONCAT:
        return lower_concat(l, group, done);
    default:
        return 0;
    }
}
