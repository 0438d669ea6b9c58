#include "engine/graph/finish.h"

#include "engine/graph/fold.h"
#include "engine/graph/prune.h"

/* The node that computes the tensor, reshapes aside; NULL for an input. */
static const struct convoy_node *source_of(const struct convoy_graph *graph, int tensor)
{
    int producer = graph->tensors[tensor].producer;
    while (producer >= 0 && graph->nodes[producer].op == CONVOY_OP_RESHAPE)
        producer = graph->tensors[graph->nodes[producer].inputs[0]].producer;
    return producer >= 0 ? &graph->nodes[producer] : NULL;
}

int convoy_graph_finish(struct convoy_graph *graph, struct convoy_error *error)
{
    int status = convoy_graph_fold(graph);
    if (status == 0)
        status = convoy_graph_prune(graph);
    if (status != 0)
        return convoy_fail(error, status, "out of memory while folding the graph");

    graph->weight_bytes = 0;
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].data != NULL)
            graph->weight_bytes += convoy_shape_elements(&graph->tensors[i].shape) * (int64_t)sizeof(float);
    const struct convoy_node *last = graph->output_count > 0 ? source_of(graph, graph->outputs[0]) : NULL;
    graph->ends_in_softmax = last != NULL && last->op == CONVOY_OP_SOFTMAX && !last->softmax.log;
    graph->ends_in_sigmoid =
        last != NULL && last->op == CONVOY_OP_ACTIVATION && last->activation.kind == CONVOY_SIGMOID;
    return 0;
}
