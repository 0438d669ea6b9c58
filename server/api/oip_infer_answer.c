#include "server/api/oip_infer_answer.h"

#include "server/api/oip_internal.h"
#include "server/inference/prediction.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* "value:index:label", or "value:index" for a class without a label. */
#define CLASS_BYTES 512

static const float *output_of(const struct convoy_inference_request *inference, uint32_t row, uint32_t output)
{
    const struct convoy_model_shape *shape = &inference->view.shape;
    const float *values = inference->outputs + (size_t)row * shape->outputs_per_row;

    for (uint32_t i = 0; i < output; i++)
        values += shape->output_elements[i];
    return values;
}

static void put_size(struct convoy_json_writer *json, size_t size)
{
    const char bytes[4] = {(char)size, (char)(size >> 8), (char)(size >> 16), (char)(size >> 24)};

    convoy_json_writer_append(json, bytes, sizeof bytes);
}

/* The highest classes of one row, each given to put. */
static void each_class(const struct convoy_inference_request *inference, uint32_t row,
                       const struct convoy_tensor_output *output, struct convoy_json_writer *json,
                       void (*put)(struct convoy_json_writer *json, const char *string))
{
    struct convoy_ranked_class best[CONVOY_TOP_MAX];
    uint32_t elements = inference->view.shape.output_elements[output->index];
    const struct convoy_prediction_rule rule = {output->classes, CONVOY_ACTIVATION_NONE, 0};
    uint32_t found = convoy_predict(output_of(inference, row, output->index), elements, &rule, best);

    for (uint32_t k = 0; k < found; k++) {
        char string[CLASS_BYTES], number[16];
        /* The labels are the first output's. */
        const char *label =
            output->index == 0 ? convoy_model_label(&inference->view, best[k].index, number) : number;
        bool named = label != number;
        snprintf(string, sizeof string, "%f:%u%s%s", (double)best[k].probability, best[k].index,
                 named ? ":" : "", named ? label : "");
        put(json, string);
    }
}

static void put_binary_class(struct convoy_json_writer *json, const char *string)
{
    put_size(json, strlen(string));
    convoy_json_writer_append(json, string, strlen(string));
}

static void write_data(const struct convoy_inference_request *inference,
                       const struct convoy_tensor_output *output, struct convoy_json_writer *json)
{
    uint32_t elements = inference->view.shape.output_elements[output->index];

    convoy_json_write_key(json, "data");
    convoy_json_write_begin_array(json);
    for (uint32_t row = 0; row < inference->count; row++) {
        if (output->classes > 0) {
            each_class(inference, row, output, json, convoy_json_write_string);
            continue;
        }
        const float *values = output_of(inference, row, output->index);
        for (uint32_t i = 0; i < elements; i++)
            convoy_json_write_float(json, values[i]);
    }
    convoy_json_write_end_array(json);
}

static void write_binary(const struct convoy_inference_request *inference,
                         const struct convoy_tensor_output *output, struct convoy_json_writer *json)
{
    uint32_t elements = inference->view.shape.output_elements[output->index];

    for (uint32_t row = 0; row < inference->count; row++) {
        if (output->classes > 0)
            each_class(inference, row, output, json, put_binary_class);
        else
            convoy_json_writer_append(json, (const char *)output_of(inference, row, output->index),
                                      elements * sizeof(float));
    }
}

static void write_binary_size(size_t bytes, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "parameters");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "binary_data_size");
    convoy_json_write_unsigned(json, bytes);
    convoy_json_write_end_object(json);
}

/* binary: bytes that the output has behind the JSON. Of an output in shared memory the client knows where it
 * is: as in Triton's answer there are no parameters, behind which NVIDIA's C++ client wants binary_data_size.
 */
static void write_output(const struct convoy_inference_request *inference,
                         const struct convoy_tensor_output *output, size_t binary,
                         struct convoy_json_writer *json)
{
    const struct convoy_model_shape *shape = &inference->view.shape;
    uint32_t elements = shape->output_elements[output->index];

    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, shape->output_names[output->index]);
    convoy_json_write_key(json, "datatype");
    convoy_json_write_string(json, output->classes > 0 ? "BYTES" : "FP32");
    convoy_json_write_key(json, "shape");
    convoy_json_write_begin_array(json);
    convoy_json_write_unsigned(json, inference->count);
    if (output->classes > 0)
        convoy_json_write_unsigned(json, output->classes < elements ? output->classes : elements);
    else
        convoy_oip_write_output_dims(shape, output->index, json);
    convoy_json_write_end_array(json);
    if (output->region.name == NULL && output->binary)
        write_binary_size(binary, json);
    else if (output->region.name == NULL)
        write_data(inference, output, json);
    convoy_json_write_end_object(json);
}

