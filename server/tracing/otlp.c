#include "server/tracing/otlp.h"

#include <inttypes.h>
#include <stdio.h>

/* Of opentelemetry/proto/trace/v1/trace.proto. */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 };

static void write_text(struct convoy_json_writer *json, const char *key, const char *value)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "key");
    convoy_json_write_string(json, key);
    convoy_json_write_key(json, "value");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "stringValue");
    convoy_json_write_string(json, value);
    convoy_json_write_end_object(json);
    convoy_json_write_end_object(json);
}

/* JSON's numbers would lose bits of 64. */
static void write_digits(struct convoy_json_writer *json, uint64_t number)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%" PRIu64, number);
    convoy_json_write_string(json, digits);
}

static void write_number(struct convoy_json_writer *json, const char *key, uint64_t value)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "key");
    convoy_json_write_string(json, key);
    convoy_json_write_key(json, "value");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "intValue");
    write_digits(json, value);
    convoy_json_write_end_object(json);
    convoy_json_write_end_object(json);
}

/* Begins a span; the caller adds what else it has, and ends the object. */
static void begin_span(struct convoy_json_writer *json, const char *trace_id, const char *span_id,
                       const char *parent_id, const char *name)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "traceId");
    convoy_json_write_string(json, trace_id);
    convoy_json_write_key(json, "spanId");
    convoy_json_write_string(json, span_id);
    if (parent_id[0] != '\0') {
        convoy_json_write_key(json, "parentSpanId");
        convoy_json_write_string(json, parent_id);
    }
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, name);
}

static void write_times(struct convoy_json_writer *json, unsigned kind, uint64_t begin_ns, uint64_t end_ns)
{
    convoy_json_write_key(json, "kind");
    convoy_json_write_unsigned(json, kind);
    convoy_json_write_key(json, "startTimeUnixNano");
    write_digits(json, begin_ns);
    convoy_json_write_key(json, "endTimeUnixNano");
    write_digits(json, end_ns);
}

/* Names of OpenTelemetry's semantic conventions where there are such. */
static void write_attributes(struct convoy_json_writer *json, const struct convoy_request_span *span)
{
    convoy_json_write_key(json, "attributes");
    convoy_json_write_begin_array(json);
    write_text(json, "http.request.method", span->method);
    write_text(json, "http.route", span->route);
    write_number(json, "http.response.status_code", (uint64_t)span->status);
    write_text(json, "convoy.request_id", span->request_id);
    write_text(json, "convoy.model", span->model);
    write_text(json, "convoy.version", span->version);
    write_text(json, "convoy.device", span->device);
    write_number(json, "convoy.images", span->images);
    write_number(json, "convoy.cached", span->cached);
    write_number(json, "convoy.retries", span->retries);
    write_number(json, "convoy.batch_size", span->batch_size);
    write_number(json, "convoy.receive_us", (span->complete_ns - span->begun_ns) / 1000);
    write_number(json, "convoy.decode_us", span->decode_us);
    convoy_json_write_end_array(json);
}

static void write_request(struct convoy_json_writer *json, const struct convoy_request_span *span)
{
    static const char *const names[CONVOY_SPAN_STAGES] = {
        [CONVOY_SPAN_WAIT] = "wait",   [CONVOY_SPAN_DECODE] = "decode",   [CONVOY_SPAN_QUEUE] = "queue",
        [CONVOY_SPAN_INPUT] = "input", [CONVOY_SPAN_COMPUTE] = "compute", [CONVOY_SPAN_OUTPUT] = "output"};
    char name[160], id[CONVOY_SPAN_ID_BYTES];

    snprintf(name, sizeof name, "%s %s", span->method, span->route);
    begin_span(json, span->context.trace_id, span->context.span_id, span->context.parent_id, name);
    write_times(json, KIND_SERVER, span->begun_ns, span->ended_ns);
    write_attributes(json, span);
    if (span->status >= 500) { /* an error of the client's is none of the server's span */
        convoy_json_write_key(json, "status");
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "code");
        convoy_json_write_unsigned(json, STATUS_ERROR);
        convoy_json_write_end_object(json);
    }
    convoy_json_write_end_object(json);
    for (int i = 0; span->staged && i < CONVOY_SPAN_STAGES; i++) {
        convoy_span_id_make(id);
        begin_span(json, span->context.trace_id, id, span->context.span_id, names[i]);
        write_times(json, KIND_INTERNAL, span->stage_ns[i], span->stage_ns[i + 1]);
        convoy_json_write_end_object(json);
    }
}

void convoy_otlp_write(struct convoy_json_writer *json, const struct convoy_request_span *spans,
                       uint32_t count)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "resourceSpans");
    convoy_json_write_begin_array(json);
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "resource");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "attributes");
    convoy_json_write_begin_array(json);
    write_text(json, "service.name", "convoyd");
    write_text(json, "service.version", CONVOY_VERSION);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
    convoy_json_write_key(json, "scopeSpans");
    convoy_json_write_begin_array(json);
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "scope");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, "convoyd");
    convoy_json_write_end_object(json);
    convoy_json_write_key(json, "spans");
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < count; i++)
        write_request(json, &spans[i]);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
}
