#include "engine/base/json_plain.h"

#include "engine/base/json_space.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* So many digits are exact in a double. */
#define MOST_DIGITS 15u

/* The document is the first value, so that its address is the block's. */
struct block {
    cJSON values[CONVOY_JSON_PLAIN_VALUES];
    char strings[]; /* as many bytes as the text, of which a string takes one more than these */
};

/* Every function returns false, or NULL, at the first byte that is not plain. */
struct reader {
    const char *at, *end;
    cJSON *value, *values_end; /* where the next one goes */
    char *string;
};

static void skip_space(struct reader *reader)
{
    reader->at = convoy_json_skip_space(reader->at, reader->end);
}

/* Passes over c, if it is what comes next. */
static bool take(struct reader *reader, char c)
{
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

static char *read_string(struct reader *reader)
{
    static const bool plain[256] = {[' '] = true, ['!'] = true, ['#' ... '['] = true, [']' ... '~'] = true};
    char *string = reader->string, *to = string;

    if (!take(reader, '"'))
        return NULL;
    const char *at = reader->at;
    while (at < reader->end && plain[(unsigned char)*at])
        *to++ = *at++;
    if (at == reader->end || *at != '"')
        return NULL;
    *to++ = '\0';
    reader->at = at + 1;
    reader->string = to;
    return string;
}

static bool read_number(struct reader *reader, cJSON *value)
{
    const char *begun = reader->at;
    uint64_t number = 0;

    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        if (reader->at - begun == MOST_DIGITS)
            return false;
        number = number * 10 + (uint64_t)(*reader->at - '0');
    }
    if (reader->at == begun || (*begun == '0' && reader->at - begun > 1))
        return false;
    value->type = cJSON_Number;
    value->valuedouble = (double)number;
    value->valueint = number > INT_MAX ? INT_MAX : (int)number;
    return true; /* what follows, a point say, is no comma and no bracket */
}

static bool read_word(struct reader *reader, cJSON *value, const char *word, int type)
{
    size_t length = strlen(word);

    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    value->type = type;
    value->valueint = type == cJSON_True;
    return true;
}

static bool has_key(const cJSON *object, const char *key)
{
    for (const cJSON *item = object->child; item != NULL; item = item->next)
        if (item->string[0] == key[0] && strcmp(item->string, key) == 0)
            return true;
    return false;
}

/* A member's key and colon. */
static char *read_key(struct reader *reader, const cJSON *object)
{
    char *key = read_string(reader);

    return key != NULL && take(reader, ':') && !has_key(object, key) ? key : NULL;
}

static cJSON *read_value(struct reader *reader, unsigned depth);

/* What stands between the brackets of list, whose first is passed over. */
static bool read_items(struct reader *reader, cJSON *list, char closing, unsigned depth)
{
    cJSON *last = NULL;

    if (take(reader, closing))
        return true;
    do {
        char *key = NULL;
        if (list->type == cJSON_Object && (key = read_key(reader, list)) == NULL)
            return false;
        cJSON *item = read_value(reader, depth);
        if (item == NULL)
            return false;
        item->string = key;
        item->prev = last;
        if (last == NULL)
            list->child = item;
        else
            last->next = item;
        last = item;
    } while (take(reader, ','));
    list->child->prev = last;
    return take(reader, closing);
}

static cJSON *read_value(struct reader *reader, unsigned depth)
{
    cJSON *value = reader->value;
    bool ok;

    skip_space(reader);
    if (value == reader->values_end || reader->at == reader->end)
        return NULL;
    reader->value++;
    *value = (cJSON){0};
    switch (*reader->at) {
    case '{':
    case '[':
        value->type = *reader->at++ == '{' ? cJSON_Object : cJSON_Array;
        ok = depth > 0 && read_items(reader, value, value->type == cJSON_Object ? '}' : ']', depth - 1);
        break;
    case '"':
        value->type = cJSON_String;
        value->valuestring = read_string(reader);
        ok = value->valuestring != NULL;
        break;
    case 't':
        ok = read_word(reader, value, "true", cJSON_True);
        break;
    case 'f':
        ok = read_word(reader, value, "false", cJSON_False);
        break;
    case 'n':
        ok = read_word(reader, value, "null", cJSON_NULL);
        break;
    default:
        ok = read_number(reader, value);
        break;
    }
    return ok ? value : NULL;
}

cJSON *convoy_json_plain(const char *text, size_t length)
{
    if (length > CONVOY_JSON_PLAIN_BYTES)
        return NULL;
    struct block *block = malloc(sizeof *block + length);
    if (block == NULL)
        return NULL;
    struct reader reader = {.at = text,
                            .end = text + length,
                            .value = block->values,
                            .values_end = block->values + CONVOY_JSON_PLAIN_VALUES,
                            .string = block->strings};
    cJSON *document = read_value(&reader, CONVOY_JSON_PLAIN_DEPTH);
    skip_space(&reader);
    if (document != NULL && reader.at == reader.end)
        return document;
    free(block);
    return NULL;
}
