#include "engine/onnx/import.h"

#include "engine/graph/build.h"
#include "engine/graph/finish.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/input.h"
#include "engine/onnx/names.h"
#include "engine/onnx/scope.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_OPSET 7
#define NEWEST_OPSET 26

static bool is_default_domain(const char *domain)
{
    return domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static int find_opset(struct onnx_importer *importer)
{
    const Onnx__ModelProto *model = importer->model;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        if (!is_default_domain(model->opset_import[i]->domain))
            continue;
        importer->opset = model->opset_import[i]->version;
        int64_t oldest = importer->options->old_opsets ? 1 : OLDEST_OPSET;
        if (importer->opset < oldest || importer->opset > NEWEST_OPSET)
            return convoy_fail(importer->error, -ENOTSUP,
                               "the model is of opset %" PRId64
                               ", convoyd reads %d to %d; to serve the model, convert it, e.g. with "
                               "onnx.version_converter, or export it again",
                               importer->opset, OLDEST_OPSET, NEWEST_OPSET);
        return 0;
    }
    return convoy_fail(importer->error, -EINVAL, "the model names no opset of the standard operators");
}

/* The caller's constant under a name of the file, instead of what the file has there. */
static int bind(struct onnx_importer *importer, const struct convoy_onnx_binding *binding)
{
    struct onnx_value *value = onnx_find(importer, binding->name);
    if (value == NULL)
        value = onnx_add_name(importer, binding->name);
    if (value == NULL)
        return onnx_out_of_memory(importer);
    size_t elements = (size_t)convoy_shape_elements(&binding->shape);
    value->shape = binding->shape;
    value->shape.batch_axis = -1;
    if (binding->is_int64) {
        value->kind = ONNX_INTS;
        value->ints = calloc(elements + 1, sizeof *value->ints);
        for (size_t i = 0; value->ints != NULL && i < elements; i++)
            value->ints[i].fixed = ((const int64_t *)binding->data)[i];
        return value->ints != NULL ? 0 : onnx_out_of_memory(importer);
    }
    if (elements == 0)
        return convoy_fail(importer->error, -EINVAL, "the binding of '%.80s' is empty", binding->name);
    float *data = malloc(elements * sizeof *data);
    if (data == NULL)
        return onnx_out_of_memory(importer);
    memcpy(data, binding->data, elements * sizeof *data);
    value->kind = ONNX_FLOATS;
    return onnx_emit_constant(importer, binding->name, &value->shape, data, &value->tensor);
}

static int register_inputs(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    for (int i = 0; i < importer->options->binding_count; i++) {
        int status = bind(importer, &importer->options->bindings[i]);
        if (status != 0)
            return status;
    }
    const Onnx__ValueInfoProto *found = NULL;
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *input = graph->input[i];
        if (input->name == NULL || input->name[0] == '\0')
            return convoy_fail(importer->error, -EINVAL, "input %zu of the model has no name", i);
        if (onnx_find(importer, input->name) != NULL &&
            (found == NULL || strcmp(found->name, input->name) != 0))
            continue; /* an initializer, as IR versions before 4 list them, or bound */
        if (found != NULL)
            return convoy_fail(importer->error, -ENOTSUP,
                               "the model has several inputs ('%.80s', '%.80s'), convoyd takes one; to serve "
                               "the model, make constants (initializers) of the others",
                               found->name, input->name);
        int status = onnx_register_input(importer, input);
        if (status != 0)
            return status;
        found = input;
    }
    return found != NULL
               ? 0
               : convoy_fail(
                     importer->error, -ENOTSUP,
                     "the model has no input; to serve the model, export it with its image as an input");
}

static int register_names(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    int status =
        onnx_names_reserve(importer, onnx_count_names(graph) + (size_t)importer->options->binding_count);
    if (status == 0)
        status = onnx_register_initializers(importer, graph);
    if (status == 0)
        status = register_inputs(importer);
    return status == 0 ? onnx_register_nodes(importer, graph) : status;
}

