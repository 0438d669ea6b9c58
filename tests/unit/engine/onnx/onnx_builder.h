/* Builds ONNX models in memory for the reader's tests, writes them to a file of a temporary folder, and loads
 * them. Everything is freed by builder_free(). */
#ifndef CONVOY_TESTS_UNIT_ONNX_BUILDER_H
#define CONVOY_TESTS_UNIT_ONNX_BUILDER_H

#include "engine/onnx/onnx.h"

#include <criterion/criterion.h>
#include <onnx/onnx.pb-c.h>

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELPER __attribute__((unused)) static

#define FLOAT_TYPE ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define MOST_PARTS 128

struct builder {
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset;
    Onnx__OperatorSetIdProto *opsets[1];
    Onnx__NodeProto *nodes[MOST_PARTS];
    Onnx__TensorProto *initializers[MOST_PARTS];
    Onnx__ValueInfoProto *inputs[MOST_PARTS], *outputs[MOST_PARTS];
    void *allocated[8192];
    int allocated_count;
    char folder[64];
    struct convoy_graph *loaded; /* by builder_load() */
    struct convoy_error error;
};

HELPER void *builder_memory(struct builder *b, size_t bytes)
{
    cr_assert(b->allocated_count < 8192);
    return b->allocated[b->allocated_count++] = calloc(1, bytes + 1);
}

HELPER char *builder_text(struct builder *b, const char *text)
{
    return strcpy(builder_memory(b, strlen(text)), text);
}

HELPER struct builder *builder_new(int64_t opset)
{
    struct builder *b = calloc(1, sizeof *b);
    onnx__model_proto__init(&b->model);
    onnx__graph_proto__init(&b->graph);
    onnx__operator_set_id_proto__init(&b->opset);
    b->opset.has_version = 1;
    b->opset.version = opset;
    b->opsets[0] = &b->opset;
    b->model.has_ir_version = 1;
    b->model.ir_version = 8;
    b->model.opset_import = b->opsets;
    b->model.n_opset_import = 1;
    b->model.graph = &b->graph;
    b->graph.node = b->nodes;
    b->graph.initializer = b->initializers;
    b->graph.input = b->inputs;
    b->graph.output = b->outputs;
    b->graph.name = builder_text(b, "test");
    strcpy(b->folder, "/tmp/convoy-onnx-XXXXXX");
    cr_assert(mkdtemp(b->folder) != NULL);
    return b;
}

HELPER int builder_unlink(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

HELPER void builder_free(struct builder *b)
{
    nftw(b->folder, builder_unlink, 8, FTW_DEPTH | FTW_PHYS);
    convoy_graph_free(b->loaded);
    for (int i = 0; i < b->allocated_count; i++)
        free(b->allocated[i]);
    free(b);
}

/* A declared value. A dimension of -1 is open and named "N"; rank -1 gives no shape. */
HELPER Onnx__ValueInfoProto *builder_info(struct builder *b, const char *name, int type, int rank,
                                          const int64_t *dims)
{
    Onnx__ValueInfoProto *info = builder_memory(b, sizeof *info);
    onnx__value_info_proto__init(info);
    info->name = builder_text(b, name);
    info->type = builder_memory(b, sizeof *info->type);
    onnx__type_proto__init(info->type);
    info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    Onnx__TypeProto__Tensor *tensor = builder_memory(b, sizeof *tensor);
    onnx__type_proto__tensor__init(tensor);
    info->type->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    if (rank < 0)
        return info;
    tensor->shape = builder_memory(b, sizeof *tensor->shape);
    onnx__tensor_shape_proto__init(tensor->shape);
    tensor->shape->dim = builder_memory(b, sizeof(void *) * (size_t)(rank + 1));
    tensor->shape->n_dim = (size_t)rank;
    for (int i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *dim = builder_memory(b, sizeof *dim);
        onnx__tensor_shape_proto__dimension__init(dim);
        if (dims[i] == -1) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = builder_text(b, "N");
        } else {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = dims[i];
        }
        tensor->shape->dim[i] = dim;
    }
    return info;
}

#define DIMS(...)                                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                             \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define FLOATS(...)                                                                                          \
    (const float[])                                                                                          \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
#define IMAGES(b) builder_input(b, "x", DIMS(-1, 3, 8, 8))

HELPER void builder_input(struct builder *b, const char *name, int rank, const int64_t *dims)
{
    b->inputs[b->graph.n_input++] = builder_info(b, name, FLOAT_TYPE, rank, dims);
}

HELPER void builder_output(struct builder *b, const char *name)
{
    b->outputs[b->graph.n_output++] = builder_info(b, name, FLOAT_TYPE, -1, NULL);
}

HELPER Onnx__TensorProto *builder_tensor(struct builder *b, const char *name, int type, int rank,
                                         const int64_t *dims)
{
    Onnx__TensorProto *tensor = builder_memory(b, sizeof *tensor);
    onnx__tensor_proto__init(tensor);
    tensor->name = builder_text(b, name);
    tensor->has_data_type = 1;
    tensor->data_type = type;
    tensor->n_dims = (size_t)rank;
    tensor->dims = builder_memory(b, sizeof(int64_t) * (size_t)rank);
    if (rank > 0)
        memcpy(tensor->dims, dims, sizeof(int64_t) * (size_t)rank);
    return tensor;
}

