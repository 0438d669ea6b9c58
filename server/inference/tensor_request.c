#include "server/inference/tensor_request.h"

#include "engine/base/json.h"
#include "server/config/model_config.h"
#include "server/http/buffer_pool.h"
#include "server/inference/prediction.h"
#include "server/inference/tensor_planes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST CONVOY_TENSOR_DOCUMENT_NAME

static int no_memory(struct convoy_error *error)
{
    return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");
}

static uint64_t row_elements(const struct convoy_model_shape *shape)
{
    return (uint64_t)shape->channels * shape->height * shape->width;
}

/* path: what sentences call the item. */
static struct convoy_json at(const cJSON *item, const char *path)
{
    struct convoy_json json = {.value = item, .file = REQUEST};
    memcpy(json.path, path, strlen(path) + 1);
    return json;
}

/* The list under key, NULL when it is absent. */
static int read_list(const struct convoy_json *object, const char *key, const cJSON **list,
                     struct convoy_error *error)
{
    *list = convoy_json_has(object, key) ? cJSON_GetObjectItemCaseSensitive(object->value, key) : NULL;
    if (*list != NULL && !cJSON_IsArray(*list))
        return convoy_fail(error, -EINVAL, "%s: %s must be an array", REQUEST, key);
    return 0;
}

static int read_shape(const struct convoy_json *input, struct convoy_tensor_shape *shape,
                      struct convoy_error *error)
{
    double dims[CONVOY_TENSOR_RANK];
    int code = convoy_json_doubles(input, "shape", 1, 1e9, dims, CONVOY_TENSOR_RANK, &shape->rank, error);
    for (uint32_t i = 0; code == 0 && i < shape->rank; i++) {
        shape->dims[i] = (uint64_t)dims[i];
        if ((double)shape->dims[i] != dims[i])
            code = convoy_fail(error, -EINVAL, "%s: inputs[0].shape must be whole numbers", REQUEST);
    }
    return code;
}

static bool is_shape(const struct convoy_tensor_shape *shape, const uint32_t dims[3])
{
    return shape->rank == 4 && shape->dims[1] == dims[0] && shape->dims[2] == dims[1] &&
           shape->dims[3] == dims[2];
}

/* Pixels come in the network's order or in the other one; where the two are alike the network's order counts,
 * since it is what the metadata says. */
static int choose_pixels(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    const struct convoy_model_shape *model = tensors->shape;
    const uint32_t c = model->channels, h = model->height, w = model->width;
    const uint32_t planes[3] = {c, h, w}, pixels[3] = {h, w, c};
    bool is_planes = is_shape(&tensors->tensor_shape, planes),
         is_pixels = is_shape(&tensors->tensor_shape, pixels);

    if (is_planes && is_pixels)
        is_planes = !model->input_nhwc;
    tensors->layout = is_planes && c > 1 ? CONVOY_LAYOUT_U8_CHW : CONVOY_LAYOUT_U8_HWC;
    if (c > CONVOY_PIXEL_CHANNELS)
        return convoy_fail(error, -EINVAL, "the model takes %u channels, more than pixels have: send FP32",
                           c);
    if (is_planes || is_pixels)
        return 0;
    return convoy_fail(error, -EINVAL, "%s: inputs[0].shape of pixels must be [N,%u,%u,%u] or [N,%u,%u,%u]",
                       REQUEST, c, h, w, h, w, c);
}

/* What the rows are, from datatype and shape. */
static int choose_layout(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    const struct convoy_model_shape *model = tensors->shape;
    const struct convoy_tensor_shape *shape = &tensors->tensor_shape;
    uint32_t dims[3];

    switch (tensors->type) {
    case CONVOY_BYTES:
        tensors->layout = CONVOY_LAYOUT_ENCODED;
        if (!convoy_model_takes_pictures(model))
            return convoy_fail(error, -EINVAL,
                               "the model takes %u channels, not an image's 1, 3 or 4: send %s",
                               model->channels, convoy_input_type_text(model->input_type));
        if (shape->rank == 1 || (shape->rank == 2 && shape->dims[1] == 1))
            return 0;
        return convoy_fail(error, -EINVAL, "%s: inputs[0].shape of image files must be [N] or [N,1]",
                           REQUEST);
    case CONVOY_UINT8:
        return choose_pixels(tensors, error);
    default:
        tensors->layout = CONVOY_LAYOUT_F32_CHW;
        if (model->input_type == CONVOY_INPUT_UINT8)
            return convoy_fail(
                error, -EINVAL,
                "the model's input is UINT8, and %s is not: send UINT8, or BYTES for image files",
                convoy_datatype_name(tensors->type));
        convoy_model_input_dims(model, dims);
        if (is_shape(shape, dims))
            return 0;
        return convoy_fail(error, -EINVAL, "%s: inputs[0].shape must be [N,%u,%u,%u]", REQUEST, dims[0],
                           dims[1], dims[2]);
    }
}

