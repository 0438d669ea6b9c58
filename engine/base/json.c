#include "engine/base/json.h"

#include "engine/base/file.h"
#include "engine/base/json_slip.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_INTEGER 9007199254740992.0 /* 2^53: the first integer that another one is rounded to */

enum { SHOWN_BYTES = 44 }; /* of what was found, in a sentence */

/* Copies at most SHOWN_BYTES - 4 bytes of text on one line, ending on a character. */
static const char *shorten(const char *text, size_t length, char shown[SHOWN_BYTES])
{
    size_t used = 0;
    bool cut = false;
    while (used < length && text[used] != '\0' && !cut) {
        size_t bytes = convoy_utf8_character(text + used, length - used);
        if (bytes == 0 || used + bytes > SHOWN_BYTES - 4) {
            cut = true;
        } else {
            memcpy(shown + used, text + used, bytes);
            used += bytes;
        }
    }
    for (size_t i = 0; i < used; i++) {
        if ((unsigned char)shown[i] < 0x20)
            shown[i] = ' ';
    }
    memcpy(shown + used, cut ? "..." : "", cut ? 4 : 1);
    return shown;
}

static const char *found(const cJSON *value, char shown[SHOWN_BYTES])
{
    if (cJSON_IsObject(value))
        return "an object";
    if (cJSON_IsArray(value))
        return "an array";
    char *text = cJSON_PrintUnformatted(value);
    if (text == NULL)
        return "something else";
    shorten(text, strlen(text), shown);
    cJSON_free(text);
    return shown;
}

/* ---- Parsing ---- */

/* "file:line:column: what: 'what stands there'". Lines and columns count from 1, columns in characters. */
static int fail_at(const char *text, size_t length, size_t offset, const char *file, const char *what,
                   struct convoy_error *error)
{
    size_t line = 1, column = 1;
    char shown[SHOWN_BYTES];
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    if (offset >= length)
        return convoy_fail(error, -EINVAL, "%s:%zu:%zu: %s: the text ends", file, line, column, what);
    shorten(text + offset, length - offset, shown);
    return convoy_fail(error, -EINVAL, "%s:%zu:%zu: %s: '%s'", file, line, column, what, shown);
}

/* cJSON's strings end at a NUL, so an escaped one would hide the rest of a string from every check. */
static bool find_nul_escape(const char *text, size_t length, size_t *at)
{
    for (size_t i = 0; i + 1 < length; i++) {
        if (text[i] != '\\')
            continue;
        if (length - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0) {
            *at = i;
            return true;
        }
        i++; /* the escaped character, which may be a backslash */
    }
    return false;
}

/* Where a value lies, for sentences: the chain of keys up to the document. */
struct place {
    const struct place *outer;
    const char *key; /* NULL inside an array */
};

static void place_text(const struct place *place, char *text, size_t capacity)
{
    size_t used = 0;
    if (place->outer != NULL) {
        place_text(place->outer, text, capacity);
        used = strlen(text);
    }
    if (place->key != NULL)
        snprintf(text + used, capacity - used, "%s%s", used > 0 ? "." : "", place->key);
    else if (place->outer != NULL)
        snprintf(text + used, capacity - used, "[]");
    else
        text[0] = '\0';
}

static int by_key(const void *left, const void *right)
{
    const cJSON *const *a = left, *const *b = right;
    return strcmp((*a)->string, (*b)->string);
}

static int refuse_duplicates(const cJSON *object, const struct place *place, const char *file,
                             struct convoy_error *error)
{
    size_t count = (size_t)cJSON_GetArraySize(object);
    if (count < 2)
        return 0;
    /* Sorted, so that a file of a million keys is no attack on this check. */
    const cJSON **items = malloc(count * sizeof(const cJSON *));
    if (items == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", file);
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        items[i++] = item;
    }
    qsort(items, count, sizeof(const cJSON *), by_key);
    int result = 0;
    for (i = 1; i < count && result == 0; i++) {
        if (strcmp(items[i - 1]->string, items[i]->string) == 0) {
            char path[160], shown[SHOWN_BYTES];
            struct place where = {.outer = place, .key = items[i]->string};
            place_text(&where, path, sizeof path);
            shorten(path, strlen(path), shown);
            result = convoy_fail(error, -EINVAL, "%s: the key '%s' stands there twice; leave one of them",
                                 file, shown);
        }
    }
    free(items);
    return result;
}

