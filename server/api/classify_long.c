#include "server/api/classify_long.h"

#include "engine/base/clock.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/classify_answer.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/inference/decode_pool.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* Classes that are written on the HTTP thread, in about a millisecond. To rank a class costs a fraction of
 * writing one. */
#define INLINE_CLASSES 4096u
#define RANKED_AS_ONE  16u

struct convoy_classify_long {
    struct convoy_suspension suspension;
    struct convoy_decode_job job;
    const struct convoy_inference_request *inference; /* the call holds it */
    struct convoy_json_writer json;
    uint64_t total_us;
    int status;
    atomic_bool written;
    bool gone; /* the client is, and no thread had begun to write */
};

static uint64_t classes_of(const struct convoy_inference_request *inference)
{
    uint32_t classes = inference->view.shape.output_elements[0];
    uint32_t named = inference->rule.top < classes ? inference->rule.top : classes;

    return (uint64_t)inference->count * (named + classes / RANKED_AS_ONE);
}

static uint64_t write_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_classify_long *answer =
        (struct convoy_classify_long *)((char *)job - offsetof(struct convoy_classify_long, job));
    uint64_t begun_us = convoy_now_us(), took_us;

    (void)index;
    if (!convoy_suspension_stopping(&answer->suspension)) {
        convoy_classify_write(answer->inference, NULL, answer->total_us, &answer->json);
        atomic_store(&answer->written, true);
    }
    took_us = convoy_now_us() - begun_us;
    convoy_resume(&answer->suspension); /* after which the answer may be gone */
    return took_us;
}

/* See struct convoy_suspension. */
static void look(struct convoy_suspension *suspension, bool gone)
{
    struct convoy_classify_long *answer =
        (struct convoy_classify_long *)((char *)suspension -
                                        offsetof(struct convoy_classify_long, suspension));

    if (!gone || convoy_decode_pool_withdraw(convoy_app_of(suspension->request)->pipeline.decode_pool,
                                             &answer->job) != 0)
        return;
    answer->gone = true;
    convoy_resume(suspension);
}

bool convoy_classify_long_leave(struct convoy_request *request,
                                const struct convoy_inference_request *inference, int status,
                                uint64_t total_us)
{
    uint64_t classes = classes_of(inference);
    struct convoy_classify_long *answer = classes > INLINE_CLASSES ? calloc(1, sizeof *answer) : NULL;

    if (answer == NULL)
        return false;
    answer->inference = inference;
    answer->status = status;
    answer->total_us = total_us;
    /* A class costs about as much as thirty pixels of a JPEG. */
    answer->job =
        (struct convoy_decode_job){.count = 1, .size = classes * 30, .work = write_in_pool, .first = true};
    convoy_suspension_init(&answer->suspension, request);
    answer->suspension.look = look;
    convoy_call_of(request)->written = answer;
    if (convoy_decode_pool_suspend(convoy_app_of(request)->pipeline.decode_pool, &answer->suspension,
                                   &answer->job))
        return true;
    convoy_call_of(request)->written = NULL;
    free(answer);
    return false;
}

bool convoy_classify_long_respond(struct convoy_request *request)
{
    struct convoy_classify_long *answer = convoy_call_of(request)->written;

    if (answer->gone)
        return convoy_respond_error(request, CONVOY_HTTP_CLIENT_GONE, CONVOY_RETRY_NONE,
                                    CONVOY_CLIENT_GONE_SENTENCE);
    if (!atomic_load(&answer->written))
        return convoy_respond_error(request, CONVOY_HTTP_SERVICE_UNAVAILABLE, CONVOY_RETRY_SOON,
                                    "the server is stopping: send the request again");
    return convoy_respond(request, answer->status, CONVOY_TYPE_JSON, &answer->json,
                          answer->status == CONVOY_HTTP_SERVICE_UNAVAILABLE ? CONVOY_RETRY_SOON
                                                                            : CONVOY_RETRY_NONE);
}

void convoy_classify_long_free(struct convoy_classify_long *answer)
{
    if (answer == NULL)
        return;
    convoy_json_writer_free(&answer->json);
    free(answer);
}
