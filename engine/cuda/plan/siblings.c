/* Siblings: convolutions of 1 x 1 that read the same tensor and end in the same activation are one
 * convolution of all their maps, so that the tensor is read once and there is one launch. Inception's and
 * GoogLeNet's blocks begin with them. (Compilers call this horizontal fusion.)
 *
 * Its results lie side by side in each pixel. At most one of them is a part of a concatenation, its first
 * one: it comes last, and the others lie ahead of the whole, in the same buffer. So that fewer of them share
 * lines of memory, the whole begins on one, and results that fill lines come right before it. */
#include "engine/base/hash.h"
#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct convoy_cuda_siblings *convoy_cuda_siblings_of(const struct convoy_cuda_lowering *l, int group)
{
    for (int i = 0; i < l->sibling_count; i++)
        for (int k = 0; k < l->siblings[i].count; k++)
            if (l->siblings[i].groups[k] == group)
                return &l->siblings[i];
    return NULL;
}

/* Images of one pixel are left to squeeze and excitation; layers of bottlenecks are timed by themselves, to
 * be compared with these. */
static bool may_be_sibling(const struct convoy_cuda_lowering *l, int group, struct convoy_conv_shape *shape)
{
    return convoy_cuda_node_of(l, group)->op == CONVOY_OP_CONV &&
           convoy_cuda_group_of(l, group)->residual < 0 && convoy_cuda_plain_conv(l, group, shape) &&
           convoy_cuda_keeps_size(shape, 1) && shape->h * shape->w > 1 &&
           !convoy_cuda_noted_in_bottleneck(l->plan, &group, 1) && convoy_cuda_siblings_of(l, group) == NULL;
}

static bool same_activation(struct convoy_unary a, struct convoy_unary b)
{
    return a.kind == b.kind && a.alpha == b.alpha && a.beta == b.beta;
}

/* How a layer's output can lie beside others: anywhere, as the last one, or not at all. */
enum side { ANYWHERE, LAST, NOT_BESIDE };

static enum side side_of(const struct convoy_cuda_lowering *l, int group)
{
    const struct convoy_cuda_part *part = &l->part_of[convoy_cuda_group_of(l, group)->output];
    if (part->whole < 0)
        return ANYWHERE;
    return part->channel == 0 && l->ahead_of[part->whole] == 0 ? LAST : NOT_BESIDE;
}

void convoy_cuda_join_siblings(const struct convoy_cuda_lowering *l,
                               const struct convoy_cuda_siblings *siblings, struct convoy_conv_shape *shape)
{
    shape->k = 0;
    shape->bias = false;
    for (int i = 0; i < siblings->count; i++) {
        const struct convoy_node *node = convoy_cuda_node_of(l, siblings->groups[i]);
        shape->k += (int)l->graph->tensors[node->inputs[1]].shape.dims[0];
        shape->bias = shape->bias || node->input_count > 2;
    }
}

static int64_t maps_of(const struct convoy_cuda_lowering *l, int group)
{
    return l->graph->tensors[convoy_cuda_group_of(l, group)->output].shape.dims[1];
}

/* Those that fill lines of memory behind the others; else in their order. */
static void sort_by_lines(const struct convoy_cuda_lowering *l, struct convoy_cuda_siblings *set)
{
    int lines[CONVOY_CUDA_SIBLINGS], line_count = 0, count = 0;
    for (int i = 0; i < set->count; i++)
        if (maps_of(l, set->groups[i]) % 64 == 0)
            lines[line_count++] = set->groups[i];
        else
            set->groups[count++] = set->groups[i];
    memcpy(set->groups + count, lines, (size_t)line_count * sizeof(lines[0]));
}

/* The set that begins with this group, as far as later ones can join it. */
static void collect(const struct convoy_cuda_lowering *l, int first, struct convoy_conv_shape *shape,
                    struct convoy_cuda_siblings *set)
{
    int last = -1;
    *set = (struct convoy_cuda_siblings){0};
    for (int i = first; i < l->source->groups->count && set->count + (last >= 0) < CONVOY_CUDA_SIBLINGS;
         i++) {
        struct convoy_conv_shape other;
        if (convoy_cuda_node_of(l, i)->inputs[0] != convoy_cuda_node_of(l, first)->inputs[0] ||
            !may_be_sibling(l, i, &other) || !same_activation(other.act, shape->act))
            continue;
        enum side side = side_of(l, i);
        if (side == ANYWHERE && other.k % 8 == 0)
            set->groups[set->count++] = i;
        else if (side != NOT_BESIDE && last < 0)
            last = i;
    }
    sort_by_lines(l, set);
    if (last >= 0)
        set->groups[set->count++] = last;
    for (int i = 0; i < set->count; i++)
        set->first = i == 0 || set->groups[i] < set->first ? set->groups[i] : set->first;
    convoy_cuda_join_siblings(l, set, shape);
    convoy_cuda_dense_layout(shape);
}

