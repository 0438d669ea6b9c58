#include "server/api/form.h"

#include "engine/base/clock.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/unpack.h"
#include "server/batching/service_time.h"
#include "server/config/config.h"
#include "server/http/multipart.h"
#include "server/http/status.h"
#include "server/inference/decode_pool.h"
#include "server/inference/image_text.h"
#include "server/inference/sample.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is read on the HTTP thread, in a millisecond at most, whatever it holds. */
#define INLINE_FORM (256u * 1024)

struct convoy_form {
    struct convoy_suspension suspension;
    struct convoy_decode_job job;
    struct convoy_request *request;
    enum convoy_form_kind kind;
    bool compressed; /* until it is unpacked */
    uint64_t max_pixels;
    size_t most, count;
    struct convoy_part *parts;
    struct convoy_sample_size *sizes; /* of each part's image; NULL: not known */
    int code;                         /* of reading: 0, or a negative errno with error */
    struct convoy_error error;
    bool left; /* to the pool, and the connection is suspended; the HTTP thread's */
    atomic_bool read;
    int ended; /* 503 or 499, where no thread of the pool read it: the deadline passed, or the client is gone;
                  else 0 */
    char boundary[CONVOY_BOUNDARY_MAX + 1];
};

static void split(struct convoy_form *form)
{
    uint8_t *body = form->request->body;
    size_t length = form->request->body_length;
    form->count = 1;
    switch (form->kind) {
    case CONVOY_FORM_IMAGE:
        form->parts[0] = (struct convoy_part){body, length};
        break;
    case CONVOY_FORM_JSON:
        form->code = convoy_image_text((char *)body, length, form->parts, &form->error);
        break;
    default:
        form->code = convoy_multipart_split(body, length, form->boundary, form->parts, form->most,
                                            &form->count, &form->error);
        break;
    }
}

static void measure(struct convoy_form *form)
{
    if (form->code != 0 || form->count > form->most)
        return;
    form->sizes = malloc((form->count + 1) * sizeof *form->sizes);
    if (form->sizes == NULL)
        return;
    uint64_t pixels = 0;
    for (size_t i = 0; i < form->count; i++) {
        form->sizes[i] = convoy_sample_measure(
            CONVOY_LAYOUT_ENCODED, &(struct convoy_sample){.part = form->parts[i]}, form->max_pixels);
        pixels += form->sizes[i].pixels;
    }
    if (form->request->packed > 0)
        form->code = convoy_unpack_check_pixels(pixels, form->request->packed, &form->error);
}

static uint64_t read_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_form *form = (struct convoy_form *)((char *)job - offsetof(struct convoy_form, job));

    (void)index;
    if (!convoy_suspension_stopping(&form->suspension)) {
        if (form->compressed)
            form->code = convoy_unpack(form->request, &form->error);
        if (form->code == 0)
            split(form);
        measure(form);
        atomic_store(&form->read, true);
    }
    convoy_resume(&form->suspension); /* after which the form may be gone */
    return 0;                         /* says nothing about the cost of decoding */
}

/* See struct convoy_suspension. */
static void look(struct convoy_suspension *suspension, bool gone)
{
    struct convoy_form *form =
        (struct convoy_form *)((char *)suspension - offsetof(struct convoy_form, suspension));

    if (convoy_decode_pool_withdraw(convoy_app_of(suspension->request)->pipeline.decode_pool, &form->job) !=
        0)
        return;
    form->ended = gone ? CONVOY_HTTP_CLIENT_GONE : CONVOY_HTTP_SERVICE_UNAVAILABLE;
    convoy_resume(suspension);
}

/* Room for as many parts as the body can hold, and as may be; NULL when memory is out. */
static struct convoy_form *new_form(struct convoy_request *request, enum convoy_form_kind kind,
                                    const char *boundary)
{
    const struct convoy_config *config = convoy_app_of(request)->config;
    size_t possible = request->body_length / CONVOY_PART_LEAST + 1, most = config->images.max_per_request;
    struct convoy_form *form = calloc(1, sizeof *form);

    if (form == NULL)
        return NULL;
    form->request = request;
    form->kind = kind;
    form->compressed = convoy_unpack_encoding(request) != NULL;
    form->max_pixels = config->images.max_pixels;
    form->most = most < possible || form->compressed ? most : possible;
    if (kind == CONVOY_FORM_PARTS)
        snprintf(form->boundary, sizeof form->boundary, "%s", boundary);
    form->parts = malloc(form->most * sizeof *form->parts);
    if (form->parts == NULL) {
        free(form);
        return NULL;
    }
    return form;
}

