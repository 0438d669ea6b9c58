#include "engine/onnx/input.h"

#include "engine/graph/build.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/names.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Nodes between the input and the one that tells its axes: casts, normalisation, padding. */
#define MOST_STEPS 16
#define COLORS     3

static const int to_planes[4] = {0, 3, 1, 2}, to_pixels[4] = {0, 2, 3, 1};

/* ---- Axes ---- */

/* What a node says of the axes of its first input. */
static enum convoy_image_axes axes_of_reader(const Onnx__NodeProto *node)
{
    static const char *const planes[] = {"Conv",
                                         "ConvInteger",
                                         "QLinearConv",
                                         "MaxPool",
                                         "AveragePool",
                                         "GlobalAveragePool",
                                         "GlobalMaxPool",
                                         "BatchNormalization",
                                         "LpPool",
                                         "LRN",
                                         "SpaceToDepth",
                                         "InstanceNormalization",
                                         "GroupNormalization",
                                         NULL};
    if (onnx_is_listed(node->op_type, planes))
        return CONVOY_AXES_NCHW;
    if (node->op_type == NULL || strcmp(node->op_type, "Transpose") != 0)
        return CONVOY_AXES_AUTO;
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__AttributeProto *perm = node->attribute[k];
        bool planar = perm->n_ints == 4, pixels = planar;
        if (perm->name == NULL || strcmp(perm->name, "perm") != 0)
            continue;
        for (size_t axis = 0; axis < 4 && perm->n_ints == 4; axis++) {
            planar = planar && perm->ints[axis] == to_planes[axis];
            pixels = pixels && perm->ints[axis] == to_pixels[axis];
        }
        return planar ? CONVOY_AXES_NHWC : pixels ? CONVOY_AXES_NCHW : CONVOY_AXES_AUTO;
    }
    return CONVOY_AXES_AUTO;
}

static bool reads(const Onnx__NodeProto *node, const char *name)
{
    for (size_t k = 0; k < node->n_input; k++)
        if (strcmp(node->input[k], name) == 0)
            return true;
    return false;
}

/* The node that tells the axes of the input: it reads the input, directly or behind others that leave the
 * axes in place. NULL: none does; else *axes is what it tells. */
static const Onnx__NodeProto *find_teller(const Onnx__GraphProto *graph, const char *input,
                                          enum convoy_image_axes *axes)
{
    static const char *const keepers[] = {"Cast", "CastLike", "Identity", "Sub",
                                          "Add",  "Mul",      "Div",      "Min",
                                          "Max",  "Clip",     "Pad",      "QuantizeLinear",
                                          "Neg",  "Sqrt",     "Pow",      "DequantizeLinear",
                                          NULL};
    *axes = CONVOY_AXES_AUTO;
    for (int step = 0; step < MOST_STEPS && input != NULL && input[0] != '\0'; step++) {
        const Onnx__NodeProto *next = NULL;
        for (size_t i = 0; i < graph->n_node; i++) {
            const Onnx__NodeProto *node = graph->node[i];
            if (!reads(node, input))
                continue;
            *axes = strcmp(node->input[0], input) == 0 ? axes_of_reader(node) : CONVOY_AXES_AUTO;
            if (*axes != CONVOY_AXES_AUTO)
                return node;
            if (next == NULL && node->n_output > 0 && onnx_is_listed(node->op_type, keepers))
                next = node;
        }
        input = next != NULL ? next->output[0] : NULL;
    }
    return NULL;
}

/* Of an image whose channels the file leaves open, as exporters of transformers do: those that the weights of
 * its first convolution read, else the three of colours. */
static int64_t channels_by_nodes(const Onnx__GraphProto *graph, const Onnx__NodeProto *teller)
{
    int64_t groups = 1;
    if (teller == NULL || strcmp(teller->op_type, "Conv") != 0 || teller->n_input < 2)
        return COLORS;
    for (size_t k = 0; k < teller->n_attribute; k++)
        if (teller->attribute[k]->name != NULL && strcmp(teller->attribute[k]->name, "group") == 0)
            groups = teller->attribute[k]->i;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *weights = graph->initializer[i];
        int64_t channels;
        if (weights->name != NULL && strcmp(weights->name, teller->input[1]) == 0 && weights->n_dims == 4 &&
            !__builtin_mul_overflow(weights->dims[1], groups, &channels) && channels > 0)
            return channels;
    }
    return COLORS;
}

static bool is_channels(int64_t dim)
{
    return dim == 1 || dim == 3 || dim == 4;
}

/* dims: 0 where the file leaves one open. */
static enum convoy_image_axes axes_by_shape(const int64_t *dims)
{
    bool image_first = (dims[1] == 0 || dims[1] > 4) && (dims[2] == 0 || dims[2] > 4);
    return image_first && is_channels(dims[3]) ? CONVOY_AXES_NHWC : CONVOY_AXES_NCHW;
}

