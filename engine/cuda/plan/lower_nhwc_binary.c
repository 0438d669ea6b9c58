/* Sums, products and the like of tensors in 16 bits, channels last: with a constant for each channel, with a
 * tensor that a dense layer made and can add itself, or in a kernel of their own. */
#include "engine/cuda/plan/lower_internal.h"

/* Is the constant a number for each channel of the tensor? */
static bool is_for_channels(const struct convoy_cuda_lowering *l, int constant, int tensor)
{
    const struct convoy_shape *c = &l->graph->tensors[constant].shape;
    const struct convoy_shape *y = &l->graph->tensors[tensor].shape;
    int axis = (l->channels[tensor] == CONVOY_CUDA_CHANNELS_FIRST ? 1 : y->rank - 1) - (y->rank - c->rank);
    if (l->graph->tensors[constant].data == NULL || c->rank > y->rank || axis < 0 ||
        l->channels[tensor] == CONVOY_CUDA_CHANNELS_NONE)
        return false;
    for (int i = 0; i < c->rank; i++)
        if (c->dims[i] != (i == axis ? y->dims[i + y->rank - c->rank] : 1))
            return false;
    return true;
}

/* A sum or a product with a constant for each channel. */
static int lower_channel_constant(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                  bool *done)
{
    const struct convoy_node *node = l->node;
    for (int side = 0; side < 2; side++) {
        int constant = node->inputs[side], x = node->inputs[1 - side];
        if ((node->binary != CONVOY_ADD && node->binary != CONVOY_MUL) || x == l->graph->input ||
            l->channels[x] != l->channels[group->output] || !is_for_channels(l, constant, group->output) ||
            convoy_cuda_elements(l, x) != convoy_cuda_elements(l, group->output))
            continue;
        bool scales = node->binary == CONVOY_MUL;
        *done = true;
        return convoy_cuda_nhwc_scale_shift(l, x, group->act, scales ? constant : -1, scales ? -1 : constant,
                                            NULL, 0, group->output);
    }
    return 0;
}

/* How the other operand is repeated. False: in a way that the kernel does not know, or it is a constant. */
static bool other_operand(const struct convoy_cuda_lowering *l, const int64_t y[4], int output, int tensor,
                          enum convoy_nhwc_other *other)
{
    int64_t b[4] = {0};
    if (l->graph->tensors[tensor].data != NULL || !convoy_cuda_image_dims(l, tensor, b) || b[0] != y[0] ||
        b[1] != y[1] || l->channels[tensor] != l->channels[output])
        return false;
    if (b[2] == y[2] && b[3] == y[3])
        *other = CONVOY_NHWC_SAME;
    else if (b[2] == 1 && b[3] == 1)
        *other = CONVOY_NHWC_PIXEL_OF_IMAGE;
    else
        return false;
    return true;
}

/* Does the group about to be lowered alone read what is in the buffer? Views of it are no readers. */
static bool reads_alone(const struct convoy_cuda_lowering *l, int buffer)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (int i = 0; i < groups->count; i++) {
        const struct convoy_cuda_group *other = &groups->groups[i];
        const int *inputs;
        int count = convoy_cuda_group_inputs(l->graph, other, &inputs);
        bool names = i < l->group && l->nhwc_of[other->output].buffer == buffer;
        for (int k = 0; k < count && i != l->group && !names; k++)
            if (l->nhwc_of[inputs[k]].buffer == buffer)
                return false;
        if (other->residual >= 0 && l->nhwc_of[other->residual].buffer == buffer)
            return false;
    }
    for (int i = 0; i < l->graph->output_count; i++)
        if (l->nhwc_of[l->graph->outputs[i]].buffer == buffer)
            return false;
    return true;
}

/* The convolution that wrote the tensor and can add another one before it does. NULL: there is none. */
static struct convoy_cuda_step *adds_before(const struct convoy_cuda_lowering *l, int tensor)
{
    size_t offset = CONVOY_CUDA_BUFFER(l->nhwc_of[tensor].buffer);
    for (int i = l->plan->step_count - 1; i >= 0; i--) {
        struct convoy_cuda_step *step = &l->plan->steps[i];
        const struct convoy_conv_shape *shape = &step->conv.shape;
        if (step->y.where != CONVOY_CUDA_WORKSPACE || step->y.offset != offset)
            continue;
        bool plain = step->kind == CONVOY_CUDA_CONV && shape->nhwc.on && !shape->nhwc.images &&
                     !shape->residual && shape->act.kind == CONVOY_UNARY_NONE;
        return plain && l->graph->nodes[l->source->groups->groups[step->group].anchor].op == CONVOY_OP_DENSE
                   ? step
                   : NULL;
    }
    return NULL;
}

