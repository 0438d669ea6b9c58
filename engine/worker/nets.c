#include "engine/worker/nets.h"

#include "engine/base/cover_side.h"
#include "engine/describe.h"
#include "engine/graph/class_map.h"
#include "engine/ipc/channel.h"
#include "engine/onnx/onnx.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

static const char *const precision_names[] = {
    [CONVOY_COMPUTE_FP32] = "fp32", [CONVOY_COMPUTE_TF32] = "tf32", [CONVOY_COMPUTE_FP16] = "fp16"};

static int precision_of(const char *name)
{
    for (size_t i = 0; i < sizeof precision_names / sizeof precision_names[0]; i++)
        if (name != NULL && strcmp(name, precision_names[i]) == 0)
            return (int)i;
    return -1;
}

static void read_channels(const cJSON *array, float *values, float otherwise)
{
    for (int i = 0; i < CONVOY_MAX_U8_CHANNELS; i++) {
        const cJSON *value = cJSON_GetArrayItem(array, i);
        values[i] = cJSON_IsNumber(value) ? (float)value->valuedouble : otherwise;
    }
}

/* A number of an enum, below `end`; 0 where there is none. */
static uint32_t read_kind(const cJSON *object, const char *key, uint32_t end)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(value) && value->valuedouble >= 1 && value->valuedouble < end
               ? (uint32_t)value->valuedouble
               : 0;
}

/* How pictures come to the network's size: "fitting" of the command, which may be absent. What hangs on the
 * size of the network's input is computed here, where it is known. */
static void read_fitting(const cJSON *message, const struct convoy_graph *graph,
                         struct convoy_image_fitting *fitting)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(message, "fitting");
    const cJSON *fraction = cJSON_GetObjectItemCaseSensitive(object, "crop_fraction");
    const cJSON *color = cJSON_GetObjectItemCaseSensitive(object, "color");
    struct convoy_net_info info = {0};
    *fitting = (struct convoy_image_fitting){0};
    fitting->kind = (enum convoy_fitting_kind)read_kind(object, "kind", CONVOY_FITTING_PAD + 1);
    if (fitting->kind == CONVOY_FITTING_NONE)
        return;
    convoy_describe_shapes(graph, &info);
    fitting->filter = (enum convoy_image_filter)read_kind(object, "filter", CONVOY_FILTER_NEAREST + 1);
    fitting->width = info.width;
    fitting->height = info.height;
    fitting->channels = info.channels;
    fitting->bgr = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "bgr"));
    fitting->cuts_down = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "cuts_down"));
    for (int c = 0; c < 3; c++) {
        const cJSON *value = cJSON_GetArrayItem(color, c);
        bool level = cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble <= 255;
        fitting->color[c] = level ? (uint8_t)value->valuedouble : 0;
    }
    if (fitting->kind == CONVOY_FITTING_PAD)
        return;
    uint32_t resize_to = read_kind(object, "resize_to", CONVOY_COVER_SIDE_MAX + 1);
    double part = cJSON_IsNumber(fraction) && fraction->valuedouble > 0 ? fraction->valuedouble : 1;
    fitting->cover_width = convoy_cover_side(resize_to, part, info.width);
    fitting->cover_height = convoy_cover_side(resize_to, part, info.height);
}

static int read_options(const cJSON *message, struct convoy_load_options *options, struct convoy_error *error)
{
    const cJSON *max_batch = cJSON_GetObjectItemCaseSensitive(message, "max_batch");
    int precision =
        precision_of(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "precision")));
    options->name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "name"));
    if (options->name == NULL || precision < 0 || !cJSON_IsNumber(max_batch) || max_batch->valuedouble < 1 ||
        max_batch->valuedouble > CONVOY_ROWS_MAX)
        return convoy_fail(error, -EINVAL, "a LOAD message lacks name, precision or max_batch");
    options->precision = (enum convoy_compute_type)precision;
    options->decoder_first = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(message, "decoder_first"));
    options->max_batch = (uint32_t)max_batch->valuedouble;
    read_channels(cJSON_GetObjectItemCaseSensitive(message, "multiply"), options->multiply, 1);
    read_channels(cJSON_GetObjectItemCaseSensitive(message, "add"), options->add, 0);
    return 0;
}

/* What the model's configuration says of its input: "layout", "height" and "width", each of which may be
 * absent. */