/* Checks what cJSON lets pass. cJSON bounds the nesting to 1000, and with it this recursion. */
static int check_values(const cJSON *value, const struct place *place, const char *file,
                        struct convoy_error *error)
{
    if (cJSON_IsNumber(value) && !isfinite(value->valuedouble)) {
        char path[160];
        place_text(place, path, sizeof path);
        return convoy_fail(error, -EINVAL, "%s: the number at '%s' is too large", file, path);
    }
    int result = cJSON_IsObject(value) ? refuse_duplicates(value, place, file, error) : 0;
    if (result < 0)
        return result;
    const cJSON *item;
    cJSON_ArrayForEach(item, value)
    {
        struct place inner = {.outer = place, .key = item->string};
        result = check_values(item, &inner, file, error);
        if (result < 0)
            return result;
    }
    return 0;
}

/* text is followed by a NUL, which cJSON is not told of: versions of it look a byte past the length. */
static int parse(const char *text, size_t length, const char *file, cJSON **document,
                 struct convoy_error *error)
{
    size_t at = 0;
    if (strspn(text, " \t\r\n") == length)
        return convoy_fail(error, -EINVAL, "%s: is empty; the least that it can hold is {}", file);
    if (!convoy_utf8_valid(text, length, &at))
        return fail_at(text, length, at, file, "not UTF-8 from here on", error);
    if (memchr(text, '\0', length) != NULL)
        return convoy_fail(error, -EINVAL, "%s: holds a NUL byte and is no JSON text", file);
    if (find_nul_escape(text, length, &at))
        return fail_at(text, length, at, file, "a string must not contain \\u0000", error);

    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (root == NULL) {
        at = end != NULL && end >= text && end <= text + length ? (size_t)(end - text) : 0;
        const char *slip = convoy_json_slip(text, length, &at);
        return fail_at(text, length, at, file, slip, error);
    }
    at = (size_t)(end - text);
    at += strspn(text + at, " \t\r\n");
    int result = 0;
    if (at < length) {
        result = fail_at(text, length, at, file, "nothing may follow the JSON value", error);
    } else {
        struct place place = {0};
        result = check_values(root, &place, file, error);
    }
    if (result < 0) {
        cJSON_Delete(root);
        return result;
    }
    *document = root;
    return 0;
}

int convoy_json_parse(const char *text, size_t length, const char *file, cJSON **document,
                      struct convoy_error *error)
{
    if (length > CONVOY_JSON_MAX_BYTES)
        return convoy_fail(error, -EFBIG, "%s: has %zu bytes, more than the %u that are read", file, length,
                           CONVOY_JSON_MAX_BYTES);
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", file);
    memcpy(copy, text, length);
    copy[length] = '\0';
    int result = parse(copy, length, file, document, error);
    free(copy);
    return result;
}

int convoy_json_load(const char *path, cJSON **document, struct convoy_error *error)
{
    char *text = NULL;
    size_t length = 0;
    int result = convoy_file_read(path, CONVOY_JSON_MAX_BYTES, &text, &length, error);
    if (result < 0)
        return result;
    result = parse(text, length, path, document, error);
    free(text);
    return result;
}

/* ---- Reading ---- */

static const cJSON *get(const struct convoy_json *object, const char *key)
{
    return object->value != NULL ? cJSON_GetObjectItemCaseSensitive(object->value, key) : NULL;
}

/* "file: path.key must be EXPECTED, found ..." */
static int wrong(const struct convoy_json *object, const char *key, const cJSON *value, const char *expected,
                 struct convoy_error *error)
{
    char shown[SHOWN_BYTES];
    return convoy_fail(error, -EINVAL, "%s: %s%s%s must be %s, found %s", object->file, object->path,
                       object->path[0] != '\0' ? "." : "", key, expected, found(value, shown));
}

