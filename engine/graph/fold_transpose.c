/* Transposes of the input: a network whose file reads N x H x W x C has one at its beginning, and most such
 * files transpose to N x C x H x W a few nodes later. What lies between is done in N x C x H x W, and both
 * are gone. */
#include "engine/graph/fold.h"

#include "engine/graph/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Nodes between the two: casts are none, so these are normalisation and padding. */
#define MOST_BETWEEN 16

/* The one node that reads the tensor; NULL where there are none or several, or where it is an output. */
static struct convoy_node *only_reader(struct convoy_graph *graph, int tensor)
{
    struct convoy_node *found = NULL;
    for (int i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == tensor)
            return NULL;
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; graph->nodes[i].output >= 0 && k < graph->nodes[i].input_count; k++) {
            if (graph->nodes[i].inputs[k] != tensor)
                continue;
            if (found != NULL)
                return NULL;
            found = &graph->nodes[i];
        }
    return found;
}

/* *to has the axes of from in another order: axis i of from is axis perm[i] of to. */
static void turn_shape(const struct convoy_shape *from, const int *perm, struct convoy_shape *to)
{
    *to = (struct convoy_shape){.rank = from->rank, .batch_axis = -1};
    for (int axis = 0; axis < from->rank; axis++) {
        to->dims[perm[axis]] = from->dims[axis];
        if (axis == from->batch_axis)
            to->batch_axis = perm[axis];
    }
}

static bool inverts(const int *perm, const int *other, int rank)
{
    for (int axis = 0; axis < rank; axis++)
        if (perm[other[axis]] != axis)
            return false;
    return true;
}

/* The constant of a BINARY node with one; -1 of others. */
static int constant_of(const struct convoy_graph *graph, const struct convoy_node *node)
{
    for (int k = 0; k < 2; k++)
        if (graph->tensors[node->inputs[k]].data != NULL)
            return node->inputs[k];
    return -1;
}

/* Whether the node may be done before a transpose that it reads. Its output has the shape of its input, or of
 * a PAD. */
static bool may_pass(const struct convoy_graph *graph, const struct convoy_node *node, int rank)
{
    int constant = node->op == CONVOY_OP_BINARY ? constant_of(graph, node) : -1;
    if (graph->tensors[node->output].shape.rank != rank)
        return false;
    return node->op == CONVOY_OP_ACTIVATION || node->op == CONVOY_OP_PAD ||
           (constant >= 0 && graph->tensors[constant].shape.rank <= rank);
}

/* A constant with the axes in the other order, as turn_shape(). A new tensor, or a negative errno. */
static int turned_constant(struct convoy_graph *graph, int constant, const int *perm, int rank)
{
    const struct convoy_shape own = graph->tensors[constant].shape;
    struct convoy_shape from = {.rank = rank, .batch_axis = -1}, to;
    int64_t strides[CONVOY_MAX_RANK], stride = 1, elements = convoy_shape_elements(&own);
    for (int axis = 0; axis < rank; axis++)
        from.dims[axis] = axis < rank - own.rank ? 1 : own.dims[axis - (rank - own.rank)];
    turn_shape(&from, perm, &to);
    for (int axis = rank - 1; axis >= 0; axis--) {
        strides[perm[axis]] = stride;
        stride *= from.dims[axis];
    }
    float *data = malloc((size_t)elements * sizeof *data);
    if (data == NULL)
        return -ENOMEM;
    for (int64_t i = 0; i < elements; i++) {
        int64_t rest = i, at = 0;
        for (int axis = rank - 1; axis >= 0; axis--) {
            at += rest % to.dims[axis] * strides[axis]; // NOLINT(clang-analyzer-core.DivideZero): none is 0
            rest /= to.dims[axis];
        }
        data[i] = graph->tensors[constant].data[at];
    }
    return convoy_graph_add_tensor(graph, graph->tensors[constant].name, &to, data);
}

/* The node's part in the order of axes before the transpose. */
static int turn_node(struct convoy_graph *graph, struct convoy_node *node, const int *perm, int rank)
{
    struct convoy_shape *shape = &graph->tensors[node->output].shape, turned;
    int constant = node->op == CONVOY_OP_BINARY ? constant_of(graph, node) : -1;
    turn_shape(shape, perm, &turned);
    *shape = turned;
    if (node->op == CONVOY_OP_PAD) {
        const struct convoy_node old = *node;
        for (int axis = 0; axis < rank; axis++) {
            node->pad.before[perm[axis]] = old.pad.before[axis];
            node->pad.after[perm[axis]] = old.pad.after[axis];
        }
    }
    if (constant < 0 || graph->tensors[constant].shape.rank == 0)
        return 0;
    int other = turned_constant(graph, constant, perm, rank);
    if (other < 0)
        return other;
    for (int k = 0; k < 2; k++)
        if (node->inputs[k] == constant)
            node->inputs[k] = other;
    return 0;
}

static void read_instead(struct convoy_graph *graph, int tensor, int other)
{
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].inputs[k] == tensor)
                graph->nodes[i].inputs[k] = other;
}

static bool is_output(const struct convoy_graph *graph, int tensor)
{
    for (int i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == tensor)
            return true;
    return false;
}

int convoy_fold_transposes(struct convoy_graph *graph)
{
    struct convoy_node *between[MOST_BETWEEN], *first = NULL, *last;
    int count = 0, perm[CONVOY_MAX_RANK], rank = graph->tensors[graph->input].shape.rank;
    for (int i = 0; i < graph->node_count && first == NULL; i++)
        if (graph->nodes[i].op == CONVOY_OP_TRANSPOSE && graph->nodes[i].inputs[0] == graph->input)
            first = &graph->nodes[i];
    if (first == NULL)
        return 0;
    memcpy(perm, first->perm, sizeof perm);
    last = only_reader(graph, first->output);
    while (last != NULL && last->op != CONVOY_OP_TRANSPOSE && count < MOST_BETWEEN &&
           may_pass(graph, last, rank)) {
        between[count++] = last;
        last = only_reader(graph, last->output);
    }
    if (last == NULL || last->op != CONVOY_OP_TRANSPOSE || !inverts(perm, last->perm, rank) ||
        is_output(graph, last->output))
        return 0;
    /* Constants are added, which may move the tensors but no node. */
    for (int i = 0; i < count; i++) {
        int status = turn_node(graph, between[i], perm, rank);
        if (status != 0)
            return status;
    }
    read_instead(graph, last->output, count > 0 ? between[count - 1]->output : graph->input);
    if (count > 0)
        read_instead(graph, first->output, graph->input);
    last->output = -1;
    first->output = -1;
    return 0;
}
