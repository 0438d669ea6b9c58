#include "engine/cuda/plan/fusable_prefix.h"

#include "engine/base/hash.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NAMES 64 /* tensors of a prefix, views included */

/* The tensors of the prefix, and the layer that makes each. */
struct names {
    int count;
    struct {
        int tensor, layer;
        bool flat; /* reshaped since */
    } names[NAMES];
};

static int find(const struct names *names, int tensor)
{
    for (int i = 0; i < names->count; i++)
        if (names->names[i].tensor == tensor)
            return i;
    return -1;
}

static bool note(struct names *names, int tensor, int layer, bool flat)
{
    if (names->count == NAMES)
        return false;
    names->names[names->count].tensor = tensor;
    names->names[names->count].layer = layer;
    names->names[names->count++].flat = flat;
    return true;
}

static const float *constant(const struct convoy_graph *graph, int tensor)
{
    return graph->tensors[tensor].data;
}

/* Sets c, h and w of s to the shape that a layer makes. */
static void set_input(const struct convoy_fused_layer *from, struct convoy_conv_shape *s)
{
    bool plane = from->kind == CONVOY_FUSED_CONV;
    s->c = from->kind == CONVOY_FUSED_MEAN ? from->shape.c : from->shape.k;
    s->h = plane ? from->shape.oh / from->shape.pool : 1;
    s->w = plane ? from->shape.ow / from->shape.pool : 1;
}

/* True if a convolution makes the tensor and it was not reshaped since. Other layers make vectors. */
static bool is_plane(const struct names *names, int name, const struct convoy_fused_layer *layers)
{
    return name >= 0 && !names->names[name].flat &&
           layers[names->names[name].layer].kind == CONVOY_FUSED_CONV;
}

static bool add_conv(const struct convoy_cuda_source *source, const struct convoy_cuda_group *group,
                     const struct convoy_node *node, const struct names *names,
                     const struct convoy_fused_layer *layers, struct convoy_fused_layer *layer)
{
    const struct convoy_graph *graph = source->graph;
    int from = find(names, node->inputs[0]),
        around = group->residual >= 0 ? find(names, group->residual) : -1;
    bool images = node->inputs[0] == graph->input && convoy_cuda_reads_rows(graph);
    if ((!images && !is_plane(names, from, layers)) ||
        (group->residual >= 0 && !is_plane(names, around, layers)) ||
        !convoy_cuda_conv_shape(source, group, 1, &layer->shape) || layer->shape.n != 1)
        return false;
    layer->kind = CONVOY_FUSED_CONV;
    layer->input = images ? -1 : names->names[from].layer;
    layer->residual = around >= 0 ? names->names[around].layer : -1;
    layer->weights = constant(graph, node->inputs[1]);
    layer->bias = node->input_count > 2 ? constant(graph, node->inputs[2]) : NULL;
    return true;
}

static bool add_dense(const struct convoy_cuda_source *source, const struct convoy_cuda_group *group,
                      const struct convoy_node *node, const struct names *names,
                      struct convoy_cuda_fusable_prefix *prefix)
{
    const struct convoy_graph *graph = source->graph;
    const struct convoy_tensor *x = &graph->tensors[node->inputs[0]], *w = &graph->tensors[node->inputs[1]];
    struct convoy_fused_layer *layer = &prefix->layers[prefix->count];
    int from = find(names, node->inputs[0]);
    if (from < 0 || x->shape.rank != 2 || x->shape.batch_axis != 0 || x->shape.dims[0] != 1)
        return false;
    layer->kind = CONVOY_FUSED_DENSE;
    layer->input = names->names[from].layer;
    layer->residual = -1;
    layer->shape = (struct convoy_conv_shape){.n = 1,
                                              .k = (int)w->shape.dims[0],
                                              .groups = 1,
                                              .pool = 1,
                                              .act = group->act,
                                              .bias = node->input_count > 2};
    set_input(&prefix->layers[layer->input], &layer->shape);
    layer->weights = w->data;
    layer->bias = layer->shape.bias ? constant(graph, node->inputs[2]) : NULL;
    return w->shape.dims[0] <= INT_MAX &&
           w->shape.dims[1] == (int64_t)layer->shape.c * layer->shape.h * layer->shape.w;
}

