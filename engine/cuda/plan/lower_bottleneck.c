/* Bottlenecks that one kernel computes: their steps, in place of those of their layers. */
#include "engine/base/hash.h"
#include "engine/cuda/plan/bottlenecks.h"
#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool convoy_cuda_noted_in_bottleneck(const struct convoy_cuda_plan *plan, const int *groups, int count)
{
    for (int i = 0; i < plan->bottleneck_count; i++)
        for (int k = convoy_bottleneck_first(&plan->bottlenecks[i].shape);
             k < convoy_bottleneck_end(&plan->bottlenecks[i].shape); k++)
            for (int layer = 0; layer < count; layer++)
                if (plan->bottlenecks[i].groups[k] == groups[layer])
                    return true;
    return false;
}

/* Notes the blocks of these layers that a kernel takes, but for those that share a layer with one before. */
static int find_blocks(struct convoy_cuda_lowering *l, int first, int end)
{
    const struct convoy_cuda_source *source = l->source;
    for (int i = 0; i < source->groups->count; i++) {
        struct convoy_cuda_bottleneck found = {0};
        if (!convoy_cuda_find_bottleneck(l, i, first, end, found.groups, &found.shape) ||
            !convoy_cuda_takes_bottleneck(&found.shape) ||
            convoy_cuda_noted_in_bottleneck(l->plan, found.groups + first, end - first))
            continue;
        found.kernel = convoy_cuda_choose_bottleneck(source, &found.shape);
        if (convoy_cuda_plan_note(l->plan, &found) != 0)
            return convoy_fail(l->error, -ENOMEM, "no memory for %d bottlenecks",
                               l->plan->bottleneck_count + 1);
    }
    return 0;
}

int convoy_cuda_find_bottlenecks(struct convoy_cuda_lowering *l)
{
    int failed = find_blocks(l, 0, CONVOY_BOTTLENECK_LAYERS);
    if (!failed)
        failed = find_blocks(l, 0, CONVOY_BOTTLENECK_LAYERS - 1);
    return failed ? failed : find_blocks(l, 1, CONVOY_BOTTLENECK_LAYERS);
}

/* Is the group a layer of a bottleneck that a kernel computes? *layer: which. */
static const struct convoy_cuda_bottleneck *bottleneck_of(const struct convoy_cuda_lowering *l, int group,
                                                          int *layer)
{
    for (int i = 0; i < l->plan->bottleneck_count; i++) {
        const struct convoy_cuda_bottleneck *bottleneck = &l->plan->bottlenecks[i];
        for (*layer = convoy_bottleneck_first(&bottleneck->shape);
             bottleneck->kernel != NULL && *layer < convoy_bottleneck_end(&bottleneck->shape); ++*layer)
            if (bottleneck->groups[*layer] == group)
                return bottleneck;
    }
    return NULL;
}

struct packing {
    const struct convoy_bottleneck_kernel *kernel;
    const struct convoy_bottleneck_shape *shape;
    const float *weights[CONVOY_BOTTLENECK_LAYERS];
};

static void pack(const void *argument, void *packed)
{
    const struct packing *packing = argument;
    packing->kernel->pack(packing->shape, packing->weights, packed);
}

static const struct convoy_node *node_of(const struct convoy_cuda_lowering *l,
                                         const struct convoy_cuda_bottleneck *bottleneck, int layer)
{
    return &l->graph->nodes[l->source->groups->groups[bottleneck->groups[layer]].anchor];
}

