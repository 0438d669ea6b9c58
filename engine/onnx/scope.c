#include "engine/onnx/scope.h"

#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/folding.h"
#include "engine/onnx/integer_activations.h"
#include "engine/onnx/names.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a constant below which it may stay until the graph is finished. */
#define SMALL_CONSTANT 4096

/* ---- Names ---- */

size_t onnx_count_names(const Onnx__GraphProto *graph)
{
    size_t names = graph->n_initializer + graph->n_input;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        names += node->n_output;
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->g != NULL)
                names += onnx_count_names(node->attribute[k]->g); /* guard.h bounds how deep they are */
    }
    return names;
}

int onnx_register_initializers(struct onnx_importer *importer, const Onnx__GraphProto *graph)
{
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
        return convoy_fail(
            importer->error, -ENOTSUP,
            "the model has sparse initializers; to serve the model, export it with dense ones");
    return 0;
}

int onnx_register_nodes(struct onnx_importer *importer, const Onnx__GraphProto *graph)
{
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
        value->type = tensor.data_type;
        value->ints = calloc((size_t)elements + 1, sizeof *value->ints);
        for (int64_t i = 0; value->ints != NULL && i < elements; i++)
            value->ints[i].fixed = tensor.ints[i];
        status = value->ints != NULL ? 0 : onnx_out_of_memory(importer);
    } else if (elements == 0) {
        /* An optional input that is given as nothing (Resize's roi and scales): only its shape counts. */
        value->kind = ONNX_INTS;
        value->ints = calloc(1, sizeof *value->ints);
        status = value->ints != NULL ? 0 : onnx_out_of_memory(importer);
    } else {
        value->kind = ONNX_FLOATS;
        status = onnx_emit_constant(importer, value->name, &tensor.shape, tensor.floats, &value->tensor);
        tensor.floats = NULL;
    }
    convoy_onnx_tensor_free(&tensor);
    return status;
}

/* ---- The order of the nodes ---- */

enum state { UNNEEDED, NEEDED, OPEN /* its inputs are being ordered */, ORDERED };

/* A node, and which of the names that it reads comes next. */
struct visit {
    int node;
    size_t next;
};

struct ordering {
    const struct onnx_importer *importer;
    const Onnx__GraphProto *graph;
    uint8_t *state;      /* of each node */
    struct visit *stack; /* room for every node */
    int *order;          /* the nodes, ordered */
    int depth, count;
    const char **names; /* that nodes and what is inside them read; those of node i begin at first[i] */
    size_t *first;
};

/* Writes the names that the node and the nodes of its branches read, where names is not NULL; returns how
 * many they are. */
static size_t names_read(const Onnx__NodeProto *node, const char **names)
{
    size_t count = 0;
    for (size_t i = 0; i < node->n_input; i++, count++)
        if (names != NULL)
            names[count] = node->input[i];
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__GraphProto *branch = node->attribute[k]->g;
        for (size_t i = 0; branch != NULL && i < branch->n_node; i++)
            count += names_read(branch->node[i], names != NULL ? names + count : NULL);
        for (size_t i = 0; branch != NULL && i < branch->n_output; i++, count++)
            if (names != NULL)
                names[count] = branch->output[i]->name != NULL ? branch->output[i]->name : "";
    }
    return count;
}

static int list_names(struct ordering *o)
{
    size_t count = 0;
    for (size_t i = 0; i < o->graph->n_node; i++) {
        o->first[i] = count;
        count += names_read(o->graph->node[i], NULL);
    }
    o->first[o->graph->n_node] = count;
    o->names = calloc(count + 1, sizeof *o->names);
    if (o->names == NULL)
        return onnx_out_of_memory(o->importer);
    for (size_t i = 0; i < o->graph->n_node; i++)
        names_read(o->graph->node[i], o->names + o->first[i]);
    return 0;
}

/* The next node of this graph that computes something the visited one reads; -1 after the last. *name is what
 * it computes. */
