#include "engine/graph/finish.h"

#include "engine/graph/fold.h"
#include "engine/graph/prune.h"

static bool comes_from_softmax(const struct convoy_graph *graph, int tensor)
{
    int producer = graph->tensors[tensor].producer;
    while (producer >= 0 && graph->nodes[producer].op == CONVOY_OP_RESHAPE)
        producer = graph->tensors[graph->nodes[producer].inputs[0]].producer;
    return producer >= 0 && graph->nodes[producer].op == CONVOY_OP_SOFTMAX;
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
    graph->ends_in_softmax = graph->output_count > 0 && comes_from_softmax(graph, graph->outputs[0]);
    return 0;
}
