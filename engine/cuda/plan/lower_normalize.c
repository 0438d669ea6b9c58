/* Layer and RMS normalisation along the channels of each pixel. Where a product of pixels and constants (a
 * dense layer or a convolution of 1 x 1) made what is normalised, and another one alone reads the result,
 * there is no launch for it: the first one writes the moments of its results, and the second one normalises
 * its own with these (kernels/nhwc/normalized.cuh). The normalised tensor is then another name for what is
 * normalised, and its reader knows what it means. In between the rows may be put in another order, as windows
 * are. */
#include "engine/base/hash.h"
#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Of a batch whose products normalise. On H200s swin_t took 0.376 ms in place of 0.418 with one image so,
 * 0.528 (0.566) with four, vit_b_16 0.478 (0.481) and 0.686 (0.706); but with eight 0.688 (0.685) and 0.967
 * (0.927), and with 256 the ends of products bound them. */
#define MOST_ROWS 4

/* The group that alone reads the tensor; NULL: there is none. */
static const struct convoy_cuda_group *only_reader(const struct convoy_cuda_lowering *l, int tensor)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (int i = l->group + 1; i < groups->count; i++) {
        const int *inputs;
        int count = convoy_cuda_group_inputs(l->graph, &groups->groups[i], &inputs);
        for (int k = 0; k < count; k++)
            if (inputs[k] == tensor)
                return convoy_cuda_read_by_others(l, tensor, &groups->groups[i]) ? NULL : &groups->groups[i];
    }
    return NULL;
}

/* Has the group's output all rows of what it reads, each as it is, and is lowered to another name for it? */
static bool names_rows(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    if (group->attention != NULL || group->pick != NULL)
        return false;
    return group->rows != NULL ? !group->rows->copies
                               : (group->view || node->op == CONVOY_OP_TRANSPOSE) &&
                                     convoy_cuda_is_pixel_view(l->graph, node, l->channels);
}

/* The shape of the group, if it is a product of pixels and constants. moved: the tensor's rows may be in
 * another order, in which a dense layer takes them; for a convolution they would be copied, and the moments
 * not. */
static bool product_shape(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                          int tensor, bool moved, struct convoy_conv_shape *shape)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    int number = (int)(group - l->source->groups->groups);
    if (group->view || group->rows != NULL || group->attention != NULL || group->pick != NULL ||
        node->inputs[0] != tensor)
        return false;
    if (node->op == CONVOY_OP_DENSE)
        return convoy_cuda_dense_shape(l, group, shape);
    return node->op == CONVOY_OP_CONV && !moved && !convoy_cuda_in_bottleneck(l, number) &&
           convoy_cuda_siblings_of(l, number) == NULL && convoy_cuda_adds_images(l, number) &&
           convoy_cuda_plain_conv(l, number, shape) && convoy_cuda_keeps_size(shape, 1);
}

static struct convoy_nhwc_normalization normalization_of(const struct convoy_cuda_lowering *l, int scale)
{
    const struct convoy_normalize *normalize = &l->node->normalize;
    struct convoy_nhwc_normalization of = {.epsilon = normalize->epsilon, .factor = 1, .rms = normalize->rms};
    float largest = 0;
    int exponent;
    for (int64_t i = 0; scale >= 0 && i < convoy_shape_elements(&l->graph->tensors[scale].shape); i++)
        largest = fmaxf(largest, fabsf(l->graph->tensors[scale].data[i]));
    /* Weights times scales that are all small would lose bits of fp16, which has few small numbers. */
    if (largest > 0 && isfinite(largest)) {
        (void)frexpf(largest, &exponent);
        of.factor = ldexpf(1, exponent);
    }
    return of;
}

/* The step that makes a tensor, alone and as it is, and can write its moments, too, with the shape for that;
 * NULL: there is none. */
static struct convoy_cuda_step *maker_of(const struct convoy_cuda_lowering *l, int tensor,
                                         struct convoy_conv_shape *shape)
{
    const struct convoy_cuda_nhwc *nhwc = &l->nhwc_of[tensor];
    if (nhwc->buffer < 0 || nhwc->first != 0 || l->part_of[tensor].whole >= 0)
        return NULL;
    size_t offset = CONVOY_CUDA_BUFFER(nhwc->buffer);
    int64_t x[4] = {0};
    convoy_cuda_image_dims(l, tensor, x);
    for (int i = l->plan->step_count - 1; i >= 0; i--) {
        struct convoy_cuda_step *step = &l->plan->steps[i];
        if (step->y.where != CONVOY_CUDA_WORKSPACE || step->y.offset != offset)
            continue;
        if (step->kind != CONVOY_CUDA_CONV || !step->conv.shape.nhwc.on)
            return NULL;
        *shape = step->conv.shape;
        shape->nhwc.moments = true;
        /* What is concatenated begins where its first part does. */
        bool whole = shape->k == x[1] && (int64_t)shape->oh * shape->ow == x[2] * x[3];
        return whole && convoy_cuda_choose_conv(l->source->choices, shape) != NULL ? step : NULL;
    }
    return NULL;
}

