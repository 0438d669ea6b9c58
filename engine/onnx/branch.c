/* If, where the condition is known: the nodes of the branch that is taken are read in its place. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/names.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/scope.h"

#include <errno.h>

/* The branch's outputs become the If's. */
static int set_outputs(struct onnx_importer *importer, const Onnx__NodeProto *node,
                       const Onnx__GraphProto *branch)
{
    importer->node = node;
    importer->op = "If";
    for (size_t k = 0; k < node->n_output; k++) {
        const char *name =
            k < branch->n_output && branch->output[k]->name != NULL ? branch->output[k]->name : "";
        const struct onnx_value *value = onnx_find(importer, name);
        if (node->output[k][0] == '\0')
            continue;
        if (value == NULL || value->kind == ONNX_NOTHING || value->kind == ONNX_INITIALIZER)
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                               "output %zu of its branch is computed by no node of it", k);
        importer->output = (int)k;
        importer->outer = value->outer;
        int status = onnx_set_value(importer, value);
        if (status != 0)
            return status;
        onnx_find(importer, node->output[k])->integer_type = value->integer_type;
    }
    return 0;
}

static int read_if(struct onnx_importer *importer)
{
    const Onnx__NodeProto *node = importer->node;
    double condition;
    int status = onnx_input_scalar(importer, 0, 0, &condition);
    if (status != 0)
        return status;
    const Onnx__AttributeProto *taken =
        onnx_attribute(importer, condition != 0 ? "then_branch" : "else_branch");
    if (taken == NULL || taken->g == NULL)
        return onnx_fail(importer, -EINVAL, "it lacks a branch");
    int known = importer->value_count, index = importer->node_index;
    importer->scope++;
    status = onnx_register_initializers(importer, taken->g);
    if (status == 0)
        status = onnx_register_nodes(importer, taken->g);
    if (status == 0)
        status = onnx_read_nodes(importer, taken->g);
    importer->scope--;
    importer->node_index = index;
    if (status == 0)
        status = set_outputs(importer, node, taken->g);
    onnx_forget_names(importer, known);
    return status;
}

const struct onnx_operator onnx_branch_operators[] = {
    {"If", 1, 1, read_if, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
