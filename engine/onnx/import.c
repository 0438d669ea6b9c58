#include "engine/onnx/import.h"

#include "engine/graph/build.h"
#include "engine/graph/finish.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/names.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_OPSET 7
#define NEWEST_OPSET 21

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
                               ", convoyd reads %d to %d: convert or export it again",
                               importer->opset, OLDEST_OPSET, NEWEST_OPSET);
        return 0;
    }
    return convoy_fail(importer->error, -EINVAL, "the model names no opset of the standard operators");
}

static int register_initializers(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = graph->initializer[i];
        bool named = tensor->name != NULL && tensor->name[0] != '\0';
        struct onnx_value *value = named ? onnx_add_name(importer, tensor->name) : NULL;
        if (value == NULL)
            return convoy_fail(importer->error, -EINVAL, "initializer '%.80s' is there twice or has no name",
                               tensor->name != NULL ? tensor->name : "");
        value->kind = ONNX_INITIALIZER;
        value->initializer = tensor;
    }
    if (graph->n_sparse_initializer > 0)
        return convoy_fail(importer->error, -ENOTSUP,
                           "the model has sparse initializers, which are not supported");
    return 0;
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

/* Decodes an initializer that a node reads. Those that no node reads are never touched. */
static int fetch(struct onnx_importer *importer, struct onnx_value *value)
{
    struct convoy_onnx_tensor tensor;
    int status = onnx_count_stored(importer, value->initializer);
    if (status == 0)
        status = onnx_decode_tensor(value->initializer, importer->folder, &tensor, importer->error);
    if (status != 0)
        return status;
    int64_t elements = convoy_shape_elements(&tensor.shape);
    value->shape = tensor.shape;
    if (tensor.is_int64) {
        value->kind = ONNX_INTS;
        value->ints = calloc((size_t)elements + 1, sizeof *value->ints);
        for (int64_t i = 0; value->ints != NULL && i < elements; i++)
            value->ints[i].fixed = tensor.ints[i];
        status = value->ints != NULL ? 0 : onnx_out_of_memory(importer);
    } else if (elements == 0) {
        status =
            convoy_fail(importer->error, -EINVAL, "initializer '%.80s' has a dimension of zero", value->name);
    } else {
        value->kind = ONNX_FLOATS;
        status = onnx_emit_constant(importer, value->name, &tensor.shape, tensor.floats, &value->tensor);
        tensor.floats = NULL;
    }
    convoy_onnx_tensor_free(&tensor);
    return status;
}

/* The shape of the model's input, from the file or the options, and what its batch is. */
static int input_shape(struct onnx_importer *importer, const Onnx__ValueInfoProto *info,
                       struct convoy_shape *shape)
{
    const struct convoy_onnx_options *options = importer->options;
    const Onnx__TypeProto__Tensor *type =
        info->type != NULL && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? info->type->tensor_type
            : NULL;
    if (type == NULL)
        return convoy_fail(importer->error, -ENOTSUP, "input '%.80s' is not a tensor", info->name);
    if (type->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        return convoy_fail(
            importer->error, -ENOTSUP,
            "input '%.80s' is of type %s, convoyd takes float32 inputs: export the model with one "
            "(16-bit weights inside are fine)",
            info->name, onnx_type_name(type->elem_type));
    const Onnx__TensorShapeProto *given = type->shape;
    size_t rank = given != NULL ? given->n_dim : (size_t)options->input_shape.rank;
    if (rank > CONVOY_MAX_RANK || (given == NULL && rank == 0) || (rank == 0 && !options->no_batch))
        return convoy_fail(
            importer->error, -ENOTSUP,
            "input '%.80s' has no shape, or one of %zu dimensions: export the model with N x C x H x W",
            info->name, rank);
    *shape = (struct convoy_shape){.rank = (int)rank, .batch_axis = options->no_batch ? -1 : 0};
    for (int axis = 0; axis < shape->rank; axis++) {
        const Onnx__TensorShapeProto__Dimension *dim = given != NULL ? given->dim[axis] : NULL;
        bool fixed = dim != NULL && dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        shape->dims[axis] = fixed ? dim->dim_value : 0;
        if (!fixed && options->input_shape.rank == shape->rank)
            shape->dims[axis] = options->input_shape.dims[axis];
        bool open = !fixed && options->input_shape.rank != shape->rank;
        if (axis == 0 && !options->no_batch) {
            importer->batch = fixed ? shape->dims[0] : ONNX_OPEN_BATCH;
            if (fixed && shape->dims[0] < 1)
                return convoy_fail(importer->error, -EINVAL, "input '%.80s' has a batch of %" PRId64,
                                   info->name, shape->dims[0]);
            shape->dims[0] = 1;
        } else if (open) {
            return convoy_fail(
                importer->error, -ENOTSUP,
                "dimension %d of input '%.80s' is open: export the model with a fixed height and width", axis,
                info->name);
        }
    }
    int64_t elements = 1;
    for (int axis = 0; axis < shape->rank; axis++)
        if (shape->dims[axis] < 1 || __builtin_mul_overflow(elements, shape->dims[axis], &elements) ||
            elements > INT32_MAX)
            return convoy_fail(importer->error, -EINVAL,
                               "input '%.80s' has a dimension below 1 or more than 2^31-1 elements",
                               info->name);
    return 0;
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
            return convoy_fail(
                importer->error, -ENOTSUP,
                "the model has several inputs ('%.80s', '%.80s'), convoyd serves models with one",
                found->name, input->name);
        struct convoy_shape shape;
        int status = input_shape(importer, input, &shape);
        if (status != 0)
            return status;
        struct onnx_value *value = onnx_add_name(importer, input->name);
        int tensor = convoy_graph_add_tensor(importer->graph, input->name, &shape, NULL);
        if (value == NULL || tensor < 0)
            return onnx_out_of_memory(importer);
        *value = (struct onnx_value){
            .name = input->name, .kind = ONNX_ACTIVATION, .node = -1, .shape = shape, .tensor = tensor};
        importer->graph->input = tensor;
        found = input;
    }
    return found != NULL ? 0 : convoy_fail(importer->error, -ENOTSUP, "the model has no input");
}