/* The weights of all layers as the kernel reads them; all sizes of batch share them. */
static const float *packed_weights(struct convoy_cuda_lowering *l,
                                   const struct convoy_cuda_bottleneck *bottleneck, int *code)
{
    const struct convoy_bottleneck_kernel *kernel = bottleneck->kernel;
    struct packing packing = {kernel, &bottleneck->shape, {NULL}};
    /* Several kernels read the same form. */
    void (*form)(const struct convoy_bottleneck_shape *, const float *const[], void *) = kernel->pack;
    uint64_t key = convoy_hash(0, &form, sizeof(form));
    int first = convoy_bottleneck_first(&bottleneck->shape);
    key = convoy_hash(key, &bottleneck->shape.stride, sizeof(bottleneck->shape.stride));
    key = convoy_hash(key, &first, sizeof(first));
    for (int layer = first; layer < convoy_bottleneck_end(&bottleneck->shape); layer++) {
        int tensor = node_of(l, bottleneck, layer)->inputs[1];
        packing.weights[layer] = l->graph->tensors[tensor].data;
        key = convoy_hash(key, &tensor, sizeof(tensor));
    }
    return convoy_cuda_weights_made(l->source->weights, key, kernel->packed_bytes(&bottleneck->shape), pack,
                                    &packing, code, l->error);
}

/* What the first layer reads is read when the last one's turn has come: it stays until then. */
static int keep_input(struct convoy_cuda_lowering *l, const struct convoy_cuda_bottleneck *bottleneck)
{
    int from = l->node->inputs[0], code = convoy_cuda_want_in_order(l, from);
    if (code)
        return code;
    convoy_cuda_keep_until(l, from, bottleneck->groups[convoy_bottleneck_end(&bottleneck->shape) - 1]);
    return 0;
}

/* Sums of the output, where squeeze and excitation takes its means from them. */
static int want_sums(struct convoy_cuda_lowering *l, int output, struct convoy_cuda_bottleneck_step *own)
{
    int patches = own->kernel->patches(&own->shape);
    int reader = patches > 0 ? convoy_cuda_excite_of_means(l, output, patches) : -1;
    if (reader < 0)
        return 0;
    size_t bytes = (size_t)own->shape.n * (size_t)patches * (size_t)own->shape.mid * sizeof(float);
    int buffer = convoy_cuda_buffer_until(l, bytes, reader);
    if (buffer < 0)
        return buffer;
    own->sums.where = CONVOY_CUDA_WORKSPACE;
    own->sums.offset = CONVOY_CUDA_BUFFER(buffer);
    l->sums_of[output] = (struct convoy_cuda_sums){.patches = patches, .buffer = buffer, .group = l->group};
    return 0;
}

bool convoy_cuda_in_bottleneck(const struct convoy_cuda_lowering *l, int group)
{
    int layer;
    return bottleneck_of(l, group, &layer) != NULL;
}

int convoy_cuda_lower_bottleneck(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                 bool *done)
{
    int layer;
    const struct convoy_cuda_bottleneck *bottleneck = bottleneck_of(l, l->group, &layer);
    struct convoy_cuda_bottleneck_step own = {0};
    struct convoy_cuda_place x = {0}, y = {0};
    struct convoy_cuda_step *step;
    if (bottleneck == NULL)
        return 0;
    *done = true;
    int first = convoy_bottleneck_first(&bottleneck->shape), end = convoy_bottleneck_end(&bottleneck->shape);
    if (layer + 1 < end) /* computed with the last one */
        return layer == first ? keep_input(l, bottleneck) : 0;
    own.shape = bottleneck->shape;
    own.kernel = bottleneck->kernel;
    memcpy(own.groups, bottleneck->groups, sizeof(own.groups));
    int code = convoy_cuda_reads_nhwc(l, node_of(l, bottleneck, first)->inputs[0], &x, &own.shape.x_pixel);
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, group->output, &y, &own.shape.y_pixel);
    own.weights.where = CONVOY_CUDA_CONSTANT;
    if (code == 0)
        own.weights.constant = packed_weights(l, bottleneck, &code);
    for (int i = first; i < end && code == 0; i++)
        if (own.shape.bias[i])
            code = convoy_cuda_reads(l, node_of(l, bottleneck, i)->inputs[2], &own.bias[i]);
    if (code == 0)
        code = want_sums(l, group->output, &own);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_BOTTLENECK, &step);
    if (code)
        return code;
    step->x = x;
    step->y = y;
    step->bottleneck = own;
    return 0;
}
