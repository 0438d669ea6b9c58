#include "server/workers/worker_message.h"

#include "engine/ipc/channel.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int whole(const cJSON *json, const char *key, double least, double most, uint64_t *value,
                 struct convoy_error *error)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= most))
        return convoy_fail(error, -EPROTO, "a worker's message lacks a '%s' from %.0f to %.0f", key, least,
                           most);
    *value = (uint64_t)item->valuedouble;
    return 0;
}

static int small(const cJSON *json, const char *key, double least, double most, uint32_t *value,
                 struct convoy_error *error)
{
    uint64_t wide = 0;
    int code = whole(json, key, least, most, &wide, error);
    *value = (uint32_t)wide;
    return code;
}

static const char *string(const cJSON *json, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    return text != NULL ? text : "";
}

static void copy_string(char *target, size_t capacity, const cJSON *json, const char *key)
{
    snprintf(target, capacity, "%s", string(json, key));
}

static uint32_t layer_count_of(const cJSON *json)
{
    int count = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "layers"));
    return count < CONVOY_MAX_LAYERS ? (uint32_t)count : CONVOY_MAX_LAYERS;
}

/* Without dims an output is flat. */
static int read_dims(const cJSON *output, uint32_t elements, uint32_t dims[8], uint32_t *rank,
                     struct convoy_error *error)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(output, "dims"), *item;
    uint64_t product = 1; /* at most 2^24, times one that is */

    *rank = 0;
    if (list == NULL)
        dims[(*rank)++] = elements;
    cJSON_ArrayForEach(item, list)
    {
        if (*rank == 8 || !cJSON_IsNumber(item) || !(item->valuedouble >= 1 && item->valuedouble <= elements))
            return convoy_fail(error, -EPROTO, "a worker's message has wrong dims of an output");
        dims[*rank] = (uint32_t)item->valuedouble;
        product *= dims[(*rank)++];
        if (product > elements)
            break;
    }
    if (list != NULL && product != elements)
        return convoy_fail(error, -EPROTO, "a worker's message has other dims of an output than elements");
    return *rank > 0 ? 0 : convoy_fail(error, -EPROTO, "a worker's message has an output without dims");
}

/* Without them the input is float32 in N x C x H x W. */
static int read_input_type(const cJSON *json, struct convoy_model_shape *shape, struct convoy_error *error)
{
    const char *type = string(json, "datatype"), *layout = string(json, "layout");
    int known_type = type[0] == '\0' ? CONVOY_INPUT_FP32 : convoy_input_type_parse(type);
    int axes = layout[0] == '\0' ? CONVOY_AXES_NCHW : convoy_image_axes_parse(layout);
    if (known_type < 0 || axes < 0 || axes == CONVOY_AXES_AUTO)
        return convoy_fail(error, -EPROTO,
                           "a worker's message has an unknown datatype or layout of the input");
    shape->input_type = (enum convoy_input_type)known_type;
    shape->input_nhwc = axes == CONVOY_AXES_NHWC;
    return 0;
}

/* A worker of this build says one or the other. */
static int read_class_map(const cJSON *json, struct convoy_model_shape *shape, struct convoy_error *error)
{
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(json, "class_map");
    int code;
    snprintf(shape->map_reason, sizeof shape->map_reason, "its worker does not say that it has one");
    if (map == NULL)
        return 0;
    if (string(map, "reason")[0] != '\0') {
        copy_string(shape->map_reason, sizeof shape->map_reason, map, "reason");
        return 0;
    }
    if ((code = small(map, "height", 1, CONVOY_MAX_CLASS_MAP, &shape->map_height, error)) != 0 ||
        (code = small(map, "width", 1, CONVOY_MAX_CLASS_MAP, &shape->map_width, error)) != 0)
        return code;
    if (shape->map_height * shape->map_width > CONVOY_MAX_CLASS_MAP)
        return convoy_fail(error, -EPROTO, "a worker's message has a class map that is too large");
    shape->map_reason[0] = '\0';
    return 0;
}

