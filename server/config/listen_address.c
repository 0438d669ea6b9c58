#include "server/config/listen_address.h"

#include "engine/base/json.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIX_SCHEME "unix:"

#define PATH_BYTES 107 /* of sun_path in unix(7), without its NUL */

int convoy_listen_parse(const char *origin, const char *text, char **host, uint16_t *port,
                        struct convoy_error *error)
{
    const char *colon = strrchr(text, ':');
    const char *first = text, *end = colon;
    if (colon == NULL)
        return convoy_fail(error, -EINVAL,
                           "%s must be HOST:PORT, e.g. 127.0.0.1:8080; found '%s', which has no port", origin,
                           text);
    if (text[0] == '[') {
        if (colon == text || colon[-1] != ']')
            return convoy_fail(error, -EINVAL, "%s must be [ADDRESS]:PORT, e.g. [::1]:8080; found '%s'",
                               origin, text);
        first = text + 1;
        end = colon - 1;
    }
    size_t length = (size_t)(end - first);
    if (text[0] != '[' && memchr(first, ':', length) != NULL)
        return convoy_fail(error, -EINVAL,
                           "%s: an IPv6 address is written in brackets, e.g. [::1]:8080; found '%s'", origin,
                           text);
    if (length > 255 || strcspn(first, " \t\r\n[]/") < length || (text[0] == '[' && length == 0))
        return convoy_fail(error, -EINVAL, "%s: the host of '%s' is neither a name nor an address", origin,
                           text);
    const char *digits = colon + 1;
    size_t count = strspn(digits, "0123456789");
    long number = count >= 1 && count <= 5 ? strtol(digits, NULL, 10) : -1;
    if (digits[count] != '\0' || number < 0 || number > 65535)
        return convoy_fail(error, -EINVAL, "%s: the port of '%s' must be from 0 (any free one) to 65535",
                           origin, text);
    char *copy = strndup(first, length);
    if (copy == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", origin);
    *host = copy;
    *port = (uint16_t)number;
    return 0;
}

static void clear(struct convoy_listen_address *address)
{
    free(address->written);
    free(address->host);
    free(address->path);
}

static int parse(const char *origin, const char *text, struct convoy_listen_address *address,
                 struct convoy_error *error)
{
    size_t scheme = strlen(UNIX_SCHEME);
    int code = 0;

    *address = (struct convoy_listen_address){.written = strdup(text)};
    if (strncmp(text, UNIX_SCHEME, scheme) != 0)
        code = convoy_listen_parse(origin, text, &address->host, &address->port, error);
    else if (text[scheme] == '\0' || strlen(text + scheme) > PATH_BYTES)
        code = convoy_fail(error, -EINVAL, "%s: the path of a Unix socket has 1 to %d bytes; found '%s'",
                           origin, PATH_BYTES, text);
    else
        address->path = strdup(text + scheme);
    if (code == 0 && (address->written == NULL || (address->host == NULL && address->path == NULL)))
        code = convoy_fail(error, -ENOMEM, "%s: out of memory", origin);
    if (code != 0)
        clear(address);
    return code;
}

static bool same(const struct convoy_listen_address *a, const struct convoy_listen_address *b)
{
    if (a->path != NULL || b->path != NULL)
        return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
    return a->port != 0 && a->port == b->port && strcmp(a->host, b->host) == 0;
}

int convoy_listen_add(const char *origin, const char *text, struct convoy_listen_addresses *addresses,
                      struct convoy_error *error)
{
    struct convoy_listen_address address;
    int code = parse(origin, text, &address, error);

    if (code != 0)
        return code;
    if (addresses->count == CONVOY_LISTEN_MAX)
        code = convoy_fail(error, -EINVAL, "%s: more than %d addresses", origin, CONVOY_LISTEN_MAX);
    for (uint32_t i = 0; code == 0 && i < addresses->count; i++)
        if (same(&addresses->list[i], &address))
            code = convoy_fail(error, -EINVAL, "%s: '%s' is there twice", origin, text);
    struct convoy_listen_address *list =
        code == 0 ? realloc(addresses->list, (addresses->count + 1) * sizeof *list) : NULL;
    if (code == 0 && list == NULL)
        code = convoy_fail(error, -ENOMEM, "%s: out of memory", origin);
    if (code != 0) {
        clear(&address);
        return code;
    }
    list[addresses->count++] = address;
    addresses->list = list;
    return 0;
}

int convoy_listen_read(const struct convoy_json *root, const char *key,
                       struct convoy_listen_addresses *addresses, struct convoy_error *error)
{
    const cJSON *value = root->value != NULL ? cJSON_GetObjectItemCaseSensitive(root->value, key) : NULL;
    struct convoy_listen_addresses read = {0};
    char origin[PATH_MAX + 32];
    const cJSON *item;
    int code = 0;

    if (value == NULL)
        return 0;
    snprintf(origin, sizeof origin, "%s: %s", root->file, key);
    if (cJSON_IsString(value)) {
        code = convoy_listen_add(origin, cJSON_GetStringValue(value), &read, error);
    } else if (!cJSON_IsArray(value) || cJSON_GetArraySize(value) == 0) {
        code = convoy_fail(error, -EINVAL,
                           "%s must be an address, e.g. \"127.0.0.1:8080\", or an array of them", origin);
    } else {
        cJSON_ArrayForEach(item, value)
        {
            if (code == 0)
                code = cJSON_IsString(item)
                           ? convoy_listen_add(origin, cJSON_GetStringValue(item), &read, error)
                           : convoy_fail(error, -EINVAL,
                                         "%s: the array must have addresses alone, as strings", origin);
        }
    }
    if (code != 0) {
        convoy_listen_clear(&read);
        return code;
    }
    convoy_listen_clear(addresses);
    *addresses = read;
    return 0;
}

int convoy_listen_mode_read(const struct convoy_json *root, const char *key, uint32_t *mode,
                            struct convoy_error *error)
{
    const char *text = NULL;
    int result = convoy_json_string(root, key, &text, error);
    if (result < 0 || text == NULL)
        return result;
    size_t digits = strspn(text, "01234567");
    unsigned long value = digits >= 3 && digits <= 4 && text[digits] == '\0' ? strtoul(text, NULL, 8) : 01000;
    if (value > 0777)
        return convoy_fail(error, -EINVAL,
                           "%s: %s must be a file's mode from \"0000\" to \"0777\", found \"%s\"", root->file,
                           key, text);
    *mode = (uint32_t)value;
    return 0;
}

void convoy_listen_clear(struct convoy_listen_addresses *addresses)
{
    for (uint32_t i = 0; i < addresses->count; i++)
        clear(&addresses->list[i]);
    free(addresses->list);
    *addresses = (struct convoy_listen_addresses){0};
}
