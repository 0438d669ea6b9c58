/* Traces as OTLP/HTTP takes them in JSON (OpenTelemetry protocol 1.x:
 * opentelemetry/proto/trace/v1/trace.proto in the JSON mapping of Protocol Buffers, with identifiers in
 * hexadecimal and 64-bit numbers as strings). Pure. */
#ifndef CONVOY_SERVER_OTLP_H
#define CONVOY_SERVER_OTLP_H

#include "engine/base/json_writer.h"
#include "server/tracing/request_span.h"

/* Writes an ExportTraceServiceRequest of count requests, each a server span with a span for each stage under
 * it. Stages get identifiers that are made here. */
void convoy_otlp_write(struct convoy_json_writer *json, const struct convoy_request_span *spans,
                       uint32_t count);

#endif
