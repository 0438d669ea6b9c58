/* POST .../infer: what oip_infer.c, which answers, and oip_infer_read.c, which reads the body, share. */
#ifndef CONVOY_SERVER_OIP_INFER_INTERNAL_H
#define CONVOY_SERVER_OIP_INFER_INTERNAL_H

#include "server/http/request.h"
#include "server/http/suspension.h"
#include "server/inference/tensor_request.h"

#include <stdatomic.h>

#define HEADER_LENGTH "Inference-Header-Content-Length"

enum convoy_oip_infer_step {
    CONVOY_OIP_INFER_UNPACK,
    CONVOY_OIP_INFER_HEADER,
    CONVOY_OIP_INFER_DATA,
    CONVOY_OIP_INFER_DONE
};

/* What the body is, and with it the answer. */
enum convoy_infer_form {
    CONVOY_INFER_OIP, /* of the Open Inference Protocol: JSON, and maybe binary data behind it */
    CONVOY_INFER_RAW, /* of the same: binary data alone */
    CONVOY_INFER_V1   /* of KServe's V1 protocol */
};

/* Held by the request and, while the pool reads, by the pool. */
struct convoy_oip_infer {
    atomic_uint holders;
    struct convoy_suspension suspension;
    struct convoy_decode_job job;
    struct convoy_request *request;
    enum convoy_oip_infer_step step; /* that comes next */
    size_t json_length;              /* 0: the whole body, or, where raw, nothing */
    enum convoy_infer_form form;
    enum convoy_image_decoder decoder; /* unless the header says another */
    size_t tensor_counted;
    struct convoy_sample_size *sizes; /* of each image; NULL: not known */
    struct convoy_tensor_request tensors;
    int code;         /* of the step that failed */
    atomic_bool read; /* by the pool */

    /* Of the answer, with its JSON. */
    size_t answer_json_length;
    const char *answer_encoding; /* NULL: none */

    /* From view on nothing is zero at first: it is most of the struct, and written before it is read. */
    struct convoy_model_view view; /* holds nothing once the inference request has taken that over */
    struct convoy_error error;     /* with code */
};

/* With what reading begins: unpacking where the body is compressed. */
enum convoy_oip_infer_step convoy_oip_infer_first_step(const struct convoy_request *request);

/* Reads the request, after which infer->code says how that went (an errno, with infer->error); false when it
 * is not read yet: the connection is suspended and the decode pool reads, after which infer->read is set, or,
 * with the request's refusal set, it will not be. On the HTTP thread. */
bool convoy_oip_infer_read(struct convoy_oip_infer *infer);

/* The deadline while a request is read that may ask for another one in what is not read yet. */
uint64_t convoy_oip_infer_read_deadline_us(const struct convoy_request *request);

#endif
