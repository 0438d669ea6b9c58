/* The "instances" of KServe's V1 protocol: which shape they are of, from what the text begins with. */
#include "server/inference/tensor_request.h"

#include "engine/base/json.h"

#include <errno.h>
#include <inttypes.h>

#define REQUEST CONVOY_TENSOR_DOCUMENT_NAME
#define EXAMPLE "send {\"instances\": [{\"b64\": \"<image file>\"}]}, or nested arrays of numbers"

/* What the array holds, as far as that can be said without reading it. */
struct look {
    uint64_t count; /* elements */
    uint32_t depth; /* brackets that the first element begins with, the array's own too */
    bool objects;   /* its elements are objects, as far as the first one tells */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Past the string that begins at at. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end)
            at++;
    return at < end ? at + 1 : end;
}

/* Counts commas outside of what is inside. Whether it is well-formed is seen when it is read. */
static void look_at(const char *text, size_t length, struct look *look)
{
    const char *at = text, *end = text + length;
    uint64_t depth = 0;
    bool leading = true;

    *look = (struct look){0};
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = skip_string(at, end);
            if (leading)
                look->count = 1;
            leading = false;
            continue;
        }
        at++;
        if (is_space(c))
            continue;
        if (leading && c == '[')
            look->depth++;
        else if (leading && c != ']') {
            look->objects = c == '{' && look->depth == 1;
            look->count = 1;
            leading = false;
        }
        if (c == '[' || c == '{')
            depth++;
        else if (c == ']' || c == '}')
            depth--;
        else if (c == ',' && depth == 1)
            look->count++;
    }
}

static int choose_shape(struct convoy_tensor_request *tensors, const struct look *look,
                        struct convoy_error *error)
{
    const struct convoy_model_shape *model = tensors->shape;
    uint32_t dims[3];

    convoy_model_input_dims(model, dims);
    const uint64_t a = dims[0], b = dims[1], c = dims[2]; /* as the network declares them */
    tensors->type = look->objects ? CONVOY_BYTES : convoy_datatype_of(model->input_type);
    tensors->layout = look->objects                               ? CONVOY_LAYOUT_ENCODED
                      : tensors->type != CONVOY_UINT8             ? CONVOY_LAYOUT_F32_CHW
                      : model->input_nhwc || model->channels == 1 ? CONVOY_LAYOUT_U8_HWC
                                                                  : CONVOY_LAYOUT_U8_CHW;
    if (look->objects && !convoy_model_takes_pictures(model))
        return convoy_fail(
            error, -EINVAL,
            "the model takes %u channels, not an image's 1, 3 or 4: send nested arrays of numbers",
            model->channels);
    if (look->objects)
        tensors->tensor_shape = (struct convoy_tensor_shape){.rank = 1, .dims = {look->count}};
    else if (look->depth == 4)
        tensors->tensor_shape = (struct convoy_tensor_shape){.rank = 4, .dims = {look->count, a, b, c}};
    else if (look->depth == 2)
        tensors->tensor_shape = (struct convoy_tensor_shape){.rank = 2, .dims = {look->count, a * b * c}};
    else
        return convoy_fail(
            error, -EINVAL,
            "%s: instances are images, {\"b64\": \"...\"}, or numbers, each nested as [%" PRIu64 "][%" PRIu64
            "][%" PRIu64 "] or flat",
            REQUEST, a, b, c);
    tensors->tensor_shape.instances = true;
    return 0;
}

static int read_instances(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    const char *text = (const char *)tensors->body + tensors->document.data;
    struct look look;

    if (tensors->document.data_length == 0)
        return convoy_fail(error, -EINVAL, "%s lacks 'instances': " EXAMPLE, REQUEST);
    look_at(text, tensors->document.data_length, &look);
    if (*text != '[' || look.count == 0)
        return convoy_fail(error, -EINVAL, "%s: instances must be an array that is not empty: " EXAMPLE,
                           REQUEST);
    if (look.count > tensors->max_rows)
        return convoy_fail(error, -EFBIG,
                           "%s has %" PRIu64
                           " instances and images.max_per_request is %u: send them in several requests",
                           REQUEST, look.count, tensors->max_rows);
    tensors->count = (uint32_t)look.count;
    tensors->has_data = true;
    int code = choose_shape(tensors, &look, error);
    /* An element takes two characters: a few brackets must not take memory. */
    if (code == 0 && convoy_tensor_elements(&tensors->tensor_shape) > tensors->document.data_length)
        code = convoy_tensor_wrong_count(&tensors->tensor_shape, error);
    return code;
}

int convoy_tensor_request_read_instances(struct convoy_tensor_request *tensors, struct convoy_error *error)
{
    struct convoy_json root;
    int code = convoy_tensor_document_read_instances(&tensors->document, (const char *)tensors->body,
                                                     tensors->json_length, error);

    tensors->scaled_decoding = true; /* as the configuration says: there is no parameter */
    if (code != 0 || (code = convoy_json_root(tensors->document.root, REQUEST, &root, error)) != 0 ||
        (code = read_instances(tensors, error)) != 0)
        return code == -EFBIG || code == -ENOMEM ? code : -EINVAL;
    tensors->output_count = tensors->shape->output_count;
    for (uint32_t i = 0; i < tensors->output_count; i++)
        tensors->outputs[i] = (struct convoy_tensor_output){.index = i};
    return 0;
}