static int register_outputs_of_nodes(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    for (size_t i = 0; i < graph->n_node; i++) {
        importer->node = graph->node[i];
        importer->node_index = (int)i;
        for (size_t k = 0; k < graph->node[i]->n_output; k++) {
            const char *name = graph->node[i]->output[k];
            if (name[0] == '\0')
                continue;
            struct onnx_value *value = onnx_add_name(importer, name);
            if (value == NULL)
                return onnx_fail(importer, -EINVAL,
                                 "its output '%.80s' is there already: names must be unique", name);
            value->node = (int)i;
        }
    }
    return 0;
}

static int register_names(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    size_t names = graph->n_initializer + graph->n_input + (size_t)importer->options->binding_count;
    for (size_t i = 0; i < graph->n_node; i++)
        names += graph->node[i]->n_output;
    int status = onnx_names_reserve(importer, names);
    if (status == 0)
        status = register_initializers(importer);
    if (status == 0)
        status = register_inputs(importer);
    return status == 0 ? register_outputs_of_nodes(importer) : status;
}

static bool is_needed(const struct onnx_importer *importer, const Onnx__NodeProto *node)
{
    bool needed = false;
    for (size_t k = 0; k < node->n_output; k++)
        needed |= node->output[k][0] != '\0' && onnx_find(importer, node->output[k])->needed;
    return needed;
}

/* Backwards from the outputs: what does not lead to one is not read, and may be anything. */
static int mark_needed(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    if (graph->n_output == 0)
        return convoy_fail(importer->error, -EINVAL, "the model has no output");
    if (graph->n_output > CONVOY_MAX_OUTPUTS)
        return convoy_fail(importer->error, -ENOTSUP, "the model has %zu outputs, convoyd serves up to %d",
                           graph->n_output, CONVOY_MAX_OUTPUTS);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name != NULL ? graph->output[i]->name : "";
        struct onnx_value *value = onnx_find(importer, name);
        if (value == NULL)
            return convoy_fail(importer->error, -EINVAL, "output '%.80s' of the model is computed by no node",
                               name);
        value->needed = true;
    }
    for (size_t i = graph->n_node; i-- > 0;) {
        const Onnx__NodeProto *node = graph->node[i];
        if (!is_needed(importer, node))
            continue;
        for (size_t k = 0; k < node->n_input; k++) {
            struct onnx_value *value = onnx_find(importer, node->input[k]);
            if (value != NULL)
                value->needed = true;
        }
    }
    return 0;
}

static const struct onnx_operator *find_operator(const char *name)
{
    static const struct onnx_operator *const tables[] = {onnx_image_operators, onnx_dense_operators,
                                                         onnx_elementwise_operators, onnx_layout_operators,
                                                         onnx_constant_operators};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct onnx_operator *operator= tables[i]; operator->name != NULL; operator++)
            if (strcmp(operator->name, name) == 0)
                return operator;
    return NULL;
}

static int gather_inputs(struct onnx_importer *importer)
{
    const Onnx__NodeProto *node = importer->node;
    memset(importer->inputs, 0, sizeof importer->inputs);
    importer->input_count = (int)node->n_input;
    for (size_t i = 0; i < node->n_input; i++) {
        const char *name = node->input[i];
        if (name[0] == '\0')
            continue;
        struct onnx_value *value = onnx_find(importer, name);
        if (value == NULL)
            return onnx_fail(importer, -EINVAL, "its input '%.80s' is computed nowhere in the model", name);
        if (value->kind == ONNX_NOTHING && value->node >= importer->node_index)
            return onnx_fail(
                importer, -EINVAL,
                "its input '%.80s' is computed only later: the nodes form a cycle or are out of order", name);
        if (value->kind == ONNX_NOTHING)
            return onnx_fail(
                importer, -ENOTSUP,
                "its input '%.80s' is an additional output of another node, which convoyd does not "
                "compute",
                name);
        if (value->kind == ONNX_INITIALIZER) {
            int status = fetch(importer, value);
            if (status != 0)
                return status;
        }
        importer->inputs[i] = value;
    }
    return 0;
}