/* An average over the whole plane. */
static bool add_mean(const struct convoy_cuda_group *group, const struct convoy_node *node,
                     const struct names *names, struct convoy_cuda_fusable_prefix *prefix)
{
    const struct convoy_pool *pool = &node->pool;
    struct convoy_fused_layer *layer = &prefix->layers[prefix->count];
    int from = find(names, node->inputs[0]);
    if (from < 0 || names->names[from].flat || pool->kind != CONVOY_POOL_AVERAGE ||
        group->act.kind != CONVOY_UNARY_NONE)
        return false;
    layer->kind = CONVOY_FUSED_MEAN;
    layer->input = names->names[from].layer;
    layer->residual = -1;
    layer->shape = (struct convoy_conv_shape){.n = 1, .groups = 1, .pool = 1};
    set_input(&prefix->layers[layer->input], &layer->shape);
    for (int i = 0; i < 4; i++)
        if (pool->pad[i] != 0)
            return false;
    return pool->window[0] == layer->shape.h && pool->window[1] == layer->shape.w &&
           prefix->layers[layer->input].kind == CONVOY_FUSED_CONV;
}

/* True if node is the softmax of the vector that the last layer makes. */
static bool is_softmax(const struct convoy_cuda_source *source, const struct convoy_node *node,
                       const struct names *names, const struct convoy_cuda_fusable_prefix *prefix)
{
    const struct convoy_shape *shape = &source->graph->tensors[node->inputs[0]].shape;
    int from = find(names, node->inputs[0]);
    return from >= 0 && names->names[from].layer == prefix->count - 1 && shape->rank == 2 &&
           shape->batch_axis == 0 && shape->dims[0] == 1 && node->softmax.axis == 1 &&
           node->softmax.axis_end == 2;
}

static bool has_dense(const struct convoy_cuda_fusable_prefix *prefix)
{
    return prefix->count > 0 && prefix->layers[prefix->count - 1].kind == CONVOY_FUSED_DENSE;
}

/* Adds one more group; false if the prefix ends before it. */
static bool add_group(const struct convoy_cuda_source *source, int index, enum convoy_fused_span span,
                      struct names *names, struct convoy_cuda_fusable_prefix *prefix)
{
    const struct convoy_cuda_group *group = &source->groups->groups[index];
    const struct convoy_node *node = &source->graph->nodes[group->anchor];
    int from;
    if (group->view) {
        from = find(names, node->inputs[0]);
        return from >= 0 && note(names, group->output, names->names[from].layer, true);
    }
    bool taken = false;
    if (prefix->softmax || group->act.kind >= CONVOY_UNARY_FUSED_KINDS) /* nothing follows a softmax */
        return false;
    if (node->op == CONVOY_OP_SOFTMAX && !node->softmax.log && span == CONVOY_FUSED_ALL &&
        is_softmax(source, node, names, prefix)) {
        prefix->softmax = true;
        return note(names, group->output, prefix->count - 1, true);
    }
    if (prefix->count == CONVOY_FUSED_LAYERS || (span == CONVOY_FUSED_FIRST_DENSE && has_dense(prefix)))
        return false;
    if (node->op == CONVOY_OP_CONV)
        taken = add_conv(source, group, node, names, prefix->layers, &prefix->layers[prefix->count]);
    else if (node->op == CONVOY_OP_DENSE)
        taken = span != CONVOY_FUSED_FRONT && add_dense(source, group, node, names, prefix);
    else if (node->op == CONVOY_OP_POOL)
        taken = add_mean(group, node, names, prefix);
    return taken && note(names, group->output, prefix->count++, false);
}

