#include "server/http/text.h"

#include "engine/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most answers to one image fit into this, so they allocate once. */
#define FIRST_CAPACITY 1024

static bool reserve(struct convoy_text *text, size_t more)
{
    if (text->failed)
        return false;
    if (more <= text->capacity - text->length)
        return true;
    size_t capacity = text->capacity > 0 ? text->capacity : FIRST_CAPACITY;
    while (capacity - text->length < more) {
        if (capacity > SIZE_MAX / 2) {
            text->failed = true;
            return false;
        }
        capacity *= 2;
    }
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void convoy_text_put(struct convoy_text *text, const char *bytes, size_t length)
{
    if (length == 0 || !reserve(text, length))
        return;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static void put_escaped(struct convoy_text *text, unsigned char byte)
{
    char escaped[8];
    switch (byte) {
    case '"':
        convoy_text_add(text, "\\\"");
        return;
    case '\\':
        convoy_text_add(text, "\\\\");
        return;
    case '\n':
        convoy_text_add(text, "\\n");
        return;
    case '\r':
        convoy_text_add(text, "\\r");
        return;
    case '\t':
        convoy_text_add(text, "\\t");
        return;
    default:
        convoy_text_put(text, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", byte));
    }
}

void convoy_text_string(struct convoy_text *text, const char *string)
{
    size_t left = strlen(string);

    convoy_text_add(text, "\"");
    while (left > 0) {
        size_t plain = 0; /* bytes that go out as they are, in one piece */
        while (plain < left) {
            unsigned char byte = (unsigned char)string[plain];
            if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f)
                break;
            size_t bytes = byte < 0x80 ? 1 : convoy_utf8_character(string + plain, left - plain);
            if (bytes == 0)
                break;
            plain += bytes;
        }
        convoy_text_put(text, string, plain);
        string += plain;
        left -= plain;
        if (left == 0)
            break;
        if ((unsigned char)*string < 0x80)
            put_escaped(text, (unsigned char)*string);
        else
            convoy_text_add(text, "\xEF\xBF\xBD");
        string++;
        left--;
    }
    convoy_text_add(text, "\"");
}

void convoy_text_natural(struct convoy_text *text, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    convoy_text_put(text, digits + at, sizeof digits - at);
}

void convoy_text_real(struct convoy_text *text, double number)
{
    char digits[32];

    if (!isfinite(number))
        convoy_text_add(text, "null");
    else
        convoy_text_put(text, digits, (size_t)snprintf(digits, sizeof digits, "%.6g", number));
}

void convoy_text_free(struct convoy_text *text)
{
    free(text->bytes);
    *text = (struct convoy_text){0};
}
