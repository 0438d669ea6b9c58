/* An inference request of the Open Inference Protocol (KServe V2, REST) and its binary tensor data extension:
 * from the body to rows for a slot, and what is wanted of the answer.
 *
 * Reading is in two steps, so that the large one can be left to another thread: the header (JSON, its numbers
 * cut out: tensor_cut.h; or none), then the data. Pure functions over the body; one thread at a time. Errors
 * are -EINVAL (400), -EFBIG (413), -EACCES (403), -ENOMEM and those of convoy_shared_memory_read(), with a
 * sentence. */
#ifndef CONVOY_SERVER_TENSOR_REQUEST_H
#define CONVOY_SERVER_TENSOR_REQUEST_H

#include "engine/base/error.h"
#include "server/inference/datatype.h"
#include "server/inference/inference_request.h"
#include "server/inference/shared_memory.h"
#include "server/inference/tensor_document.h"
#include "server/inference/tensor_text.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_TENSOR_REQUEST_OUTPUTS 16 /* as many as a model has, convoy_model_shape */

/* A stretch of a registered region of shared memory. */
struct convoy_tensor_region {
    const char *name; /* NULL: none */
    uint64_t offset, bytes;
};

struct convoy_tensor_output {
    uint32_t index;   /* among the model's outputs */
    uint32_t classes; /* how many of the highest, as "value:index:label"; 0: the tensor itself */
    bool binary;      /* behind the answer's JSON instead of in it */
    struct convoy_tensor_region region; /* there instead of in the answer */
};

struct convoy_tensor_request {
    /* What the caller sets; all of it outlives this struct. */
    const struct convoy_model_shape *shape;
    uint32_t max_rows;
    struct convoy_shared_memory *memory; /* NULL: this client may not use it */
    uint8_t *body;                       /* changed in place: base64 is decoded there */
    size_t length, json_length;

    /* The header's. */
    const char *id;                    /* NULL: none */
    uint64_t timeout_us;               /* 0: not said */
    uint32_t priority;                 /* a number as in priority.h */
    bool scaled_decoding;              /* false: images are decoded whole, whatever the configuration says */
    enum convoy_image_decoder decoder; /* of image files; set by the caller, unless the header says another */
    uint32_t count;                    /* rows */
    enum convoy_input_layout layout;
    uint32_t output_count; /* in the order of the request, or the model's */
    struct convoy_tensor_output outputs[CONVOY_TENSOR_REQUEST_OUTPUTS];

    /* The data's: rows of row_bytes at base, or parts; both may point into body or tensor. */
    const uint8_t *base;
    size_t row_bytes;
    struct convoy_part *parts;
    void *tensor;

    /* Its own. */
    struct convoy_tensor_document document;
    enum convoy_datatype type;
    struct convoy_tensor_shape tensor_shape;
    bool has_data;         /* "data" in the JSON; else it is binary, behind the JSON or in region */
    uint64_t binary_bytes; /* of the binary data */
    struct convoy_tensor_region region;
};

int convoy_tensor_request_read_header(struct convoy_tensor_request *tensors, struct convoy_error *error);
/* The same for a body without JSON (Triton's raw binary request): one or more rows of the input as the
 * metadata describes it; all outputs are wanted, as binary data. */
int convoy_tensor_request_read_raw(struct convoy_tensor_request *tensors, struct convoy_error *error);

/* The same for KServe's V1 protocol, {"instances": [...]}: image files as {"b64": "..."}, or rows of the
 * input as the metadata describes it, each nested or flat; all outputs are wanted, in JSON. */
int convoy_tensor_request_read_instances(struct convoy_tensor_request *tensors, struct convoy_error *error);

/* Bytes that convoy_tensor_request_read_data() allocates, 0 where rows are used as they lie in the body. */
size_t convoy_tensor_request_memory(const struct convoy_tensor_request *tensors);

int convoy_tensor_request_read_data(struct convoy_tensor_request *tensors, struct convoy_error *error);

/* Tells rows, of which there are count, where they are. rows takes tensor over. */
void convoy_tensor_request_place(struct convoy_tensor_request *tensors,
                                 struct convoy_inference_request *inference);

void convoy_tensor_request_end(
    struct convoy_tensor_request *tensors); /* frees what it made; all-zero is allowed */

#endif
