#include "engine/graph/fold.h"

#include "engine/graph/prune.h"

#include <errno.h>
#include <stdlib.h>

static int *count_readers(const struct convoy_graph *graph)
{
    int *readers = calloc((size_t)graph->tensor_count + 2 * (size_t)graph->node_count + 1, sizeof *readers);
    if (readers == NULL)
        return NULL;
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            readers[graph->nodes[i].inputs[k]]++;
    for (int i = 0; i < graph->output_count; i++)
        readers[graph->outputs[i]]++;
    return readers;
}

static bool pads_height_and_width_only(const struct convoy_graph *graph, const struct convoy_node *node)
{
    if (graph->tensors[node->output].shape.rank != 4)
        return false;
    for (int axis = 0; axis < 4; axis++) {
        bool spatial = axis >= 2;
        if (spatial ? node->pad.before[axis] < 0 || node->pad.after[axis] < 0
                    : node->pad.before[axis] != 0 || node->pad.after[axis] != 0)
            return false;
    }
    return true;
}

static bool all_zero(const int64_t *values, int count)
{
    for (int i = 0; i < count; i++)
        if (values[i] != 0)
            return false;
    return true;
}

void convoy_fold_pads(struct convoy_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        if (node->op != CONVOY_OP_CONV && node->op != CONVOY_OP_POOL)
            continue;
        int producer = graph->tensors[node->inputs[0]].producer;
        if (producer < 0 || graph->nodes[producer].op != CONVOY_OP_PAD ||
            !pads_height_and_width_only(graph, &graph->nodes[producer]))
            continue;
        int64_t *pad = node->conv.pad;
        if (node->op == CONVOY_OP_POOL) {
            /* A maximum over zeros is not one over nothing; an average that leaves its own padding out of the
             * count cannot tell that padding from these zeros. */
            if (node->pool.kind != CONVOY_POOL_AVERAGE ||
                (!node->pool.count_include_pad && !all_zero(node->pool.pad, 4)))
                continue;
            node->pool.count_include_pad = true;
            pad = node->pool.pad;
        }
        const struct convoy_node *outer = &graph->nodes[producer];
        pad[0] += outer->pad.before[2];
        pad[1] += outer->pad.before[3];
        pad[2] += outer->pad.after[2];
        pad[3] += outer->pad.after[3];
        node->inputs[0] = outer->inputs[0];
    }
}

int convoy_graph_fold(struct convoy_graph *graph)
{
    if (convoy_fold_transposes(graph) != 0)
        return -ENOMEM;
    convoy_fold_swish(graph);
    convoy_fold_gelu(graph);
    if (convoy_fold_normalize(graph) != 0)
        return -ENOMEM;
    convoy_fold_pads(graph);
    if (convoy_fold_reshape_chains(graph) != 0)
        return -ENOMEM;
    /* What those left behind must not count as readers. */
    if (convoy_graph_prune(graph) != 0)
        return -ENOMEM;
    int *readers = count_readers(graph);
    if (readers == NULL)
        return -ENOMEM;
    convoy_fold_normalize_scales(graph, readers);
    int status = convoy_fold_scaled_swish(graph, readers);
    convoy_fold_reshapes(graph, readers);
    if (status == 0)
        status = convoy_fold_scales(graph, readers);
    free(readers);
    /* What moved left reshapes behind each other. */
    return status == 0 ? convoy_fold_reshape_chains(graph) : status;
}