int convoy_worker_message_shape(const cJSON *json, struct convoy_model_shape *shape,
                                struct convoy_error *error)
{
    int code;
    memset(shape, 0, sizeof *shape);
    /* The bounds keep rows and outputs inside 64 bits; whether they fit a slot is checked later. */
    if ((code = small(json, "channels", 1, 65535, &shape->channels, error)) != 0 ||
        (code = small(json, "height", 1, 65535, &shape->height, error)) != 0 ||
        (code = small(json, "width", 1, 65535, &shape->width, error)) != 0 ||
        (code = read_input_type(json, shape, error)) != 0)
        return code;
    copy_string(shape->input_name, sizeof shape->input_name, json, "input");
    shape->ends_in_softmax = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "softmax"));
    shape->ends_in_sigmoid = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "sigmoid"));
    snprintf(shape->platform, sizeof shape->platform, "onnx_convoyd");

    const cJSON *output;
    cJSON_ArrayForEach(output, cJSON_GetObjectItemCaseSensitive(json, "outputs"))
    {
        if (shape->output_count == sizeof shape->output_elements / sizeof shape->output_elements[0])
            return convoy_fail(error, -EPROTO, "a worker's message has too many outputs");
        uint32_t *elements = &shape->output_elements[shape->output_count];
        if ((code = small(output, "elements", 1, 1 << 24, elements, error)) != 0 ||
            (code = read_dims(output, *elements, shape->output_dims[shape->output_count],
                              &shape->output_rank[shape->output_count], error)) != 0)
            return code;
        copy_string(shape->output_names[shape->output_count], sizeof shape->output_names[0], output, "name");
        shape->outputs_per_row += *elements;
        shape->output_count++;
    }
    if (shape->output_count == 0)
        return convoy_fail(error, -EPROTO, "a worker's message has no outputs");
    if ((code = read_class_map(json, shape, error)) != 0)
        return code;
    shape->layer_count = layer_count_of(json);
    return 0;
}

static int read_memory(const cJSON *json, struct convoy_worker_message *message, struct convoy_error *error)
{
    int code;
    if ((code = whole(json, "weights", 0, 1e15, &message->memory.weights, error)) != 0 ||
        (code = whole(json, "workspace", 0, 1e15, &message->memory.workspace, error)) != 0 ||
        (code = whole(json, "free", 0, 1e15, &message->memory.free, error)) != 0 ||
        (code = whole(json, "total", 0, 1e15, &message->memory.total, error)) != 0)
        return code;
    return 0;
}

/* What is missing is not known. */
static int read_health(const cJSON *json, struct convoy_worker_message *message, struct convoy_error *error)
{
    int code = 0;
    for (int i = 0; i < CONVOY_HEALTH_VALUES && code == 0; i++) {
        message->health.values[i] = CONVOY_HEALTH_UNKNOWN;
        if (cJSON_HasObjectItem(json, convoy_health_names[i]))
            code = whole(json, convoy_health_names[i], 0, 1e15, &message->health.values[i], error);
    }
    return code;
}

/* The members that LOADED and TUNED share. */
static int read_layers(const cJSON *json, struct convoy_worker_message *message, struct convoy_error *error)
{
    int code = whole(json, "weight_bytes", 0, 1e15, &message->loaded.weight_bytes, error);
    if (code != 0)
        return code;
    message->loaded.takes_files = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "takes_jpeg"));
    message->loaded.shape.layer_count = layer_count_of(json);
    copy_string(message->loaded.shape.precision, sizeof message->loaded.shape.precision, json, "precision");
    uint32_t count = message->loaded.shape.layer_count, i = 0;
    message->loaded.layers = calloc(count + 1, sizeof *message->loaded.layers);
    if (message->loaded.layers == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for a model's layers");
    const cJSON *layer;
    cJSON_ArrayForEach(layer, cJSON_GetObjectItemCaseSensitive(json, "layers"))
    {
        if (i == count)
            break;
        copy_string(message->loaded.layers[i].name, sizeof message->loaded.layers[i].name, layer, "name");
        copy_string(message->loaded.layers[i].kernel, sizeof message->loaded.layers[i].kernel, layer,
                    "kernel");
        i++;
    }
    return 0;
}

