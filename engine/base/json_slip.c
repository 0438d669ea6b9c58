#include "engine/base/json_slip.h"

#include <stdio.h>
#include <string.h>

enum { MOST_COMPARED = 40 }; /* bytes of a key */

const char *convoy_json_slip(const char *text, size_t length, size_t *at)
{
    size_t offset = *at, next = offset < length ? offset + strspn(text + offset, " \t\r\n") : length;
    if (offset > 0 && offset <= length && strchr("/#'", text[offset - 1]) != NULL)
        next = offset - 1; /* behind a comma cJSON counts one character too many */
    *at = next;
    if (next < length && (text[next] == '/' || text[next] == '#'))
        return "JSON has no comments";
    if (next < length && text[next] == '\'')
        return "a string stands in double quotes";
    for (size_t close = next + (next < length); close > 0 && close + 2 > offset; close--) {
        if (text[close - 1] != '}' && text[close - 1] != ']')
            continue;
        size_t before = close - 1;
        while (before > 0 && strchr(" \t\r\n", text[before - 1]) != NULL)
            before--;
        if (before == 0 || text[before - 1] != ',')
            continue;
        *at = before - 1;
        return "nothing follows this comma";
    }
    *at = offset;
    return "not valid JSON here";
}

/* How many insertions, deletions and replacements of a character make one key of the other (Levenshtein
 * 1966); keys that are too long for the table count as far apart. */
static size_t edits_between(const char *left, const char *right)
{
    size_t row[MOST_COMPARED + 1], length = strlen(right);
    if (length > MOST_COMPARED || strlen(left) > MOST_COMPARED)
        return MOST_COMPARED;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; left[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t replaced = diagonal + (left[i - 1] != right[j - 1]);
            diagonal = row[j];
            size_t moved = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = replaced < moved ? replaced : moved;
        }
    }
    return row[length];
}

const char *convoy_json_keys(const char *written, const char *const *known,
                             char text[static CONVOY_JSON_KEYS_BYTES])
{
    const char *best = NULL, *const * key;
    size_t fewest = strlen(written) > 4 ? 3 : 2, used = 0;
    for (key = known; *key != NULL; key++) {
        size_t edits = edits_between(written, *key);
        if (edits < fewest) {
            fewest = edits;
            best = *key;
        }
    }
    if (best != NULL)
        used = (size_t)snprintf(text, CONVOY_JSON_KEYS_BYTES, " (did you mean '%s'?)", best);
    for (key = known; *key != NULL && used < CONVOY_JSON_KEYS_BYTES; key++)
        used += (size_t)snprintf(text + used, CONVOY_JSON_KEYS_BYTES - used, "%s%s",
                                 key == known ? "; the keys known here are " : ", ", *key);
    return text;
}
