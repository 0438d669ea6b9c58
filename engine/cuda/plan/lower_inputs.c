/* Layers that the convolution behind them does to its inputs while it reads them (kernels/nhwc/inputs.cuh),
 * so that their results are never in memory: a product with gates, and a normalisation that no convolution
 * before it can take in. And a layer that changes places with the convolution behind it: means of windows one
 * apart, before a convolution of 1 x 1 to fewer channels, are fewer behind it. Both are linear. */
#include "engine/cuda/plan/lower_internal.h"

#include <math.h>

#define MOST_FP16 65504.0F
#define APART_US  5.5F /* that gates made by a launch of their own take longer */
/* Of a batch whose convolutions make gates themselves. On H200s networks with one image gain 2 to 6 % so;
 * with eight regnet_y_400mf took 0.405 ms in place of 0.416, but efficientnet_b0 0.477 in place of 0.468 and
 * mobilenet_v3_large 0.314 in place of 0.310. */
#define MOST_ROWS 4

bool convoy_cuda_adds_images(const struct convoy_cuda_lowering *l, int group)
{
    int64_t dims[4];
    int residual = l->source->groups->groups[group].residual;
    return residual < 0 || convoy_cuda_channels_first(l, residual, dims);
}

/* The convolution that alone reads the output of a group, which computes it of x; its shape; -1: none. */
static int reader_of(const struct convoy_cuda_lowering *l, int group, int x, struct convoy_conv_shape *shape)
{
    int reader = convoy_cuda_reader_of(l, l->source->groups->groups[group].output);
    if (convoy_cuda_by_layers("CONVOY_INPUTS") || reader < 0 || x == l->graph->input ||
        l->changed_of[x].x >= 0 || convoy_cuda_in_bottleneck(l, reader) ||
        !convoy_cuda_adds_images(l, reader) || !convoy_cuda_plain_conv(l, reader, shape) ||
        !convoy_cuda_keeps_size(shape, 1))
        return -1;
    convoy_cuda_dense_layout(shape);
    shape->nhwc.gate_pixel = shape->nhwc.pixel;
    return reader;
}

/* The same of the group about to be lowered, if a kernel changes the convolution's inputs so; -1: none. */
static int reader_that_does(const struct convoy_cuda_lowering *l, int x, enum convoy_nhwc_input input)
{
    struct convoy_conv_shape shape;
    int reader = reader_of(l, l->group, x, &shape);
    if (reader < 0)
        return -1;
    shape.nhwc.input = input;
    return convoy_cuda_choose_conv(l->source->choices, &shape) != NULL ? reader : -1;
}

/* The group that multiplies x by the gates and is alone in reading these; -1: none. */
static int gating_of(const struct convoy_cuda_lowering *l, int x, int gates)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (int i = 0; i < groups->count; i++) {
        const struct convoy_cuda_group *group = &groups->groups[i];
        int of[2];
        if (!group->view && group->attention == NULL && group->rows == NULL && group->pick == NULL &&
            convoy_cuda_is_gating(l, group, &of[0], &of[1]) && of[0] == x && of[1] == gates)
            return convoy_cuda_read_by_others(l, gates, group) ? -1 : i;
    }
    return -1;
}

/* Is it faster to make the gates in the convolution than in a launch of their own? Until the tuner knows it
 * by the network's time, estimates say it. */
static bool is_faster(const struct convoy_cuda_kernel_choices *choices, const struct convoy_conv_shape *shape)
{
    const struct convoy_conv_kernel *excited = convoy_cuda_choose_conv(choices, shape);
    if (excited == NULL || convoy_cuda_chose_layers(choices, shape))
        return false;
    struct convoy_conv_shape gated_shape = *shape;
    gated_shape.nhwc.input = CONVOY_NHWC_GATED;
    gated_shape.nhwc.excitation = (struct convoy_nhwc_excitation){0};
    const struct convoy_conv_kernel *gated = convoy_cuda_choose_conv(choices, &gated_shape);
    return convoy_cuda_knows_conv(choices, shape) || gated == NULL ||
           excited->estimate_us(shape) <= gated->estimate_us(&gated_shape) + APART_US;
}

int convoy_cuda_excited_reader(const struct convoy_cuda_lowering *l, int x, int gates,
                               const struct convoy_nhwc_excitation *excitation)
{
    struct convoy_conv_shape shape;
    int gating =
        convoy_cuda_by_layers("CONVOY_GATES") || l->plan->rows > MOST_ROWS ? -1 : gating_of(l, x, gates);
    int reader = gating >= 0 ? reader_of(l, gating, x, &shape) : -1;
    if (reader < 0)
        return -1;
    shape.nhwc.input = CONVOY_NHWC_EXCITED;
    shape.nhwc.excitation = *excitation;
    return is_faster(l->source->choices, &shape) ? reader : -1;
}

static int leave(struct convoy_cuda_lowering *l, int reader, const struct convoy_cuda_changed *changed)
{
    int code = convoy_cuda_want_in_order(l, changed->x);
    bool gates = changed->input == CONVOY_NHWC_GATED;
    if (code == 0 && gates)
        code = convoy_cuda_want_in_order(l, changed->gates);
    if (code)
        return code;
    convoy_cuda_keep_until(l, changed->x, reader);
    if (gates)
        convoy_cuda_keep_until(l, changed->gates, reader);
    l->changed_of[l->source->groups->groups[l->group].output] = *changed;
    return convoy_cuda_cover(l, reader);
}

