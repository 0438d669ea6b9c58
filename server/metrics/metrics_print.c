#include "server/metrics/metrics_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void convoy_metrics_print(struct convoy_metrics_text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length >= 0 && !text->failed && text->capacity - text->length <= (size_t)length) {
        size_t capacity = 2 * text->capacity + (size_t)length + 4096;
        char *grown = realloc(text->bytes, capacity);
        text->failed = grown == NULL;
        if (grown != NULL) {
            text->bytes = grown;
            text->capacity = capacity;
        }
    }
    if (length >= 0 && !text->failed)
        text->length += (size_t)vsnprintf(text->bytes + text->length, (size_t)length + 1, format, again);
    va_end(again);
}

void convoy_metrics_head(struct convoy_metrics_text *text, const char *name, const char *type,
                         const char *help)
{
    convoy_metrics_print(text, "# HELP convoyd_%s %s\n# TYPE convoyd_%s %s\n", name, help, name, type);
}