HELPER void builder_raw(struct builder *b, Onnx__TensorProto *tensor, const void *data, size_t bytes)
{
    tensor->has_raw_data = 1;
    tensor->raw_data.len = bytes;
    tensor->raw_data.data = builder_memory(b, bytes);
    if (data != NULL && bytes > 0)
        memcpy(tensor->raw_data.data, data, bytes);
}

/* Values from data, or 0.01, 0.02, ... where it is NULL. */
HELPER Onnx__TensorProto *builder_float_tensor(struct builder *b, const char *name, int rank,
                                               const int64_t *dims, const float *data)
{
    Onnx__TensorProto *tensor = builder_tensor(b, name, FLOAT_TYPE, rank, dims);
    size_t elements = 1;
    for (int i = 0; i < rank; i++)
        elements *= (size_t)dims[i];
    builder_raw(b, tensor, data, elements * sizeof(float));
    for (size_t i = 0; data == NULL && i < elements; i++)
        ((float *)tensor->raw_data.data)[i] = 0.01F * (float)(i + 1);
    return tensor;
}

HELPER Onnx__TensorProto *builder_add_initializer(struct builder *b, Onnx__TensorProto *tensor)
{
    return b->initializers[b->graph.n_initializer++] = tensor;
}

HELPER Onnx__TensorProto *builder_floats(struct builder *b, const char *name, int rank, const int64_t *dims,
                                         const float *data)
{
    return builder_add_initializer(b, builder_float_tensor(b, name, rank, dims, data));
}

HELPER Onnx__TensorProto *builder_ints(struct builder *b, const char *name, int count, const int64_t *values)
{
    int64_t dims[1] = {count};
    Onnx__TensorProto *tensor = builder_tensor(b, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, dims);
    builder_raw(b, tensor, values, sizeof(int64_t) * (size_t)count);
    return builder_add_initializer(b, tensor);
}

/* "a,,b" into {"a", "", "b"}; "" into nothing. */
HELPER size_t builder_split(struct builder *b, const char *list, char ***names)
{
    size_t count = 0;
    *names = builder_memory(b, 70 * sizeof(char *));
    char *rest = builder_text(b, list);
    while (rest != NULL && list[0] != '\0')
        (*names)[count++] = strsep(&rest, ",");
    return count;
}

HELPER Onnx__NodeProto *builder_node(struct builder *b, const char *op, const char *inputs,
                                     const char *outputs)
{
    Onnx__NodeProto *node = builder_memory(b, sizeof *node);
    onnx__node_proto__init(node);
    node->op_type = builder_text(b, op);
    char name[64];
    snprintf(name, sizeof name, "the_%s", op);
    node->name = builder_text(b, name);
    node->n_input = builder_split(b, inputs, &node->input);
    node->n_output = builder_split(b, outputs, &node->output);
    node->attribute = builder_memory(b, 16 * sizeof(void *));
    return b->nodes[b->graph.n_node++] = node;
}

HELPER Onnx__AttributeProto *builder_attribute(struct builder *b, Onnx__NodeProto *node, const char *name,
                                               Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *attribute = builder_memory(b, sizeof *attribute);
    onnx__attribute_proto__init(attribute);
    attribute->name = builder_text(b, name);
    attribute->has_type = 1;
    attribute->type = type;
    return node->attribute[node->n_attribute++] = attribute;
}

HELPER void builder_int(struct builder *b, Onnx__NodeProto *node, const char *name, int64_t value)
{
    Onnx__AttributeProto *attribute =
        builder_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attribute->has_i = 1;
    attribute->i = value;
}

HELPER void builder_float(struct builder *b, Onnx__NodeProto *node, const char *name, float value)
{
    Onnx__AttributeProto *attribute =
        builder_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    attribute->has_f = 1;
    attribute->f = value;
}

HELPER void builder_string(struct builder *b, Onnx__NodeProto *node, const char *name, const char *value)
{
    Onnx__AttributeProto *attribute =
        builder_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    attribute->has_s = 1;
    attribute->s.len = strlen(value);
    attribute->s.data = (uint8_t *)builder_text(b, value);
}

HELPER void builder_list(struct builder *b, Onnx__NodeProto *node, const char *name, int count,
                         const int64_t *values)
{
    Onnx__AttributeProto *attribute =
        builder_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attribute->n_ints = (size_t)count;
    attribute->ints = builder_memory(b, sizeof(int64_t) * (size_t)count);
    memcpy(attribute->ints, values, sizeof(int64_t) * (size_t)count);
}

HELPER void builder_tensor_attribute(struct builder *b, Onnx__NodeProto *node, const char *name,
                                     Onnx__TensorProto *tensor)
{
    builder_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = tensor;
}

