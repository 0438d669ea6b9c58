#include "engine/cpu/groups.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct grouping {
    const struct convoy_graph *graph;
    struct convoy_cpu_groups *groups;
    int *readers;  /* per tensor: nodes that read it, plus graph outputs */
    int *group_of; /* per tensor: the group that writes it, -1 for the input and constants */
};

static bool is_constant(const struct convoy_graph *graph, int tensor)
{
    return graph->tensors[tensor].data != NULL;
}

static struct convoy_cpu_post eltwise(dnnl_alg_kind_t algorithm, float alpha, float beta, const char *label)
{
    struct convoy_cpu_post post = {
        .kind = CONVOY_CPU_ELTWISE, .algorithm = algorithm, .alpha = alpha, .beta = beta, .label = label};
    return post;
}

/* An activation as one or two of oneDNN's elementwise functions; returns how many. */
static int activation_posts(const struct convoy_activation *activation, struct convoy_cpu_post posts[2])
{
    float alpha = activation->alpha;
    float beta = activation->beta;
    switch (activation->kind) {
    case CONVOY_RELU:
        posts[0] = eltwise(dnnl_eltwise_relu, 0, 0, "relu");
        return 1;
    case CONVOY_LEAKY_RELU:
        posts[0] = eltwise(dnnl_eltwise_relu, alpha, 0, "leaky_relu");
        return 1;
    case CONVOY_SIGMOID:
        posts[0] = eltwise(dnnl_eltwise_logistic, 0, 0, "sigmoid");
        return 1;
    case CONVOY_TANH:
        posts[0] = eltwise(dnnl_eltwise_tanh, 0, 0, "tanh");
        return 1;
    case CONVOY_CLIP:
        posts[0] = eltwise(dnnl_eltwise_clip, alpha, beta, "clip");
        return 1;
    case CONVOY_HARD_SIGMOID:
        /* oneDNN 2 has no hard sigmoid. */
        posts[0] = eltwise(dnnl_eltwise_linear, alpha, beta, "hard_sigmoid");
        posts[1] = eltwise(dnnl_eltwise_clip, 0, 1, NULL);
        return 2;
    case CONVOY_SWISH:
        posts[0] = eltwise(dnnl_eltwise_swish, 1, 0, "swish");
        return 1;
    case CONVOY_HARD_SWISH:
        posts[0] = eltwise(dnnl_eltwise_hardswish, 0, 0, "hard_swish");
        return 1;
    case CONVOY_EXP:
        posts[0] = eltwise(dnnl_eltwise_exp, 0, 0, "exp");
        return 1;
    case CONVOY_SQRT:
        posts[0] = eltwise(dnnl_eltwise_sqrt, 0, 0, "sqrt");
        return 1;
    case CONVOY_ABS:
        posts[0] = eltwise(dnnl_eltwise_abs, 0, 0, "abs");
        return 1;
    case CONVOY_GELU:
        posts[0] = eltwise(dnnl_eltwise_gelu_erf, 0, 0, "gelu");
        return 1;
    case CONVOY_GELU_TANH:
        posts[0] = eltwise(dnnl_eltwise_gelu_tanh, 0, 0, "gelu_tanh");
        return 1;
    case CONVOY_ELU:
        posts[0] = eltwise(dnnl_eltwise_elu, alpha, 0, "elu");
        return 1;
    case CONVOY_MISH:
        posts[0] = eltwise(dnnl_eltwise_mish, 0, 0, "mish");
        return 1;
    case CONVOY_ROUND:
        posts[0] = eltwise(dnnl_eltwise_round, 0, 0, "round");
        return 1;
    case CONVOY_LOG: /* loops: oneDNN 2 lacks these or computes them otherwise */
    case CONVOY_ERF:
    case CONVOY_SOFTPLUS:
    case CONVOY_FLOOR:
    case CONVOY_CEIL:
    case CONVOY_SIGN:
    case CONVOY_POW:
    case CONVOY_THRESHOLDED:
    case CONVOY_SIN:
    case CONVOY_COS:
    case CONVOY_ATAN:
        return 0;
    }
    return 0;
}

/* A binary node with a constant of one element is a line: alpha x + beta. Returns 1, or 0 where it is not
 * (the constant is no scalar, or divided by x). *input is the tensor x. */
static int scalar_posts(const struct convoy_graph *graph, const struct convoy_node *node,
                        struct convoy_cpu_post posts[2], int *input)
{
    int constant_side = is_constant(graph, node->inputs[1]) ? 1 : 0;
    const struct convoy_tensor *constant = &graph->tensors[node->inputs[constant_side]];
    *input = node->inputs[1 - constant_side];
    if (constant->data == NULL || convoy_shape_elements(&constant->shape) != 1 ||
        !convoy_same_shape(&graph->tensors[*input].shape, &graph->tensors[node->output].shape))
        return 0;

