/* Squeeze and excitation: the mean of each channel over an image, a convolution of 1 x 1 to few channels and
 * one back to a gate for each are one step (convoy_launch_nhwc_excite()). Where the kernel that writes the
 * images also sums patches of them, the step reads these sums alone. What multiplies by the gates is a matter
 * of lower_inputs.c. */
#include "engine/base/hash.h"
#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>
#include <string.h>

/* Products of a dense layer, beyond which the kernel, which reads its weights for each image, takes longer
 * than three launches: with the layer before an H200 takes 118 us in place of 96 for 256 images of 960
 * channels and 240 squeezed; with 672 and 168 as much either way. */
#define MOST_PRODUCTS 40000000

enum layer { MEAN, SQUEEZE, EXCITE, LAYERS };

struct excite {
    int groups[LAYERS];
    struct convoy_nhwc_excite shape; /* but for the strides */
};

/* Does the group take the mean of each channel over the whole image, and nothing more? */
static bool is_mean(const struct convoy_cuda_lowering *l, int group, struct convoy_nhwc_excite *shape)
{
    const struct convoy_pool *pool = &convoy_cuda_node_of(l, group)->pool;
    int64_t x[4] = {0}, y[4] = {0};
    int input = convoy_cuda_node_of(l, group)->inputs[0];
    if (convoy_cuda_node_of(l, group)->op != CONVOY_OP_POOL || convoy_cuda_group_of(l, group)->view ||
        convoy_cuda_group_of(l, group)->pick != NULL || pool->kind != CONVOY_POOL_AVERAGE ||
        convoy_cuda_group_of(l, group)->act.kind != CONVOY_UNARY_NONE || input == l->graph->input ||
        !convoy_cuda_channels_first(l, input, x) ||
        !convoy_cuda_channels_first(l, convoy_cuda_group_of(l, group)->output, y) || y[2] != 1 || y[3] != 1)
        return false;
    for (int i = 0; i < 2; i++)
        if (pool->window[i] != x[2 + i] || pool->dilation[i] != 1 || pool->pad[i] != 0 ||
            pool->pad[i + 2] != 0)
            return false;
    shape->n = x[0];
    shape->c = x[1];
    shape->pixels = x[2] * x[3];
    return true;
}

/* Is the group the last layer of a squeeze and excitation that a kernel takes? */
static bool find(const struct convoy_cuda_lowering *l, int group, struct excite *excite)
{
    struct convoy_conv_shape layers[LAYERS] = {{0}};
    *excite = (struct excite){0};
    for (int layer = EXCITE; layer > MEAN; layer--) {
        if (group < 0 || convoy_cuda_group_of(l, group)->residual >= 0 ||
            convoy_cuda_in_bottleneck(l, group) || !convoy_cuda_plain_conv(l, group, &layers[layer]) ||
            !convoy_cuda_keeps_size(&layers[layer], 1) || layers[layer].h != 1 || layers[layer].w != 1)
            return false;
        excite->groups[layer] = group;
        excite->shape.act[layer - 1] = layers[layer].act;
        group = convoy_cuda_writer_of(l, convoy_cuda_node_of(l, group)->inputs[0], group);
    }
    if (group < 0 || !is_mean(l, group, &excite->shape))
        return false;
    excite->groups[MEAN] = group;
    excite->shape.squeezed = layers[SQUEEZE].k;
    const struct convoy_nhwc_excite *shape = &excite->shape;
    return layers[EXCITE].k == shape->c && shape->n * shape->c * shape->squeezed <= MOST_PRODUCTS &&
           convoy_nhwc_excite_takes(shape);
}

/* The squeeze and excitation that has the group about to be lowered; returns which layer it is; LAYERS: none.
 */
static enum layer excite_of(const struct convoy_cuda_lowering *l, struct excite *excite)
{
    int group = l->group;
    for (int layer = EXCITE; layer >= MEAN && group >= 0; layer--) {
        if (find(l, group, excite) && excite->groups[layer] == l->group)
            return (enum layer)layer;
        group = convoy_cuda_reader_of(l, convoy_cuda_group_of(l, group)->output);
    }
    return LAYERS;
}

