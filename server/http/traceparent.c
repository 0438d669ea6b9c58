#include "server/http/traceparent.h"

#include "server/http/request_id.h"

#include <stdio.h>
#include <string.h>

#define DIGITS "0123456789abcdef"

/* VERSION-TRACE-PARENT-FLAGS */
#define TRACE_AT  3
#define PARENT_AT 36
#define FLAGS_AT  53
#define LENGTH    55

static bool is_hexadecimal(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\0' || strchr(DIGITS, text[i]) == NULL)
            return false;
    return true;
}

static bool is_zero(const char *text, size_t length)
{
    return strspn(text, "0") >= length;
}

/* Of version 00 nothing follows the flags; later ones may go on behind a dash. ff is no version. */
static bool fits(const char *text)
{
    size_t length = strnlen(text, LENGTH + 1);

    return length >= LENGTH && is_hexadecimal(text, 2) && memcmp(text, "ff", 2) != 0 && text[2] == '-' &&
           is_hexadecimal(text + TRACE_AT, 32) && !is_zero(text + TRACE_AT, 32) &&
           text[PARENT_AT - 1] == '-' && is_hexadecimal(text + PARENT_AT, 16) &&
           !is_zero(text + PARENT_AT, 16) && text[FLAGS_AT - 1] == '-' &&
           is_hexadecimal(text + FLAGS_AT, 2) &&
           (length == LENGTH || (memcmp(text, "00", 2) != 0 && text[LENGTH] == '-'));
}

bool convoy_traceparent_parse(const char *text, struct convoy_trace_context *context)
{
    if (!fits(text))
        return false;
    memcpy(context->trace_id, text + TRACE_AT, 32);
    context->trace_id[32] = '\0';
    memcpy(context->parent_id, text + PARENT_AT, 16);
    context->parent_id[16] = '\0';
    /* The lowest bit. */
    context->sampled = (strchr(DIGITS, text[FLAGS_AT + 1]) - DIGITS) % 2 == 1;
    return true;
}

/* So many digits (32 at most), not all of them zero. */
static void make_id(char *text, size_t digits)
{
    char id[CONVOY_REQUEST_ID_BYTES];

    do
        convoy_request_id_make(id);
    while (is_zero(id, digits));
    memcpy(text, id, digits);
    text[digits] = '\0';
}

void convoy_span_id_make(char id[CONVOY_SPAN_ID_BYTES])
{
    make_id(id, CONVOY_SPAN_ID_BYTES - 1);
}

void convoy_traceparent_begin(struct convoy_trace_context *context)
{
    *context = (struct convoy_trace_context){.sampled = true};
    make_id(context->trace_id, CONVOY_TRACE_ID_BYTES - 1);
    convoy_span_id_make(context->span_id);
}

void convoy_traceparent_take(const char *text, bool unique, struct convoy_trace_context *context)
{
    *context = (struct convoy_trace_context){0};
    if (!unique || !convoy_traceparent_parse(text, context))
        make_id(context->trace_id, CONVOY_TRACE_ID_BYTES - 1);
    convoy_span_id_make(context->span_id);
}

void convoy_traceparent_write(const struct convoy_trace_context *context, char text[CONVOY_TRACEPARENT_BYTES])
{
    snprintf(text, CONVOY_TRACEPARENT_BYTES, "00-%.32s-%.16s-%s", context->trace_id, context->span_id,
             context->sampled ? "01" : "00");
}