    float value = constant->data[0];
    float alpha = 1;
    float beta = 0;
    const char *label = "linear";
    switch (node->binary) {
    case CONVOY_ADD:
        beta = value;
        break;
    case CONVOY_SUB:
        alpha = constant_side == 1 ? 1.0f : -1.0f;
        beta = constant_side == 1 ? -value : value;
        break;
    case CONVOY_MUL:
        alpha = value;
        break;
    case CONVOY_DIV:
        if (constant_side == 0)
            return 0;
        alpha = 1.0f / value;
        break;
    case CONVOY_MAX:
    case CONVOY_MIN:
        posts[0] = eltwise(dnnl_eltwise_clip, node->binary == CONVOY_MAX ? value : -INFINITY,
                           node->binary == CONVOY_MAX ? INFINITY : value, "clip");
        return isnan(value) ? 0 : 1;
    default:
        return 0;
    }
    if (!isfinite(alpha) || !isfinite(beta))
        return 0;
    posts[0] = eltwise(dnnl_eltwise_linear, alpha, beta, label);
    return 1;
}

/* Elementwise nodes as posts: returns how many posts, 0 where the node is something else. */
static int elementwise_posts(const struct convoy_graph *graph, const struct convoy_node *node, bool keeps_nan,
                             struct convoy_cpu_post posts[2], int *input)
{
    *input = node->inputs[0];
    if (keeps_nan &&
        (node->op == CONVOY_OP_ACTIVATION || node->binary == CONVOY_MAX || node->binary == CONVOY_MIN))
        return 0;
    if (node->op == CONVOY_OP_ACTIVATION)
        return activation_posts(&node->activation, posts);
    if (node->op == CONVOY_OP_BINARY)
        return scalar_posts(graph, node, posts, input);
    return 0;
}

/* The group that ends in tensor if only one node reads that, or NULL: only such a group can absorb another
 * node. */
static struct convoy_cpu_group *open_group(const struct grouping *g, int tensor, int posts)
{
    int index = g->group_of[tensor];
    if (index < 0 || g->readers[tensor] != 1)
        return NULL;
    struct convoy_cpu_group *group = &g->groups->groups[index];
    if (group->output != tensor || group->post_count + posts > CONVOY_CPU_MAX_POSTS)
        return NULL;
    return group;
}

static bool takes_elementwise(const struct convoy_graph *graph, const struct convoy_cpu_group *group)
{
    switch (graph->nodes[group->anchor].op) {
    case CONVOY_OP_CONV:
    case CONVOY_OP_DENSE:
    case CONVOY_OP_MATMUL:
    case CONVOY_OP_SCALE_SHIFT:
    case CONVOY_OP_POOL:
    case CONVOY_OP_BINARY:
    case CONVOY_OP_ACTIVATION:
        return true;
    default:
        return false;
    }
}

static void absorb(struct grouping *g, struct convoy_cpu_group *group, const struct convoy_cpu_post *posts,
                   int count, int output)
{
    memcpy(&group->posts[group->post_count], posts, (size_t)count * sizeof(posts[0]));
    group->post_count += count;
    group->output = output;
    g->group_of[output] = (int)(group - g->groups->groups);
}

/* A residual connection: the later of the two operands takes the earlier one in, which is computed by then.
 */
static bool absorb_sum(struct grouping *g, const struct convoy_node *node)
{
    const struct convoy_graph *graph = g->graph;
    if (node->op != CONVOY_OP_BINARY || node->binary != CONVOY_ADD)
        return false;
    int a = node->inputs[0];
    int b = node->inputs[1];
    if (is_constant(graph, a) || is_constant(graph, b) ||
        !convoy_same_shape(&graph->tensors[a].shape, &graph->tensors[b].shape))
        return false;
    int later = g->group_of[a] > g->group_of[b] ? a : b;
    int earlier = later == a ? b : a;
    if (g->group_of[later] == g->group_of[earlier])
        return false;
    struct convoy_cpu_group *group = open_group(g, later, 1);
    if (group == NULL)
        return false;
    enum convoy_op op = graph->nodes[group->anchor].op;
    if (op != CONVOY_OP_CONV && op != CONVOY_OP_DENSE && op != CONVOY_OP_SCALE_SHIFT)
        return false;
    for (int i = 0; i < group->post_count; i++)
        if (group->posts[i].kind == CONVOY_CPU_SUM)
            return false;
    struct convoy_cpu_post post = {.kind = CONVOY_CPU_SUM, .tensor = earlier, .label = "add"};
    absorb(g, group, &post, 1, node->output);
    return true;
}

/* A dense layer over a flattened image reads the image itself, in whatever layout it has: its weights are
 * reordered once instead of the image every time. */
