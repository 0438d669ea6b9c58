#include "server/api/oip_infer.h"

#include "engine/base/clock.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/decoder_option.h"
#include "server/api/long_answer.h"
#include "server/api/lookup.h"
#include "server/api/oip_infer_answer.h"
#include "server/api/oip_infer_internal.h"
#include "server/api/trace.h"
#include "server/api/v1.h"
#include "server/http/body_quota.h"
#include "server/http/compression.h"
#include "server/http/query.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/inference/admission.h"
#include "server/inference/inference_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Compressing less takes longer than sending it; more would keep the HTTP thread from its other connections.
 */
#define COMPRESS_LEAST 1024u
#define COMPRESS_MOST  (1024u * 1024)

void convoy_oip_infer_drop(struct convoy_oip_infer *infer)
{
    if (infer == NULL || atomic_fetch_sub_explicit(&infer->holders, 1, memory_order_acq_rel) != 1)
        return;
    convoy_model_view_end(&infer->view);
    convoy_tensor_request_end(&infer->tensors);
    convoy_body_quota_give(infer->tensor_counted);
    free(infer->sizes);
    free(infer);
}

/* A length of 0 says that there is no JSON. False with refusal set. */
static bool read_header_length(struct convoy_request *request, size_t *length, enum convoy_infer_form *form)
{
    const char *text = convoy_request_header(request, HEADER_LENGTH);
    uint64_t number = 0;

    *length = 0;
    if (text == NULL || *form == CONVOY_INFER_V1)
        return true;
    if (convoy_query_number(HEADER_LENGTH, text, strlen(text), 0, UINT32_MAX, &number, NULL) != 0) {
        convoy_fail(
            &request->refusal_reason, 0,
            "the header " HEADER_LENGTH
            " must be the length of the JSON in bytes, before the binary data; 0 where there is no JSON");
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    }
    *length = (size_t)number;
    if (number == 0)
        *form = CONVOY_INFER_RAW;
    return true;
}

/* False with refusal set, or without when memory is out. */
static bool begin(struct convoy_request *request, enum convoy_infer_form form, int *retry_after)
{
    size_t json_length;
    enum convoy_image_decoder decoder = convoy_app_of(request)->config->images.decoder;

    /* In V1 there are no parameters of a request but those of its URL. */
    if (form == CONVOY_INFER_V1 && !convoy_decoder_option(request, &decoder))
        return false;
    if (convoy_lookup_model(request) == NULL || !read_header_length(request, &json_length, &form))
        return false;
    struct convoy_oip_infer *infer = malloc(sizeof *infer);
    if (infer == NULL)
        return false;
    memset(infer, 0, offsetof(struct convoy_oip_infer, view));
    if (!convoy_lookup_activated(request, &infer->view, convoy_oip_infer_read_deadline_us(request),
                                 retry_after)) {
        free(infer);
        return false;
    }
    atomic_init(&infer->holders, 1);
    infer->request = request;
    infer->json_length = json_length;
    infer->form = form;
    infer->decoder = decoder;
    infer->step = convoy_oip_infer_first_step(request);
    convoy_call_of(request)->infer = infer;
    return true;
}

static int status_of(int code)
{
    switch (code) {
    case -EFBIG:
    case -EMSGSIZE:
        return CONVOY_HTTP_CONTENT_TOO_LARGE;
    case -ENOTSUP:
        return CONVOY_HTTP_UNSUPPORTED_MEDIA_TYPE;
    case -EACCES:
        return CONVOY_HTTP_FORBIDDEN;
    case -EAGAIN:
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -ECONNABORTED:
        return CONVOY_HTTP_CLIENT_GONE;
    case -ENOMEM:
        return CONVOY_HTTP_INTERNAL_SERVER_ERROR;
    default:
        return CONVOY_HTTP_BAD_REQUEST;
    }
}

/* worker.slot_bytes may have room for pixels alone: floats are four times as large. False with refusal set.
 */
static bool fits_slot(struct convoy_request *request, const struct convoy_tensor_request *tensors)
{
    uint64_t slot = convoy_batcher_slot_bytes(convoy_app_of(request)->pipeline.batcher);

    if (tensors->layout != CONVOY_LAYOUT_F32_CHW || slot == 0 ||
        convoy_slot_round(tensors->row_bytes) <= slot)
        return true;
    convoy_fail(&request->refusal_reason, 0,
                "an image of %zu bytes in FP32 is larger than a slot of %llu (worker.slot_bytes): send UINT8 "
                "or BYTES",
                tensors->row_bytes, (unsigned long long)slot);
    return convoy_request_refuse(request, CONVOY_HTTP_CONTENT_TOO_LARGE);
}

