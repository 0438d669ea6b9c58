#include "server/http/multipart.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool boundary_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("'()+_,-./:=? ", c) != NULL);
}

/* A parameter's value at text, quoted or up to ';' or blank, into value; returns what follows, or NULL when
 * it is too long, empty or unfinished. */
static const char *parameter_value(const char *text, char *value, size_t capacity)
{
    size_t length = 0;
    bool quoted = *text == '"';

    if (quoted)
        text++;
    while (*text != '\0' && (quoted ? *text != '"' : strchr("; \t", *text) == NULL)) {
        if (quoted && *text == '\\' && text[1] != '\0')
            text++;
        if (length + 1 >= capacity)
            return NULL;
        value[length++] = *text++;
    }
    if (quoted && *text++ != '"')
        return NULL;
    value[length] = '\0';
    return length > 0 ? text : NULL;
}

/* Past a parameter that does not matter, with care for ';' inside quotes. */
static const char *skip_parameter(const char *text)
{
    bool quoted = false;

    for (; *text != '\0' && (quoted || *text != ';'); text++) {
        if (quoted && *text == '\\' && text[1] != '\0')
            text++;
        else if (*text == '"')
            quoted = !quoted;
    }
    return text;
}

int convoy_multipart_boundary(const char *content_type, char boundary[CONVOY_BOUNDARY_MAX + 1],
                              struct convoy_error *error)
{
    static const char type[] = "multipart/form-data";
    static const char key[] = "boundary=";

    if (content_type == NULL)
        return -ENOENT;
    content_type += strspn(content_type, " \t");
    if (strncasecmp(content_type, type, sizeof type - 1) != 0)
        return -ENOENT;
    content_type += sizeof type - 1;
    if (*content_type != '\0' && strchr("; \t", *content_type) == NULL)
        return -ENOENT;

    for (content_type = skip_parameter(content_type); *content_type == ';';
         content_type = skip_parameter(content_type)) {
        content_type += strspn(content_type, "; \t");
        if (strncasecmp(content_type, key, sizeof key - 1) != 0)
            continue;
        if (parameter_value(content_type + sizeof key - 1, boundary, CONVOY_BOUNDARY_MAX + 1) == NULL)
            return convoy_fail(
                error, -EINVAL,
                "the boundary in the Content-Type of a multipart/form-data request must have 1 "
                "to %d characters",
                CONVOY_BOUNDARY_MAX);
        size_t length = strlen(boundary);
        for (size_t i = 0; i < length; i++)
            if (!boundary_character(boundary[i]) || (boundary[i] == ' ' && i + 1 == length))
                return convoy_fail(error, -EINVAL,
                                   "the boundary in the Content-Type of a multipart/form-data request has a "
                                   "character that is not allowed in it");
        return 0;
    }
    return convoy_fail(
        error, -EINVAL,
        "the Content-Type multipart/form-data lacks its boundary: let the client set the header, "
        "with curl by -F alone");
}

/* What is being split, and where we are. */
struct reader {
    const uint8_t *body;
    size_t length;
    char delimiter[CONVOY_BOUNDARY_MAX + 5]; /* CR LF -- boundary */
    size_t delimiter_length;
};

struct delimiter_line {
    size_t start, end; /* offsets: of the CR before the delimiter, and of what follows its line */
    bool last;
};

/* What follows the boundary at offset: "--" or blanks and a line's end. False when it is neither, so that it
 * is no delimiter; *at is then where the search goes on, so that each byte is read once. */
static bool delimiter_ends(const struct reader *reader, size_t *at, bool *last)
{
    size_t i = *at;

    *last = reader->length - i >= 2 && memcmp(reader->body + i, "--", 2) == 0;
    if (*last) {
        *at = i + 2;
        return true;
    }
    while (i < reader->length && (reader->body[i] == ' ' || reader->body[i] == '\t'))
        i++;
    *at = i;
    if (reader->length - i < 2 || memcmp(reader->body + i, "\r\n", 2) != 0)
        return false;
    *at = i + 2;
    return true;
}

/* So many bytes are looked through at once: the compiler makes vectors of that. */
#define BLOCK 64

/* Whether CR LF and then two bytes begin within the BLOCK bytes from text on; three more are read. */
static bool block_has(const uint8_t *text, const char four[4])
{
    uint8_t third = (uint8_t)four[2], fourth = (uint8_t)four[3], found = 0;

    for (size_t i = 0; i < BLOCK; i++)
        found |= (uint8_t)((text[i] == '\r') & (text[i + 1] == '\n') & (text[i + 2] == third) &
                           (text[i + 3] == fourth));
    return found != 0;
}