/* A worker that had no memory to run it sends none. */
static int read_canary(const cJSON *json, struct convoy_worker_message *message, struct convoy_error *error)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "canary");
    const cJSON *ranges = cJSON_GetObjectItemCaseSensitive(list, "ranges");
    const cJSON *range = ranges != NULL ? ranges->child : NULL, *value;
    struct convoy_canary *canary = &message->loaded.canary;
    message->loaded.files = strtoull(string(json, "files"), NULL, 16);
    canary->finite = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(list, "finite"));
    cJSON_ArrayForEach(value, cJSON_GetObjectItemCaseSensitive(list, "values"))
    {
        if (canary->count == CONVOY_CANARY_SAMPLES || !(cJSON_IsNumber(value) || cJSON_IsNull(value)) ||
            range == NULL || !cJSON_IsNumber(range) || !(range->valuedouble >= 0))
            return convoy_fail(error, -EPROTO, "a worker's message has a canary that is none");
        canary->values[canary->count] = cJSON_IsNumber(value) ? (float)value->valuedouble : NAN;
        canary->ranges[canary->count++] = (float)range->valuedouble;
        range = range->next;
    }
    return 0;
}

static int read_model(const cJSON *json, uint32_t model_count, struct convoy_worker_message *message,
                      struct convoy_error *error)
{
    if (model_count == 0 || small(json, "model", 0, model_count - 1.0, &message->model, NULL) != 0)
        return convoy_fail(error, -EPROTO, "a worker spoke of a model that does not exist");
    return 0;
}

static const char *const checks[] = {
    [CONVOY_CHECK_CANARY] = "canary", [CONVOY_CHECK_WEIGHTS] = "weights", [CONVOY_CHECK_DECODER] = "decoder"};
#define CHECKS (sizeof checks / sizeof checks[0])

const char *convoy_device_check_name(enum convoy_device_check check)
{
    return checks[check];
}

static int read_checked(const cJSON *json, uint32_t model_count, struct convoy_worker_message *message,
                        struct convoy_error *error)
{
    const char *check = string(json, "check");
    size_t number = 0;
    while (number < CHECKS && strcmp(check, checks[number]) != 0)
        number++;
    if (number == CHECKS)
        return convoy_fail(error, -EPROTO, "a worker's message is of an unknown check");
    message->checked.check = (enum convoy_device_check)number;
    message->checked.same = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "same"));
    message->text = string(json, "reason");
    return message->checked.check == CONVOY_CHECK_DECODER ? 0 : read_model(json, model_count, message, error);
}

static int read_loaded(const cJSON *json, struct convoy_worker_message *message, struct convoy_error *error)
{
    int code = convoy_worker_message_shape(json, &message->loaded.shape, error);
    if (code == 0 && cJSON_HasObjectItem(json, "first_run_us"))
        code = whole(json, "first_run_us", 0, 1e12, &message->loaded.first_run_us, error);
    if (code == 0 && cJSON_HasObjectItem(json, "row_us"))
        code = whole(json, "row_us", 0, 1e12, &message->loaded.row_us, error);
    if (code == 0)
        code = read_canary(json, message, error);
    return code != 0 ? code : read_layers(json, message, error);
}

