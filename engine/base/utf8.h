/* UTF-8, as labels, logs and JSON need it. RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF.
 * Any thread. */
#ifndef CONVOY_ENGINE_BASE_UTF8_H
#define CONVOY_ENGINE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes (1 to 4) of the character that text begins with; 0 when length bytes do not begin with one. */
size_t convoy_utf8_character(const char *text, size_t length);

/* All of text is UTF-8; otherwise *at (may be NULL) is the offset of the first byte that is not. */
bool convoy_utf8_valid(const char *text, size_t length, size_t *at);

#endif
