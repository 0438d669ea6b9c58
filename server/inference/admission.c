#include "server/inference/admission.h"

#include "server/batching/batcher.h"
#include "server/config/config.h"
#include "server/http/body_quota.h"
#include "server/http/http_state.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/security/gate.h"

#include <errno.h>

#define RETRY_MOST 60 /* seconds */

/* What outputs and answer may take for each byte of a compressed body, and for nothing. At the bound,
 * measured with bodies of 150 to 220 bytes, a KB is 50 ms of processor time of /infer, which writes numbers,
 * and 24 of /classify. */
#define ANSWER_OF_BYTE 4096u
#define ANSWER_FREE    (1u << 20)

/* Retry-After: when half of what waits now is done. Any earlier, most of the retries would be refused again.
 */
static int retry_seconds(uint64_t wait_us)
{
    uint64_t seconds = wait_us / 2000000 + 1;
    return seconds < RETRY_MOST ? (int)seconds : RETRY_MOST;
}

/* The sentence for what admission said; *retry_after is set where that is worth another time. */
static void refuse_admission(struct convoy_request *request, const struct convoy_model_record *model,
                             size_t count, int code, uint64_t wait_us, int *retry_after)
{
    request->refusal = CONVOY_HTTP_SERVICE_UNAVAILABLE;
    switch (code) {
    case -E2BIG:
        request->refusal = CONVOY_HTTP_CONTENT_TOO_LARGE;
        convoy_fail(&request->refusal_reason, 0,
                    "%zu images are more than the queue of model %s can hold (batching.max_queue): send "
                    "them in several requests",
                    count, model->name);
        break;
    case -EBUSY:
        *retry_after = retry_seconds(wait_us);
        convoy_fail(&request->refusal_reason, 0,
                    "the queue of model %s has no room for %zu more: try again later", model->name, count);
        break;
    case -ETIME:
        *retry_after = retry_seconds(wait_us);
        convoy_fail(&request->refusal_reason, 0,
                    "model %s is busy and would take about %.1f s for this request, too much for its "
                    "deadline: try again later, or allow more with timeout_ms",
                    model->name, (double)wait_us / 1e6);
        break;
    case -ENODEV:
        *retry_after = CONVOY_RETRY_NONE;
        convoy_fail(&request->refusal_reason, 0,
                    "model %s can no longer be served: look at its reason in /v2/models", model->name);
        break;
    default:
        convoy_fail(&request->refusal_reason, 0, "the server is stopping: send the request again");
        break;
    }
}

/* Sets memory aside for outputs and answer, of which *bytes tells. False with the refusal set. */
static bool reserve(struct convoy_request *request, const struct convoy_model_view *view, size_t count,
                    uint64_t row_bytes, size_t *bytes, int *retry_after)
{
    size_t most = (size_t)request->http->options.config->http.max_body_bytes;
    size_t limit = convoy_answer_quota_limit(most, 0);

    row_bytes += (uint64_t)view->shape.outputs_per_row * sizeof(float);
    if (__builtin_mul_overflow(row_bytes, count, bytes) || *bytes > limit / CONVOY_ANSWER_SHARE) {
        convoy_fail(
            &request->refusal_reason, 0,
            "the outputs of %zu images of model %s and the answer would take more than %zu bytes: send "
            "them in several requests",
            count, view->model->name, limit / CONVOY_ANSWER_SHARE);
        return convoy_request_refuse(request, CONVOY_HTTP_CONTENT_TOO_LARGE);
    }
    if (request->packed > 0 && *bytes > ANSWER_FREE + (uint64_t)request->packed * ANSWER_OF_BYTE) {
        convoy_fail(
            &request->refusal_reason, 0,
            "the outputs of %zu images of model %s and the answer would take more than the %zu bytes of "
            "a compressed body justify: send them without Content-Encoding",
            count, view->model->name, request->packed);
        return convoy_request_refuse(request, CONVOY_HTTP_CONTENT_TOO_LARGE);
    }
    if (convoy_answer_quota_take(*bytes, convoy_answer_quota_limit(most, *bytes)))
        return true;
    *retry_after = CONVOY_RETRY_SOON;
    convoy_fail(
        &request->refusal_reason, 0,
        "the answers that are being made and sent take all the memory that is set aside for them: try "
        "again later");
    return convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
}

struct convoy_inference_request *convoy_admit(struct convoy_request *request,
                                              const struct convoy_pipeline *pipeline,
                                              struct convoy_model_view *view, size_t count,
                                              uint64_t row_bytes, enum convoy_priority priority,
                                              uint64_t deadline_us, int *retry_after)
{
    struct convoy_model_record *model = view->model;
    uint64_t wait_us;
    size_t answer_bytes;

    if (!reserve(request, view, count, row_bytes, &answer_bytes, retry_after)) {
        convoy_model_view_end(view);
        return NULL;
    }
    int code =
        convoy_batcher_admit(pipeline->batcher, model, (uint32_t)count, priority, deadline_us, &wait_us);

    if (code != 0) {
        convoy_answer_quota_give(answer_bytes);
        refuse_admission(request, model, count, code, wait_us, retry_after);
        convoy_model_view_end(view);
        return NULL;
    }
    struct convoy_inference_request *inference = convoy_inference_request_new(view, (uint32_t)count);
    if (inference == NULL) {
        convoy_batcher_cancel(pipeline->batcher, model, (uint32_t)count, priority);
        convoy_answer_quota_give(answer_bytes);
        return NULL;
    }
    convoy_gate_charge(request, (uint32_t)count);
    inference->answer_bytes = answer_bytes;
    inference->pipeline = pipeline;
    inference->decoder = pipeline->decoder;
    convoy_suspension_init(&inference->suspension, request);
    inference->deadline_us = deadline_us;
    inference->priority = priority;
    return inference;
}
