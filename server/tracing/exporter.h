/* Sends traced requests to a collector (tracing.otlp_url), in batches, from a thread of its own.
 *
 * A request costs the thread that answers it a copy of 500 bytes under a lock that is held for no longer. Up
 * to 2048 requests wait; when the collector is slow or away, those that find no room are dropped and counted.
 * A batch is sent when it has 256 requests, or its first one is a second old, and given up after 5 s; one
 * that is refused or lost is counted and not sent again. */
#ifndef CONVOY_SERVER_EXPORTER_H
#define CONVOY_SERVER_EXPORTER_H

#include "engine/base/error.h"
#include "server/config/tracing_config.h"
#include "server/metrics/metrics.h"
#include "server/tracing/request_span.h"

#include <stdbool.h>

struct convoy_exporter;

/* *exporter is NULL where otlp_url is. config is not kept, metrics outlive the exporter. Errors: those of
 * convoy_collector_new(), -EAGAIN (no thread). */
int convoy_exporter_new(const struct convoy_tracing_config *config, struct convoy_metrics *metrics,
                        struct convoy_exporter **exporter, struct convoy_error *error);

/* Sends what waits, for 2 s at most, give or take one; the rest is dropped and counted. No other thread uses
 * the exporter any more. NULL is allowed. */
void convoy_exporter_free(struct convoy_exporter *exporter);

/* Is a request to be recorded whose client does not say? True for a random part: tracing.sample. Any thread.
 */
bool convoy_exporter_samples(struct convoy_exporter *exporter);

/* Copies the request for the next batch, or drops it. Any thread; it waits for nothing. */
void convoy_exporter_add(struct convoy_exporter *exporter, const struct convoy_request_span *span);

#endif