/* Ranking the classes of a row costs about as much as writing a number for each. */
uint64_t convoy_oip_infer_numbers(const struct convoy_tensor_request *tensors,
                                  const struct convoy_inference_request *inference)
{
    uint64_t numbers = 0;

    for (uint32_t i = 0; i < tensors->output_count; i++) {
        const struct convoy_tensor_output *output = &tensors->outputs[i];
        if (output->classes > 0 || !(output->binary || output->region.name != NULL))
            numbers += (uint64_t)inference->count * inference->view.shape.output_elements[output->index];
    }
    return numbers;
}

/* What a class and a number take in JSON, and a binary number that is copied behind it. */
#define SHOWN_CLASS  80u
#define SHOWN_NUMBER 16u
#define SHOWN_BINARY 8u

uint64_t convoy_oip_infer_row_bytes(const struct convoy_tensor_request *tensors,
                                    const struct convoy_model_shape *shape)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < tensors->output_count; i++) {
        const struct convoy_tensor_output *output = &tensors->outputs[i];
        uint64_t elements = shape->output_elements[output->index];
        if (output->classes > 0)
            bytes += SHOWN_CLASS * (output->classes < elements ? output->classes : elements);
        else
            bytes += elements * (output->binary || output->region.name != NULL ? SHOWN_BINARY : SHOWN_NUMBER);
    }
    return bytes;
}

static int write_region(struct convoy_shared_memory *memory, const struct convoy_tensor_region *region,
                        const struct convoy_json_writer *bytes, struct convoy_error *error)
{
    if (bytes->failed)
        return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");

    return convoy_shared_memory_write(memory, region->name, region->offset, bytes->length, bytes->bytes,
                                      error);
}

/* Writes an output behind the JSON or into shared memory; *length is its bytes. */
static int place_output(const struct convoy_tensor_request *tensors,
                        const struct convoy_inference_request *inference, uint32_t i,
                        struct convoy_json_writer *behind, size_t *length, struct convoy_error *error)
{
    const struct convoy_tensor_output *output = &tensors->outputs[i];
    struct convoy_json_writer shared = {0};
    struct convoy_json_writer *binary = output->region.name != NULL ? &shared : behind;
    size_t before = binary->length;
    int code = 0;

    if (output->binary || output->region.name != NULL)
        write_binary(inference, output, binary);
    *length = binary->length - before;
    if (output->region.name != NULL)
        code = write_region(tensors->memory, &output->region, &shared, error);
    convoy_json_writer_free(&shared);
    return code;
}

/* Of rows that were image files: who decoded them. */
static void write_decoder(const struct convoy_inference_request *inference, struct convoy_json_writer *json)
{
    const char *decoder = convoy_inference_request_decoder(inference, 0);

    if (decoder == NULL)
        return;
    for (uint32_t i = 1; i < inference->count; i++)
        if (strcmp(convoy_inference_request_decoder(inference, i), decoder) != 0) {
            decoder = "mixed";
            break;
        }
    convoy_json_write_key(json, "parameters");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "decoder");
    convoy_json_write_string(json, decoder);
    convoy_json_write_end_object(json);
}

int convoy_oip_infer_write(const struct convoy_tensor_request *tensors,
                           const struct convoy_inference_request *inference, struct convoy_json_writer *json,
                           size_t *json_length, struct convoy_error *error)
{
    const struct convoy_model_record *model = inference->view.model;
    struct convoy_json_writer behind = {0}; /* first, since the JSON tells its sizes */
    int code = 0;

    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "model_name");
    convoy_json_write_string(json, model->name);
    convoy_json_write_key(json, "model_version");
    convoy_json_write_string(json, model->version);
    if (tensors->id != NULL) {
        convoy_json_write_key(json, "id");
        convoy_json_write_string(json, tensors->id);
    }
    write_decoder(inference, json);
    convoy_json_write_key(json, "outputs");
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < tensors->output_count && code == 0; i++) {
        size_t length;
        code = place_output(tensors, inference, i, &behind, &length, error);
        write_output(inference, &tensors->outputs[i], length, json);
    }
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
    *json_length = behind.length > 0 ? json->length : 0;
    convoy_json_writer_append(json, behind.bytes, behind.length);
    json->failed = json->failed || behind.failed;
    convoy_json_writer_free(&behind);
    return code;
}
