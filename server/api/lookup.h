/* Finds the model that a request is about. */
#ifndef CONVOY_SERVER_LOOKUP_H
#define CONVOY_SERVER_LOOKUP_H

#include "server/http/request.h"
#include "server/models/registry.h"

#include <stdbool.h>

/* The model that the path names, or the query with ?model= and ?version=, or the default. Sets
 * the call's model. NULL when there is none: refusal is then set (404, or 400 when none was named and there
 * is no default). */
struct convoy_model_record *convoy_lookup_model(struct convoy_request *request);

/* A view of the model that convoy_lookup_model() found, or of the one that has replaced it since, when it is
 * READY or evicted; otherwise false with refusal set to 503 and *retry_after to the value of Retry-After. End
 * the view with convoy_model_view_end(). */
bool convoy_lookup_ready(struct convoy_request *request, struct convoy_model_view *view, int *retry_after);

/* The same for a handler that computes with the model: an evicted one is activated, that is loaded again.
 * False with the call's wait set: the connection is suspended until the model is READY or FAILED, the client
 * is gone or deadline_us has passed, and the handler, which is then called again, begins with
 * convoy_lookup_resumed(). */
bool convoy_lookup_activated(struct convoy_request *request, struct convoy_model_view *view,
                             uint64_t deadline_us, int *retry_after);
/* Ends the wait, if there is one. The refusal is set where the client left or the deadline passed. */
void convoy_lookup_resumed(struct convoy_request *request);

#endif
