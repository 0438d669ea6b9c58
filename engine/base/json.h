/* Reading JSON with cJSON: errors that say where, types and ranges checked, unknown and duplicate keys
 * refused.
 *
 * The getters leave *value as it is when the key is absent, so a caller fills in the defaults first. All
 * sentences name the file and the path of the key:
 *
 *     config/convoyd.json:3:14: not valid JSON here: '"threads" 4}'
 *     config/convoyd.json: http.threads must be an integer from 0 to 1024, found "four"
 *     config/convoyd.json: unknown key 'htpp'; the keys known here are listen, models, http
 *
 * Errors are -EINVAL unless something else is said. Threads: one document is read by one thread at a time. */
#ifndef CONVOY_ENGINE_BASE_JSON_H
#define CONVOY_ENGINE_BASE_JSON_H

#include "engine/base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_JSON_MAX_BYTES (4u << 20) /* of a file or text */

/* An object inside a document, with what is needed to speak about it. value is NULL when the object is
 * absent: its getters then find nothing. Borrows from the document and from file. */
struct convoy_json {
    const cJSON *value;
    const char *file; /* as errors name it */
    char path[160];   /* "http", "batching"; empty for the document itself */
};

/* Parses length bytes of UTF-8 text; file is what errors call it. Refuses NUL bytes, text after the document,
 * more nesting than cJSON takes (1000), numbers that are not finite and duplicate keys at any depth. The
 * caller frees *document with cJSON_Delete(). -EFBIG past CONVOY_JSON_MAX_BYTES, -ENOMEM. */
int convoy_json_parse(const char *text, size_t length, const char *file, cJSON **document,
                      struct convoy_error *error);

/* The same from a file. Also the errno of open(2) and read(2), e.g. -ENOENT. */
int convoy_json_load(const char *path, cJSON **document, struct convoy_error *error);

/* The document itself, which must be an object. document and file must outlive root. */
int convoy_json_root(const cJSON *document, const char *file, struct convoy_json *root,
                     struct convoy_error *error);

/* Refuses keys that are not in known, which ends with NULL. */
int convoy_json_known(const struct convoy_json *object, const char *const *known, struct convoy_error *error);

/* The key is there and not null. */
bool convoy_json_has(const struct convoy_json *object, const char *key);

/* The object under key; inside->value is NULL when it is absent. */
int convoy_json_object(const struct convoy_json *object, const char *key, struct convoy_json *inside,
                       struct convoy_error *error);

/* Integers are exact: below 2^53 in size, no fraction. */
int convoy_json_int64(const struct convoy_json *object, const char *key, int64_t least, int64_t most,
                      int64_t *value, struct convoy_error *error);
int convoy_json_uint64(const struct convoy_json *object, const char *key, uint64_t least, uint64_t most,
                       uint64_t *value, struct convoy_error *error);
int convoy_json_uint32(const struct convoy_json *object, const char *key, uint32_t least, uint32_t most,
                       uint32_t *value, struct convoy_error *error);
int convoy_json_double(const struct convoy_json *object, const char *key, double least, double most,
                       double *value, struct convoy_error *error);
int convoy_json_bool(const struct convoy_json *object, const char *key, bool *value,
                     struct convoy_error *error);

/* *value is borrowed from the document. null is refused. */
int convoy_json_string(const struct convoy_json *object, const char *key, const char **value,
                       struct convoy_error *error);
/* As above, and null gives NULL. */
int convoy_json_string_or_null(const struct convoy_json *object, const char *key, const char **value,
                               struct convoy_error *error);

/* A string out of choices, which ends with NULL; *index is its place. */
int convoy_json_choice(const struct convoy_json *object, const char *key, const char *const *choices,
                       unsigned *index, struct convoy_error *error);

/* One number, or an array of 1 to capacity numbers, each from least to most; *count is how many. */
int convoy_json_doubles(const struct convoy_json *object, const char *key, double least, double most,
                        double *values, uint32_t capacity, uint32_t *count, struct convoy_error *error);

/* An array of whole numbers from 0 to most (31 at most), one at least and none twice: bit i of *bits stands
 * for i. */
int convoy_json_bits(const struct convoy_json *object, const char *key, uint32_t most, uint32_t *bits,
                     struct convoy_error *error);

#endif