int convoy_json_root(const cJSON *document, const char *file, struct convoy_json *root,
                     struct convoy_error *error)
{
    char shown[SHOWN_BYTES];
    if (!cJSON_IsObject(document))
        return convoy_fail(error, -EINVAL, "%s: must be a JSON object {...}, found %s", file,
                           found(document, shown));
    *root = (struct convoy_json){.value = document, .file = file};
    return 0;
}

int convoy_json_known(const struct convoy_json *object, const char *const *known, struct convoy_error *error)
{
    const cJSON *item;
    if (object->value == NULL)
        return 0;
    cJSON_ArrayForEach(item, object->value)
    {
        const char *const *key = known;
        while (*key != NULL && strcmp(*key, item->string) != 0)
            key++;
        if (*key != NULL)
            continue;
        char keys[CONVOY_JSON_KEYS_BYTES], shown[SHOWN_BYTES];
        return convoy_fail(error, -EINVAL, "%s: unknown key '%s%s%s'%s", object->file, object->path,
                           object->path[0] != '\0' ? "." : "",
                           shorten(item->string, strlen(item->string), shown),
                           convoy_json_keys(item->string, known, keys));
    }
    return 0;
}

bool convoy_json_has(const struct convoy_json *object, const char *key)
{
    const cJSON *value = get(object, key);
    return value != NULL && !cJSON_IsNull(value);
}

int convoy_json_object(const struct convoy_json *object, const char *key, struct convoy_json *inside,
                       struct convoy_error *error)
{
    const cJSON *value = get(object, key);
    if (value != NULL && !cJSON_IsObject(value))
        return wrong(object, key, value, "an object {...}", error);
    size_t before = strlen(object->path), length = strlen(key), dot = before > 0;
    if (before + dot + length >= sizeof inside->path)
        return convoy_fail(error, -EINVAL, "%s: '%s' is nested too deep", object->file, key);
    memmove(inside->path, object->path, before); /* inside may be object */
    if (dot > 0)
        inside->path[before] = '.';
    memcpy(inside->path + before + dot, key, length + 1);
    inside->file = object->file;
    inside->value = value;
    return 0;
}

/* True when value is an integer from least to most that a double holds exactly. */
static bool integer_between(const cJSON *value, double least, double most)
{
    if (!cJSON_IsNumber(value))
        return false;
    double number = value->valuedouble;
    return fabs(number) < EXACT_INTEGER && number == floor(number) && number >= least && number <= most;
}

int convoy_json_int64(const struct convoy_json *object, const char *key, int64_t least, int64_t most,
                      int64_t *value, struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    if (!integer_between(item, (double)least, (double)most)) {
        char expected[96];
        snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)least,
                 (long long)most);
        return wrong(object, key, item, expected, error);
    }
    *value = (int64_t)item->valuedouble;
    return 0;
}

int convoy_json_uint64(const struct convoy_json *object, const char *key, uint64_t least, uint64_t most,
                       uint64_t *value, struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    if (!integer_between(item, (double)least, (double)most)) {
        char expected[96];
        snprintf(expected, sizeof expected, "an integer from %llu to %llu", (unsigned long long)least,
                 (unsigned long long)most);
        return wrong(object, key, item, expected, error);
    }
    *value = (uint64_t)item->valuedouble;
    return 0;
}

int convoy_json_uint32(const struct convoy_json *object, const char *key, uint32_t least, uint32_t most,
                       uint32_t *value, struct convoy_error *error)
{
    uint64_t wide = *value;
    int result = convoy_json_uint64(object, key, least, most, &wide, error);
    if (result == 0)
        *value = (uint32_t)wide;
    return result;
}

static bool number_between(const cJSON *value, double least, double most)
{
    return cJSON_IsNumber(value) && value->valuedouble >= least && value->valuedouble <= most;
}