static int read_node(struct onnx_importer *importer)
{
    const Onnx__NodeProto *node = importer->node;
    const char *op = node->op_type != NULL ? node->op_type : "";
    const char *domain = node->domain != NULL ? node->domain : "";
    const struct onnx_operator *operator= is_default_domain(domain) ? find_operator(op) : NULL;
    if (operator== NULL && node->name != NULL && node->name[0] != '\0')
        return convoy_fail(importer->error, -ENOTSUP,
                           "node '%.80s' is of operator '%.40s'%s%.40s%s, which convoyd does not support",
                           node->name, op, domain[0] != '\0' ? " of domain '" : "", domain,
                           domain[0] != '\0' ? "'" : "");
    if (operator== NULL)
        return convoy_fail(
            importer->error, -ENOTSUP,
            "node %d, which computes '%.80s', is of operator '%.40s'%s%.40s%s, which convoyd does not "
            "support",
            importer->node_index, node->output[0], op, domain[0] != '\0' ? " of domain '" : "", domain,
            domain[0] != '\0' ? "'" : "");
    importer->op = operator->name;
    if (node->output[0][0] == '\0')
        return onnx_fail(importer, -EINVAL, "its first output has no name");
    if (node->n_input < (size_t) operator->min_inputs || node->n_input>(size_t) operator->max_inputs)
        return onnx_fail(importer, -EINVAL, "it has %zu inputs, %d to %d are read",
                         node->n_input, operator->min_inputs, operator->max_inputs);
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->ref_attr_name != NULL)
            return onnx_fail(importer, -EINVAL,
                             "an attribute refers to a function's, but it is in no function");
    int status = gather_inputs(importer);
    if (status == 0)
        status = operator->read(importer);
    return status;
}

static int read_nodes(struct onnx_importer *importer)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    for (size_t i = 0; i < graph->n_node; i++) {
        importer->node = graph->node[i];
        importer->node_index = (int)i;
        if (!is_needed(importer, graph->node[i]))
            continue;
        int status = read_node(importer);
        if (status != 0)
            return status;
    }
    return 0;
}

/* An output's images must lie one after the other, and it must not be the input itself: a RESHAPE stands
 * between the two, so that a backend always has a node that writes an output. */
static int read_outputs(struct onnx_importer *importer)
{
    const Onnx__GraphProto *proto = importer->model->graph;
    struct convoy_graph *graph = importer->graph;
    int64_t elements = 0;
    for (size_t i = 0; i < proto->n_output; i++) {
        const Onnx__ValueInfoProto *info = proto->output[i];
        const struct onnx_value *value = onnx_find(importer, info->name);
        const Onnx__TypeProto *type = info->type;
        if (type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
            type->tensor_type->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
            return convoy_fail(
                importer->error, -ENOTSUP,
                "output '%.80s' is of type %s, convoyd answers float32: export the model with float32 "
                "outputs",
                info->name, onnx_type_name(type->tensor_type->elem_type));
        if (value->kind != ONNX_ACTIVATION)
            return convoy_fail(importer->error, -ENOTSUP,
                               "output '%.80s' does not depend on the model's input", info->name);
        if (value->shape.batch_axis > 0 && onnx_product(&value->shape, 0, value->shape.batch_axis) != 1)
            return convoy_fail(
                importer->error, -ENOTSUP,
                "the batch is not the first dimension of output '%.80s': transpose it in the model",
                info->name);
        /* A row of answers is counted in 32 bits. */
        elements += convoy_shape_elements(&value->shape);
        if (elements > INT32_MAX)
            return convoy_fail(importer->error, -EINVAL,
                               "up to output '%.80s' the outputs have more than 2^31-1 elements", info->name);
        int tensor = value->tensor;
        if (tensor == graph->input) {
            tensor = convoy_graph_add_tensor(graph, info->name, &value->shape, NULL);
            if (tensor < 0 || convoy_graph_add_node(graph, CONVOY_OP_RESHAPE, NULL, "Identity", &graph->input,
                                                    1, tensor) == NULL)
                return onnx_out_of_memory(importer);
        }
        graph->outputs[graph->output_count++] = tensor;
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
        status = mark_needed(importer);
    if (status == 0)
        status = read_nodes(importer);
    if (status == 0)
        status = read_outputs(importer);
    return status == 0 ? convoy_graph_finish(importer->graph, importer->error) : status;
}
