#include "engine/cuda/plan/groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE (-1)

struct grouping {
    const struct convoy_graph *graph;
    struct convoy_cuda_groups *groups;
    int *readers;  /* per tensor: nodes that read it, plus graph outputs */
    int *group_of; /* per tensor: the group that writes it */
};

static bool is_constant(const struct convoy_graph *graph, int tensor)
{
    return graph->tensors[tensor].data != NULL;
}

static bool same_shape(const struct convoy_graph *graph, int one, int other)
{
    const struct convoy_shape *a = &graph->tensors[one].shape, *b = &graph->tensors[other].shape;
    return a->rank == b->rank && a->batch_axis == b->batch_axis &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(a->dims[0])) == 0;
}

/* Returns the group that ends in tensor, if only one node reads the tensor, else NULL. */
static struct convoy_cuda_group *open_group(const struct grouping *g, int tensor)
{
    int index = g->group_of[tensor];
    if (index == NOWHERE || g->readers[tensor] != 1 || g->groups->groups[index].output != tensor ||
        g->groups->groups[index].view)
        return NULL;
    return &g->groups->groups[index];
}

static bool does_activations(enum convoy_op anchor)
{
    return anchor == CONVOY_OP_CONV || anchor == CONVOY_OP_DENSE || anchor == CONVOY_OP_MATMUL ||
           anchor == CONVOY_OP_BINARY || anchor == CONVOY_OP_SCALE_SHIFT || anchor == CONVOY_OP_POOL;
}

static struct convoy_unary unary_of(const struct convoy_activation *activation, const char **name)
{
    struct convoy_unary unary = {CONVOY_UNARY_NONE, activation->alpha, activation->beta};
    switch (activation->kind) {
    case CONVOY_RELU:
        unary.kind = CONVOY_UNARY_RELU;
        *name = "relu";
        break;
    case CONVOY_LEAKY_RELU:
        unary.kind = CONVOY_UNARY_LEAKY_RELU;
        *name = "leaky_relu";
        break;
    case CONVOY_SIGMOID:
        unary.kind = CONVOY_UNARY_SIGMOID;
        *name = "sigmoid";
        break;
    case CONVOY_TANH:
        unary.kind = CONVOY_UNARY_TANH;
        *name = "tanh";
        break;
    case CONVOY_CLIP:
        unary.kind = CONVOY_UNARY_CLIP;
        *name = "clip";
        break;
    case CONVOY_HARD_SIGMOID:
        unary.kind = CONVOY_UNARY_HARD_SIGMOID;
        *name = "hard_sigmoid";
        break;
    case CONVOY_SWISH:
        unary.kind = CONVOY_UNARY_SWISH;
        *name = "swish";
        break;
    case CONVOY_HARD_SWISH:
        unary.kind = CONVOY_UNARY_HARD_SWISH;
        *name = "hard_swish";
        break;
    case CONVOY_EXP:
        unary.kind = CONVOY_UNARY_EXP;
        *name = "exp";
        break;
    case CONVOY_LOG:
        unary.kind = CONVOY_UNARY_LOG;
        *name = "log";
        break;
    case CONVOY_SQRT:
        unary.kind = CONVOY_UNARY_SQRT;
        *name = "sqrt";
        break;
    case CONVOY_ABS:
        unary.kind = CONVOY_UNARY_ABS;
        *name = "abs";
        break;
    case CONVOY_ERF:
        unary.kind = CONVOY_UNARY_ERF;
        *name = "erf";
        break;
    case CONVOY_GELU:
        unary.kind = CONVOY_UNARY_GELU;
        *name = "gelu";
        break;
    case CONVOY_GELU_TANH:
        unary.kind = CONVOY_UNARY_GELU_TANH;
        *name = "gelu_tanh";
        break;
    case CONVOY_ELU:
        unary.kind = CONVOY_UNARY_ELU;
        *name = "elu";
        break;
    case CONVOY_SOFTPLUS:
        unary.kind = CONVOY_UNARY_SOFTPLUS;
        *name = "softplus";
        break;
    case CONVOY_MISH:
        unary.kind = CONVOY_UNARY_MISH;
        *name = "mish";
        break;
    case CONVOY_ROUND:
        unary.kind = CONVOY_UNARY_ROUND;
        *name = "round";
        break;
    case CONVOY_FLOOR:
        unary.kind = CONVOY_UNARY_FLOOR;
        *name = "floor";
        break;
    case CONVOY_CEIL:
        unary.kind = CONVOY_UNARY_CEIL;
        *name = "ceil";
        break;
    case CONVOY_SIGN:
        unary.kind = CONVOY_UNARY_SIGN;
        *name = "sign";
        break;
    case CONVOY_POW:
        unary.kind = CONVOY_UNARY_POW;
        *name = "pow";
        break;
    case CONVOY_THRESHOLDED:
        unary.kind = CONVOY_UNARY_THRESHOLDED;
        *name = "thresholded";
        break;
    case CONVOY_SIN:
        unary.kind = CONVOY_UNARY_SIN;
        *name = "sin";
        break;
    case CONVOY_COS:
        unary.kind = CONVOY_UNARY_COS;
        *name = "cos";
        break;
    case CONVOY_ATAN:
        unary.kind = CONVOY_UNARY_ATAN;
        *name = "atan";
        break;
    }
    return unary;
}

