/* The usual slips of those who write JSON by hand, named. Any thread. */
#ifndef CONVOY_ENGINE_BASE_JSON_SLIP_H
#define CONVOY_ENGINE_BASE_JSON_SLIP_H

#include <stddef.h>

#define CONVOY_JSON_KEYS_BYTES 400

/* What is wrong with text, of length bytes, which cJSON could not parse from *at on: a sentence's beginning.
 * cJSON reports a place behind a surplus comma; *at becomes the place of the slip. */
const char *convoy_json_slip(const char *text, size_t length, size_t *at);

/* What may stand in the place of the key written: " (did you mean 'KEY'?)", where one of the NULL-terminated
 * list known differs from it by one or two characters, and "; the keys known here are " with all of them.
 * Returns text. */
const char *convoy_json_keys(const char *written, const char *const *known,
                             char text[static CONVOY_JSON_KEYS_BYTES]);

#endif