/* ---- Shape ---- */

/* Height and width of an image: the file's, or the configuration's where the file leaves them open. */
static int set_size(struct onnx_importer *importer, const char *name, int64_t *height, int64_t *width)
{
    const struct convoy_onnx_options *options = importer->options;
    const int64_t given[2] = {options->height, options->width};
    static const char *const keys[2] = {"height", "width"};
    int64_t *const sides[2] = {height, width};
    for (int i = 0; i < 2; i++) {
        if (given[i] > 0 && *sides[i] > 0 && given[i] != *sides[i])
            return convoy_fail(importer->error, -EINVAL,
                               "the model's configuration has an input.%s of %" PRId64
                               ", but the file fixes the %s of input '%.80s' to %" PRId64
                               ": leave input.%s out, or correct what preprocessor_config.json says",
                               keys[i], given[i], keys[i], name, *sides[i], keys[i]);
    }
    bool lacks_height = *height == 0 && given[0] == 0, lacks_width = *width == 0 && given[1] == 0;
    if (lacks_height || lacks_width)
        return convoy_fail(importer->error, -ENOTSUP,
                           "the file leaves the %s%s%s of input '%.80s' open; to serve the model, give "
                           "%s%s%s in its config.json, in pixels",
                           lacks_height ? "height" : "", lacks_height && lacks_width ? " and " : "",
                           lacks_width ? "width" : "", name, lacks_height ? "input.height" : "",
                           lacks_height && lacks_width ? " and " : "", lacks_width ? "input.width" : "");
    for (int i = 0; i < 2; i++)
        if (*sides[i] == 0)
            *sides[i] = given[i];
    return 0;
}

/* What is configured for images is a mistake where the input is none. */
static int refuse_image_options(const struct onnx_importer *importer, const char *name, int rank)
{
    const struct convoy_onnx_options *options = importer->options;
    const char *key = options->axes != CONVOY_AXES_AUTO ? "layout"
                      : options->height > 0             ? "height"
                      : options->width > 0              ? "width"
                                                        : NULL;
    if (key == NULL)
        return 0;
    return convoy_fail(
        importer->error, -EINVAL,
        "the model's config.json has input.%s, but input '%.80s' has %d dimensions, not the four of "
        "an image: leave input.%s out",
        key, name, rank, key);
}

/* Sets the axes of an image, its channels where they are open, and its open sides. */
static int set_image(struct onnx_importer *importer, const Onnx__ValueInfoProto *info,
                     struct convoy_shape *shape)
{
    const Onnx__GraphProto *graph = importer->model->graph;
    enum convoy_image_axes told, axes = importer->options->axes;
    const Onnx__NodeProto *teller = find_teller(graph, info->name, &told);
    if (axes == CONVOY_AXES_AUTO)
        axes = told;
    if (axes == CONVOY_AXES_AUTO)
        axes = axes_by_shape(shape->dims);
    importer->graph->input_nhwc = axes == CONVOY_AXES_NHWC;
    int height = importer->graph->input_nhwc ? 1 : 2, channels = importer->graph->input_nhwc ? 3 : 1;
    if (shape->dims[channels] == 0)
        shape->dims[channels] = channels_by_nodes(graph, teller);
    return set_size(importer, info->name, &shape->dims[height], &shape->dims[height + 1]);
}

/* The shape of the model's input as the file has it, with 0 for what it leaves open, and what its batch is.
 */
static int declared_shape(struct onnx_importer *importer, const Onnx__ValueInfoProto *info,
                          const Onnx__TensorShapeProto *given, struct convoy_shape *shape)
{
    const struct convoy_onnx_options *options = importer->options;
    size_t rank = given != NULL ? given->n_dim : (size_t)options->input_shape.rank;
    if (rank > CONVOY_MAX_RANK || (given == NULL && rank == 0) || (rank == 0 && !options->no_batch))
        return convoy_fail(importer->error, -ENOTSUP,
                           "input '%.80s' has no shape, or one of %zu dimensions; to serve the model, export "
                           "it with N x C x H x W",
                           info->name, rank);
    *shape = (struct convoy_shape){.rank = (int)rank, .batch_axis = options->no_batch ? -1 : 0};
    for (int axis = 0; axis < shape->rank; axis++) {
        const Onnx__TensorShapeProto__Dimension *dim = given != NULL ? given->dim[axis] : NULL;
        /* Some exporters write -1 for an open dimension. */
        bool fixed = dim != NULL && dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                     dim->dim_value != -1;
        shape->dims[axis] = fixed ? dim->dim_value : 0;
        if (fixed && shape->dims[axis] < 1 && axis == shape->batch_axis)
            return convoy_fail(importer->error, -EINVAL, "input '%.80s' has a batch of %" PRId64, info->name,
                               shape->dims[axis]);
        if (fixed && shape->dims[axis] < 1)
            return convoy_fail(importer->error, -EINVAL, "input '%.80s' has a dimension below 1", info->name);
        if (!fixed && options->input_shape.rank == shape->rank)
            shape->dims[axis] = options->input_shape.dims[axis];
        if (axis == 0 && !options->no_batch) {
            importer->batch = fixed ? shape->dims[0] : ONNX_OPEN_BATCH;
            shape->dims[0] = 1;
        }
    }
    return 0;
}

