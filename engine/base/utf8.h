/* Checks UTF-8 in labels, logs and JSON, as RFC 3629 defines it: no overlong forms, no surrogates, nothing
 * past U+10FFFF. Any thread. */
#ifndef CONVOY_ENGINE_BASE_UTF8_H
#define CONVOY_ENGINE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the length in bytes (1 to 4) of the character at the start of text; 0 if there is no valid one. */
size_t convoy_utf8_character(const char *text, size_t length);

/* True if all of text is UTF-8; if not, *at (at may be NULL) is the offset of the first byte that is not. */
bool convoy_utf8_valid(const char *text, size_t length, size_t *at);

#endif
