#include "server/api/model_wait.h"

#include "server/http/request.h"
#include "server/http/status.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static void drop(struct convoy_model_wait *wait)
{
    if (atomic_fetch_sub(&wait->holders, 1) != 1)
        return;
    convoy_model_release(wait->control.model);
    free(wait);
}

/* On the control loop. */
static void on_done(struct convoy_control_request *control, int code, const struct convoy_error *error)
{
    struct convoy_model_wait *wait = (struct convoy_model_wait *)(void *)control; /* its first member */
    wait->code = code;
    wait->error = *error;
    atomic_store(&wait->done, true);
    convoy_resume(&wait->suspension);
    drop(wait);
}

/* See struct convoy_suspension. */
static void look(struct convoy_suspension *suspension, bool gone)
{
    struct convoy_model_wait *wait =
        (struct convoy_model_wait *)((char *)suspension - offsetof(struct convoy_model_wait, suspension));
    if (wait->ended == 0)
        wait->ended = gone ? -ECONNABORTED : -ETIMEDOUT;
    convoy_resume(suspension); /* unless the manager does */
}

struct convoy_model_wait *convoy_model_wait_begin(struct convoy_request *request,
                                                  struct convoy_manager *manager,
                                                  enum convoy_control_request_kind kind, const char *name,
                                                  uint32_t version, uint64_t deadline_us)
{
    struct convoy_model_wait *wait = calloc(1, sizeof *wait);
    if (wait == NULL)
        return NULL;
    wait->control = (struct convoy_control_request){.kind = kind, .version = version, .done = on_done};
    snprintf(wait->control.name, sizeof wait->control.name, "%s", name);
    atomic_init(&wait->holders, 2);
    convoy_suspension_init(&wait->suspension, request);
    wait->suspension.look = look;
    wait->suspension.deadline_us = deadline_us;
    if (!convoy_suspend(&wait->suspension, NULL, NULL)) {
        free(wait);
        return NULL;
    }
    convoy_manager_send(manager, &wait->control);
    return wait;
}

int convoy_model_wait_end(struct convoy_model_wait *wait, struct convoy_model_record **activated,
                          struct convoy_error *error)
{
    int code;
    if (activated != NULL)
        *activated = NULL;
    if (atomic_load(&wait->done)) {
        code = wait->code;
        *error = wait->error;
        if (activated != NULL) {
            *activated = wait->control.model;
            wait->control.model = NULL;
        }
    } else if (wait->ended == -ECONNABORTED) {
        code = convoy_fail(error, wait->ended, CONVOY_CLIENT_GONE_SENTENCE);
    } else if (wait->ended == -ETIMEDOUT) {
        code = convoy_fail(error, wait->ended,
                           "the deadline passed before the model was loaded: try again, or allow more with "
                           "timeout_ms");
    } else {
        code = convoy_fail(error, -ECANCELED, "the server is stopping: send the request again");
    }
    drop(wait);
    return code;
}

void convoy_model_wait_drop(struct convoy_model_wait *wait)
{
    if (wait != NULL)
        drop(wait);
}