static bool absorb_activation(struct grouping *g, const struct convoy_node *node)
{
    struct convoy_cuda_group *group = open_group(g, node->inputs[0]);
    if (group == NULL || group->act.kind != CONVOY_UNARY_NONE || group->pool != 1 ||
        !does_activations(g->graph->nodes[group->anchor].op))
        return false;
    const char *name;
    struct convoy_unary act = unary_of(&node->activation, &name);
    enum convoy_op anchor = g->graph->nodes[group->anchor].op;
    bool layer = anchor == CONVOY_OP_CONV || anchor == CONVOY_OP_DENSE;
    if (act.kind >= (layer ? CONVOY_UNARY_NHWC_KINDS : CONVOY_UNARY_FUSED_KINDS))
        return false;
    group->act = act;
    group->act_name = name;
    group->output = node->output;
    return true;
}

/* Takes a maximum over squares without overlap and padding; a remainder at the edge is ignored. */
static bool absorb_pool(struct grouping *g, const struct convoy_node *node)
{
    const struct convoy_pool *pool = &node->pool;
    struct convoy_cuda_group *group = open_group(g, node->inputs[0]);
    if (group == NULL || g->graph->nodes[group->anchor].op != CONVOY_OP_CONV || group->pool != 1 ||
        group->residual != NOWHERE || group->act.kind >= CONVOY_UNARY_FUSED_KINDS)
        return false;
    const int64_t *x = g->graph->tensors[node->inputs[0]].shape.dims;
    const int64_t *y = g->graph->tensors[node->output].shape.dims;
    int64_t side = pool->window[0];
    if (pool->kind != CONVOY_POOL_MAX || side < 2 || side > 3 || pool->window[1] != side)
        return false;
    for (int i = 0; i < 2; i++)
        if (pool->stride[i] != side || pool->dilation[i] != 1 || pool->pad[i] != 0 || pool->pad[2 + i] != 0 ||
            y[2 + i] != x[2 + i] / side)
            return false;
    group->pool = (int)side;
    group->output = node->output;
    return true;
}

/* The group that writes a side of a sum, if the sum can be its residual. */
static struct convoy_cuda_group *takes_sum(const struct grouping *g, const struct convoy_node *sum, int side)
{
    struct convoy_cuda_group *group = open_group(g, sum->inputs[side]);
    return group == NULL || g->graph->nodes[group->anchor].op != CONVOY_OP_CONV ||
                   is_constant(g->graph, sum->inputs[1 - side]) || group->act.kind != CONVOY_UNARY_NONE ||
                   group->pool != 1 || group->residual != NOWHERE
               ? NULL
               : group;
}

/* The group that writes what a convolution reads. */
static int writer_of(const struct grouping *g, const struct convoy_cuda_group *group)
{
    return g->group_of[g->graph->nodes[group->anchor].inputs[0]];
}

/* Takes a sum of which one side is a convolution without activation, pooling and residual: the other side
 * becomes its residual. The convolution moves to the place of the sum, when the other side has been computed.
 * Of two such convolutions it is the one whose input is computed later, so that the other can run beside what
 * leads to it. */
static bool absorb_sum(struct grouping *g, const struct convoy_node *node)
{
    if (node->binary != CONVOY_ADD || node->inputs[0] == node->inputs[1] ||
        !same_shape(g->graph, node->inputs[0], node->inputs[1]))
        return false;
    struct convoy_cuda_group *sides[] = {takes_sum(g, node, 0), takes_sum(g, node, 1)};
    bool both = sides[0] != NULL && sides[1] != NULL;
    int side = sides[1] == NULL || (both && writer_of(g, sides[0]) > writer_of(g, sides[1])) ? 0 : 1;
    if (sides[side] == NULL)
        return false;
    struct convoy_cuda_group moved = *sides[side];
    sides[side]->anchor = NOWHERE; /* removed by drop_moved() */
    moved.residual = node->inputs[1 - side];
    moved.output = node->output;
    g->group_of[node->output] = g->groups->count;
    g->groups->groups[g->groups->count++] = moved;
    return true;
}

