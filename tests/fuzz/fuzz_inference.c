/* An inference request: the first two bytes say how much of the rest is its JSON, 65535: all of it; 0: none,
 * as in a raw binary request; 65534: it is JSON with an image;
 * 65533: all of it is JSON of KServe's V1 protocol. */
#include "engine/base/json_plain.h"
#include "server/inference/image_text.h"
#include "server/inference/tensor_request.h"
#include "tests/unit/same_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A document that was read as plain JSON is what the parser makes of the same text with so many spaces behind
 * it that it is not plain. */
static void compare(const char *text, size_t length)
{
    struct convoy_tensor_document plain = {0}, parsed = {0};
    size_t padded_length = length + CONVOY_JSON_PLAIN_BYTES;
    char *padded = malloc(padded_length);
    struct convoy_error error;

    if (padded != NULL && convoy_tensor_document_read(&plain, text, length, &error) == 0 &&
        plain.plain != NULL) {
        memcpy(padded, text, length);
        memset(padded + length, ' ', CONVOY_JSON_PLAIN_BYTES);
        if (convoy_tensor_document_read(&parsed, padded, padded_length, &error) != 0 ||
            parsed.plain != NULL || parsed.data_length != 0 || plain.data_length != 0 ||
            !same_json(plain.root, parsed.root))
            abort();
    }
    convoy_tensor_document_end(&plain);
    convoy_tensor_document_end(&parsed);
    free(padded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct convoy_model_shape shape = {.channels = 3,
                                                    .height = 1,
                                                    .width = 2,
                                                    .outputs_per_row = 5,
                                                    .output_count = 2,
                                                    .output_elements = {3, 2},
                                                    .input_name = "x",
                                                    .output_names = {"y", "z"}};
    struct convoy_error error;

    if (size < 2)
        return 0;
    size_t json = (size_t)data[0] | (size_t)data[1] << 8, length = size - 2;
    uint8_t *body = malloc(length > 0 ? length : 1); /* its own block: an over-read shows */
    if (body == NULL)
        return 0;
    memcpy(body, data + 2, length);
    if (json == 65534) {
        struct convoy_part part;
        if (convoy_image_text((char *)body, length, &part, &error) == 0 &&
            (part.bytes < body || part.length > length || part.bytes + part.length > body + length))
            abort();
        free(body);
        return 0;
    }
    struct convoy_tensor_request tensors = {.shape = &shape,
                                            .max_rows = 16,
                                            .body = body,
                                            .length = length,
                                            .json_length = json < length ? json : length};
    if (json != 0 && json != 65533)
        compare((const char *)body, tensors.json_length);
    int code = json == 0       ? convoy_tensor_request_read_raw(&tensors, &error)
               : json == 65533 ? convoy_tensor_request_read_instances(&tensors, &error)
                               : convoy_tensor_request_read_header(&tensors, &error);
    if (code == 0)
        (void)convoy_tensor_request_read_data(&tensors, &error);
    convoy_tensor_request_end(&tensors);
    free(body);
    return 0;
}