static int read_input(const cJSON *message, struct convoy_onnx_options *options, struct convoy_error *error)
{
    const cJSON *layout = cJSON_GetObjectItemCaseSensitive(message, "layout");
    const char *const keys[2] = {"height", "width"};
    int64_t *const sides[2] = {&options->height, &options->width};
    int axes = layout != NULL ? convoy_image_axes_parse(cJSON_GetStringValue(layout)) : CONVOY_AXES_AUTO;
    if (axes < 0)
        return convoy_fail(error, -EINVAL, "a layout is auto, nchw or nhwc");
    options->axes = (enum convoy_image_axes)axes;
    for (int i = 0; i < 2; i++) {
        const cJSON *side = cJSON_GetObjectItemCaseSensitive(message, keys[i]);
        if (side == NULL)
            continue;
        if (!cJSON_IsNumber(side) || !(side->valuedouble >= 0 && side->valuedouble <= 65535))
            return convoy_fail(error, -EINVAL, "a %s is from 1 to 65535, or 0 where it is not given",
                               keys[i]);
        *sides[i] = (int64_t)side->valuedouble;
    }
    return 0;
}

/* An output's dimensions without that of the images; of an output that has no other, 1. */
static void describe_dims(const struct convoy_shape *shape, cJSON *output)
{
    cJSON *dims = cJSON_AddArrayToObject(output, "dims");
    /* Read without a batch axis, a network computes one image; its first dimension stands for that. */
    int images = shape->batch_axis >= 0 ? shape->batch_axis : 0;

    for (int i = 0; i < shape->rank; i++)
        if (i != images || shape->dims[i] != 1)
            cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)shape->dims[i]));
    if (cJSON_GetArraySize(dims) == 0)
        cJSON_AddItemToArray(dims, cJSON_CreateNumber(1));
}

/* How large a class's map is, or why there is none. */
static void describe_class_map(const struct convoy_graph *graph, cJSON *object)
{
    struct convoy_error error;
    struct convoy_class_map map;
    cJSON *described = cJSON_AddObjectToObject(object, "class_map");
    if (convoy_class_map_find(graph, &map, &error) != 0) {
        cJSON_AddStringToObject(described, "reason", error.message);
        return;
    }
    cJSON_AddNumberToObject(described, "height", (double)map.height);
    cJSON_AddNumberToObject(described, "width", (double)map.width);
}

static cJSON *describe(const struct convoy_graph *graph, const struct convoy_net_info *info)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "input", graph->tensors[graph->input].name);
    cJSON_AddStringToObject(object, "datatype", convoy_input_type_text(graph->input_type));
    cJSON_AddStringToObject(object, "layout",
                            convoy_image_axes_text(graph->input_nhwc ? CONVOY_AXES_NHWC : CONVOY_AXES_NCHW));
    cJSON_AddNumberToObject(object, "channels", info->channels);
    cJSON_AddNumberToObject(object, "height", info->height);
    cJSON_AddNumberToObject(object, "width", info->width);
    cJSON *outputs = cJSON_AddArrayToObject(object, "outputs");
    for (uint32_t i = 0; i < info->output_count; i++) {
        cJSON *output = cJSON_CreateObject();
        cJSON_AddStringToObject(output, "name", graph->tensors[graph->outputs[i]].name);
        cJSON_AddNumberToObject(output, "elements", info->output_elements[i]);
        describe_dims(&graph->tensors[graph->outputs[i]].shape, output);
        cJSON_AddItemToArray(outputs, output);
    }
    cJSON_AddNumberToObject(object, "classes", info->output_elements[0]);
    cJSON_AddBoolToObject(object, "softmax", graph->ends_in_softmax);
    cJSON_AddBoolToObject(object, "sigmoid", graph->ends_in_sigmoid);
    describe_class_map(graph, object);
    convoy_worker_describe(info, object);
    return object;
}

void convoy_worker_describe(const struct convoy_net_info *info, cJSON *object)
{
    cJSON_AddNumberToObject(object, "weight_bytes", (double)info->weight_bytes);
    cJSON_AddStringToObject(object, "precision", precision_names[info->precision]);
    cJSON_AddBoolToObject(object, "takes_jpeg", info->takes_jpeg);
    cJSON *layers = cJSON_AddArrayToObject(object, "layers");
    for (uint32_t i = 0; i < info->layer_count; i++) {
        cJSON *layer = cJSON_CreateObject();
        cJSON_AddStringToObject(layer, "name", info->layers[i].name);
        cJSON_AddStringToObject(layer, "kernel", info->layers[i].kernel);
        cJSON_AddItemToArray(layers, layer);
    }
}

struct reading {
    const char *path;
    struct convoy_onnx_options options;
    struct convoy_graph *graph;
    struct convoy_error error;
    int code;
};

static void read_file(void *argument)
{
    struct reading *reading = argument;
    const struct convoy_onnx_options options = reading->options;
    reading->code = convoy_onnx_load(reading->path, &options, &reading->graph, &reading->error);
}