static void add_group(struct grouping *g, int index)
{
    const struct convoy_node *node = &g->graph->nodes[index];
    struct convoy_cuda_group group = {.anchor = index,
                                      .residual = NOWHERE,
                                      .pool = 1,
                                      .output = node->output,
                                      .view = node->op == CONVOY_OP_RESHAPE &&
                                              !is_constant(g->graph, node->inputs[0])};
    if (node->op == CONVOY_OP_ACTIVATION)
        group.act = unary_of(&node->activation, &group.act_name);
    g->group_of[node->output] = g->groups->count;
    g->groups->groups[g->groups->count++] = group;
}

static void group_node(struct grouping *g, int index)
{
    const struct convoy_node *node = &g->graph->nodes[index];
    bool absorbed = (node->op == CONVOY_OP_ACTIVATION && absorb_activation(g, node)) ||
                    (node->op == CONVOY_OP_POOL && absorb_pool(g, node));
    if (absorbed)
        g->group_of[node->output] = g->group_of[node->inputs[0]];
    else if (node->op != CONVOY_OP_BINARY || !absorb_sum(g, node))
        add_group(g, index);
}

int convoy_cuda_group_inputs(const struct convoy_graph *graph, const struct convoy_cuda_group *group,
                             const int **inputs)
{
    const struct convoy_node *node = &graph->nodes[group->anchor];
    *inputs = group->attention != NULL ? group->attention->tensor
              : group->rows != NULL    ? &group->rows->base
                                       : node->inputs;
    return group->attention != NULL ? CONVOY_CUDA_ATTENTION_SIDES - 1
           : group->rows != NULL    ? 1
                                    : node->input_count;
}

/* Attention takes the place of the group that writes its result. */
static void join_attention(const struct grouping *g, struct convoy_cuda_tracer *tracer, bool *ends)
{
    struct convoy_cuda_groups *groups = g->groups;
    const struct convoy_graph *graph = g->graph;
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_cuda_attention *attention = graph->nodes[i].op == CONVOY_OP_SOFTMAX
                                                      ? convoy_cuda_find_attention(tracer, i, g->readers)
                                                      : NULL;
        for (int k = 0; k < groups->count && attention != NULL; k++) {
            struct convoy_cuda_group *group = &groups->groups[k];
            if (group->anchor == NOWHERE ||
                group->output != attention->tensor[CONVOY_CUDA_ATTENTION_SIDES - 1])
                continue;
            group->anchor = i;
            group->view = false;
            group->attention = attention;
            groups->nhwc = ends[group->output] = true;
            attention = NULL;
        }
        convoy_cuda_attention_free(attention);
    }
}

/* What only moves rows, or adds constants to them, without an activation. */
static bool moves_rows(const struct convoy_graph *graph, const struct convoy_cuda_group *group)
{
    const struct convoy_node *node = &graph->nodes[group->anchor];
    switch (node->op) {
    case CONVOY_OP_BINARY:
        return node->binary == CONVOY_ADD && group->act.kind == CONVOY_UNARY_NONE &&
               group->residual == NOWHERE;
    case CONVOY_OP_RESHAPE:
    case CONVOY_OP_TRANSPOSE:
    case CONVOY_OP_PAD:
    case CONVOY_OP_CONCAT:
        return group->attention == NULL;
    default:
        return false;
    }
}

/* From the last group to the first: what another one reads, that moves rows, reads these where they come
 * from. What nothing reads any more, because of that or of attention, is dropped. */
