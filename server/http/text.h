/* A growing buffer of text, with just enough JSON to write answers.
 *
 * Answers are on the hot path: this appends to one buffer, where a tree of JSON values would allocate for
 * every member. Running out of memory sets failed; later calls do nothing, so callers look once, at the end.
 * One thread at a time. */
#ifndef CONVOY_SERVER_TEXT_H
#define CONVOY_SERVER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_text {
    char *bytes; /* malloc'd, not NUL-terminated; whoever takes the text frees it */
    size_t length, capacity;
    bool failed; /* memory ran out */
};

void convoy_text_put(struct convoy_text *text, const char *bytes, size_t length);

/* Appends a string literal. */
#define convoy_text_add(text, literal) convoy_text_put((text), "" literal, sizeof(literal) - 1)

/* Appends string as a JSON string, quotes included: quotes, backslashes and control characters are escaped,
 * what is not UTF-8 becomes U+FFFD. */
void convoy_text_string(struct convoy_text *text, const char *string);

void convoy_text_natural(struct convoy_text *text, uint64_t number);

/* Six significant digits; a number that is not finite, which JSON cannot write, becomes null. */
void convoy_text_real(struct convoy_text *text, double number);

void convoy_text_free(struct convoy_text *text);

#endif
