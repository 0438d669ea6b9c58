/* From a body to an inference request: here, or in the decode pool where that takes long. */
#include "server/api/oip_infer_internal.h"

#include "engine/base/clock.h"
#include "server/api/app.h"
#include "server/api/oip_infer.h"
#include "server/api/unpack.h"
#include "server/batching/service_time.h"
#include "server/http/body_quota.h"
#include "server/http/buffer_pool.h"
#include "server/http/local_client.h"
#include "server/http/status.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

/* What is read on the HTTP thread, in about a millisecond; the rest is left to the decode pool. */
#define INLINE_JSON   (32u * 1024)
#define INLINE_TENSOR (1024u * 1024)
#define INLINE_IMAGES (256u * 1024)

static int read_header(struct convoy_oip_infer *infer)
{
    struct convoy_request *request = infer->request;
    struct convoy_tensor_request *tensors = &infer->tensors;

    if (infer->json_length > request->body_length)
        return convoy_fail(&infer->error, -EINVAL, HEADER_LENGTH " is %zu, more than the body's %zu bytes",
                           infer->json_length, request->body_length);
    if (request->body_length == 0 && infer->form == CONVOY_INFER_V1)
        return convoy_fail(&infer->error, -EINVAL,
                           "the body is empty: send {\"instances\": [{\"b64\": \"<image file>\"}]}");
    if (request->body_length == 0 && infer->form == CONVOY_INFER_OIP)
        return convoy_fail(
            &infer->error, -EINVAL,
            "the body is empty: send {\"inputs\": [{\"name\", \"datatype\", \"shape\", \"data\"}]}");
    tensors->shape = &infer->view.shape;
    tensors->max_rows = convoy_app_of(request)->config->images.max_per_request;
    tensors->decoder = infer->decoder;
    tensors->memory = convoy_app_of(request)->shared_memory;
    if (tensors->memory != NULL && !convoy_client_is_local(request))
        tensors->memory = NULL;
    tensors->body = request->body;
    tensors->length = request->body_length;
    if (infer->form == CONVOY_INFER_RAW)
        return convoy_tensor_request_read_raw(tensors, &infer->error);
    tensors->json_length = infer->json_length > 0 ? infer->json_length : request->body_length;
    if (infer->form == CONVOY_INFER_V1)
        return convoy_tensor_request_read_instances(tensors, &infer->error);
    return convoy_tensor_request_read_header(tensors, &infer->error);
}

static int read_data(struct convoy_oip_infer *infer)
{
    size_t bytes = convoy_tensor_request_memory(&infer->tensors);

    size_t limit = convoy_unpack_memory_limit(infer->request, bytes);
    if (bytes > limit)
        return convoy_fail(
            &infer->error, -EFBIG,
            "a tensor of %zu bytes is more than the memory that is set aside for all requests: send "
            "fewer rows",
            bytes);
    if (!convoy_body_quota_take(bytes, limit))
        return convoy_unpack_no_memory(&infer->error);
    infer->tensor_counted = bytes;
    return convoy_tensor_request_read_data(&infer->tensors, &infer->error);
}

/* Looks at the images' headers, which takes time in proportion to the body. */
static int measure(struct convoy_oip_infer *infer)
{
    const struct convoy_tensor_request *tensors = &infer->tensors;
    uint64_t max_pixels = convoy_app_of(infer->request)->config->images.max_pixels, sum = 0;

    if (tensors->parts == NULL)
        return 0;
    infer->sizes = malloc((tensors->count + (size_t)1) * sizeof *infer->sizes);
    if (infer->sizes == NULL)
        return convoy_fail(&infer->error, -ENOMEM, "the server is out of memory: try again later");
    for (uint32_t i = 0; i < tensors->count; i++) {
        const struct convoy_sample sample = {.part = tensors->parts[i]};
        infer->sizes[i] = convoy_sample_measure(CONVOY_LAYOUT_ENCODED, &sample, max_pixels);
        sum += infer->sizes[i].pixels;
    }
    size_t packed = infer->request->packed;
    return packed > 0 ? convoy_unpack_check_pixels(sum, packed, &infer->error) : 0;
}

static void take_step(struct convoy_oip_infer *infer)
{
    switch (infer->step) {
    case CONVOY_OIP_INFER_UNPACK:
        infer->code = convoy_unpack(infer->request, &infer->error);
        break;
    case CONVOY_OIP_INFER_HEADER:
        infer->code = read_header(infer);
        break;
    default:
        infer->code = read_data(infer);
        break;
    }
    infer->step++;
}

uint64_t convoy_oip_infer_read_deadline_us(const struct convoy_request *request)
{
    return convoy_app_deadline_us(request, convoy_app_of(request)->config->timeout_ms * (uint64_t)1000);
}

static uint64_t read_deadline_us(const struct convoy_oip_infer *infer)
{
    return convoy_oip_infer_read_deadline_us(infer->request);
}

/* Is the next step too long for the HTTP thread? The size of what a compressed body holds is not known. */
static bool step_is_long(const struct convoy_oip_infer *infer)
{
    size_t json = infer->json_length > 0 ? infer->json_length : infer->request->body_length;

    if (infer->form == CONVOY_INFER_RAW)
        json = 0;
    return infer->step == CONVOY_OIP_INFER_UNPACK ||
           (infer->step == CONVOY_OIP_INFER_HEADER && json > INLINE_JSON) ||
           (infer->step == CONVOY_OIP_INFER_DATA &&
            (convoy_tensor_request_memory(&infer->tensors) > INLINE_TENSOR ||
             (infer->tensors.layout == CONVOY_LAYOUT_ENCODED &&
              infer->request->body_length > INLINE_IMAGES)));
}

