#include "server/api/oip_infer_answer.h"

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

/* Nine significant digits tell any two float32 apart. JSON knows no NaN and no infinity. */
static void write_float(struct convoy_text *text, float value)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.9g", (double)value);

    if (value - value != 0)
        convoy_text_add(text, "null");
    else
        convoy_text_put(text, digits, (size_t)length);
}

static void put_size(struct convoy_text *text, size_t size)
{
    const char bytes[4] = {(char)size, (char)(size >> 8), (char)(size >> 16), (char)(size >> 24)};

    convoy_text_put(text, bytes, sizeof bytes);
}

/* The highest classes of one row, each given to put. */
static void each_class(const struct convoy_inference_request *inference, uint32_t row,
                       const struct convoy_tensor_output *output, struct convoy_text *text,
                       void (*put)(struct convoy_text *text, const char *string, bool first))
{
    struct convoy_ranked_class best[CONVOY_TOP_MAX];
    uint32_t elements = inference->view.shape.output_elements[output->index];
    uint32_t found =
        convoy_predict(output_of(inference, row, output->index), elements, output->classes, false, best);

    for (uint32_t k = 0; k < found; k++) {
        char string[CLASS_BYTES], number[16];
        /* The labels are the first output's. */
        const char *label =
            output->index == 0 ? convoy_model_label(&inference->view, best[k].index, number) : number;
        bool named = label != number;
        snprintf(string, sizeof string, "%f:%u%s%s", (double)best[k].probability, best[k].index,
                 named ? ":" : "", named ? label : "");
        put(text, string, row == 0 && k == 0);
    }
}

static void put_json_class(struct convoy_text *text, const char *string, bool first)
{
    if (!first)
        convoy_text_add(text, ",");
    convoy_text_string(text, string);
}

static void put_binary_class(struct convoy_text *text, const char *string, bool first)
{
    (void)first;
    put_size(text, strlen(string));
    convoy_text_put(text, string, strlen(string));
}

static void write_data(const struct convoy_inference_request *inference,
                       const struct convoy_tensor_output *output, struct convoy_text *text)
{
    uint32_t elements = inference->view.shape.output_elements[output->index];

    convoy_text_add(text, ",\"data\":[");
    for (uint32_t row = 0; row < inference->count; row++) {
        if (output->classes > 0) {
            each_class(inference, row, output, text, put_json_class);
            continue;
        }
        const float *values = output_of(inference, row, output->index);
        for (uint32_t i = 0; i < elements; i++) {
            if (row + i > 0)
                convoy_text_add(text, ",");
            write_float(text, values[i]);
        }
    }
    convoy_text_add(text, "]");
}

static void write_binary(const struct convoy_inference_request *inference,
                         const struct convoy_tensor_output *output, struct convoy_text *text)
{
    uint32_t elements = inference->view.shape.output_elements[output->index];

    for (uint32_t row = 0; row < inference->count; row++) {
        if (output->classes > 0)
            each_class(inference, row, output, text, put_binary_class);
        else
            convoy_text_put(text, (const char *)output_of(inference, row, output->index),
                            elements * sizeof(float));
    }
}

/* binary: bytes that the output has behind the JSON or in its region. */
static void write_parameters(const struct convoy_tensor_output *output, size_t binary,
                             struct convoy_text *text)
{
    if (output->region.name == NULL) {
        convoy_text_add(text, ",\"parameters\":{\"binary_data_size\":");
    } else {
        convoy_text_add(text, ",\"parameters\":{\"shared_memory_region\":");
        convoy_text_string(text, output->region.name);
        convoy_text_add(text, ",\"shared_memory_offset\":");
        convoy_text_natural(text, output->region.offset);
        convoy_text_add(text, ",\"shared_memory_byte_size\":");
    }
    convoy_text_natural(text, binary);
    convoy_text_add(text, "}");
}

static void write_output(const struct convoy_inference_request *inference,
                         const struct convoy_tensor_output *output, size_t binary, struct convoy_text *text)
{
    const struct convoy_model_shape *shape = &inference->view.shape;
    uint32_t elements = shape->output_elements[output->index];

    convoy_text_add(text, "{\"name\":");
    convoy_text_string(text, shape->output_names[output->index]);
    if (output->classes > 0)
        convoy_text_add(text, ",\"datatype\":\"BYTES\",\"shape\":[");
    else
        convoy_text_add(text, ",\"datatype\":\"FP32\",\"shape\":[");
    convoy_text_natural(text, inference->count);
    convoy_text_add(text, ",");
    convoy_text_natural(text, output->classes > 0 && output->classes < elements ? output->classes : elements);
    convoy_text_add(text, "]");
    if (output->binary || output->region.name != NULL)
        write_parameters(output, binary, text);
    else
        write_data(inference, output, text);
    convoy_text_add(text, "}");
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

static int write_region(struct convoy_shared_memory *memory, const struct convoy_tensor_region *region,
                        const struct convoy_text *bytes, struct convoy_error *error)
{
    if (bytes->failed)
        return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");

    return convoy_shared_memory_write(memory, region->name, region->offset, bytes->length, bytes->bytes,
                                      error);
}

/* Behind the JSON or into shared memory; *length is how much it was. */
static int place_output(const struct convoy_tensor_request *tensors,
                        const struct convoy_inference_request *inference, uint32_t i,
                        struct convoy_text *behind, size_t *length, struct convoy_error *error)
{
    const struct convoy_tensor_output *output = &tensors->outputs[i];
    struct convoy_text shared = {0};
    struct convoy_text *text = output->region.name != NULL ? &shared : behind;
    size_t before = text->length;
    int code = 0;

    if (output->binary || output->region.name != NULL)
        write_binary(inference, output, text);
    *length = text->length - before;
    if (output->region.name != NULL)
        code = write_region(tensors->memory, &output->region, &shared, error);
    convoy_text_free(&shared);
    return code;
}

int convoy_oip_infer_write(const struct convoy_tensor_request *tensors,
                           const struct convoy_inference_request *inference, struct convoy_text *text,
                           size_t *json_length, struct convoy_error *error)
{
    const struct convoy_model *model = inference->view.model;
    struct convoy_text behind = {0}; /* first, since the JSON tells its sizes */
    int code = 0;

    convoy_text_add(text, "{\"model_name\":");
    convoy_text_string(text, model->name);
    convoy_text_add(text, ",\"model_version\":");
    convoy_text_string(text, model->version);
    if (tensors->id != NULL) {
        convoy_text_add(text, ",\"id\":");
        convoy_text_string(text, tensors->id);
    }
    convoy_text_add(text, ",\"outputs\":[");
    for (uint32_t i = 0; i < tensors->output_count && code == 0; i++) {
        size_t length;
        code = place_output(tensors, inference, i, &behind, &length, error);
        if (i > 0)
            convoy_text_add(text, ",");
        write_output(inference, &tensors->outputs[i], length, text);
    }
    convoy_text_add(text, "]}");
    *json_length = behind.length > 0 ? text->length : 0;
    convoy_text_put(text, behind.bytes, behind.length);
    text->failed = text->failed || behind.failed;
    convoy_text_free(&behind);
    return code;
}
