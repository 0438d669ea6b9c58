#include "engine/onnx/folding.h"

#include "engine/graph/evaluate.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/names.h"

#include <stdlib.h>

static bool all_constant(const struct convoy_graph *graph, const struct convoy_node *node)
{
    for (int k = 0; k < node->input_count; k++)
        if (graph->tensors[node->inputs[k]].data == NULL)
            return false;
    return true;
}

static int evaluate(struct onnx_importer *importer, const struct convoy_node *node)
{
    struct convoy_tensor *output = &importer->graph->tensors[node->output];
    int64_t work = convoy_graph_evaluation_work(importer->graph, node);
    if (work > importer->work_left)
        return onnx_fail(importer, -EINVAL,
                         "computing the model's constants takes more work than convoyd puts into it: let the "
                         "exporter fold them");
    importer->work_left -= work;
    void *data;
    int status = onnx_allocate(importer, &output->shape, false, &data);
    if (status != 0)
        return status;
    convoy_graph_evaluate(importer->graph, node, data);
    output->data = data;
    output->producer = -1;
    return 0;
}

/* Floats that hold whole numbers become what steers shapes and indices. Their tensor is dropped. */
static int make_ints(struct onnx_importer *importer, struct onnx_value *value)
{
    const float *floats = importer->graph->tensors[value->tensor].data;
    int64_t elements = convoy_shape_elements(&value->shape);
    void *data;
    int status = onnx_allocate(importer, &value->shape, true, &data);
    if (status != 0)
        return status;
    value->ints = data;
    value->kind = ONNX_INTS;
    value->type = value->integer_type;
    value->integer_type = 0;
    for (int64_t i = 0; i < elements; i++)
        value->ints[i].fixed = (int64_t)floats[i];
    return status;
}

/* Is the tensor read by a node from first_node on, or what an output of the file's node is? */
static bool is_wanted(const struct onnx_importer *importer, int first_node, int tensor)
{
    const struct convoy_graph *graph = importer->graph;
    for (int i = first_node; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].inputs[k] == tensor)
                return true;
    for (size_t k = 0; k < importer->node->n_output; k++) {
        const struct onnx_value *value = onnx_find(importer, importer->node->output[k]);
        if (value != NULL && (value->kind == ONNX_FLOATS || value->kind == ONNX_ACTIVATION) &&
            value->tensor == tensor)
            return true;
    }
    return false;
}

int onnx_fold(struct onnx_importer *importer, int first_node, int first_tensor)
{
    struct convoy_graph *graph = importer->graph;
    int kept = first_node;
    int status = 0;
    for (int i = first_node; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        if (status == 0 && all_constant(graph, node)) {
            status = evaluate(importer, node);
            free(node->name);
            continue;
        }
        graph->tensors[node->output].producer = kept;
        if (kept != i)
            graph->nodes[kept] = *node;
        kept++;
    }
    bool folded = kept != graph->node_count;
    graph->node_count = kept;
    if (status != 0 || !folded)
        return status;
    for (size_t k = 0; k < importer->node->n_output; k++) {
        struct onnx_value *value = onnx_find(importer, importer->node->output[k]);
        if (value != NULL && value->kind == ONNX_ACTIVATION && graph->tensors[value->tensor].data != NULL) {
            value->kind = ONNX_FLOATS;
            value->outer = 1;
            if (value->integer_type != 0 && status == 0)
                status = make_ints(importer, value);
        }
    }
    for (int i = first_tensor; i < graph->tensor_count; i++)
        if (graph->tensors[i].data != NULL && !is_wanted(importer, first_node, i)) {
            onnx_release(importer, &graph->tensors[i].shape, false);
            free(graph->tensors[i].data);
            graph->tensors[i].data = NULL;
        }
    return status;
}