/* Has the step write moments until `last` has read them. Returns their buffer, or a negative errno. */
static int write_moments(struct convoy_cuda_lowering *l, struct convoy_cuda_step *step,
                         const struct convoy_conv_shape *shape, int last)
{
    struct convoy_cuda_conv_step *conv = &step->conv;
    if (conv->moments.where == CONVOY_CUDA_WORKSPACE) { /* for another reader */
        int there = (int)(conv->moments.offset >> CONVOY_CUDA_BUFFER_SHIFT) - 1;
        l->buffers[there].last = l->buffers[there].last < last ? last : l->buffers[there].last;
        return there;
    }
    int64_t pairs = (int64_t)shape->n * shape->oh * shape->ow * convoy_nhwc_moments(shape->k);
    conv->kernel = convoy_cuda_choose_conv(l->source->choices, shape);
    conv->shape = *shape;
    int code = convoy_cuda_layer_weights(l, shape, conv);
    if (code == 0)
        code = convoy_cuda_scratch(l, conv->kernel->scratch_bytes(shape), &conv->scratch);
    if (code == 0 && conv->scratch.where == CONVOY_CUDA_WORKSPACE)
        l->buffers[l->buffer_count - 1].first = step->group;
    int buffer = code ? code : convoy_cuda_buffer_until(l, (size_t)pairs * 2 * sizeof(float), last);
    if (buffer < 0)
        return buffer;
    l->buffers[buffer].first = step->group;
    conv->moments =
        (struct convoy_cuda_place){.where = CONVOY_CUDA_WORKSPACE, .offset = CONVOY_CUDA_BUFFER(buffer)};
    return buffer;
}

/* Leaves the normalisation of the group's input to the reader of the output. *done: there is one that can. */
static int leave(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, int scale, int shift,
                 bool *done)
{
    struct convoy_conv_shape shape, maker_shape;
    int tensor = group->output, input = l->node->inputs[0];
    if (convoy_cuda_by_layers("CONVOY_NORMALIZE") || l->plan->rows > MOST_ROWS || group->pick != NULL)
        return 0;
    struct convoy_cuda_step *maker = maker_of(l, input, &maker_shape);
    const struct convoy_cuda_group *reader = only_reader(l, tensor);
    bool moved = l->nhwc_of[input].order != NULL;
    for (; reader != NULL && names_rows(l, reader); reader = only_reader(l, tensor)) {
        moved = moved || reader->rows != NULL;
        tensor = reader->output;
    }
    if (reader == NULL || maker == NULL || !product_shape(l, reader, tensor, moved, &shape))
        return 0;
    struct convoy_cuda_changed changed = {.x = tensor,
                                          .input = CONVOY_NHWC_NORMALIZED,
                                          .gates = -1,
                                          .scale = scale,
                                          .shift = shift,
                                          .normalization = normalization_of(l, scale)};
    convoy_cuda_dense_layout(&shape);
    shape.nhwc.input = changed.input;
    shape.nhwc.normalization = changed.normalization;
    shape.bias = shape.bias || shift >= 0;
    if (convoy_cuda_choose_conv(l->source->choices, &shape) == NULL)
        return 0;
    *done = true;
    int number = (int)(reader - l->source->groups->groups);
    changed.moments = write_moments(l, maker, &maker_shape, number);
    if (changed.moments < 0)
        return changed.moments;
    convoy_cuda_name_nhwc(l, input, group->output);
    l->changed_of[tensor] = changed;
    return convoy_cuda_cover(l, number);
}

struct folding {
    const struct convoy_graph *graph;
    const struct convoy_conv_shape *shape;
    int weights, bias, scale, shift; /* tensors; -1: none */
};

/* What the normalisation adds, seen through the weights, and the layer's own bias. */
static void fold_shift(const void *argument, void *folded)
{
    const struct folding *folding = argument;
    const struct convoy_tensor *tensors = folding->graph->tensors;
    int c = folding->shape->c;
    float *bias = folded;
    for (int k = 0; k < folding->shape->k; k++) {
        const float *weights = tensors[folding->weights].data + (int64_t)k * c;
        double sum = folding->bias >= 0 ? (double)tensors[folding->bias].data[k] : 0;
        for (int i = 0; folding->shift >= 0 && i < c; i++)
            sum += (double)weights[i] * tensors[folding->shift].data[i];
        bias[k] = (float)sum;
    }
}

