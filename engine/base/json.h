/* Reads JSON with cJSON. Errors name the place; types and ranges are checked; unknown and duplicate keys are
 * refused.
 *
 * The getters leave *value unchanged when the key is absent, so a caller sets the defaults first. All
 * sentences name the file and the path of the key:
 *
 *     config/convoyd.json:3:14: not valid JSON here: '"threads" 4}'
 *     config/convoyd.json: http.threads must be an integer from 0 to 1024, found "four"
 *     config/convoyd.json: unknown key 'htpp'; the keys known here are listen, models, http
 *
 * Functions that return int return 0, or -EINVAL unless another error is named. Threads: one document is read
 * by one thread at a time. */
#ifndef CONVOY_ENGINE_BASE_JSON_H
#define CONVOY_ENGINE_BASE_JSON_H

#include "engine/base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_JSON_MAX_BYTES (4u << 20) /* of a file or text */

/* An object inside a document, with what errors need to name it. value is NULL when the object is absent: its
 * getters then find nothing. Borrows from the document and from file. */
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

/* Parses a file. Errors as above, and those of open(2) and read(2), e.g. -ENOENT. */
int convoy_json_load(const char *path, cJSON **document, struct convoy_error *error);

/* Makes *root the document itself, which must be an object. document and file must outlive root. */
int convoy_json_root(const cJSON *document, const char *file, struct convoy_json *root,
                     struct convoy_error *error);

/* Refuses keys that are not in known, which ends with NULL. */
int convoy_json_known(const struct convoy_json *object, const char *const *known, struct convoy_error *error);

/* True if the key is there and its value is not null. */
bool convoy_json_has(const struct convoy_json *object, const char *key);

/* Makes *inside the object under key; inside->value is NULL when it is absent. */
int convoy_json_object(const struct convoy_json *object, const char *key, struct convoy_json *inside,
                       struct convoy_error *error);

/* Numbers from least to most. Integers must be exact: of magnitude below 2^53, without a fraction. */
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

/* *value is borrowed from the document. JSON's null is refused. */
int convoy_json_string(const struct convoy_json *object, const char *key, const char **value,
                       struct convoy_error *error);
/* The same, but JSON's null gives NULL. */
int convoy_json_string_or_null(const struct convoy_json *object, const char *key, const char **value,
                               struct convoy_error *error);

/* One of the strings in choices, which ends with NULL; *index is its index. */
int convoy_json_choice(const struct convoy_json *object, const char *key, const char *const *choices,
                       unsigned *index, struct convoy_error *error);

/* One number, or an array of 1 to capacity numbers, each from least to most; *count is how many. */
int convoy_json_doubles(const struct convoy_json *object, const char *key, double least, double most,
                        double *values, uint32_t capacity, uint32_t *count, struct convoy_error *error);

/* An array of integers from 0 to most (at most 31), at least one and none twice: bit i of *bits is set if i
 * is in it. */
int convoy_json_bits(const struct convoy_json *object, const char *key, uint32_t most, uint32_t *bits,
                     struct convoy_error *error);

/* The array of strings at key, each of which is valid; ends with NULL. *list keeps its value where there is
 * no such key, and is the caller's to free, also after an error. rule: what the strings must be, for the
 * sentence. */
int convoy_json_strings(const struct convoy_json *object, const char *key, bool (*valid)(const char *string),
                        const char *rule, char ***list, struct convoy_error *error);
void convoy_json_strings_free(char **list); /* NULL is allowed */

#endif
