#include "server/inference/admission.h"

#include "server/batching/batcher.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/security/gate.h"

#include <errno.h>

#define RETRY_MOST 60 /* seconds */

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

struct convoy_inference_request *convoy_admit(struct convoy_request *request,
                                              const struct convoy_pipeline *pipeline,
                                              struct convoy_model_view *view, size_t count,
                                              enum convoy_priority priority, uint64_t deadline_us,
                                              int *retry_after)
{
    struct convoy_model_record *model = view->model;
    uint64_t wait_us;
    int code =
        convoy_batcher_admit(pipeline->batcher, model, (uint32_t)count, priority, deadline_us, &wait_us);

    if (code != 0) {
        refuse_admission(request, model, count, code, wait_us, retry_after);
        convoy_model_view_end(view);
        return NULL;
    }
    struct convoy_inference_request *inference = convoy_inference_request_new(view, (uint32_t)count);
    if (inference == NULL) {
        convoy_batcher_cancel(pipeline->batcher, model, (uint32_t)count, priority);
        return NULL;
    }
    convoy_gate_charge(request, (uint32_t)count);
    inference->pipeline = pipeline;
    inference->decoder = pipeline->decoder;
    convoy_suspension_init(&inference->suspension, request);
    inference->deadline_us = deadline_us;
    inference->priority = priority;
    return inference;
}