/* True if later groups read nothing of the first groups but the output of the last one. */
static bool is_closed(const struct convoy_cuda_source *source, int groups)
{
    const struct convoy_cuda_groups *all = source->groups;
    for (int i = 0; i + 1 < groups; i++)
        if (all->last_use[all->groups[i].output] >= groups)
            return false;
    return true;
}

void convoy_cuda_find_fusable_prefix(const struct convoy_cuda_source *source, enum convoy_fused_span span,
                                     struct convoy_cuda_fusable_prefix *prefix)
{
    struct names names = {0};
    int groups = 0, closed_count = 0;
    bool closed_softmax = false;
    prefix->count = prefix->groups = 0;
    prefix->softmax = false;
    prefix->output = -1;
    while (groups < source->groups->count && add_group(source, groups, span, &names, prefix)) {
        groups++;
        const struct convoy_cuda_group *last = &source->groups->groups[groups - 1];
        if (last->view || !is_closed(source, groups))
            continue;
        closed_count = prefix->count;
        closed_softmax = prefix->softmax;
        prefix->groups = groups;
        prefix->output = last->output;
    }
    prefix->count = closed_count;
    prefix->softmax = closed_softmax;
}

uint64_t convoy_cuda_prefix_fingerprint(const struct convoy_cuda_fusable_prefix *prefix)
{
    uint64_t hash = 0;
    for (int i = 0; i < prefix->count; i++) {
        const struct convoy_fused_layer *layer = &prefix->layers[i];
        struct convoy_cuda_key key;
        int links[3] = {(int)layer->kind, layer->input, layer->residual};
        convoy_cuda_conv_key(&layer->shape, &key);
        hash = convoy_hash(hash, links, sizeof(links));
        hash = convoy_hash(hash, key.text, strlen(key.text));
    }
    hash = convoy_hash(hash, &prefix->softmax, sizeof(prefix->softmax));
    return hash;
}

void convoy_cuda_fused_key(const struct convoy_cuda_source *source,
                           const struct convoy_cuda_fusable_prefix *prefix, uint32_t rows,
                           enum convoy_input_layout layout, struct convoy_cuda_key *key)
{
    snprintf(key->text, sizeof(key->text), "net %016llx l%d n%u u%d f%d",
             (unsigned long long)convoy_cuda_prefix_fingerprint(prefix), source->groups->count, rows,
             layout == CONVOY_LAYOUT_U8_HWC, (int)source->compute_type);
}

struct convoy_fused_shape convoy_cuda_fused_shape(const struct convoy_cuda_source *source,
                                                  const struct convoy_cuda_fusable_prefix *prefix,
                                                  uint32_t rows, enum convoy_input_layout layout)
{
    return (struct convoy_fused_shape){.n = (int)rows,
                                       .count = prefix->count,
                                       .layers = prefix->layers,
                                       .u8 = layout == CONVOY_LAYOUT_U8_HWC,
                                       .softmax = prefix->softmax,
                                       .compute_type = source->compute_type};
}

const struct convoy_fused_kernel *convoy_cuda_fused_chosen(const struct convoy_cuda_source *source,
                                                           uint32_t rows, enum convoy_input_layout layout)
{
    struct convoy_cuda_fusable_prefix prefix;
    struct convoy_cuda_key key;
    int count;
    const struct convoy_fused_kernel *const *kernels = convoy_fused_kernels(&count);
    convoy_cuda_find_fusable_prefix(source, CONVOY_FUSED_ALL, &prefix);
    if (prefix.count == 0)
        return NULL;
    convoy_cuda_fused_key(source, &prefix, rows, layout, &key);
    const char *name = convoy_cuda_kernel_choices_get(source->choices, &key);
    for (int i = 0; i < count && name != NULL; i++)
        if (strcmp(kernels[i]->name, name) == 0)
            return kernels[i];
    return NULL;
}
