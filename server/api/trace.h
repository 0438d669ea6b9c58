/* Traces: what became of every Nth request, as a line of the log, for all models or for one. Which requests
 * are traced is set while serving (Triton's trace extension: oip_trace.h). And, where tracing.otlp_url is
 * set, what became of requests whose trace is recorded, as spans for a collector.
 *
 * Any thread; nothing but one relaxed load is spent on a request while no trace is on and none is exported.
 */
#ifndef CONVOY_SERVER_TRACE_H
#define CONVOY_SERVER_TRACE_H

#include "server/http/request.h"
#include "server/inference/inference_request.h"
#include "server/tracing/exporter.h"

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_TRACE_RATE  1000 /* where nothing else is set: every so many requests */
#define CONVOY_TRACE_COUNT (-1) /* and no end */

struct convoy_trace_settings {
    bool on;
    uint64_t rate; /* 1: every request */
    int64_t count; /* how many more are traced; -1: no end */
};

/* What a change names; what it does not keeps its value. cleared: back to what holds for all models, or,
 * there, to the built-in value. */
struct convoy_trace_change {
    enum convoy_trace_what { CONVOY_TRACE_KEPT, CONVOY_TRACE_SET, CONVOY_TRACE_CLEARED } on, rate, count;
    struct convoy_trace_settings to;
};

struct convoy_trace;

/* NULL when memory is out. exporter outlives it; NULL: nothing is exported. */
struct convoy_trace *convoy_trace_new(struct convoy_exporter *exporter);
void convoy_trace_free(struct convoy_trace *trace); /* NULL is allowed */

/* model: a name that exists, or NULL for all. */
void convoy_trace_get(struct convoy_trace *trace, const char *model, struct convoy_trace_settings *settings);
/* False when memory is out. */
bool convoy_trace_change(struct convoy_trace *trace, const char *model,
                         const struct convoy_trace_change *change);

/* Counts a request that is about to be answered with status, writes its line when it is its turn, and exports
 * it when its trace is recorded: the client says so (the flag of traceparent), or says nothing and it is
 * sampled. In the latter case a trace begins here, which the answer's headers name. */
void convoy_trace_request(struct convoy_trace *trace, struct convoy_request *request,
                          const struct convoy_inference_request *inference, int status);

#endif