/* A sum with what a dense layer made, alone, through views: the layer adds the other side. */
static int join_sum(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, int sum, int other,
                    bool *done)
{
    const struct convoy_cuda_nhwc *from = &l->nhwc_of[sum], *added = &l->nhwc_of[other];
    if (from->buffer < 0 || added->buffer < 0 || from->buffer == added->buffer ||
        !convoy_cuda_same_order(l, sum, other) || l->part_of[group->output].whole >= 0 ||
        l->part_of[other].whole >= 0)
        return 0;
    struct convoy_cuda_step *step = adds_before(l, sum);
    /* What is added has to be there before the layer is computed. */
    if (step == NULL || l->buffers[added->buffer].first >= step->group || !reads_alone(l, from->buffer))
        return 0;
    struct convoy_conv_shape shape = step->conv.shape;
    shape.residual = true;
    shape.act = group->act;
    shape.nhwc.residual_pixel = added->pixel;
    const struct convoy_conv_kernel *kernel = convoy_cuda_choose_conv(l->source->choices, &shape);
    if (kernel == NULL)
        return 0;
    *done = true;
    int64_t pixel;
    int code = convoy_cuda_reads_nhwc(l, other, &step->conv.residual, &pixel);
    step->conv.kernel = kernel;
    if (code == 0)
        code = convoy_cuda_layer_weights(l, &shape, &step->conv);
    if (code == 0)
        code = convoy_cuda_scratch(l, kernel->scratch_bytes(&shape), &step->conv.scratch);
    if (code == 0 && step->conv.scratch.where == CONVOY_CUDA_WORKSPACE)
        l->buffers[l->buffer_count - 1].first = step->group;
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, group->output, &step->y, &shape.nhwc.y_pixel);
    if (code)
        return code;
    l->buffers[l->nhwc_of[group->output].buffer].first = step->group;
    l->nhwc_of[group->output].order = l->nhwc_of[other].order;
    step->conv.shape = shape;
    return 0;
}

/* How the operands of a binary operator are repeated. False: in a way that no kernel knows. */
static bool operands_of(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                        int64_t y[4], enum convoy_nhwc_other sides[2])
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    return node->binary <= CONVOY_MIN && convoy_cuda_image_dims(l, group->output, y) &&
           other_operand(l, y, group->output, node->inputs[0], &sides[0]) &&
           other_operand(l, y, group->output, node->inputs[1], &sides[1]) &&
           l->graph->tensors[node->inputs[0]].shape.rank == l->graph->tensors[node->inputs[1]].shape.rank;
}

bool convoy_cuda_is_gating(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                           int *x, int *gates)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    enum convoy_nhwc_other sides[2];
    int64_t y[4] = {0};
    if (node->op != CONVOY_OP_BINARY || node->binary != CONVOY_MUL || group->act.kind != CONVOY_UNARY_NONE ||
        !operands_of(l, group, y, sides) || sides[0] == sides[1])
        return false;
    int same = sides[0] == CONVOY_NHWC_SAME ? 0 : 1;
    *x = node->inputs[same];
    *gates = node->inputs[1 - same];
    return true;
}

int convoy_cuda_lower_nhwc_binary(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                  bool *done)
{
    const struct convoy_node *node = l->node;
    enum convoy_nhwc_other sides[2];
    struct convoy_cuda_step *step;
    int64_t y[4] = {0};
    int code = lower_channel_constant(l, group, done);
    if (code || *done)
        return code;
    if (!operands_of(l, group, y, sides))
        return 0;
    enum convoy_nhwc_other left = sides[0], right = sides[1];
    bool commutes = node->binary != CONVOY_SUB && node->binary != CONVOY_DIV;
    bool swap = left != CONVOY_NHWC_SAME;
    if (swap && (right != CONVOY_NHWC_SAME || !commutes))
        return 0;
    int a = node->inputs[swap ? 1 : 0], b = node->inputs[swap ? 0 : 1];
    for (int side = 0; side < 2 && node->binary == CONVOY_ADD && left == right && !*done; side++) {
        code = join_sum(l, group, node->inputs[1 - side], node->inputs[side], done);
        if (code)
            return code;
    }
    if (*done)
        return 0;
    if (convoy_cuda_is_gating(l, group, &a, &b)) {
        code = convoy_cuda_leave_gates(l, a, b, done);
        if (code || *done)
            return code;
    }
    *done = true;
    code = convoy_cuda_want_nhwc(l, a);
    if (code == 0)
        code = convoy_cuda_want_nhwc(l, b);
    if (code == 0 && left == right && !convoy_cuda_same_order(l, a, b)) {
        code = convoy_cuda_want_in_order(l, a);
        if (code == 0)
            code = convoy_cuda_want_in_order(l, b);
    }
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_BINARY, &step);
    if (code)
        return code;
    struct convoy_nhwc_binary *shape = &step->nhwc_binary.shape;
    shape->n = y[0];
    shape->c = y[1];
    shape->pixels = y[2] * y[3];
    shape->b = swap ? left : right;
    shape->op = convoy_cuda_binary_operator(node->binary);
    shape->act = group->act;
    code = convoy_cuda_reads_nhwc(l, a, &step->x, &shape->a_pixel);
    if (code == 0)
        code = convoy_cuda_reads_nhwc(l, b, &step->nhwc_binary.b, &shape->b_pixel);
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, group->output, &step->y, &shape->y_pixel);
    if (code == 0)
        l->nhwc_of[group->output].order = l->nhwc_of[a].order;
    return code;
}