/* Where CR LF and then two bytes begin at or after offset from; length when they do not. *known: up to there
 * a block was found to have them, so that it is not looked through again for the next; 0 at first. */
static size_t find_four(const uint8_t *bytes, size_t length, size_t from, const char four[4], size_t *known)
{
    uint32_t wanted, here;

    memcpy(&wanted, four, 4);
    while (length - from >= 4) {
        if (from >= *known) {
            bool whole = length - from >= BLOCK + 3;
            if (whole && !block_has(bytes + from, four)) {
                from += BLOCK;
                continue;
            }
            *known = whole ? from + BLOCK : length - 3;
        }
        for (; from < *known; from++) {
            memcpy(&here, bytes + from, 4);
            if (here == wanted)
                return from;
        }
    }
    return length;
}

/* The first delimiter line at or after offset from. Candidates begin with a CR, and a delimiter has but one,
 * so no comparison runs past the next candidate: however many there are, each byte is compared at most twice.
 */
static bool find_delimiter(const struct reader *reader, size_t from, struct delimiter_line *line)
{
    size_t known = 0;

    while ((from = find_four(reader->body, reader->length, from, reader->delimiter, &known)) <
           reader->length) {
        line->start = from;
        from++;
        if (reader->length - line->start < reader->delimiter_length ||
            memcmp(reader->body + line->start, reader->delimiter, reader->delimiter_length) != 0)
            continue;
        line->end = line->start + reader->delimiter_length;
        if (delimiter_ends(reader, &line->end, &line->last))
            return true;
        from = line->end;
    }
    return false;
}

/* The body may begin with the boundary, without the line's end that comes before all others. */
static bool find_first(const struct reader *reader, struct delimiter_line *line)
{
    const char *bare = reader->delimiter + 2;
    size_t length = reader->delimiter_length - 2;

    if (reader->length >= length && memcmp(reader->body, bare, length) == 0) {
        line->start = 0;
        line->end = length;
        if (delimiter_ends(reader, &line->end, &line->last))
            return true;
    }
    return find_delimiter(reader, 0, line);
}

/* The content of the part between two offsets: past its headers and the empty line. */
static int part_content(const struct reader *reader, size_t start, size_t end, size_t number,
                        struct convoy_part *part, struct convoy_error *error)
{
    const uint8_t *bytes = reader->body + start;
    size_t length = end - start;
    size_t content = 0;

    if (length >= 2 && memcmp(bytes, "\r\n", 2) == 0) {
        content = 2; /* no headers at all */
    } else {
        size_t known = 0, blank = find_four(bytes, length, 0, "\r\n\r\n", &known);
        if (blank == length || memchr(bytes, ':', blank) == NULL)
            return convoy_fail(
                error, -EINVAL,
                "part %zu of the multipart/form-data body has no headers that end with an empty "
                "line",
                number);
        content = blank + 4;
    }
    part->bytes = bytes + content;
    part->length = length - content;
    return 0;
}

int convoy_multipart_split(const uint8_t *body, size_t length, const char *boundary,
                           struct convoy_part *parts, size_t most, size_t *count, struct convoy_error *error)
{
    struct reader reader = {.body = body, .length = length};
    struct delimiter_line line;

    *count = 0;
    reader.delimiter_length =
        (size_t)snprintf(reader.delimiter, sizeof reader.delimiter, "\r\n--%s", boundary);
    if (!find_first(&reader, &line))
        return convoy_fail(error, -EINVAL,
                           "the multipart/form-data body does not contain the boundary that its Content-Type "
                           "names");
    while (!line.last && *count <= most) {
        struct delimiter_line next;
        struct convoy_part part;
        /* Headers end with CR LF CR LF, so the delimiter after an empty part begins with the CR LF after
         * that; looking from the delimiter line's end on misses none. */
        if (!find_delimiter(&reader, line.end, &next))
            return convoy_fail(
                error, -EINVAL,
                "the multipart/form-data body ends inside part %zu: the closing boundary is missing",
                *count + 1);
        int code = part_content(&reader, line.end, next.start, *count + 1, &part, error);
        if (code != 0)
            return code;
        if (parts != NULL && *count < most)
            parts[*count] = part;
        ++*count;
        line = next;
    }
    return 0;
}