static int read_hello(const cJSON *json, struct convoy_worker_message *message, struct convoy_error *error)
{
    uint32_t abi;
    int code;
    if ((code = small(json, "abi", 0, UINT32_MAX, &abi, error)) != 0 ||
        (code = small(json, "device_count", 1, 1024, &message->hello.device_count, error)) != 0 ||
        (code = small(json, "streams", 1, CONVOY_MAX_SLOTS, &message->hello.streams, error)) != 0)
        return code;
    if (abi != CONVOY_CHANNEL_ABI)
        return convoy_fail(error, -EPROTO,
                           "convoy-worker speaks channel ABI %u, convoyd %d: install both of one build", abi,
                           CONVOY_CHANNEL_ABI);
    if (message->hello.device_count > CONVOY_MAX_DEVICES)
        message->hello.device_count = CONVOY_MAX_DEVICES;
    message->hello.attached = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "attached"));
    if (message->hello.attached && (code = small(json, "turn", 0, 1, &message->hello.turn, error)) != 0)
        return code;
    if (cJSON_HasObjectItem(json, "jpeg_jobs") &&
        (code = small(json, "jpeg_jobs", 0, CONVOY_MAX_SLOTS, &message->hello.files_ahead, error)) != 0)
        return code;
    copy_string(message->hello.backend, sizeof message->hello.backend, json, "backend");
    copy_string(message->hello.device, sizeof message->hello.device, json, "device");
    copy_string(message->hello.description, sizeof message->hello.description, json, "description");
    return 0;
}

static enum convoy_worker_message_type type_of(const char *name)
{
    static const struct {
        const char *name;
        enum convoy_worker_message_type type;
    } types[] = {{"hello", CONVOY_WORKER_HELLO},         {"attached", CONVOY_WORKER_ATTACHED},
                 {"loading", CONVOY_WORKER_LOADING},     {"measured", CONVOY_WORKER_MEASURED},
                 {"loaded", CONVOY_WORKER_LOADED},       {"failed", CONVOY_WORKER_FAILED},
                 {"heartbeat", CONVOY_WORKER_HEARTBEAT}, {"log", CONVOY_WORKER_LOG},
                 {"lost", CONVOY_WORKER_LOST},           {"tuned", CONVOY_WORKER_TUNED},
                 {"memory", CONVOY_WORKER_MEMORY},       {"held", CONVOY_WORKER_HELD},
                 {"adopted", CONVOY_WORKER_ADOPTED},     {"checked", CONVOY_WORKER_CHECKED},
                 {"health", CONVOY_WORKER_HEALTH}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(name, types[i].name) == 0)
            return types[i].type;
    return CONVOY_WORKER_UNKNOWN;
}

int convoy_worker_message_read(cJSON *json, uint32_t model_count, struct convoy_worker_message *message,
                               struct convoy_error *error)
{
    memset(message, 0, sizeof *message);
    message->json = json;
    message->type = type_of(string(json, "type"));
    switch (message->type) {
    case CONVOY_WORKER_HELLO:
        return read_hello(json, message, error);
    case CONVOY_WORKER_LOADING:
    case CONVOY_WORKER_MEASURED:
    case CONVOY_WORKER_LOADED:
    case CONVOY_WORKER_FAILED:
    case CONVOY_WORKER_HELD:
    case CONVOY_WORKER_TUNED:
        if (read_model(json, model_count, message, error) != 0)
            return -EPROTO;
        message->text = string(json, "reason");
        if (message->type == CONVOY_WORKER_MEASURED)
            return message->text[0] != '\0'
                       ? 0
                       : convoy_worker_message_shape(json, &message->loaded.shape, error);
        if (message->type == CONVOY_WORKER_LOADED || message->type == CONVOY_WORKER_HELD)
            return read_loaded(json, message, error);
        return message->type == CONVOY_WORKER_TUNED ? read_layers(json, message, error) : 0;
    case CONVOY_WORKER_CHECKED:
        return read_checked(json, model_count, message, error);
    case CONVOY_WORKER_MEMORY:
        return read_memory(json, message, error);
    case CONVOY_WORKER_HEALTH:
        return read_health(json, message, error);
    case CONVOY_WORKER_HEARTBEAT:
        message->text = string(json, "phase");
        message->preparing = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "preparing"));
        return 0;
    case CONVOY_WORKER_LOG:
        message->text = string(json, "message");
        message->level = string(json, "level");
        return 0;
    case CONVOY_WORKER_LOST:
        message->text = string(json, "reason");
        return 0;
    default:
        return 0;
    }
}

void convoy_worker_message_free(struct convoy_worker_message *message)
{
    cJSON_Delete(message->json);
    free(message->loaded.layers);
    memset(message, 0, sizeof *message);
}
