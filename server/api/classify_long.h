/* Long answers of /classify: a thousand images with a thousand classes each are 49 MB of JSON before any
 * label, and 0.2 s of processor time, for which an HTTP thread would keep its other connections waiting. The
 * decode pool writes them. */
#ifndef CONVOY_SERVER_CLASSIFY_LONG_H
#define CONVOY_SERVER_CLASSIFY_LONG_H

#include "server/http/request.h"
#include "server/inference/inference_request.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_classify_long;

/* Leaves the answer to the pool, and suspends the connection: the handler is called again when it is written.
 * status and total_us: as of now. False when the answer is short, the daemon stops, or memory is out: it is
 * to be written here then. On the request's HTTP thread, as the others. */
bool convoy_classify_long_leave(struct convoy_request *request,
                                const struct convoy_inference_request *inference, int status,
                                uint64_t total_us);

/* Sends what the pool wrote. False when memory is out. */
bool convoy_classify_long_respond(struct convoy_request *request);

/* The pool is done with it. NULL is allowed. */
void convoy_classify_long_free(struct convoy_classify_long *answer);

#endif