int convoy_cuda_leave_gates(struct convoy_cuda_lowering *l, int x, int gates, bool *done)
{
    struct convoy_cuda_changed changed = {
        x, CONVOY_NHWC_GATED, gates, -1, -1, convoy_cuda_excitation_of(l, gates), {0}, 0, NULL};
    if (changed.excitation.squeezed > 0)
        changed.input = CONVOY_NHWC_EXCITED;
    int reader = changed.input == CONVOY_NHWC_EXCITED
                     ? convoy_cuda_excited_reader(l, x, gates, &changed.excitation)
                 : gates != l->graph->input ? reader_that_does(l, x, changed.input)
                                            : -1;
    if (reader < 0)
        return 0;
    *done = true;
    return leave(l, reader, &changed);
}

int convoy_cuda_leave_scale(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done)
{
    bool relu = group->act.kind == CONVOY_UNARY_RELU;
    const struct convoy_cuda_changed changed = {l->node->inputs[0],
                                                relu ? CONVOY_NHWC_SCALED_RELU : CONVOY_NHWC_SCALED,
                                                -1,
                                                l->node->inputs[1],
                                                l->node->inputs[2],
                                                {0},
                                                {0},
                                                0,
                                                NULL};
    if (!relu && group->act.kind != CONVOY_UNARY_NONE)
        return 0;
    int reader = reader_that_does(l, changed.x, changed.input);
    if (reader < 0)
        return 0;
    *done = true;
    return leave(l, reader, &changed);
}

/* Means of as many windows as pixels, something of the image in each: the mean of nothing is 0, which the
 * convolution would make its bias. */
static bool keeps_pixels(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    const struct convoy_pool *pool = &l->node->pool;
    int64_t x[4] = {0}, y[4] = {0};
    return pool->kind == CONVOY_POOL_AVERAGE && group->act.kind == CONVOY_UNARY_NONE &&
           pool->stride[0] == 1 && pool->stride[1] == 1 && pool->dilation[0] == 1 && pool->dilation[1] == 1 &&
           convoy_cuda_channels_first(l, l->node->inputs[0], x) &&
           convoy_cuda_channels_first(l, group->output, y) && x[2] == y[2] && x[3] == y[3];
}

/* Are means of the convolution's results what fp16 holds, if the results are? Padding is taken to hold its
 * bias. */
static bool holds_biases(const struct convoy_graph *graph, const struct convoy_node *conv)
{
    const struct convoy_tensor *bias = conv->input_count > 2 ? &graph->tensors[conv->inputs[2]] : NULL;
    for (int64_t i = 0; bias != NULL && i < convoy_shape_elements(&bias->shape); i++)
        if (!(fabsf(bias->data[i]) <= MOST_FP16))
            return false;
    return true;
}

/* Can the activation make numbers that fp16 does not hold of those that it holds? Pooling tells of none. */
static bool enlarges(struct convoy_unary act)
{
    switch (act.kind) {
    case CONVOY_UNARY_LEAKY_RELU:
        return !(fabsf(act.alpha) <= 1);
    case CONVOY_UNARY_CLIP:
        return !(act.alpha <= MOST_FP16 && act.beta >= -MOST_FP16);
    default:
        return act.kind >= CONVOY_UNARY_FUSED_KINDS;
    }
}

int convoy_cuda_leave_pool(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done)
{
    const struct convoy_cuda_changed changed = {
        l->node->inputs[0], CONVOY_NHWC_AS_IS, -1, -1, -1, {0}, {0}, 0, l->node};
    int reader = keeps_pixels(l, group) ? reader_that_does(l, changed.x, changed.input) : -1;
    if (reader < 0)
        return 0;
    const struct convoy_cuda_group *behind = &l->source->groups->groups[reader];
    const struct convoy_node *conv = &l->graph->nodes[behind->anchor];
    const int64_t *weights = l->graph->tensors[conv->inputs[1]].shape.dims;
    if (behind->residual >= 0 || enlarges(behind->act) || weights[0] >= weights[1] ||
        !holds_biases(l->graph, conv))
        return 0;
    *done = true;
    return leave(l, reader, &changed);
}

int convoy_cuda_reads_changed(struct convoy_cuda_lowering *l, const struct convoy_cuda_changed *changed,
                              struct convoy_conv_shape *shape, struct convoy_cuda_conv_step *conv)
{
    int code = 0;
    if (changed->input == CONVOY_NHWC_NORMALIZED)
        return 0; /* constants alone, which are the layer's */
    if (changed->input == CONVOY_NHWC_GATED)
        return convoy_cuda_reads_nhwc(l, changed->gates, &conv->gates, &shape->nhwc.gate_pixel);
    if (changed->input == CONVOY_NHWC_EXCITED)
        return convoy_cuda_reads_excitation(l, changed->gates, conv);
    if (changed->input != CONVOY_NHWC_AS_IS)
        code = convoy_cuda_reads(l, changed->scale, &conv->input_scale);
    return code == 0 && changed->input != CONVOY_NHWC_AS_IS
               ? convoy_cuda_reads(l, changed->shift, &conv->input_shift)
               : code;
}