int convoy_json_double(const struct convoy_json *object, const char *key, double least, double most,
                       double *value, struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    if (!number_between(item, least, most)) {
        char expected[96];
        snprintf(expected, sizeof expected, "a number from %g to %g", least, most);
        return wrong(object, key, item, expected, error);
    }
    *value = item->valuedouble;
    return 0;
}

int convoy_json_bool(const struct convoy_json *object, const char *key, bool *value,
                     struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    if (!cJSON_IsBool(item))
        return wrong(object, key, item, "true or false", error);
    *value = cJSON_IsTrue(item);
    return 0;
}

int convoy_json_string(const struct convoy_json *object, const char *key, const char **value,
                       struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    if (!cJSON_IsString(item))
        return wrong(object, key, item, "a string", error);
    *value = item->valuestring;
    return 0;
}

int convoy_json_string_or_null(const struct convoy_json *object, const char *key, const char **value,
                               struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    if (!cJSON_IsString(item) && !cJSON_IsNull(item))
        return wrong(object, key, item, "a string or null", error);
    *value = cJSON_IsNull(item) ? NULL : item->valuestring;
    return 0;
}

int convoy_json_choice(const struct convoy_json *object, const char *key, const char *const *choices,
                       unsigned *index, struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    for (unsigned i = 0; cJSON_IsString(item) && choices[i] != NULL; i++) {
        if (strcmp(item->valuestring, choices[i]) == 0) {
            *index = i;
            return 0;
        }
    }
    char expected[160] = "";
    size_t used = 0;
    for (unsigned i = 0; choices[i] != NULL && used < sizeof expected; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s\"%s\"",
                                 i == 0                   ? ""
                                 : choices[i + 1] == NULL ? " or "
                                                          : ", ",
                                 choices[i]);
    return wrong(object, key, item, expected, error);
}

static int wrong_numbers(const struct convoy_json *object, const char *key, const cJSON *value, double least,
                         double most, uint32_t capacity, struct convoy_error *error)
{
    char expected[160];
    snprintf(expected, sizeof expected, "a number from %g to %g, or an array of 1 to %u of them", least, most,
             capacity);
    return wrong(object, key, value, expected, error);
}

int convoy_json_doubles(const struct convoy_json *object, const char *key, double least, double most,
                        double *values, uint32_t capacity, uint32_t *count, struct convoy_error *error)
{
    const cJSON *item = get(object, key);
    if (item == NULL)
        return 0;
    if (number_between(item, least, most)) {
        values[0] = item->valuedouble;
        *count = 1;
        return 0;
    }
    int size = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : 0;
    if (size < 1 || (uint32_t)size > capacity)
        return wrong_numbers(object, key, item, least, most, capacity, error);
    double read[16];
    if (capacity > sizeof read / sizeof read[0])
        return convoy_fail(error, -EINVAL, "%s: %s: more than 16 numbers cannot be read", object->file, key);
    uint32_t used = 0;
    const cJSON *element;
    cJSON_ArrayForEach(element, item)
    {
        if (!number_between(element, least, most))
            return wrong_numbers(object, key, element, least, most, capacity, error);
        read[used++] = element->valuedouble;
    }
    memcpy(values, read, used * sizeof values[0]);
    *count = used;
    return 0;
}

int convoy_json_bits(const struct convoy_json *object, const char *key, uint32_t most, uint32_t *bits,
                     struct convoy_error *error)
{
    const cJSON *item = get(object, key), *element;
    char expected[120];
    uint32_t read = 0;
    if (item == NULL)
        return 0;
    snprintf(expected, sizeof expected, "an array of whole numbers from 0 to %u, one at least and none twice",
             most);
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) == 0)
        return wrong(object, key, item, expected, error);
    cJSON_ArrayForEach(element, item)
    {
        if (!number_between(element, 0, most) || element->valuedouble != (uint32_t)element->valuedouble ||
            (read >> (uint32_t)element->valuedouble & 1) != 0)
            return wrong(object, key, element, expected, error);
        read |= 1u << (uint32_t)element->valuedouble;
    }
    *bits = read;
    return 0;
}