static int check_outputs(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    if (graph->n_output == 0)
        return convoy_fail(importer->error, -EINVAL, "the model has no output");
    if (graph->n_output > CONVOY_MAX_OUTPUTS)
        return convoy_fail(
            importer->error, -ENOTSUP,
            "the model has %zu outputs, convoyd answers up to %d; to serve the model, export it with fewer",
            graph->n_output, CONVOY_MAX_OUTPUTS);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name != NULL ? graph->output[i]->name : "";
        if (onnx_find(importer, name) == NULL)
            return convoy_fail(importer->error, -EINVAL, "output '%.80s' of the model is computed by no node",
                               name);
    }
    return 0;
}

static bool is_taken(const struct convoy_graph *graph, int tensor)
{
    for (int i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == tensor)
            return true;
    return tensor == graph->input;
}

/* Makes the tensor an output under the file's name for it. What changes nothing (Identity, Dropout, Cast, an
 * If) left it under that of its input. */
static int add_output(struct convoy_graph *graph, const char *name, const struct convoy_shape *shape,
                      int tensor)
{
    if (is_taken(graph, tensor)) {
        int other = convoy_graph_add_tensor(graph, name, shape, NULL);
        if (other < 0 ||
            convoy_graph_add_node(graph, CONVOY_OP_RESHAPE, NULL, "Identity", &tensor, 1, other) == NULL)
            return -ENOMEM;
        tensor = other;
    } else if (strcmp(graph->tensors[tensor].name, name) != 0) {
        char *copy = strdup(name);
        if (copy == NULL)
            return -ENOMEM;
        free(graph->tensors[tensor].name);
        graph->tensors[tensor].name = copy;
    }
    graph->outputs[graph->output_count++] = tensor;
    return 0;
}

/* An output's images must lie one after the other, and it must not be the input itself, nor another output: a
 * RESHAPE stands between the two, so that a backend always has a node that writes an output. */
static int read_outputs(struct onnx_importer *importer)
{
    const Onnx__GraphProto *proto = importer->model->graph;
    struct convoy_graph *graph = importer->graph;
    int64_t elements = 0;
    for (size_t i = 0; i < proto->n_output; i++) {
        const Onnx__ValueInfoProto *info = proto->output[i];
        const struct onnx_value *value = onnx_find(importer, info->name);
        const Onnx__TypeProto *type = info->type;
        int32_t elements_type = type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
                                    ? type->tensor_type->elem_type
                                    : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
        bool is_float = elements_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
                        elements_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
        bool is_byte = value->integer_type == ONNX__TENSOR_PROTO__DATA_TYPE__UINT8;
        if (is_byte || (!is_float && value->integer_type == 0))
            return convoy_fail(importer->error, -ENOTSUP,
                               "output '%.80s' is of type %s, convoyd answers float32, of networks in "
                               "float16, too; to serve the model, export it with float32 outputs",
                               info->name, is_byte ? "uint8" : onnx_type_name(elements_type));
        if (value->kind != ONNX_ACTIVATION)
            return convoy_fail(
                importer->error, -ENOTSUP,
                "output '%.80s' does not depend on the model's input; to serve the model, remove that output",
                info->name);
        if (value->outer != 1 || onnx_product(&value->shape, 0, value->shape.batch_axis) != 1)
            return convoy_fail(importer->error, -ENOTSUP,
                               "the batch is not the first dimension of output '%.80s'; to serve the model, "
                               "transpose it there",
                               info->name);
        /* A row of answers is counted in 32 bits. */
        elements += convoy_shape_elements(&value->shape);
        if (elements > INT32_MAX)
            return convoy_fail(importer->error, -EINVAL,
                               "up to output '%.80s' the outputs have more than 2^31-1 elements", info->name);
        if (add_output(graph, info->name, &value->shape, value->tensor) != 0)
            return onnx_out_of_memory(importer);
    }
    return 0;
}

int onnx_import(struct onnx_importer *importer)
{
    if (importer->model->graph == NULL)
        return convoy_fail(importer->error, -EINVAL, "the file holds no graph: is it an ONNX model?");
    int status = find_opset(importer);
    if (status == 0)
        status = register_names(importer);
    if (status == 0)
        status = check_outputs(importer);
    if (status == 0)
        status = onnx_read_nodes(importer, importer->model->graph);
    if (status == 0)
        status = read_outputs(importer);
    return status == 0 ? convoy_graph_finish(importer->graph, importer->error) : status;
}