struct summing {
    const struct convoy_conv_shape *shape;
    const float *weights;
};

static void sum_weights(const void *argument, void *sums)
{
    const struct summing *summing = argument;
    convoy_nhwc_sum_weights(summing->shape, summing->weights, sums);
}

static int input_sums(struct convoy_cuda_lowering *l, const struct folding *folding, uint64_t key,
                      struct convoy_cuda_place *place)
{
    int code = 0;
    place->where = CONVOY_CUDA_CONSTANT;
    place->constant = convoy_cuda_weights_find(l->source->weights, key);
    if (place->constant != NULL)
        return 0;
    float *weights =
        convoy_cuda_weights_joined(l->graph, &folding->weights, 1, folding->scale, folding->shape);
    if (weights == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory to sum the weights of node '%s'", l->node->name);
    const struct summing summing = {folding->shape, weights};
    place->constant =
        convoy_cuda_weights_made(l->source->weights, key, (size_t)folding->shape->k * sizeof(float),
                                 sum_weights, &summing, &code, l->error);
    free(weights);
    return code;
}

int convoy_cuda_normalized_constants(struct convoy_cuda_lowering *l,
                                     const struct convoy_cuda_changed *changed,
                                     const struct convoy_conv_shape *shape,
                                     struct convoy_cuda_conv_step *conv)
{
    const struct convoy_node *node = l->node;
    const struct folding folding = {.graph = l->graph,
                                    .shape = shape,
                                    .weights = node->inputs[1],
                                    .bias = node->input_count > 2 ? node->inputs[2] : -1,
                                    .scale = changed->scale,
                                    .shift = changed->shift};
    const int tensors[] = {folding.weights, folding.bias, folding.scale, folding.shift};
    uint64_t key = convoy_hash(UINT64_C(0x6e6f726d), tensors, sizeof(tensors));
    conv->layers = 1;
    conv->tensors[0] = folding.weights;
    conv->scaled_by = folding.scale;
    conv->input_moments = (struct convoy_cuda_place){.where = CONVOY_CUDA_WORKSPACE,
                                                     .offset = CONVOY_CUDA_BUFFER(changed->moments)};
    int code = convoy_cuda_layer_weights(l, shape, conv);
    if (code == 0)
        code = input_sums(l, &folding, convoy_hash(key, "sums", 4), &conv->input_sums);
    if (code || !shape->bias)
        return code;
    conv->bias.where = CONVOY_CUDA_CONSTANT;
    conv->bias.constant = convoy_cuda_weights_made(l->source->weights, key, (size_t)shape->k * sizeof(float),
                                                   fold_shift, &folding, &code, l->error);
    return code;
}

int convoy_cuda_lower_normalize(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                bool *done)
{
    const struct convoy_normalize *normalize = &l->node->normalize;
    const struct convoy_shape *shape = &l->graph->tensors[group->output].shape;
    int input = l->node->inputs[0], scale = normalize->has_scale ? l->node->inputs[1] : -1;
    int shift = normalize->has_shift ? l->node->inputs[normalize->has_scale ? 2 : 1] : -1;
    struct convoy_cuda_step *step;
    int64_t x[4] = {0};
    if (!convoy_cuda_image_dims(l, input, x) || l->channels[input] != l->channels[group->output] ||
        (l->channels[input] != CONVOY_CUDA_CHANNELS_LAST && shape->rank != 2) ||
        normalize->axis != shape->rank - 1 || x[1] > CONVOY_NHWC_NORMALIZE_CHANNELS ||
        input == l->graph->input)
        return 0;
    int code = leave(l, group, scale, shift, done);
    if (code || *done)
        return code;
    *done = true;
    code = convoy_cuda_want_nhwc(l, input);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_NORMALIZE, &step);
    if (code)
        return code;
    struct convoy_nhwc_normalize *to = &step->nhwc_normalize.shape;
    *to = (struct convoy_nhwc_normalize){
        .n = x[0], .pixels = x[2] * x[3], .c = x[1], .epsilon = normalize->epsilon, .rms = normalize->rms};
    code = convoy_cuda_reads_nhwc(l, input, &step->x, &to->x_pixel);
    if (code == 0 && scale >= 0)
        code = convoy_cuda_reads(l, scale, &step->nhwc_normalize.scale);
    if (code == 0 && shift >= 0)
        code = convoy_cuda_reads(l, shift, &step->nhwc_normalize.shift);
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, group->output, &step->y, &to->y_pixel);
    if (code == 0)
        l->nhwc_of[group->output].order = l->nhwc_of[input].order;
    return code;
}
