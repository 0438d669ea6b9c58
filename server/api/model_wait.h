/* A request that waits for the model manager: its connection is suspended until the control request is done.
 *
 * The request may end before the manager is done (a stop resumes the connection), so both hold the wait. */
#ifndef CONVOY_SERVER_MODEL_WAIT_H
#define CONVOY_SERVER_MODEL_WAIT_H

#include "server/http/suspension.h"
#include "server/repository/manager.h"

struct convoy_request;

struct convoy_model_wait {
    struct convoy_control_request control;
    struct convoy_suspension suspension;
    int ended; /* -ECONNABORTED or -ETIMEDOUT where the request did not wait to the end; the HTTP thread's */
    atomic_uint holders;
    atomic_bool done; /* code and error are what the manager said */
    int code;
    struct convoy_error error;
};

/* Sends the control request to manager and suspends request's connection, whose handler is called again.
 * version: of CONVOY_CONTROL_REQUEST_ACTIVATE. The wait ends when the client is gone, and at deadline_us (0:
 * none); what the manager was asked for goes on. NULL, with nothing done: memory is out, or the daemon is
 * stopping.
 */
struct convoy_model_wait *convoy_model_wait_begin(struct convoy_request *request,
                                                  struct convoy_manager *manager,
                                                  enum convoy_control_request_kind kind, const char *name,
                                                  uint32_t version, uint64_t deadline_us);

/* Ends the wait and returns its result: 0, or the code of the control request, with its sentence in error;
 * -ECANCELED where the daemon stops before, -ECONNABORTED where the client is gone, -ETIMEDOUT where the
 * deadline passed. *activated (may be NULL): the model of
 * CONVOY_CONTROL_REQUEST_ACTIVATE, held for the caller, or NULL. */
int convoy_model_wait_end(struct convoy_model_wait *wait, struct convoy_model_record **activated,
                          struct convoy_error *error);

/* Ends the wait of a request that ends. NULL is allowed. */
void convoy_model_wait_drop(struct convoy_model_wait *wait);

#endif
