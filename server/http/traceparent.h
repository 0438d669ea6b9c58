/* The trace that a request belongs to: the header traceparent (W3C Trace Context, level 1, section 3.2).
 *
 * A header that is not to the letter is passed over, and a trace begins here instead. Any thread. */
#ifndef CONVOY_SERVER_TRACEPARENT_H
#define CONVOY_SERVER_TRACEPARENT_H

#include <stdbool.h>

#define CONVOY_TRACEPARENT "traceparent"

#define CONVOY_TRACE_ID_BYTES    33 /* 32 hexadecimal digits */
#define CONVOY_SPAN_ID_BYTES     17
#define CONVOY_TRACEPARENT_BYTES 56

struct convoy_trace_context {
    char trace_id[CONVOY_TRACE_ID_BYTES]; /* "": the request belongs to none */
    char parent_id[CONVOY_SPAN_ID_BYTES]; /* the caller's span; "": the trace begins here */
    char span_id[CONVOY_SPAN_ID_BYTES];   /* this request's */
    bool sampled;                         /* the caller records the trace */
};

/* Reads trace_id, parent_id and sampled; false, with *context unchanged, when text is not valid. */
bool convoy_traceparent_parse(const char *text, struct convoy_trace_context *context);

/* The context of a request with this header, which is wrong where there are several of it (unique false). */
void convoy_traceparent_take(const char *text, bool unique, struct convoy_trace_context *context);

/* A trace that begins with this request, and is recorded. */
void convoy_traceparent_begin(struct convoy_trace_context *context);

/* A random identifier of a span. */
void convoy_span_id_make(char id[CONVOY_SPAN_ID_BYTES]);

/* The header that names this request as the parent. */
void convoy_traceparent_write(const struct convoy_trace_context *context,
                              char text[CONVOY_TRACEPARENT_BYTES]);

#endif
