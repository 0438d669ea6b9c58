/* Which requests a collector of traces gets (server/tracing), and what it is told of them. */
#ifndef CONVOY_SERVER_TRACE_EXPORT_H
#define CONVOY_SERVER_TRACE_EXPORT_H

#include "server/http/request.h"
#include "server/inference/inference_request.h"
#include "server/tracing/exporter.h"

#include <stdbool.h>

/* True when the request's trace is recorded: the client says so, or leaves it open and the request is
 * sampled. Then *context is that of a trace which begins here, where it belongs to none. exporter NULL:
 * false. Any thread. */
bool convoy_trace_recorded(struct convoy_exporter *exporter, struct convoy_trace_context *context);

/* Exports the request, which is about to be answered with status. Its stages are those of the image that was
 * done last: when it was handed to the batcher and when it was finished are known, and how long each stage
 * took. */
void convoy_trace_export(struct convoy_exporter *exporter, const struct convoy_request *request,
                         const struct convoy_inference_request *inference,
                         const struct convoy_inference_summary *summary, int status);

#endif
