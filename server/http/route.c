#include "server/http/route.h"

#include <string.h>
#include <strings.h>

static int hexadecimal(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes a segment into text, cut off at capacity - 1 bytes. A '%' without two digits stands for itself.
 * False when it holds a NUL. */
static bool decode(const char *segment, size_t length, char *text, size_t capacity)
{
    size_t written = 0;

    for (size_t i = 0; i < length && written + 1 < capacity; i++) {
        char c = segment[i];
        if (c == '%' && length - i > 2 && hexadecimal(segment[i + 1]) >= 0 &&
            hexadecimal(segment[i + 2]) >= 0) {
            c = (char)(hexadecimal(segment[i + 1]) * 16 + hexadecimal(segment[i + 2]));
            i += 2;
        }
        if (c == '\0')
            return false;
        text[written++] = c;
    }
    text[written] = '\0';
    return true;
}

static void clear(struct convoy_path *path)
{
    path->model[0] = path->version[0] = path->region[0] = path->file[0] = '\0';
}

/* How many bytes at the end of segment are verb, which begins with a colon; all of them where it is another.
 */
static size_t verb_length(const char *verb, size_t verb_bytes, const char *segment, size_t length)
{
    static const char *const colons[] = {":", "%3A", "%3a"};
    size_t word = verb_bytes - 1;

    if (length < word || memcmp(segment + length - word, verb + 1, word) != 0)
        return length;
    for (int i = 0; i < 3; i++) {
        size_t colon = strlen(colons[i]);
        if (length >= word + colon && memcmp(segment + length - word - colon, colons[i], colon) == 0)
            return word + colon;
    }
    return length;
}

/* Compares one segment of each and captures. */
static bool segment_fits(const char *template, size_t template_length, const char *segment, size_t length,
                         struct convoy_path *path)
{
    if (template_length > 7 && memcmp(template, "{model}:", 8) == 0)
        length -= verb_length(template + 7, template_length - 7, segment, length);
    if (template_length >= 7 && memcmp(template, "{model}", 7) == 0)
        return length > 0 && decode(segment, length, path->model, sizeof path->model);
    if (template_length == 9 && memcmp(template, "{version}", 9) == 0)
        return length > 0 && decode(segment, length, path->version, sizeof path->version);
    if (template_length == 8 && memcmp(template, "{region}", 8) == 0)
        return length > 0 && decode(segment, length, path->region, sizeof path->region);
    if (template_length == 6 && memcmp(template, "{file}", 6) == 0)
        return length > 0 && decode(segment, length, path->file, sizeof path->file);
    return length == template_length && memcmp(segment, template, length) == 0;
}

static bool fits(const char *template, const char *target, size_t length, struct convoy_path *path)
{
    const char *end = target + length;

    clear(path);
    for (;;) {
        size_t template_length = strcspn(template, "/");
        const char *slash = memchr(target, '/', (size_t)(end - target));
        size_t segment_length = (size_t)((slash != NULL ? slash : end) - target);
        if (!segment_fits(template, template_length, target, segment_length, path))
            return false;
        template += template_length;
        target += segment_length;
        if (*template == '\0' || target == end)
            return *template == '\0' && target == end;
        template ++;
        target++;
    }
}

const struct convoy_route *convoy_route_find(const struct convoy_route *table, size_t count,
                                             const char *target, struct convoy_path *path)
{
    clear(path);
    if (target == NULL)
        return NULL;
    if (strncasecmp(target, "http://", 7) == 0)
        target += 7 + strcspn(target + 7, "/?#");
    if (*target != '/')
        return NULL;
    size_t length = strcspn(target, "?#");
    for (size_t i = 0; i < count; i++)
        if (fits(table[i].template, target, length, path))
            return &table[i];
    clear(path);
    return NULL;
}

enum convoy_method convoy_method_of(const char *method)
{
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return CONVOY_GET;
    if (strcmp(method, "POST") == 0)
        return CONVOY_POST;
    return CONVOY_OTHER_METHOD;
}

bool convoy_route_takes(const struct convoy_route *route, enum convoy_method method)
{
    return route->method == method || (route->method == CONVOY_GET_OR_POST && method != CONVOY_OTHER_METHOD);
}

const char *convoy_route_allow(const struct convoy_route *route)
{
    switch (route->method) {
    case CONVOY_POST:
        return "POST";
    case CONVOY_GET_OR_POST:
        return "GET, HEAD, POST";
    default:
        return "GET, HEAD";
    }
}
