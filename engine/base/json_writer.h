/* Writing JSON: objects, arrays and values appended to one growing buffer, with commas put where they belong.
 *
 * For answers on the hot path: a tree of JSON values would allocate for every member. Nothing but commas is
 * checked: the caller gives each member a key, and ends what it begins. When memory runs out, failed is set
 * and later calls do nothing, so a caller checks once, at the end. One thread at a time. */
#ifndef CONVOY_ENGINE_BASE_JSON_WRITER_H
#define CONVOY_ENGINE_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero at first. */
struct convoy_json_writer {
    /* malloc'd, not NUL-terminated. convoy_json_writer_free() frees it, or the part that takes it over. */
    char *bytes;
    size_t length, capacity;
    bool failed; /* memory ran out */
    bool comma;  /* the next key or value follows another one */
};

void convoy_json_write_begin_object(struct convoy_json_writer *json);
void convoy_json_write_end_object(struct convoy_json_writer *json);
void convoy_json_write_begin_array(struct convoy_json_writer *json);
void convoy_json_write_end_array(struct convoy_json_writer *json);

/* The key of the next member: a string literal in which nothing has to be escaped. */
#define convoy_json_write_key(json, literal)                                                                 \
    convoy_json_write_quoted_key((json), "\"" literal "\":", sizeof(literal) + 2)

/* quoted: the key with its quotes and colon. */
void convoy_json_write_quoted_key(struct convoy_json_writer *json, const char *quoted, size_t length);

/* The key is text, escaped as that of a value. */
void convoy_json_write_string_key(struct convoy_json_writer *json, const char *key);

/* A value: quotes, backslashes and control characters are escaped, what is not UTF-8 becomes U+FFFD. */
void convoy_json_write_string(struct convoy_json_writer *json, const char *string);
void convoy_json_write_bool(struct convoy_json_writer *json, bool value);
void convoy_json_write_unsigned(struct convoy_json_writer *json, uint64_t number);
/* Six significant digits. A number that is not finite, which JSON cannot write, becomes null. */
void convoy_json_write_double(struct convoy_json_writer *json, double number);
/* Nine significant digits, which tell any two float32 apart. One that is not finite is NaN, Infinity or
 * -Infinity, which JSON does not know, but Python's json and those who read a tensor from Triton do. */
void convoy_json_write_float(struct convoy_json_writer *json, float number);

/* Values, or members, that are JSON already, with the commas between them; none when length is 0. */
void convoy_json_write_fragment(struct convoy_json_writer *json, const char *bytes, size_t length);

/* Appends bytes as they are, and no comma: for what stands behind the JSON. */
void convoy_json_writer_append(struct convoy_json_writer *json, const char *bytes, size_t length);

/* Frees the bytes; json is all zero then. */
void convoy_json_writer_free(struct convoy_json_writer *json);

#endif
