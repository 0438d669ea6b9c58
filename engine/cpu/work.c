#include "engine/cpu/work.h"

double convoy_cpu_node_work(const struct convoy_graph *graph, const struct convoy_node *node)
{
    const struct convoy_shape *x = &graph->tensors[node->inputs[0]].shape;
    double elements = (double)convoy_shape_elements(&graph->tensors[node->output].shape);
    if (node->op == CONVOY_OP_CONV) {
        const int64_t *w = graph->tensors[node->inputs[1]].shape.dims;
        return elements * (double)(w[1] * w[2] * w[3]);
    }
    if (node->op == CONVOY_OP_DENSE || node->op == CONVOY_OP_MATMUL)
        return elements * (double)(x->rank > 0 ? x->dims[x->rank - 1] : 1);
    if (node->op == CONVOY_OP_TOP)
        return elements * (double)x->dims[node->top.axis];
    return 0;
}