/* Pixels go into a network of uint8 as they are, unless the configuration says what is to be made of them. */
static void choose_normalisation(const cJSON *message, const struct convoy_graph *graph,
                                 struct convoy_load_options *options)
{
    if (graph->input_type != CONVOY_INPUT_UINT8 ||
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(message, "normalise_bytes")))
        return;
    for (int i = 0; i < CONVOY_MAX_U8_CHANNELS; i++) {
        options->multiply[i] = 1;
        options->add[i] = 0;
    }
}

/* What a load command asks for: the file's graph, which is the caller's on success, and how to load it. */
static int read_model(const cJSON *message, const struct convoy_background *background,
                      struct convoy_load_options *options, struct convoy_graph **graph,
                      struct convoy_error *error)
{
    struct reading reading = {.path =
                                  cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "path"))};
    int code = reading.path != NULL ? read_options(message, options, error)
                                    : convoy_fail(error, -EINVAL, "a LOAD message lacks its path");
    if (code == 0)
        code = read_input(message, &reading.options, error);
    if (code != 0)
        return code;
    if (background != NULL)
        convoy_background_run(background, read_file, &reading);
    else
        read_file(&reading);
    if (reading.code != 0) {
        *error = reading.error;
        return reading.code;
    }
    choose_normalisation(message, reading.graph, options);
    *graph = reading.graph;
    return 0;
}

int convoy_worker_load(struct convoy_worker_device *device, const cJSON *message,
                       const struct convoy_background *background, struct convoy_worker_net *net,
                       cJSON **described, struct convoy_error *error)
{
    struct convoy_load_options options = {0};
    struct convoy_graph *graph;
    int code = read_model(message, background, &options, &graph, error);
    if (code != 0)
        return code;
    read_fitting(message, graph, &options.fitting);
    code = device->backend->load(device->device, graph, &options, &net->net, &net->info, error);
    if (code != 0) {
        convoy_fail_in(error, code, "%s",
                       cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "path")));
        net->net = NULL;
    } else {
        net->max_batch = options.max_batch;
        net->fp32_only = options.precision == CONVOY_COMPUTE_FP32;
        if (described != NULL)
            *described = describe(graph, &net->info);
        net->graph = device->backend->keeps_graph ? graph : NULL;
        if (net->graph != NULL)
            graph = NULL;
    }
    convoy_graph_free(graph);
    malloc_trim(0); /* the file's copy of the weights goes back to the system */
    return code;
}

int convoy_worker_load_maps(struct convoy_worker_device *device, const struct convoy_background *background,
                            struct convoy_worker_net *net, struct convoy_error *error)
{
    const cJSON *load = cJSON_GetObjectItemCaseSensitive(net->told, "load");
    struct convoy_load_options options = {0};
    struct convoy_worker_maps *maps = &net->maps;
    struct convoy_graph *graph;
    int code = read_model(load, background, &options, &graph, error);
    if (code != 0)
        return code;
    options.max_batch = 1;
    options.untuned = true;
    code = convoy_class_map_outputs(graph, error);
    if (code == 0)
        code = device->backend->load(device->device, graph, &options, &maps->net, &maps->info, error);
    if (code == 0) {
        const struct convoy_shape *shape = &graph->tensors[graph->outputs[1]].shape;
        maps->height = (uint32_t)shape->dims[2];
        maps->width = (uint32_t)shape->dims[3];
        maps->graph = device->backend->keeps_graph ? graph : NULL;
    } else {
        maps->net = NULL;
    }
    if (maps->graph == NULL)
        convoy_graph_free(graph);
    malloc_trim(0);
    return code;
}

void convoy_worker_unload_maps(struct convoy_worker_device *device, struct convoy_worker_maps *maps)
{
    if (maps->net != NULL)
        device->backend->unload(device->device, maps->net);
    convoy_graph_free(maps->graph);
    memset(maps, 0, sizeof *maps);
}

int convoy_worker_measure(const cJSON *message, cJSON **described, struct convoy_error *error)
{
    struct convoy_net_info info = {0};
    struct reading reading = {.path =
                                  cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "path"))};
    if (reading.path == NULL)
        return convoy_fail(error, -EINVAL, "a MEASURE message lacks its path");
    int code = read_input(message, &reading.options, error);
    if (code != 0)
        return code;
    read_file(&reading);
    if (reading.code != 0) {
        *error = reading.error;
        return reading.code;
    }
    convoy_describe_shapes(reading.graph, &info);
    *described = describe(reading.graph, &info);
    convoy_graph_free(reading.graph);
    malloc_trim(0);
    return 0;
}

void convoy_worker_unload(struct convoy_worker_device *device, struct convoy_worker_net *net)
{
    convoy_worker_unload_maps(device, &net->maps);
    if (net->net != NULL)
        device->backend->unload(device->device, net->net);
    convoy_graph_free(net->graph);
    cJSON_Delete(net->told);
    memset(net, 0, sizeof *net);
}