/* As the convolution behind it would make the gates. */
static struct convoy_nhwc_excitation excitation_of(const struct convoy_cuda_lowering *l,
                                                   const struct excite *excite, int patches)
{
    struct convoy_nhwc_excitation of = {.squeezed = (int)excite->shape.squeezed, .patches = patches};
    for (int i = 0; i < 2; i++) {
        of.act[i] = excite->shape.act[i];
        of.bias[i] = convoy_cuda_node_of(l, excite->groups[SQUEEZE + i])->input_count > 2;
    }
    return of;
}

/* The group whose step makes the gates: the convolution behind them, or the last layer's. */
static int maker_of(const struct convoy_cuda_lowering *l, const struct excite *excite, int patches)
{
    const struct convoy_nhwc_excitation excitation = excitation_of(l, excite, patches);
    int x = convoy_cuda_node_of(l, excite->groups[MEAN])->inputs[0];
    int reader = convoy_cuda_excited_reader(l, x, convoy_cuda_group_of(l, excite->groups[EXCITE])->output,
                                            &excitation);
    return reader >= 0 ? reader : excite->groups[EXCITE];
}

/* Patches whose sums are there of what the means are taken of. */
static int patches_of(const struct convoy_cuda_lowering *l, const struct excite *excite)
{
    return l->sums_of[convoy_cuda_node_of(l, excite->groups[MEAN])->inputs[0]].patches;
}

/* The group that writes the tensor; -1: none. */
static int group_of(const struct convoy_cuda_lowering *l, int tensor)
{
    for (int i = 0; i < l->source->groups->count; i++)
        if (convoy_cuda_group_of(l, i)->output == tensor)
            return i;
    return -1;
}

struct convoy_nhwc_excitation convoy_cuda_excitation_of(const struct convoy_cuda_lowering *l, int gates)
{
    struct excite excite;
    int group = convoy_cuda_by_layers("CONVOY_EXCITE") ? -1 : group_of(l, gates);
    if (group < 0 || !find(l, group, &excite) || maker_of(l, &excite, patches_of(l, &excite)) == group)
        return (struct convoy_nhwc_excitation){0};
    return excitation_of(l, &excite, patches_of(l, &excite));
}

int convoy_cuda_excite_of_means(const struct convoy_cuda_lowering *l, int tensor, int patches)
{
    struct excite excite;
    int last = -1;
    if (convoy_cuda_by_layers("CONVOY_EXCITE"))
        return -1;
    for (int mean = l->group + 1; mean < l->source->groups->count; mean++) {
        int group = mean;
        if (convoy_cuda_node_of(l, mean)->op != CONVOY_OP_POOL ||
            convoy_cuda_node_of(l, mean)->inputs[0] != tensor)
            continue;
        for (int layer = SQUEEZE; layer < LAYERS && group >= 0; layer++)
            group = convoy_cuda_reader_of(l, convoy_cuda_group_of(l, group)->output);
        if (group < 0 || !find(l, group, &excite) || excite.groups[MEAN] != mean)
            continue;
        group = maker_of(l, &excite, patches);
        last = group > last ? group : last;
    }
    return last;
}

/* How weights are laid out for one of the kernels. */
typedef void pack_weights(const struct convoy_nhwc_excite *shape, const float *squeeze, const float *excite,
                          void *packed);

struct packing {
    const struct convoy_nhwc_excite *shape;
    const float *squeeze, *excite;
    pack_weights *form;
};

static void pack(const void *argument, void *packed)
{
    const struct packing *packing = argument;
    packing->form(packing->shape, packing->squeeze, packing->excite, packed);
}

/* The weights of both layers as a kernel reads them; all sizes of batch share them. */
static const float *packed_weights(struct convoy_cuda_lowering *l, const struct excite *excite,
                                   pack_weights *form, size_t bytes, int *code)
{
    const int tensors[2] = {convoy_cuda_node_of(l, excite->groups[SQUEEZE])->inputs[1],
                            convoy_cuda_node_of(l, excite->groups[EXCITE])->inputs[1]};
    uint64_t key = convoy_hash(convoy_hash(0, &form, sizeof(form)), tensors, sizeof(tensors));
    const struct packing packing = {&excite->shape, l->graph->tensors[tensors[0]].data,
                                    l->graph->tensors[tensors[1]].data, form};
    return convoy_cuda_weights_made(l->source->weights, key, bytes, pack, &packing, code, l->error);
}