static int check_count(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    uint64_t count = tensors->tensor_shape.dims[0];
    if (count > tensors->max_rows)
        return convoy_fail(error, -EFBIG,
                           "%s: inputs[0] has %" PRIu64
                           " images and images.max_per_request is %u: send them in several requests",
                           REQUEST, count, tensors->max_rows);
    tensors->count = (uint32_t)count;
    return 0;
}

static int read_region(const struct convoy_tensor_request *tensors, const struct convoy_json *parameters,
                       struct convoy_tensor_region *region, struct convoy_error *error)
{
    int code = convoy_json_string(parameters, "shared_memory_region", &region->name, error);
    if (code != 0 || region->name == NULL)
        return code;
    if (tensors->memory == NULL)
        return convoy_fail(
            error, -EACCES,
            "shared memory is off, or for clients on the server's own machine that connect to a loopback "
            "address: send the tensor in the body");
    if (!convoy_json_has(parameters, "shared_memory_byte_size"))
        return convoy_fail(error, -EINVAL, "%s: %s needs shared_memory_byte_size", REQUEST, parameters->path);
    if ((code = convoy_json_uint64(parameters, "shared_memory_offset", 0, INT64_MAX, &region->offset,
                                   error)) != 0)
        return code;
    return convoy_json_uint64(parameters, "shared_memory_byte_size", 1, UINT32_MAX, &region->bytes, error);
}

/* Where the data is: exactly one place. */
static int find_data(struct convoy_tensor_request *tensors, const struct convoy_json *input,
                     struct convoy_error *error)
{
    struct convoy_json parameters;
    size_t behind = tensors->length - tensors->json_length;
    int code = convoy_json_object(input, "parameters", &parameters, error);
    if (code != 0)
        return code;
    tensors->has_data = convoy_json_has(input, "data");
    bool behind_json = convoy_json_has(&parameters, "binary_data_size");
    if ((code = convoy_json_uint64(&parameters, "binary_data_size", 0, UINT32_MAX, &tensors->binary_bytes,
                                   error)) != 0 ||
        (code = read_region(tensors, &parameters, &tensors->region, error)) != 0)
        return code;
    if (tensors->has_data + behind_json + (tensors->region.name != NULL) != 1)
        return convoy_fail(error, -EINVAL,
                           "%s: inputs[0] needs data, parameters.binary_data_size or "
                           "parameters.shared_memory_region, one of them",
                           REQUEST);
    if (tensors->binary_bytes != behind)
        return convoy_fail(
            error, -EINVAL,
            "behind the JSON of %zu bytes (Inference-Header-Content-Length) lie %zu bytes, not the "
            "%" PRIu64 " that binary_data_size says",
            tensors->json_length, behind, tensors->binary_bytes);
    /* A shape that lies must not take memory: an element takes two characters. */
    uint64_t elements = convoy_tensor_elements(&tensors->tensor_shape);
    uint64_t bytes = elements * convoy_datatype_bytes(tensors->type);
    if (tensors->has_data && elements > tensors->document.data_length)
        return convoy_tensor_wrong_count(&tensors->tensor_shape, error);
    if (tensors->region.name != NULL)
        tensors->binary_bytes = tensors->region.bytes;
    if (!tensors->has_data && tensors->type != CONVOY_BYTES && bytes != tensors->binary_bytes)
        return convoy_fail(error, -EINVAL,
                           "the binary data has %" PRIu64
                           " bytes, but a tensor of this shape and datatype has "
                           "%" PRIu64,
                           tensors->binary_bytes, bytes);
    return 0;
}