static int next_source(const struct ordering *o, struct visit *visit, const char **name)
{
    while (o->first[visit->node] + visit->next < o->first[visit->node + 1]) {
        *name = o->names[o->first[visit->node] + visit->next++];
        struct onnx_value *value = onnx_find(o->importer, *name);
        if (value == NULL)
            continue;
        value->needed = true;
        if (value->scope == o->importer->scope && value->node >= 0)
            return value->node;
    }
    return -1;
}

static void push(struct ordering *o, int node, enum state state)
{
    o->state[node] = (uint8_t)state;
    o->stack[o->depth++] = (struct visit){.node = node};
}

/* Marks what the outputs depend on: what does not lead to one is not read, and may be anything. */
static void mark_needed(struct ordering *o)
{
    const char *name;
    for (size_t i = 0; i < o->graph->n_output; i++) {
        struct onnx_value *value =
            o->graph->output[i]->name != NULL ? onnx_find(o->importer, o->graph->output[i]->name) : NULL;
        if (value == NULL)
            continue;
        value->needed = true;
        if (value->scope == o->importer->scope && value->node >= 0 && o->state[value->node] == UNNEEDED)
            push(o, value->node, NEEDED);
        while (o->depth > 0) {
            int source = next_source(o, &o->stack[o->depth - 1], &name);
            if (source < 0)
                o->depth--;
            else if (o->state[source] == UNNEEDED)
                push(o, source, NEEDED);
        }
    }
}

/* The file's order where it is one; otherwise what a node reads goes before it. */
static int order_nodes(struct ordering *o)
{
    const char *name;
    for (size_t i = 0; i < o->graph->n_node; i++) {
        if (o->state[i] == NEEDED)
            push(o, (int)i, OPEN);
        while (o->depth > 0) {
            struct visit *visit = &o->stack[o->depth - 1];
            int source = next_source(o, visit, &name);
            if (source < 0) {
                o->state[visit->node] = ORDERED;
                o->order[o->count++] = visit->node;
                o->depth--;
            } else if (o->state[source] == NEEDED) {
                push(o, source, OPEN);
            } else if (o->state[source] == OPEN) {
                return convoy_fail(o->importer->error, -EINVAL,
                                   "the nodes form a cycle: '%.80s' depends on itself", name);
            }
        }
    }
    return 0;
}

/* Counts what reads each value of this graph: the nodes that are needed, and its outputs. */
static void count_readers(struct ordering *o)
{
    for (int i = 0; i < o->count; i++)
        for (size_t k = o->first[o->order[i]]; k < o->first[o->order[i] + 1]; k++) {
            struct onnx_value *value = onnx_find(o->importer, o->names[k]);
            if (value != NULL && value->scope == o->importer->scope)
                value->readers++;
        }
    for (size_t i = 0; i < o->graph->n_output; i++) {
        struct onnx_value *value =
            o->graph->output[i]->name != NULL ? onnx_find(o->importer, o->graph->output[i]->name) : NULL;
        if (value != NULL)
            value->readers++;
    }
}

/* Frees a large constant that no node of the graph reads, and no other value is. Looking for these is work.
 */
static void drop_floats(struct onnx_importer *importer, struct onnx_value *value)
{
    struct convoy_graph *graph = importer->graph;
    int64_t search = (int64_t)graph->node_count * 4 + importer->value_count;
    if (convoy_shape_elements(&value->shape) < SMALL_CONSTANT || search > importer->work_left)
        return;
    importer->work_left -= search;
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].inputs[k] == value->tensor)
                return;
    for (int i = 0; i < importer->value_count; i++) {
        const struct onnx_value *other = &importer->values[i];
        if (other != value && other->tensor == value->tensor &&
            (other->kind == ONNX_FLOATS || other->kind == ONNX_ACTIVATION))
            return;
    }
    onnx_release(importer, &value->shape, false);
    free(graph->tensors[value->tensor].data);
    graph->tensors[value->tensor].data = NULL;
    value->kind = ONNX_NOTHING;
}