/* Makes the inference request of what was read. False with refusal set, or without when memory is out. */
static bool hand_over(struct convoy_request *request, int *retry_after)
{
    struct convoy_oip_infer *infer = convoy_call_of(request)->infer;
    struct convoy_tensor_request *tensors = &infer->tensors;

    if (infer->code != 0) {
        request->refusal_reason = infer->error;
        return convoy_request_refuse(request, status_of(infer->code));
    }
    if (!fits_slot(request, tensors))
        return false;
    uint64_t timeout_us = tensors->timeout_us > 0
                              ? tensors->timeout_us
                              : convoy_app_of(request)->config->timeout_ms * (uint64_t)1000;
    struct convoy_inference_request *inference = convoy_admit(
        request, &convoy_app_of(request)->pipeline, &infer->view, tensors->count,
        convoy_oip_infer_row_bytes(tensors, &infer->view.shape), convoy_priority_of(tensors->priority),
        convoy_app_deadline_us(request, timeout_us), retry_after);
    if (inference == NULL)
        return false;
    convoy_tensor_request_place(tensors, inference);
    inference->whole = !tensors->scaled_decoding;
    inference->decoder = tensors->decoder;
    for (uint32_t i = 0; infer->sizes != NULL && i < inference->count; i++) {
        inference->samples[i].measured = true;
        inference->samples[i].size = infer->sizes[i];
    }
    inference->body = request->body;
    inference->body_capacity = request->body_capacity + infer->tensor_counted;
    request->body = NULL;
    request->body_capacity = 0;
    infer->tensor_counted = 0;
    convoy_call_of(request)->inference = inference;
    return true;
}

/* The rows' failure is the request's: half a tensor is of no use. */
static int status_of_rows(const struct convoy_inference_request *inference, const char **sentence)
{
    for (uint32_t i = 0; i < inference->count; i++) {
        int status = convoy_inference_request_outcome(inference, i, sentence);
        if (status != CONVOY_HTTP_OK)
            return status;
    }
    return CONVOY_HTTP_OK;
}

static enum convoy_encoding answer_encoding(struct convoy_request *request)
{
    return convoy_encoding_choose(convoy_request_header(request, "Accept-Encoding"));
}

/* Compresses json where the client takes that; returns what went into Content-Encoding, NULL for nothing. */
static const char *compress_answer(struct convoy_request *request, struct convoy_json_writer *json)
{
    enum convoy_encoding encoding = answer_encoding(request);
    uint8_t *packed;
    size_t length;

    if (encoding == CONVOY_ENCODING_NONE || json->failed || json->length < COMPRESS_LEAST ||
        json->length > COMPRESS_MOST ||
        convoy_compress(encoding, (const uint8_t *)json->bytes, json->length, &packed, &length) != 0)
        return NULL;
    convoy_json_writer_free(json);
    *json = (struct convoy_json_writer){.bytes = (char *)packed, .length = length, .capacity = length};
    return convoy_encoding_name(encoding);
}

/* Takes json over. */
static bool respond_outputs(struct convoy_request *request, struct convoy_json_writer *json)
{
    struct convoy_oip_infer *infer = convoy_call_of(request)->infer;
    struct convoy_response_header headers[2];
    bool binary = infer->answer_json_length > 0;
    size_t count = 0;
    char length[24];

    if (infer->answer_encoding != NULL)
        headers[count++] = (struct convoy_response_header){"Content-Encoding", infer->answer_encoding};
    if (binary) {
        snprintf(length, sizeof length, "%zu", infer->answer_json_length);
        headers[count++] = (struct convoy_response_header){HEADER_LENGTH, length};
    }
    return convoy_respond_with(request, CONVOY_HTTP_OK, binary ? CONVOY_TYPE_BYTES : CONVOY_TYPE_JSON, json,
                               CONVOY_RETRY_NONE, headers, count);
}