static int join_rows(const struct grouping *g, struct convoy_cuda_tracer *tracer)
{
    struct convoy_cuda_groups *groups = g->groups;
    const struct convoy_graph *graph = g->graph;
    bool *read = calloc((size_t)graph->tensor_count + 1, sizeof(read[0]));
    if (read == NULL)
        return -ENOMEM;
    for (int i = 0; i < graph->output_count; i++)
        read[graph->outputs[i]] = true;
    for (int i = groups->count - 1; i >= 0; i--) {
        struct convoy_cuda_group *group = &groups->groups[i];
        if (group->anchor == NOWHERE)
            continue;
        if (!read[group->output]) {
            group->anchor = NOWHERE;
            continue;
        }
        if (moves_rows(graph, group))
            group->rows = convoy_cuda_find_rows(tracer, group->output);
        if (group->rows != NULL) {
            group->view = !group->rows->copies;
            groups->nhwc = true;
        }
        const int *inputs;
        int count = convoy_cuda_group_inputs(graph, group, &inputs);
        for (int k = 0; k < count; k++)
            read[inputs[k]] = true;
        if (group->residual != NOWHERE)
            read[group->residual] = true;
    }
    free(read);
    return 0;
}

static int join_nhwc(const struct grouping *g)
{
    const struct convoy_graph *graph = g->graph;
    size_t tensors = (size_t)graph->tensor_count + 1;
    enum convoy_cuda_channels *channels = calloc(tensors, sizeof(channels[0]));
    int64_t *before = calloc(tensors, sizeof(before[0]));
    bool *ends = calloc(tensors, sizeof(ends[0]));
    struct convoy_cuda_tracer tracer = {.graph = graph,
                                        .channels = channels,
                                        .before = before,
                                        .ends = ends,
                                        .left = CONVOY_CUDA_TRACER_WORK};
    int failed = channels == NULL || before == NULL || ends == NULL ? -ENOMEM : 0;
    if (!failed) {
        convoy_cuda_find_channels(graph, channels, before);
        join_attention(g, &tracer, ends);
        failed = join_rows(g, &tracer);
    }
    free(channels);
    free(before);
    free(ends);
    return failed;
}

static void drop_moved(struct convoy_cuda_groups *groups)
{
    int kept = 0;
    for (int i = 0; i < groups->count; i++)
        if (groups->groups[i].anchor != NOWHERE)
            groups->groups[kept++] = groups->groups[i];
    groups->count = kept;
}

static void find_last_uses(const struct convoy_graph *graph, struct convoy_cuda_groups *groups)
{
    for (int t = 0; t < graph->tensor_count; t++)
        groups->last_use[t] = -1;
    for (int i = 0; i < groups->count; i++) {
        const int *inputs;
        int count = convoy_cuda_group_inputs(graph, &groups->groups[i], &inputs);
        for (int k = 0; k < count; k++)
            groups->last_use[inputs[k]] = i;
        if (groups->groups[i].residual != NOWHERE)
            groups->last_use[groups->groups[i].residual] = i;
    }
    for (int i = 0; i < graph->output_count; i++)
        groups->last_use[graph->outputs[i]] = groups->count;
}

int convoy_cuda_group_nodes(const struct convoy_graph *graph, struct convoy_cuda_groups *groups, bool nhwc,
                            struct convoy_error *error)
{
    struct grouping g = {.graph = graph, .groups = groups};
    size_t tensors = (size_t)graph->tensor_count + 1;
    groups->count = 0;
    groups->groups = calloc((size_t)graph->node_count + 1, sizeof(groups->groups[0]));
    groups->last_use = calloc(tensors, sizeof(int));
    g.readers = calloc(tensors, sizeof(int));
    g.group_of = calloc(tensors, sizeof(int));
    int failed = 0;
    if (groups->groups == NULL || groups->last_use == NULL || g.readers == NULL || g.group_of == NULL) {
        failed = convoy_fail(error, -ENOMEM, "no memory to group %d nodes", graph->node_count);
        goto out;
    }
    for (int t = 0; t < graph->tensor_count; t++)
        g.group_of[t] = NOWHERE;
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            g.readers[graph->nodes[i].inputs[k]]++;
    for (int i = 0; i < graph->output_count; i++)
        g.readers[graph->outputs[i]]++;
    for (int i = 0; i < graph->node_count; i++)
        group_node(&g, i);
    if (nhwc && join_nhwc(&g) != 0) {
        failed = convoy_fail(error, -ENOMEM, "no memory to group %d nodes", graph->node_count);
        goto out;
    }
    drop_moved(groups);
    find_last_uses(graph, groups);
out:
    free(g.readers);
    free(g.group_of);
    return failed;
}

void convoy_cuda_groups_free(struct convoy_cuda_groups *groups)
{
    for (int i = 0; groups->groups != NULL && i < groups->count; i++) {
        convoy_cuda_attention_free(groups->groups[i].attention);
        convoy_cuda_rows_free(groups->groups[i].rows);
    }
    free(groups->groups);
    free(groups->last_use);
    memset(groups, 0, sizeof(*groups));
}
