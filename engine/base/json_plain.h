/* Reads short, plain JSON in one pass into one block of memory, where cJSON allocates each value and each
 * string.
 *
 * Plain is: at most CONVOY_JSON_PLAIN_BYTES, CONVOY_JSON_PLAIN_VALUES values and CONVOY_JSON_PLAIN_DEPTH
 * lists within each other; strings of printable ASCII without a backslash; numbers of 1 to 15 digits and
 * nothing else; no key twice in an object. All else, and all that is no JSON, is left to convoy_json_parse(),
 * so that there is one place where JSON is judged and one sentence for what is wrong with it. */
#ifndef CONVOY_ENGINE_BASE_JSON_PLAIN_H
#define CONVOY_ENGINE_BASE_JSON_PLAIN_H

#include <cjson/cJSON.h>
#include <stddef.h>

#define CONVOY_JSON_PLAIN_BYTES  1024u
#define CONVOY_JSON_PLAIN_VALUES 48u
#define CONVOY_JSON_PLAIN_DEPTH  8u

/* The document as convoy_json_parse() makes it of the same text, in every field; NULL where the text is not
 * plain, or memory is out. The text need not outlive it. The caller frees it with free(), not with
 * cJSON_Delete(), and does not change it. Any thread. */
cJSON *convoy_json_plain(const char *text, size_t length);

#endif
