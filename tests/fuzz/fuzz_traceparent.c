/* The header traceparent: what is accepted is written as it came, but for what is this request's. */
#include "server/http/traceparent.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct convoy_trace_context context = {0}, again = {0};
    char written[CONVOY_TRACEPARENT_BYTES];
    char *text = malloc(size + 1); /* of its own size: reading past it is seen */

    if (text == NULL)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    bool valid = convoy_traceparent_parse(text, &context);
    if (valid &&
        (memcmp(text + 3, context.trace_id, 32) != 0 || memcmp(text + 36, context.parent_id, 16) != 0))
        abort();
    convoy_traceparent_take(text, true, &context);
    convoy_traceparent_write(&context, written);
    if (!convoy_traceparent_parse(written, &again) || strcmp(again.trace_id, context.trace_id) != 0 ||
        strcmp(again.parent_id, context.span_id) != 0 || again.sampled != context.sampled)
        abort();
    free(text);
    return 0;
}