static void absorb_flatten(struct grouping *g, struct convoy_cpu_group *dense)
{
    const struct convoy_graph *graph = g->graph;
    struct convoy_cpu_group *flatten = open_group(g, dense->source, 0);
    if (flatten == NULL || graph->nodes[flatten->anchor].op != CONVOY_OP_RESHAPE)
        return;
    const struct convoy_shape *image = &graph->tensors[flatten->source].shape;
    const struct convoy_shape *row = &graph->tensors[dense->source].shape;
    if (is_constant(graph, flatten->source) || image->rank != 4 || row->rank != 2 ||
        image->dims[0] != row->dims[0] || image->batch_axis != row->batch_axis)
        return;
    dense->source = flatten->source;
    flatten->anchor = -1; /* dropped below */
}

static void add_group(struct grouping *g, int index)
{
    const struct convoy_node *node = &g->graph->nodes[index];
    struct convoy_cpu_group *group = &g->groups->groups[g->groups->count];
    memset(group, 0, sizeof(*group));
    group->anchor = index;
    group->source = node->inputs[0];
    group->output = node->output;
    int input = node->inputs[0];
    int count = elementwise_posts(g->graph, node, g->groups->keeps_nan, group->posts, &input);
    if (count > 0) {
        group->elementwise = true;
        group->source = input;
        group->post_count = count;
    }
    if (node->op == CONVOY_OP_DENSE)
        absorb_flatten(g, group);
    g->group_of[node->output] = g->groups->count++;
}

static void place_node(struct grouping *g, int index)
{
    const struct convoy_node *node = &g->graph->nodes[index];
    struct convoy_cpu_post posts[2];
    int input = 0;
    int count = elementwise_posts(g->graph, node, g->groups->keeps_nan, posts, &input);
    if (count > 0) {
        struct convoy_cpu_group *group = open_group(g, input, count);
        if (group != NULL && takes_elementwise(g->graph, group)) {
            absorb(g, group, posts, count, node->output);
            return;
        }
    }
    if (!absorb_sum(g, node))
        add_group(g, index);
}

static void use(struct convoy_cpu_groups *groups, int tensor, int group)
{
    if (groups->last_use[tensor] < group)
        groups->last_use[tensor] = group;
}

static void find_last_uses(const struct convoy_graph *graph, struct convoy_cpu_groups *groups)
{
    for (int i = 0; i < graph->tensor_count; i++)
        groups->last_use[i] = -1;
    for (int i = 0; i < groups->count; i++) {
        const struct convoy_cpu_group *group = &groups->groups[i];
        const struct convoy_node *node = &graph->nodes[group->anchor];
        use(groups, group->source, i);
        for (int k = 1; k < node->input_count; k++)
            use(groups, node->inputs[k], i);
        for (int k = 0; k < group->post_count; k++)
            if (group->posts[k].kind == CONVOY_CPU_SUM)
                use(groups, group->posts[k].tensor, i);
    }
    for (int i = 0; i < graph->output_count; i++)
        groups->last_use[graph->outputs[i]] = INT_MAX;
}

int convoy_cpu_group_nodes(const struct convoy_graph *graph, bool keeps_nan, struct convoy_cpu_groups *groups,
                           struct convoy_error *error)
{
    size_t tensors = (size_t)graph->tensor_count;
    struct grouping g = {.graph = graph, .groups = groups};
    memset(groups, 0, sizeof(*groups));
    groups->keeps_nan = keeps_nan;
    groups->groups = calloc((size_t)graph->node_count + 1, sizeof(groups->groups[0]));
    groups->last_use = calloc(tensors + 1, sizeof(int));
    g.readers = calloc(tensors + 1, sizeof(int));
    g.group_of = calloc(tensors + 1, sizeof(int));
    if (groups->groups == NULL || groups->last_use == NULL || g.readers == NULL || g.group_of == NULL) {
        free(g.readers);
        free(g.group_of);
        return convoy_fail(error, -ENOMEM, "no memory to group %d nodes; load a smaller network",
                           graph->node_count);
    }
    for (int i = 0; i < graph->tensor_count; i++)
        g.group_of[i] = -1;
    for (int i = 0; i < graph->node_count; i++) {
        const struct convoy_node *node = &graph->nodes[i];
        groups->rounds |= node->op == CONVOY_OP_ACTIVATION && node->activation.kind == CONVOY_ROUND;
        for (int k = 0; k < node->input_count; k++)
            g.readers[node->inputs[k]]++;
    }
    for (int i = 0; i < graph->output_count; i++)
        g.readers[graph->outputs[i]] += 2; /* an output is never absorbed, however many nodes read it */

    for (int i = 0; i < graph->node_count; i++)
        place_node(&g, i);

    int kept = 0;
    for (int i = 0; i < groups->count; i++)
        if (groups->groups[i].anchor >= 0)
            groups->groups[kept++] = groups->groups[i];
    groups->count = kept;
    find_last_uses(graph, groups);
    free(g.readers);
    free(g.group_of);
    return 0;
}

void convoy_cpu_groups_free(struct convoy_cpu_groups *groups)
{
    free(groups->groups);
    free(groups->last_use);
    memset(groups, 0, sizeof(*groups));
}