/* False when it is read here and now, or, with refusal set, not at all. */
static bool leave_to_pool(struct convoy_request *request, struct convoy_form *form, uint64_t deadline_us)
{
    if (request->body_length <= INLINE_FORM && !form->compressed)
        return false;
    form->job = (struct convoy_decode_job){.count = 1, .work = read_in_pool, .first = !form->compressed};
    if (form->compressed) { /* which takes its turn: a few bytes may be many */
        form->job.size = convoy_unpack_hint(request) + 1;
        if (convoy_decode_pool_wait_us(convoy_app_of(request)->pipeline.decode_pool, form->job.size) >
            convoy_service_time_spendable_us(deadline_us, convoy_now_us())) {
            convoy_fail(
                &request->refusal_reason, 0,
                "so much waits to be read that this request would miss its deadline: try again later, "
                "send it without Content-Encoding, or allow more with timeout_ms");
            return convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
        }
    }
    convoy_suspension_init(&form->suspension, request);
    form->suspension.look = look;
    form->suspension.deadline_us = deadline_us;
    if (convoy_decode_pool_suspend(convoy_app_of(request)->pipeline.decode_pool, &form->suspension,
                                   &form->job)) {
        form->left = true;
        return true;
    }
    convoy_fail(&request->refusal_reason, 0, "the server is stopping: send the request again");
    return convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
}

static int status_of(int code)
{
    switch (code) {
    case -ENOTSUP:
        return CONVOY_HTTP_UNSUPPORTED_MEDIA_TYPE;
    case -EMSGSIZE:
    case -EFBIG:
        return CONVOY_HTTP_CONTENT_TOO_LARGE;
    case -EAGAIN:
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -ENOMEM:
        return CONVOY_HTTP_INTERNAL_SERVER_ERROR;
    default:
        return CONVOY_HTTP_BAD_REQUEST;
    }
}

/* False with refusal set. */
static bool is_well_formed(struct convoy_request *request, const struct convoy_form *form)
{
    if (form->code != 0) {
        request->refusal_reason = form->error;
        return convoy_request_refuse(request, status_of(form->code));
    }
    if (form->count == 0) {
        convoy_fail(&request->refusal_reason, 0,
                    "the form has no part: send an image in each, with curl by -F image=@image.jpg");
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    }
    if (form->count > form->most) {
        convoy_fail(
            &request->refusal_reason, 0,
            "the form has %zu images or more and images.max_per_request is %u: send them in several requests",
            form->count, convoy_app_of(request)->config->images.max_per_request);
        return convoy_request_refuse(request, CONVOY_HTTP_CONTENT_TOO_LARGE);
    }
    return true;
}

bool convoy_form_read(struct convoy_request *request, enum convoy_form_kind kind, const char *boundary,
                      uint64_t deadline_us, size_t *count)
{
    struct convoy_call *call = convoy_call_of(request);

    if (call->form == NULL) {
        call->form = new_form(request, kind, boundary);
        if (call->form == NULL || leave_to_pool(request, call->form, deadline_us) || request->refusal != 0)
            return false;
        split(call->form);
        atomic_store(&call->form->read, true);
    }
    call->form->left = false; /* it has come back */
    if (call->form->ended != 0) {
        convoy_fail(&request->refusal_reason, 0,
                    call->form->ended == CONVOY_HTTP_CLIENT_GONE
                        ? CONVOY_CLIENT_GONE_SENTENCE
                        : "the deadline passed before the form could be read: try again later, or allow more "
                          "with timeout_ms");
        return convoy_request_refuse(request, call->form->ended);
    }
    if (!atomic_load(&call->form->read)) {
        convoy_fail(&request->refusal_reason, 0, "the server is stopping: send the request again");
        return convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
    }
    *count = call->form->count;
    return is_well_formed(request, call->form);
}

bool convoy_form_waits(const struct convoy_form *form)
{
    return form != NULL && form->left;
}

void convoy_form_place(const struct convoy_form *form, struct convoy_inference_request *inference)
{
    for (uint32_t i = 0; i < inference->count; i++) {
        inference->samples[i].part = form->parts[i];
        inference->samples[i].measured = form->sizes != NULL;
        if (form->sizes != NULL)
            inference->samples[i].size = form->sizes[i];
    }
}

void convoy_form_free(struct convoy_form *form)
{
    if (form == NULL)
        return;
    free(form->parts);
    free(form->sizes);
    free(form);
}
