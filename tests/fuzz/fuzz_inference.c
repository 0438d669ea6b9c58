/* An inference request: the first two bytes say how much of the rest is its JSON, 65535: all of it; 0: none,
 * as in a raw binary request; 65534: it is JSON with an image;
 * 65533: all of it is JSON of KServe's V1 protocol. */
#include "server/inference/image_text.h"
#include "server/inference/tensor_request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    int code = json == 0       ? convoy_tensor_request_read_raw(&tensors, &error)
               : json == 65533 ? convoy_tensor_request_read_instances(&tensors, &error)
                               : convoy_tensor_request_read_header(&tensors, &error);
    if (code == 0)
        (void)convoy_tensor_request_read_data(&tensors, &error);
    convoy_tensor_request_end(&tensors);
    free(body);
    return 0;
}