static int find_shape(struct onnx_importer *importer, const Onnx__ValueInfoProto *info,
                      const Onnx__TensorShapeProto *given, struct convoy_shape *shape)
{
    int status = declared_shape(importer, info, given, shape);
    if (status == 0 && shape->rank == 4 && shape->batch_axis == 0)
        status = set_image(importer, info, shape);
    else if (status == 0)
        status = refuse_image_options(importer, info->name, shape->rank);
    if (status != 0)
        return status;
    int64_t elements = 1;
    for (int axis = 0; axis < shape->rank; axis++) {
        if (shape->dims[axis] == 0)
            return convoy_fail(importer->error, -ENOTSUP,
                               "dimension %d of input '%.80s' is open, which it may be of an image of four "
                               "dimensions alone; to serve the model, export it with a fixed one",
                               axis, info->name);
        if (__builtin_mul_overflow(elements, shape->dims[axis], &elements) || elements > INT32_MAX)
            return convoy_fail(importer->error, -EINVAL, "input '%.80s' has more than 2^31-1 elements",
                               info->name);
    }
    return 0;
}

/* ---- The input ---- */

static int find_type(struct onnx_importer *importer, const char *name, int32_t type)
{
    enum convoy_input_type *found = &importer->graph->input_type;
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        *found = CONVOY_INPUT_FP32;
        return 0;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        *found = CONVOY_INPUT_FP16;
        return 0;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
        *found = CONVOY_INPUT_UINT8;
        return 0;
    default:
        return convoy_fail(importer->error, -ENOTSUP,
                           "input '%.80s' is of type %s, convoyd takes float32, float16 and uint8; to serve "
                           "the model, export it with one of these",
                           name, onnx_type_name(type));
    }
}

/* The tensor that the file's nodes read: the graph's input, with its axes in the file's order. */
static int add_tensors(struct onnx_importer *importer, const char *name, const struct convoy_shape *shape,
                       int *tensor)
{
    struct convoy_graph *graph = importer->graph;
    struct convoy_shape planes = *shape;
    if (graph->input_nhwc)
        for (int axis = 0; axis < 4; axis++)
            planes.dims[axis] = shape->dims[to_planes[axis]];
    graph->input = convoy_graph_add_tensor(graph, name, &planes, NULL);
    *tensor = graph->input;
    if (graph->input < 0)
        return onnx_out_of_memory(importer);
    if (!graph->input_nhwc)
        return 0;
    *tensor = convoy_graph_add_tensor(graph, name, shape, NULL);
    struct convoy_node *node = *tensor >= 0 ? convoy_graph_add_node(graph, CONVOY_OP_TRANSPOSE, NULL,
                                                                    "Transpose", &graph->input, 1, *tensor)
                                            : NULL;
    if (node == NULL)
        return onnx_out_of_memory(importer);
    memcpy(node->perm, to_pixels, sizeof to_pixels);
    return 0;
}

int onnx_register_input(struct onnx_importer *importer, const Onnx__ValueInfoProto *info)
{
    const Onnx__TypeProto__Tensor *type =
        info->type != NULL && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? info->type->tensor_type
            : NULL;
    struct convoy_shape shape;
    int tensor;
    if (type == NULL)
        return convoy_fail(importer->error, -ENOTSUP,
                           "input '%.80s' is not a tensor; to serve the model, export it with a tensor of "
                           "pixels as its input",
                           info->name);
    int status = find_type(importer, info->name, type->elem_type);
    if (status == 0)
        status = find_shape(importer, info, type->shape, &shape);
    if (status == 0)
        status = add_tensors(importer, info->name, &shape, &tensor);
    if (status != 0)
        return status;
    struct onnx_value *value = onnx_add_name(importer, info->name);
    if (value == NULL)
        return onnx_out_of_memory(importer);
    *value = (struct onnx_value){.name = info->name,
                                 .kind = ONNX_ACTIVATION,
                                 .node = -1,
                                 .shape = shape,
                                 .tensor = tensor,
                                 .outer = 1,
                                 .integer_type =
                                     importer->graph->input_type == CONVOY_INPUT_UINT8 ? type->elem_type : 0};
    return 0;
}
