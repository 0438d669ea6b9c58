#include "engine/base/json_writer.h"

#include "engine/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most answers to one image fit into this, so they allocate once. */
#define FIRST_CAPACITY 1024

/* The longest number, with a comma before it. */
#define NUMBER_BYTES 40

static bool reserve(struct convoy_json_writer *json, size_t more)
{
    if (json->failed)
        return false;
    if (more <= json->capacity - json->length)
        return true;
    size_t capacity = json->capacity > 0 ? json->capacity : FIRST_CAPACITY;
    while (capacity - json->length < more) {
        if (capacity > SIZE_MAX / 2) {
            json->failed = true;
            return false;
        }
        capacity *= 2;
    }
    char *bytes = realloc(json->bytes, capacity);
    if (bytes == NULL) {
        json->failed = true;
        return false;
    }
    json->bytes = bytes;
    json->capacity = capacity;
    return true;
}

void convoy_json_writer_append(struct convoy_json_writer *json, const char *bytes, size_t length)
{
    if (length == 0 || !reserve(json, length))
        return;
    memcpy(json->bytes + json->length, bytes, length);
    json->length += length;
}

#define append_literal(json, literal) convoy_json_writer_append((json), "" literal, sizeof(literal) - 1)

/* Appends bytes, with a comma before them where one is due. */
static void put(struct convoy_json_writer *json, const char *bytes, size_t length, bool comma_after)
{
    if (!reserve(json, length + 1))
        return;
    if (json->comma)
        json->bytes[json->length++] = ',';
    memcpy(json->bytes + json->length, bytes, length);
    json->length += length;
    json->comma = comma_after;
}

void convoy_json_write_begin_object(struct convoy_json_writer *json)
{
    put(json, "{", 1, false);
}

void convoy_json_write_begin_array(struct convoy_json_writer *json)
{
    put(json, "[", 1, false);
}

static void end(struct convoy_json_writer *json, const char *bracket)
{
    json->comma = false; /* after the last member stands none */
    put(json, bracket, 1, true);
}

void convoy_json_write_end_object(struct convoy_json_writer *json)
{
    end(json, "}");
}

void convoy_json_write_end_array(struct convoy_json_writer *json)
{
    end(json, "]");
}

void convoy_json_write_quoted_key(struct convoy_json_writer *json, const char *quoted, size_t length)
{
    put(json, quoted, length, false);
}

void convoy_json_write_fragment(struct convoy_json_writer *json, const char *bytes, size_t length)
{
    if (length > 0)
        put(json, bytes, length, true);
}

static void append_escaped(struct convoy_json_writer *json, unsigned char byte)
{
    char escaped[8];
    switch (byte) {
    case '"':
        append_literal(json, "\\\"");
        return;
    case '\\':
        append_literal(json, "\\\\");
        return;
    case '\n':
        append_literal(json, "\\n");
        return;
    case '\r':
        append_literal(json, "\\r");
        return;
    case '\t':
        append_literal(json, "\\t");
        return;
    default:
        convoy_json_writer_append(json, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", byte));
    }
}

void convoy_json_write_string(struct convoy_json_writer *json, const char *string)
{
    size_t left = strlen(string);

    put(json, "\"", 1, false);
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
        convoy_json_writer_append(json, string, plain);
        string += plain;
        left -= plain;
        if (left == 0)
            break;
        if ((unsigned char)*string < 0x80)
            append_escaped(json, (unsigned char)*string);
        else
            append_literal(json, "\xEF\xBF\xBD");
        string++;
        left--;
    }
    put(json, "\"", 1, true);
}

void convoy_json_write_string_key(struct convoy_json_writer *json, const char *key)
{
    convoy_json_write_string(json, key);
    json->comma = false;
    put(json, ":", 1, false);
}

void convoy_json_write_bool(struct convoy_json_writer *json, bool value)
{
    put(json, value ? "true" : "false", value ? 4 : 5, true);
}

void convoy_json_write_unsigned(struct convoy_json_writer *json, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(json, digits + at, sizeof digits - at, true);
}

/* Straight into the buffer: tensors have thousands of them. */
static void put_number(struct convoy_json_writer *json, const char *format, double number)
{
    if (!isfinite(number)) {
        put(json, "null", 4, true);
        return;
    }
    if (!reserve(json, NUMBER_BYTES))
        return;
    if (json->comma)
        json->bytes[json->length++] = ',';
    json->length += (size_t)snprintf(json->bytes + json->length, NUMBER_BYTES - 1, format, number);
    json->comma = true;
}

void convoy_json_write_double(struct convoy_json_writer *json, double number)
{
    put_number(json, "%.6g", number);
}

void convoy_json_write_float(struct convoy_json_writer *json, float number)
{
    if (isnan(number))
        put(json, "NaN", 3, true);
    else if (isinf(number))
        put(json, number < 0 ? "-Infinity" : "Infinity", number < 0 ? 9 : 8, true);
    else
        put_number(json, "%.9g", (double)number);
}

void convoy_json_writer_free(struct convoy_json_writer *json)
{
    free(json->bytes);
    *json = (struct convoy_json_writer){0};
}