HELPER const char *builder_path(struct builder *b, const char *name)
{
    char *path = builder_memory(b, strlen(b->folder) + strlen(name) + 2);
    sprintf(path, "%s/%s", b->folder, name);
    return path;
}

HELPER void builder_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL && fwrite(bytes, 1, size, file) == size);
    fclose(file);
}

/* The packed model, to be freed. */
HELPER uint8_t *builder_pack(struct builder *b, size_t *size)
{
    *size = onnx__model_proto__get_packed_size(&b->model);
    uint8_t *bytes = malloc(*size + 1);
    onnx__model_proto__pack(&b->model, bytes);
    return bytes;
}

HELPER int builder_load(struct builder *b, const struct convoy_onnx_options *options)
{
    size_t size;
    uint8_t *bytes = builder_pack(b, &size);
    const char *path = builder_path(b, "model.onnx");
    builder_write(path, bytes, size);
    free(bytes);
    convoy_graph_free(b->loaded);
    return convoy_onnx_load(path, options, &b->loaded, &b->error);
}

/* Loads; the model must be read. */
HELPER const struct convoy_graph *builder_graph(struct builder *b)
{
    int status = builder_load(b, NULL);
    cr_assert(status == 0, "%s", b->error.message);
    return b->loaded;
}

/* Loads; the model must be refused with this code and a sentence that has these words and the file's name. A
 * sound model that is not served comes with what to do about it. */
HELPER void builder_refused(struct builder *b, int code, const char *words)
{
    int status = builder_load(b, NULL);
    cr_assert(status != 0, "loaded where '%s' was expected", words);
    cr_expect(status == code, "%d instead of %d: %s", status, code, b->error.message);
    cr_expect(strstr(b->error.message, words) != NULL, "no '%s' in: %s", words, b->error.message);
    cr_expect(strstr(b->error.message, "model.onnx: ") != NULL, "%s", b->error.message);
    cr_expect((strstr(b->error.message, "; to serve the model, ") != NULL) == (code == -ENOTSUP), "%s",
              b->error.message);
    cr_expect(b->loaded == NULL);
    builder_free(b);
}

/* Whether a tensor's shape reads like this. */
HELPER void expect_shape(const struct convoy_graph *graph, int tensor, const char *text)
{
    char buffer[160];
    convoy_shape_text(&graph->tensors[tensor].shape, buffer, sizeof buffer);
    cr_expect(strcmp(buffer, text) == 0, "%s instead of %s", buffer, text);
}

/* Loads the model, which must be read, and checks its first output's shape. */
HELPER void expect_output(struct builder *b, const char *text)
{
    builder_graph(b);
    expect_shape(b->loaded, b->loaded->outputs[0], text);
}

HELPER void expect_floats(const float *data, int count, const float *expected)
{
    cr_assert(data != NULL);
    for (int i = 0; i < count; i++)
        cr_expect(data[i] >= expected[i] - 1e-6F && data[i] <= expected[i] + 1e-6F,
                  "[%d] is %g instead of %g", i, (double)data[i], (double)expected[i]);
}

/* Structure that every graph from the reader has: topological order, producers, shapes, no unread tensors. */
HELPER void expect_sound(const struct convoy_graph *graph)
{
    bool *ready = calloc((size_t)graph->tensor_count, sizeof *ready),
         *read = calloc((size_t)graph->tensor_count, 1);
    for (int i = 0; i < graph->tensor_count; i++)
        ready[i] = graph->tensors[i].data != NULL || i == graph->input;
    for (int i = 0; i < graph->node_count; i++) {
        const struct convoy_node *node = &graph->nodes[i];
        for (int k = 0; k < node->input_count; k++) {
            cr_expect(ready[node->inputs[k]], "node %s reads what is not there yet", node->name);
            read[node->inputs[k]] = true;
        }
        cr_expect(!ready[node->output]);
        cr_expect(graph->tensors[node->output].producer == i);
        ready[node->output] = true;
    }
    for (int i = 0; i < graph->output_count; i++) {
        cr_expect(ready[graph->outputs[i]] && graph->outputs[i] != graph->input);
        read[graph->outputs[i]] = true;
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        cr_expect(read[i] || i == graph->input, "tensor %s is read by nothing", graph->tensors[i].name);
        cr_expect(convoy_shape_elements(&graph->tensors[i].shape) > 0);
    }
    free(ready);
    free(read);
}

/* A model of one operator on x of [N,3,8,8] whose output is y; returns its node for attributes. */
HELPER Onnx__NodeProto *one(struct builder **b, int opset, const char *op, const char *inputs)
{
    *b = builder_new(opset);
    IMAGES(*b);
    builder_output(*b, "y");
    return builder_node(*b, op, inputs, "y");
}

/* Loads a model that must become one node, and checks its output's shape. */
HELPER const struct convoy_node *single(struct builder *b, enum convoy_op op, const char *shape)
{
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_assert(graph->node_count == 1, "%d nodes", graph->node_count);
    cr_assert(graph->nodes[0].op == op, "%s", convoy_op_name(graph->nodes[0].op));
    expect_shape(graph, graph->outputs[0], shape);
    return &graph->nodes[0];
}

#endif