/* Gives the outputs their places. */
static void place(struct convoy_cuda_lowering *l, const struct convoy_cuda_siblings *set, int64_t channels)
{
    int output = convoy_cuda_group_of(l, set->groups[set->count - 1])->output;
    int whole = l->part_of[output].whole >= 0 ? l->part_of[output].whole : output;
    int64_t at = maps_of(l, set->groups[set->count - 1]) - channels;
    l->ahead_of[whole] = convoy_cuda_line_channels(-at); /* those furthest ahead may be unused */
    for (int i = 0; i + 1 < set->count; i++) {
        int part = convoy_cuda_group_of(l, set->groups[i])->output;
        l->part_of[part] = (struct convoy_cuda_part){whole, at};
        at += maps_of(l, set->groups[i]);
    }
}

int convoy_cuda_find_siblings(struct convoy_cuda_lowering *l)
{
    int count = convoy_cuda_by_layers("CONVOY_SIBLINGS") ? 0 : l->source->groups->count;
    for (int i = 0; i < count; i++) {
        struct convoy_conv_shape shape;
        struct convoy_cuda_siblings set;
        if (!may_be_sibling(l, i, &shape))
            continue;
        collect(l, i, &shape, &set);
        if (set.count < 2 || convoy_cuda_choose_conv(l->source->choices, &shape) == NULL)
            continue;
        struct convoy_cuda_siblings *grown =
            realloc(l->siblings, ((size_t)l->sibling_count + 1) * sizeof(*grown));
        if (grown == NULL)
            return convoy_fail(l->error, -ENOMEM, "no memory for %d sets of layers", l->sibling_count + 1);
        l->siblings = grown;
        l->siblings[l->sibling_count++] = set;
        place(l, &set, shape.k);
    }
    return 0;
}

struct biases {
    const struct convoy_cuda_lowering *l;
    const struct convoy_cuda_siblings *siblings;
};

static void join_biases(const void *argument, void *joined)
{
    const struct biases *biases = argument;
    float *to = joined;
    for (int i = 0; i < biases->siblings->count; i++) {
        int group = biases->siblings->groups[i];
        const struct convoy_node *node = convoy_cuda_node_of(biases->l, group);
        size_t count = (size_t)maps_of(biases->l, group);
        if (node->input_count > 2)
            memcpy(to, biases->l->graph->tensors[node->inputs[2]].data, count * sizeof(*to));
        else
            memset(to, 0, count * sizeof(*to));
        to += count;
    }
}

int convoy_cuda_sibling_constants(struct convoy_cuda_lowering *l, const struct convoy_cuda_siblings *siblings,
                                  const struct convoy_conv_shape *shape, struct convoy_cuda_conv_step *conv)
{
    const struct biases biases = {l, siblings};
    uint64_t key = 0;
    conv->layers = siblings->count;
    conv->scaled_by = -1;
    for (int i = 0; i < siblings->count; i++) {
        const struct convoy_node *node = convoy_cuda_node_of(l, siblings->groups[i]);
        conv->tensors[i] = node->inputs[1];
        const int tensors[] = {node->inputs[1], node->input_count > 2 ? node->inputs[2] : -1};
        key = convoy_hash(key, tensors, sizeof(tensors));
    }
    int code = convoy_cuda_layer_weights(l, shape, conv);
    if (code != 0 || !shape->bias)
        return code;
    conv->bias.where = CONVOY_CUDA_CONSTANT;
    conv->bias.constant = convoy_cuda_weights_made(l->source->weights, key, (size_t)shape->k * sizeof(float),
                                                   join_biases, &biases, &code, l->error);
    return code;
}

int convoy_cuda_writes_siblings(struct convoy_cuda_lowering *l, const struct convoy_cuda_siblings *siblings,
                                struct convoy_cuda_place *place, int64_t *pixel)
{
    int code = 0;
    for (int i = siblings->count - 1; i >= 0 && code == 0; i--)
        code = convoy_cuda_writes_nhwc(l, convoy_cuda_group_of(l, siblings->groups[i])->output, place, pixel);
    return code;
}