static int read_input(struct convoy_tensor_request *tensors, const cJSON *inputs, struct convoy_error *error)
{
    const char *name = NULL, *type = NULL, *expected = tensors->shape->input_name;
    if (inputs == NULL || cJSON_GetArraySize(inputs) != 1)
        return convoy_fail(error, -EINVAL, "%s: inputs must be an array of one tensor, '%s'", REQUEST,
                           expected);
    struct convoy_json input = at(inputs->child, "inputs[0]");
    int code;
    if (!cJSON_IsObject(input.value))
        return convoy_fail(error, -EINVAL, "%s: inputs[0] must be an object", REQUEST);
    if ((code = convoy_json_string(&input, "name", &name, error)) != 0 ||
        (code = convoy_json_string(&input, "datatype", &type, error)) != 0 ||
        (code = read_shape(&input, &tensors->tensor_shape, error)) != 0)
        return code;
    if (name == NULL || type == NULL || tensors->tensor_shape.rank == 0)
        return convoy_fail(error, -EINVAL, "%s: inputs[0] needs name, datatype and shape", REQUEST);
    if (strcmp(name, expected) != 0)
        return convoy_fail(error, -EINVAL, "the model has no input '%.64s': its input is '%s'", name,
                           expected);
    if ((code = convoy_datatype_parse(type, &tensors->type, error)) != 0 ||
        (code = choose_layout(tensors, error)) != 0 || (code = check_count(tensors, error)) != 0)
        return code;
    return find_data(tensors, &input, error);
}

static int read_output(struct convoy_tensor_request *tensors, const cJSON *item, uint32_t i, bool binary,
                       struct convoy_error *error)
{
    const struct convoy_model_shape *shape = tensors->shape;
    struct convoy_tensor_output *output = &tensors->outputs[i];
    struct convoy_json json, parameters;
    const char *name = NULL;
    char path[24];
    int code;
    snprintf(path, sizeof path, "outputs[%u]", i);
    json = at(item, path);
    if (!cJSON_IsObject(item))
        return convoy_fail(error, -EINVAL, "%s: outputs[%u] must be an object", REQUEST, i);
    *output = (struct convoy_tensor_output){.binary = binary};
    if ((code = convoy_json_string(&json, "name", &name, error)) != 0 ||
        (code = convoy_json_object(&json, "parameters", &parameters, error)) != 0 ||
        (code = convoy_json_bool(&parameters, "binary_data", &output->binary, error)) != 0 ||
        (code = convoy_json_uint32(&parameters, "classification", 0, CONVOY_TOP_MAX, &output->classes,
                                   error)) != 0 ||
        (code = read_region(tensors, &parameters, &output->region, error)) != 0)
        return code;
    while (name != NULL && output->index < shape->output_count &&
           strcmp(name, shape->output_names[output->index]) != 0)
        output->index++;
    if (name == NULL || output->index == shape->output_count)
        return convoy_fail(error, -EINVAL, "the model has no output '%.64s': GET /v2/models/NAME lists them",
                           name == NULL ? "" : name);
    uint64_t bytes = (uint64_t)tensors->count * shape->output_elements[output->index] * sizeof(float);
    if (output->region.name != NULL && output->classes > 0)
        return convoy_fail(error, -EINVAL, "%s: %s: a classification cannot go into shared memory", REQUEST,
                           parameters.path);
    if (output->region.name != NULL && output->region.bytes < bytes)
        return convoy_fail(error, -EINVAL,
                           "%s: %s.shared_memory_byte_size is too small for the %" PRIu64 " bytes of '%.64s'",
                           REQUEST, parameters.path, bytes, name);
    for (uint32_t j = 0; j < i; j++)
        if (tensors->outputs[j].index == output->index)
            return convoy_fail(error, -EINVAL, "%s: outputs names '%.64s' twice", REQUEST, name);
    return 0;
}

static int read_outputs(struct convoy_tensor_request *tensors, const cJSON *outputs, bool binary,
                        struct convoy_error *error)
{
    uint32_t wanted = outputs == NULL ? 0 : (uint32_t)cJSON_GetArraySize(outputs), i = 0;
    const cJSON *item;
    int code = 0;
    if (wanted > tensors->shape->output_count)
        return convoy_fail(error, -EINVAL, "%s: outputs names more than the model has", REQUEST);
    cJSON_ArrayForEach(item, outputs)
    {
        if ((code = read_output(tensors, item, i++, binary, error)) != 0)
            return code;
    }
    tensors->output_count = wanted > 0 ? wanted : tensors->shape->output_count;
    for (; i < tensors->output_count; i++)
        tensors->outputs[i] = (struct convoy_tensor_output){.index = i, .binary = binary};
    return 0;
}

