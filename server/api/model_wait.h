/* A request that waits for the model manager: its connection is suspended until the control request is done.
 *
 * The two sides may end in either order (a stop resumes the connection before the manager is done), so that
 * each holds the wait. */
#ifndef CONVOY_SERVER_MODEL_WAIT_H
#define CONVOY_SERVER_MODEL_WAIT_H

#include "server/http/suspension.h"
#include "server/repository/manager.h"

struct convoy_request;

struct convoy_model_wait {
    struct convoy_control_request control;
    struct convoy_suspension suspension;
    atomic_uint holders;
    atomic_bool done; /* code and error are what the manager said */
    int code;
    struct convoy_error error;
};

/* Sends the control request and suspends the request's connection, whose handler is called again with
 * request->wait set. version: of CONVOY_CONTROL_REQUEST_WAKE. False, with nothing done: memory is out, or the
 * daemon is stopping. */
bool convoy_model_wait_begin(struct convoy_request *request, enum convoy_control_request_kind kind,
                             const char *name, uint32_t version);
/* What came of it: 0 or the control request's code, and its sentence in request->refusal_reason; -ECANCELED
 * where the daemon stops before. *woken (may be NULL): the model of CONVOY_CONTROL_REQUEST_WAKE, held for the
 * caller, or NULL. Ends the wait. */
int convoy_model_wait_end(struct convoy_request *request, struct convoy_model **woken);
/* For a request that ends; request->wait may be NULL. */
void convoy_model_wait_drop(struct convoy_request *request);

#endif
