#include "server/inference/image_text.h"

#include "engine/base/json_space.h"
#include "server/inference/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define EXAMPLE "send {\"image\": \"<base64 or data: URI>\"}"

static char *skip_space(char *at, const char *end)
{
    return at + (convoy_json_skip_space(at, end) - at);
}

/* Passes over c and the space before it; false where something else stands. */
static bool take(char **at, const char *end, char c)
{
    *at = skip_space(*at, end);
    if (*at == end || **at != c)
        return false;
    (*at)++;
    return true;
}

static int malformed(struct convoy_error *error)
{
    return convoy_fail(error, -EINVAL, "the body is no JSON object of one member: " EXAMPLE);
}

/* The member's key must be "image", as it is usually written. */
static int read_key(char **at, const char *end, struct convoy_error *error)
{
    if (!take(at, end, '"'))
        return malformed(error);
    const char *key = *at, *quote = memchr(key, '"', (size_t)(end - key));
    if (quote == NULL)
        return malformed(error);
    if (quote - key != 5 || memcmp(key, "image", 5) != 0)
        return convoy_fail(error, -EINVAL, "the body has a member '%.*s', which is not known: " EXAMPLE,
                           (int)(quote - key < 40 ? quote - key : 40), key);
    *at += 6;
    return take(at, end, ':') ? 0 : malformed(error);
}

/* Of a data: URI the string begins at its comma, which becomes a quote. */
static int pass_scheme(char **at, const char *end, struct convoy_error *error)
{
    static const char scheme[] = "data:", coding[] = ";base64";
    const size_t coded = sizeof coding - 1;

    if ((size_t)(end - *at) < sizeof scheme || strncasecmp(*at + 1, scheme, sizeof scheme - 1) != 0)
        return 0;
    char *begun = *at + sizeof scheme, *comma = memchr(begun, ',', (size_t)(end - begun));
    const char *quote = memchr(begun, '"', (size_t)(end - begun));
    if (comma == NULL || (quote != NULL && quote < comma) || (size_t)(comma - begun) < coded ||
        strncasecmp(comma - coded, coding, coded) != 0)
        return convoy_fail(error, -EINVAL,
                           "the data: URI under 'image' is not in base64: send data:image/jpeg;base64,...");
    *comma = '"';
    *at = comma;
    return 0;
}

static int read_image(char **at, const char *end, struct convoy_part *part, struct convoy_error *error)
{
    *at = skip_space(*at, end);
    int code = pass_scheme(at, end, error);
    if (code != 0)
        return code;
    switch (convoy_base64_string(at, end, part)) {
    case 0:
        return 0;
    case -EPROTO:
        return convoy_fail(error, -EINVAL, "'image' is no string: " EXAMPLE);
    case -EINVAL:
        return convoy_fail(error, -EINVAL, "what is under 'image' is no base64: " EXAMPLE);
    default:
        return convoy_fail(error, -EINVAL, "the base64 under 'image' is cut off: send all of it");
    }
}

int convoy_image_text(char *text, size_t length, struct convoy_part *part, struct convoy_error *error)
{
    char *at = text;
    const char *end = text + length;
    int code;

    if (!take(&at, end, '{'))
        return malformed(error);
    if (take(&at, end, '}'))
        return convoy_fail(error, -EINVAL, "the body lacks 'image': " EXAMPLE);
    if ((code = read_key(&at, end, error)) != 0 || (code = read_image(&at, end, part, error)) != 0)
        return code;
    if (take(&at, end, ','))
        return (code = read_key(&at, end, error)) != 0
                   ? code
                   : convoy_fail(error, -EINVAL,
                                 "the body has 'image' twice: send a form for several images");
    if (!take(&at, end, '}') || skip_space(at, end) != end)
        return malformed(error);
    return 0;
}
