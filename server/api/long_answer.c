#include "server/api/long_answer.h"

#include "engine/base/clock.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/http/status.h"
#include "server/inference/decode_pool.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* What is written on the HTTP thread, in about a millisecond. */
#define INLINE_NUMBERS 4096u

/* A number costs about as much as thirty pixels of a JPEG, in which the pool counts. */
#define SIZE_OF_NUMBER 30u

struct convoy_long_answer {
    struct convoy_suspension suspension;
    struct convoy_decode_job job;
    convoy_long_answer_write *write;
    struct convoy_json_writer json;
    atomic_bool written;
    bool gone; /* the client is, and no thread had begun to write */
};

static uint64_t write_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_long_answer *answer =
        (struct convoy_long_answer *)((char *)job - offsetof(struct convoy_long_answer, job));
    uint64_t begun_us = convoy_now_us(), took_us;

    (void)index;
    if (!convoy_suspension_stopping(&answer->suspension)) {
        answer->write(answer->suspension.request, &answer->json);
        atomic_store(&answer->written, true);
    }
    took_us = convoy_now_us() - begun_us;
    convoy_resume(&answer->suspension); /* after which the answer may be freed */
    return took_us;
}

/* See struct convoy_suspension. */
static void look(struct convoy_suspension *suspension, bool gone)
{
    struct convoy_long_answer *answer =
        (struct convoy_long_answer *)((char *)suspension - offsetof(struct convoy_long_answer, suspension));

    if (!gone || convoy_decode_pool_withdraw(convoy_app_of(suspension->request)->pipeline.decode_pool,
                                             &answer->job) != 0)
        return;
    answer->gone = true;
    convoy_resume(suspension);
}

bool convoy_long_answer_leave(struct convoy_request *request, uint64_t numbers,
                              convoy_long_answer_write *write)
{
    struct convoy_long_answer *answer = numbers > INLINE_NUMBERS ? calloc(1, sizeof *answer) : NULL;

    if (answer == NULL)
        return false;
    answer->write = write;
    answer->job = (struct convoy_decode_job){
        .count = 1, .size = numbers * SIZE_OF_NUMBER, .work = write_in_pool, .first = true};
    convoy_suspension_init(&answer->suspension, request);
    answer->suspension.look = look;
    convoy_call_of(request)->long_answer = answer;
    if (convoy_decode_pool_suspend(convoy_app_of(request)->pipeline.decode_pool, &answer->suspension,
                                   &answer->job))
        return true;
    convoy_call_of(request)->long_answer = NULL;
    free(answer);
    return false;
}

int convoy_long_answer_take(struct convoy_long_answer *answer, struct convoy_json_writer *json,
                            const char **sentence)
{
    if (answer->gone) {
        *sentence = CONVOY_CLIENT_GONE_SENTENCE;
        return CONVOY_HTTP_CLIENT_GONE;
    }
    if (!atomic_load(&answer->written)) {
        *sentence = "the server is stopping: send the request again";
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    }
    *json = answer->json;
    answer->json = (struct convoy_json_writer){0};
    return CONVOY_HTTP_OK;
}

void convoy_long_answer_free(struct convoy_long_answer *answer)
{
    if (answer == NULL)
        return;
    convoy_json_writer_free(&answer->json);
    free(answer);
}