/* Frees the constants that nothing reads after this node: tables of positions, steps on the way to a weight,
 * and whole numbers of the file, which take up to 24 times as much memory as there. */
static void drop_read(struct onnx_importer *importer, const struct ordering *o, int node)
{
    for (size_t k = o->first[node]; k < o->first[node + 1]; k++) {
        struct onnx_value *value = onnx_find(importer, o->names[k]);
        if (value == NULL || value->scope != importer->scope || --value->readers > 0)
            continue;
        if (value->kind == ONNX_FLOATS && value->node >= 0)
            drop_floats(importer, value);
        if (value->kind != ONNX_INTS || value->ints == NULL)
            continue;
        if (value->node >= 0)
            onnx_release(importer, &value->shape, true);
        free(value->ints);
        value->ints = NULL;
        value->kind = ONNX_NOTHING;
    }
}

/* ---- Reading ---- */

static bool is_default_domain(const char *domain)
{
    return domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static const struct onnx_operator *find_in(const struct onnx_operator *table, const char *name)
{
    while (table->name != NULL && strcmp(table->name, name) != 0)
        table++;
    return table->name != NULL ? table : NULL;
}

static const struct onnx_operator *find_operator(const char *domain, const char *name)
{
    static const struct onnx_operator *const tables[] = {
        onnx_activation_operators, onnx_arithmetic_operators, onnx_attention_operators,
        onnx_block_operators,      onnx_branch_operators,     onnx_cast_operators,
        onnx_constant_operators,   onnx_conv_operators,       onnx_conv_transpose_operators,
        onnx_dense_operators,      onnx_einsum_operators,     onnx_join_operators,
        onnx_normalize_operators,  onnx_pad_operators,        onnx_pool_operators,
        onnx_quantize_operators,   onnx_reduce_operators,     onnx_reshape_operators,
        onnx_resize_operators,     onnx_scatter_operators,    onnx_table_operators,
        onnx_take_operators,       onnx_top_operators,        onnx_trigonometry_operators};
    const struct onnx_operator *found = NULL;
    if (!is_default_domain(domain))
        return strcmp(domain, "com.microsoft") == 0 ? find_in(onnx_microsoft_operators, name) : NULL;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && found == NULL; i++)
        found = find_in(tables[i], name);
    return found;
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
        if (value->kind == ONNX_NOTHING)
            return onnx_refuse(
                importer, ONNX_CUT,
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

/* Only few operators know what to do with integers that have the batch. For the others they become an
 * activation, unless they differ from image to image. */
static int check_ints(struct onnx_importer *importer)
{
    static const char *const takers[] = {
        "Add",      "Sub",    "Mul",       "Unsqueeze", "Reshape",         "Gather",         "Cast", "Shape",
        "Identity", "Expand", "ScatterND", "Concat",    "ScatterElements", "GatherElements", NULL};
    if (onnx_is_listed(importer->op, takers))
        return 0;
    for (int i = 0; i < importer->input_count; i++) {
        struct onnx_value *value = importer->inputs[i];
        int tensor;
        if (value == NULL || value->kind != ONNX_INTS || value->shape.batch_axis < 0)
            continue;
        int status = onnx_need_tensor(importer, i, &tensor);
        if (status != 0)
            return status;
        onnx_release(importer, &value->shape, true);
        free(value->ints);
        value->ints = NULL;
        value->kind = ONNX_ACTIVATION;
        value->tensor = tensor;
        value->outer = 1;
    }
    return 0;
}

/* What the batch axes of the inputs are merged from must be the same for all of them. */
static int find_order(struct onnx_importer *importer, enum onnx_order order)
{
    bool any = false;
    importer->outer = 1;
    for (int i = 0; i < importer->input_count; i++) {
        const struct onnx_value *value = importer->inputs[i];
        if (value == NULL || value->kind != ONNX_ACTIVATION)
            continue;
        if ((any && value->outer != importer->outer) || (order == ONNX_FILE_ORDER && value->outer != 1))
            return onnx_refuse(importer, ONNX_IMAGES_APART,
                               "its input '%.80s' has a dimension that was merged with the batch behind it, "
                               "which it cannot follow",
                               value->name);
        importer->outer = value->outer;
        any = true;
    }
    return 0;
}

/* Do all inputs hold constants? A node without inputs makes its values of nothing: of random numbers, say. */
static bool computes_constants(const struct onnx_importer *importer)
{
    const Onnx__NodeProto *node = importer->node;
    for (size_t i = 0; i < node->n_input; i++) {
        const struct onnx_value *value = onnx_find(importer, node->input[i]);
        if (node->input[i][0] != '\0' &&
            (value == NULL || value->kind == ONNX_ACTIVATION || value->kind == ONNX_NOTHING))
            return false;
    }
    return node->n_input > 0;
}

static int refuse_operator(const struct onnx_importer *importer)
{
    const char *domain = importer->node->domain;
    if (!is_default_domain(domain))
        return onnx_refuse(importer, importer->model->n_functions > 0 ? ONNX_INLINE : ONNX_EXPORT_PLAIN,
                           "convoyd does not have the operators of domain '%.40s'", domain);
    return onnx_refuse(importer, computes_constants(importer) ? ONNX_FOLD : ONNX_CUT,
                       "convoyd does not have this operator");
}

static int read_node(struct onnx_importer *importer)
{
    const Onnx__NodeProto *node = importer->node;
    const char *op = node->op_type != NULL ? node->op_type : "";
    const struct onnx_operator *operator= find_operator(node->domain, op);
    if (operator== NULL)
        return refuse_operator(importer);
    importer->op = operator->name;
    importer->output = 0;
    if (node->n_input < (size_t) operator->min_inputs || node->n_input>(size_t) operator->max_inputs)
        return onnx_fail(importer, -EINVAL, "it has %zu inputs, %d to %d are read",
                         node->n_input, operator->min_inputs, operator->max_inputs);
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->ref_attr_name != NULL)
            return onnx_fail(importer, -EINVAL,
                             "an attribute refers to a function's, but it is in no function");
    int status = gather_inputs(importer);
    if (status == 0)
        status = find_order(importer, operator->order);
    if (status == 0)
        status = check_ints(importer);
    int kept = 0;
    if (status == 0)
        status = onnx_check_integers(importer, &kept);
    if (status != 0)
        return status;
    int first_node = importer->graph->node_count, first_tensor = importer->graph->tensor_count;
    status = operator->read(importer);
    importer->node = node; /* a branch's nodes have been read in between */
    if (status == 0 && kept != 0)
        onnx_mark_integers(importer, kept);
    return status == 0 ? onnx_fold(importer, first_node, first_tensor) : status;
}

int onnx_read_nodes(struct onnx_importer *importer, const Onnx__GraphProto *graph)
{
    struct ordering o = {.importer = importer, .graph = graph};
    o.state = calloc(graph->n_node + 1, sizeof *o.state);
    o.stack = calloc(graph->n_node + 1, sizeof *o.stack);
    o.order = calloc(graph->n_node + 1, sizeof *o.order);
    int status = 0;
    o.first = calloc(graph->n_node + 1, sizeof *o.first);
    if (o.state == NULL || o.stack == NULL || o.order == NULL || o.first == NULL) {
        status = onnx_out_of_memory(importer);
        goto out;
    }
    status = list_names(&o);
    if (status != 0)
        goto out;
    mark_needed(&o);
    status = order_nodes(&o);
    count_readers(&o);
    for (int i = 0; i < o.count && status == 0; i++) {
        importer->node = graph->node[o.order[i]];
        importer->node_index = o.order[i];
        status = read_node(importer);
        drop_read(importer, &o, o.order[i]);
    }
out:
    free(o.state);
    free(o.stack);
    free(o.order);
    free(o.first);
    free(o.names);
    return status;
}