/* See convoy_long_answer_write; sets the request's infer->code as well. */
static void write_answer(struct convoy_request *request, struct convoy_json_writer *json)
{
    struct convoy_oip_infer *infer = convoy_call_of(request)->infer;
    const struct convoy_inference_request *inference = convoy_call_of(request)->inference;

    if (infer->form == CONVOY_INFER_V1)
        convoy_v1_write(inference, json);
    else
        infer->code = convoy_oip_infer_write(&infer->tensors, inference, json, &infer->answer_json_length,
                                             &infer->error);
    if (infer->code == 0)
        infer->answer_encoding = compress_answer(request, json);
}

/* How many numbers an answer has to write. */
static uint64_t numbers_of(struct convoy_request *request)
{
    const struct convoy_inference_request *inference = convoy_call_of(request)->inference;

    /* To compress a number costs less than to write it, but there is no knowing what else is in the answer.
     */
    if (answer_encoding(request) != CONVOY_ENCODING_NONE)
        return (uint64_t)inference->count * inference->view.shape.outputs_per_row;
    return convoy_oip_infer_numbers(&convoy_call_of(request)->infer->tensors, inference);
}

/* Answers from what became of the rows. */
static bool answer(struct convoy_request *request)
{
    struct convoy_oip_infer *infer = convoy_call_of(request)->infer;
    struct convoy_inference_request *inference = convoy_call_of(request)->inference;
    struct convoy_model_record *model = inference->view.model;
    struct convoy_long_answer *long_answer = convoy_call_of(request)->long_answer;
    struct convoy_json_writer json = {0};
    const char *sentence = NULL;

    if (!convoy_inference_request_complete(inference))
        return convoy_respond_error(request, CONVOY_HTTP_SERVICE_UNAVAILABLE, CONVOY_RETRY_SOON,
                                    "the server is stopping: send the request again");
    convoy_inference_request_cache(inference);
    int status = status_of_rows(inference, &sentence);
    if (long_answer != NULL) {
        status = convoy_long_answer_take(long_answer, &json, &sentence);
    } else if (status == CONVOY_HTTP_OK) {
        if (convoy_long_answer_leave(request, numbers_of(request), write_answer))
            return true;
        write_answer(request, &json);
    }
    if (infer->code != 0) {
        status = status_of(infer->code);
        sentence = infer->error.message;
    }
    uint64_t total_us = convoy_now_us() - request->complete_us;
    convoy_inference_request_count_decoded(inference);
    if (inference->layout == CONVOY_LAYOUT_ENCODED)
        convoy_metrics_observe(model->metrics, CONVOY_STAGE_DECODE,
                               convoy_inference_request_decode_us(inference));
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_WAIT,
                           convoy_inference_request_wait_us(inference, total_us));
    convoy_model_answered(model, status == CONVOY_HTTP_OK, total_us);
    convoy_trace_request(convoy_app_of(request)->trace, request, inference, status);
    if (status == CONVOY_HTTP_OK)
        return respond_outputs(request, &json);
    convoy_json_writer_free(&json);
    return convoy_respond_error(
        request, status, status == CONVOY_HTTP_SERVICE_UNAVAILABLE ? CONVOY_RETRY_SOON : CONVOY_RETRY_NONE,
        sentence);
}

static bool handle(struct convoy_request *request, enum convoy_infer_form form)
{
    struct convoy_call *call = convoy_call_of(request);
    int retry_after = CONVOY_RETRY_SOON;

    if (call->inference != NULL)
        return answer(request); /* resumed: all samples are done */
    if (call->infer == NULL) {
        convoy_lookup_resumed(request);
        if (request->refusal != 0)
            return convoy_respond_refusal(request, retry_after);
        if (!begin(request, form, &retry_after))
            return call->wait != NULL || convoy_respond_refusal(request, retry_after);
        if (!convoy_oip_infer_read(call->infer))
            return request->refusal == 0 || convoy_respond_refusal(request, retry_after);
    } else if (!atomic_load(&call->infer->read)) {
        return convoy_respond_error(request, CONVOY_HTTP_SERVICE_UNAVAILABLE, CONVOY_RETRY_SOON,
                                    "the server is stopping: send the request again");
    }
    if (!hand_over(request, &retry_after))
        return convoy_respond_refusal(request, retry_after);
    return convoy_inference_request_run(call->inference) ? answer(request) : true;
}

bool convoy_oip_infer(struct convoy_request *request)
{
    return handle(request, CONVOY_INFER_OIP);
}

bool convoy_v1_predict(struct convoy_request *request)
{
    return handle(request, CONVOY_INFER_V1);
}