int convoy_tensor_request_read_header(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    struct convoy_json root, parameters;
    const cJSON *inputs, *outputs;
    bool binary = false;
    unsigned decoder = tensors->decoder;
    int code = convoy_tensor_document_read(&tensors->document, (const char *)tensors->body,
                                           tensors->json_length, error);
    tensors->scaled_decoding = true;

    if (code != 0 || (code = convoy_json_root(tensors->document.root, REQUEST, &root, error)) != 0 ||
        (code = convoy_json_string(&root, "id", &tensors->id, error)) != 0 ||
        (code = convoy_json_object(&root, "parameters", &parameters, error)) != 0 ||
        (code = convoy_json_uint64(&parameters, "timeout", 0, UINT64_C(3600000000), &tensors->timeout_us,
                                   error)) != 0 ||
        (code = convoy_json_uint32(&parameters, "priority", 0, CONVOY_PRIORITY_NUMBER_MOST,
                                   &tensors->priority, error)) != 0 ||
        (code = convoy_json_bool(&parameters, "binary_data_output", &binary, error)) != 0 ||
        (code = convoy_json_bool(&parameters, "scaled_decoding", &tensors->scaled_decoding, error)) != 0 ||
        (code = convoy_json_choice(&parameters, "decoder", convoy_image_decoder_texts, &decoder, error)) !=
            0 ||
        (code = read_list(&root, "inputs", &inputs, error)) != 0 ||
        (code = read_list(&root, "outputs", &outputs, error)) != 0 ||
        (code = read_input(tensors, inputs, error)) != 0)
        return code == -EFBIG || code == -ENOMEM || code == -EACCES ? code : -EINVAL;
    tensors->decoder = (enum convoy_image_decoder)decoder;
    return read_outputs(tensors, outputs, binary, error);
}

int convoy_tensor_request_read_raw(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    const struct convoy_model_shape *shape = tensors->shape;
    uint32_t dims[3];

    tensors->type = convoy_datatype_of(shape->input_type);
    convoy_model_input_dims(shape, dims);
    uint64_t row = row_elements(shape) * convoy_datatype_bytes(tensors->type);
    if (tensors->length == 0 || tensors->length % row != 0)
        return convoy_fail(
            error, -EINVAL,
            "Inference-Header-Content-Length: 0 says that the body is rows of '%s' and nothing "
            "else: a row, %s [%u,%u,%u], has %" PRIu64
            " bytes, and the body's %zu are no multiple of that; /classify takes image files",
            shape->input_name, convoy_datatype_name(tensors->type), dims[0], dims[1], dims[2], row,
            tensors->length);
    tensors->json_length = 0;
    tensors->binary_bytes = tensors->length;
    tensors->tensor_shape =
        (struct convoy_tensor_shape){4, {tensors->length / row, dims[0], dims[1], dims[2]}};
    int code = choose_layout(tensors, error);
    if (code == 0)
        code = check_count(tensors, error);
    return code != 0 ? code : read_outputs(tensors, NULL, true, error);
}

/* Are the rows floats of which a slot takes another order? */
static bool is_turned(const struct convoy_tensor_request *tensors)
{
    return tensors->layout == CONVOY_LAYOUT_F32_CHW && tensors->shape->input_nhwc &&
           tensors->shape->channels > 1;
}

/* Is the binary data what the slot takes, as it lies? */
static bool is_ready(const struct convoy_tensor_request *tensors)
{
    return !tensors->has_data && !is_turned(tensors) &&
           (tensors->type == CONVOY_FP32 || tensors->type == CONVOY_UINT8);
}

size_t convoy_tensor_request_memory(const struct convoy_tensor_request *tensors)
{
    uint64_t elements = convoy_tensor_elements(&tensors->tensor_shape);
    uint64_t copied = tensors->region.name != NULL ? tensors->binary_bytes : 0;

    if (tensors->type == CONVOY_BYTES)
        return copied + tensors->count * sizeof(struct convoy_part);
    if (is_ready(tensors))
        return copied;
    if (is_turned(tensors))
        elements += row_elements(tensors->shape);
    return copied + elements * (tensors->type == CONVOY_UINT8 ? 1 : sizeof(float));
}

