#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* vsnprintf cuts anywhere; take back a UTF-8 sequence that it cut in two, or JSON answers would be invalid.
 */
static void end_on_character(char *text, size_t capacity)
{
    size_t length = strlen(text);
    if (length + 1 < capacity)
        return;
    size_t start = length;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start > 0 && (unsigned char)text[start - 1] >= 0xC0)
        text[start - 1] = '\0';
}

void convoy_error_fill(struct convoy_error *error, const char *format, ...)
{
    if (error == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    end_on_character(error->message, sizeof error->message);
}

void convoy_error_prefix(struct convoy_error *error, const char *format, ...)
{
    if (error == NULL)
        return;
    char inner[CONVOY_ERROR_BYTES];
    memcpy(inner, error->message, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length, ": %s", inner);
    end_on_character(error->message, sizeof error->message);
}