static int deadline_passed(struct convoy_error *error)
{
    return convoy_fail(error, -EAGAIN,
                       "the deadline passed before the request could be read: try again later");
}

/* Fails when the answer would come too late. */
static bool is_too_late(struct convoy_oip_infer *infer)
{
    if (convoy_suspension_stopping(&infer->suspension))
        infer->code = convoy_fail(&infer->error, -EAGAIN, "the server is stopping: send the request again");
    else if (convoy_now_us() >= read_deadline_us(infer))
        infer->code = deadline_passed(&infer->error);
    return infer->code != 0;
}

static bool comes_too_late(const struct convoy_oip_infer *infer, uint64_t size)
{
    return convoy_decode_pool_wait_us(convoy_app_of(infer->request)->pipeline.decode_pool, size) >
           convoy_service_time_spendable_us(read_deadline_us(infer), convoy_now_us());
}

static int too_much_waits(struct convoy_error *error)
{
    return convoy_fail(
        error, -EAGAIN,
        "so much waits to be read that this request would miss its deadline: try again later, or "
        "send tensors as binary data");
}

/* A body that unpacks to more than it was counted for is judged again: it is too late to wait, but not to
 * give up. */
static void refuse_larger(struct convoy_oip_infer *infer)
{
    size_t size = infer->request->body_length + 1;

    if (infer->code == 0 && size > infer->job.size && comes_too_late(infer, size))
        infer->code = too_much_waits(&infer->error);
}

static uint64_t read_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_oip_infer *infer =
        (struct convoy_oip_infer *)((char *)job - offsetof(struct convoy_oip_infer, job));
    uint64_t begun_us = convoy_now_us(), took_us, size;

    (void)index;
    while (infer->code == 0 && infer->step != CONVOY_OIP_INFER_DONE) {
        if (is_too_late(infer))
            break;
        take_step(infer);
        refuse_larger(infer);
    }
    if (infer->code == 0 && infer->tensors.layout == CONVOY_LAYOUT_ENCODED)
        infer->code = measure(infer);
    /* What its bytes cost, were there as many as the job was counted for. */
    size = infer->request->body_length + 1;
    took_us = convoy_now_us() - begun_us;
    if (size > infer->job.size)
        took_us = (uint64_t)((double)took_us * (double)infer->job.size / (double)size);
    if (infer->code != 0)
        took_us = 0;
    atomic_store(&infer->read, true);
    convoy_resume(&infer->suspension);
    convoy_oip_infer_drop(infer);
    return took_us;
}

/* What is to be read, in bytes, as far as that is known: gzip ends with the size that it unpacks to, and
 * where that is not so, refuse_larger() sees it. */
static size_t size_to_read(const struct convoy_oip_infer *infer)
{
    const struct convoy_request *request = infer->request;
    size_t size = request->body_length;

    if (infer->step == CONVOY_OIP_INFER_UNPACK)
        size = convoy_unpack_hint(request);
    return size + 1;
}

/* The client is gone, or the deadline has passed: what no thread has begun to read is not read. See struct
 * convoy_suspension. */
static void look(struct convoy_suspension *suspension, bool gone)
{
    struct convoy_oip_infer *infer =
        (struct convoy_oip_infer *)((char *)suspension - offsetof(struct convoy_oip_infer, suspension));

    if (convoy_decode_pool_withdraw(convoy_app_of(infer->request)->pipeline.decode_pool, &infer->job) != 0)
        return;
    infer->code = gone ? convoy_fail(&infer->error, -ECONNABORTED, CONVOY_CLIENT_GONE_SENTENCE)
                       : deadline_passed(&infer->error);
    atomic_store(&infer->read, true);
    convoy_resume(suspension);
    convoy_oip_infer_drop(infer);
}

/* Leaves the rest to the pool, or sets the refusal when that would take too long, or the daemon stops. */
static void leave_to_pool(struct convoy_oip_infer *infer)
{
    struct convoy_request *request = infer->request;
    size_t size = size_to_read(infer);

    /* A byte of JSON costs about as much as a pixel of a JPEG. */
    infer->job = (struct convoy_decode_job){.count = 1, .size = size, .work = read_in_pool};
    if (comes_too_late(infer, size)) {
        too_much_waits(&request->refusal_reason);
        convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
        return;
    }
    convoy_suspension_init(&infer->suspension, request);
    infer->suspension.look = look;
    infer->suspension.deadline_us = read_deadline_us(infer);
    atomic_fetch_add_explicit(&infer->holders, 1, memory_order_relaxed);
    if (convoy_decode_pool_suspend(convoy_app_of(request)->pipeline.decode_pool, &infer->suspension,
                                   &infer->job))
        return;
    convoy_oip_infer_drop(infer);
    convoy_fail(&request->refusal_reason, 0, "the server is stopping: send the request again");
    convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
}

enum convoy_oip_infer_step convoy_oip_infer_first_step(const struct convoy_request *request)
{
    return convoy_unpack_encoding(request) != NULL ? CONVOY_OIP_INFER_UNPACK : CONVOY_OIP_INFER_HEADER;
}

bool convoy_oip_infer_read(struct convoy_oip_infer *infer)
{
    while (infer->code == 0 && infer->step != CONVOY_OIP_INFER_DONE) {
        if (step_is_long(infer)) {
            leave_to_pool(infer);
            return false;
        }
        take_step(infer);
    }
    return true;
}