/* Files one behind the other, each with its length before it: 4 bytes, little-endian. */
static int split_files(struct convoy_tensor_request *tensors, const uint8_t *at, struct convoy_error *error)
{
    size_t left = tensors->binary_bytes;

    for (uint32_t i = 0; i < tensors->count; i++) {
        size_t length =
            left < 4 ? 0 : (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
        if (left < 4 || length > left - 4)
            return convoy_fail(error, -EINVAL,
                               "the binary data ends within element %u of %u: each is its length in 4 bytes, "
                               "little-endian, and its bytes",
                               i, tensors->count);
        tensors->parts[i] = (struct convoy_part){at + 4, length};
        at += 4 + length;
        left -= 4 + length;
    }
    if (left > 0)
        return convoy_fail(error, -EINVAL, "the binary data has %zu bytes behind its %u elements", left,
                           tensors->count);
    return 0;
}

/* The binary data, copied into tensor where it is in shared memory: a client that goes on writing there
 * changes nothing any more. */
static int find_binary(struct convoy_tensor_request *tensors, const uint8_t **binary,
                       struct convoy_error *error)
{
    const struct convoy_tensor_region *region = &tensors->region;

    *binary = tensors->body + tensors->json_length;
    if (region->name == NULL)
        return 0;
    *binary = tensors->tensor = convoy_buffer_pool_new(region->bytes);
    if (tensors->tensor == NULL)
        return no_memory(error);
    return convoy_shared_memory_read(tensors->memory, region->name, region->offset, region->bytes,
                                     tensors->tensor, error);
}

static int read_files(struct convoy_tensor_request *tensors, const uint8_t *binary,
                      struct convoy_error *error)
{
    tensors->parts = calloc(tensors->count, sizeof *tensors->parts);
    if (tensors->parts == NULL)
        return no_memory(error);
    if (!tensors->has_data)
        return split_files(tensors, binary, error);
    return convoy_tensor_files((char *)tensors->body + tensors->document.data, tensors->document.data_length,
                               &tensors->tensor_shape, tensors->parts, error);
}

/* Floats from the network's order into that of slots, in place. */
static int turn(const struct convoy_tensor_request *tensors, float *values, struct convoy_error *error)
{
    const struct convoy_model_shape *shape = tensors->shape;
    float *row = convoy_buffer_pool_new(row_elements(shape) * sizeof *row);

    if (row == NULL)
        return no_memory(error);
    convoy_tensor_to_planes(values, tensors->count, shape->channels, (size_t)shape->height * shape->width,
                            row);
    convoy_buffer_pool_free(row);
    return 0;
}

/* Numbers that are not what the slot takes, into a tensor of their own. */
static int convert(struct convoy_tensor_request *tensors, const uint8_t *binary, struct convoy_error *error)
{
    size_t elements = convoy_tensor_elements(&tensors->tensor_shape);
    void *tensor = convoy_buffer_pool_new(elements * (tensors->type == CONVOY_UINT8 ? 1 : sizeof(float)));
    int code = 0;

    if (tensor == NULL)
        return no_memory(error);
    if (tensors->has_data)
        code = convoy_tensor_numbers((const char *)tensors->body + tensors->document.data,
                                     tensors->document.data_length, &tensors->tensor_shape, tensors->type,
                                     tensor, error);
    else
        convoy_datatype_to_float(tensors->type, binary, elements, tensor);
    if (code == 0 && is_turned(tensors))
        code = turn(tensors, tensor, error);
    convoy_buffer_pool_free(tensors->tensor);
    tensors->base = tensors->tensor = tensor;
    return code;
}

int convoy_tensor_request_read_data(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    const uint8_t *binary;
    int code = find_binary(tensors, &binary, error);

    if (code != 0)
        return code;
    if (tensors->type == CONVOY_BYTES)
        return read_files(tensors, binary, error);
    tensors->row_bytes =
        row_elements(tensors->shape) * (tensors->layout == CONVOY_LAYOUT_F32_CHW ? sizeof(float) : 1);
    tensors->base = binary;
    return is_ready(tensors) ? 0 : convert(tensors, binary, error);
}

void convoy_tensor_request_place(struct convoy_tensor_request *tensors,
                                 struct convoy_inference_request *inference)
{
    inference->layout = tensors->layout;
    for (uint32_t i = 0; i < tensors->count; i++)
        inference->samples[i].part =
            tensors->parts != NULL
                ? tensors->parts[i]
                : (struct convoy_part){tensors->base + i * tensors->row_bytes, tensors->row_bytes};
    inference->tensor = tensors->tensor;
    tensors->tensor = NULL;
}

void convoy_tensor_request_end(struct convoy_tensor_request *tensors)
{
    convoy_tensor_document_end(&tensors->document);
    free(tensors->parts);
    convoy_buffer_pool_free(tensors->tensor);
    tensors->parts = NULL;
    tensors->tensor = NULL;
}