static int read_biases(struct convoy_cuda_lowering *l, const struct excite *excite,
                       struct convoy_cuda_place bias[2])
{
    int code = 0;
    for (int i = 0; i < 2 && code == 0; i++) {
        const struct convoy_node *node = convoy_cuda_node_of(l, excite->groups[SQUEEZE + i]);
        if (node->input_count > 2)
            code = convoy_cuda_reads(l, node->inputs[2], &bias[i]);
    }
    return code;
}

int convoy_cuda_reads_excitation(struct convoy_cuda_lowering *l, int gates,
                                 struct convoy_cuda_conv_step *conv)
{
    struct excite excite;
    int code = 0;
    if (!find(l, group_of(l, gates), &excite))
        return convoy_fail(l->error, -EINVAL, "node '%s' reads gates that nothing computes", l->node->name);
    const struct convoy_cuda_sums *sums = &l->sums_of[convoy_cuda_node_of(l, excite.groups[MEAN])->inputs[0]];
    if (sums->patches > 0)
        conv->sums = (struct convoy_cuda_place){.where = CONVOY_CUDA_WORKSPACE,
                                                .offset = CONVOY_CUDA_BUFFER(sums->buffer)};
    conv->excitation.where = CONVOY_CUDA_CONSTANT;
    conv->excitation.constant =
        packed_weights(l, &excite, convoy_nhwc_excited_pack, convoy_nhwc_excited_bytes(&excite.shape), &code);
    return code ? code : read_biases(l, &excite, conv->excitation_bias);
}

/* The step, in the place of the last layer. */
static int add_step(struct convoy_cuda_lowering *l, const struct excite *excite)
{
    struct convoy_nhwc_excite shape = excite->shape;
    struct convoy_cuda_place x = {0}, y = {0}, weights = {.where = CONVOY_CUDA_CONSTANT}, bias[2] = {{0}};
    struct convoy_cuda_step *step;
    int input = convoy_cuda_node_of(l, excite->groups[MEAN])->inputs[0];
    int code = convoy_cuda_reads_nhwc(l, input, &x, &shape.x_pixel);
    if (l->sums_of[input].patches > 0) {
        shape.patches = l->sums_of[input].patches;
        x.offset = CONVOY_CUDA_BUFFER(l->sums_of[input].buffer);
    }
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, convoy_cuda_group_of(l, l->group)->output, &y, &shape.y_pixel);
    if (code == 0)
        weights.constant = packed_weights(l, excite, convoy_nhwc_excite_pack,
                                          convoy_nhwc_excite_bytes(&excite->shape), &code);
    if (code == 0)
        code = read_biases(l, excite, bias);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_EXCITE, &step);
    if (code)
        return code;
    step->x = x;
    step->y = y;
    step->nhwc_excite.shape = shape;
    step->nhwc_excite.weights = weights;
    memcpy(step->nhwc_excite.bias, bias, sizeof(bias));
    return 0;
}

int convoy_cuda_lower_excite(struct convoy_cuda_lowering *l, bool *done)
{
    struct excite excite;
    enum layer layer = convoy_cuda_by_layers("CONVOY_EXCITE") ? LAYERS : excite_of(l, &excite);
    if (layer == LAYERS)
        return 0;
    *done = true;
    int maker = maker_of(l, &excite, patches_of(l, &excite));
    if (layer == EXCITE && maker == l->group)
        return add_step(l, &excite);
    if (layer != MEAN)
        return convoy_cuda_cover(l, maker);
    if (l->sums_of[l->node->inputs[0]].patches > 0)
        return convoy_cuda_cover(l, l->sums_of[l->node->inputs[0]].group);
    int code = convoy_cuda_want_in_order(l, l->node->inputs[0]);
    if (code)
        return code;
    convoy_cuda_keep_until(l, l->node->inputs[0], maker);
    return convoy_cuda_cover(l, maker);
}
