#include "server/config/proxy_config.h"

#include "engine/base/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define UNIX_SOCKETS "unix"

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* The bits behind the range's own, all of them 0? */
static bool rest_is_zero(const struct convoy_address_range *range)
{
    for (uint32_t bit = range->bits; bit < 128; bit++)
        if (range->bytes[bit / 8] & (0x80 >> bit % 8))
            return false;
    return true;
}

bool convoy_address_range_parse(const char *text, struct convoy_address_range *range)
{
    char address[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);

    if (length >= sizeof address)
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    uint32_t most;
    if (inet_pton(AF_INET, address, range->bytes + 12) == 1) {
        memcpy(range->bytes, mapped, sizeof mapped);
        most = 32;
    } else if (inet_pton(AF_INET6, address, range->bytes) == 1) {
        most = 128;
    } else {
        return false;
    }
    range->bits = 128;
    if (slash != NULL) {
        size_t digits = strspn(slash + 1, "0123456789");
        if (digits < 1 || digits > 3 || slash[1 + digits] != '\0')
            return false;
        unsigned long bits = strtoul(slash + 1, NULL, 10);
        if (bits > most)
            return false;
        range->bits = 128 - most + (uint32_t)bits;
    }
    return rest_is_zero(range);
}

static bool valid(const char *text)
{
    struct convoy_address_range range;

    return strcmp(text, UNIX_SOCKETS) == 0 || convoy_address_range_parse(text, &range);
}

int convoy_proxy_config_read(const struct convoy_json *http, struct convoy_proxy_config *proxy,
                             struct convoy_error *error)
{
    static const char *const headers[] = {"x-forwarded-for", "forwarded", "proxy-protocol", NULL};
    unsigned header = proxy->header;
    char **list = NULL;
    uint32_t count = 0;
    int result = convoy_json_choice(http, "forwarded_header", headers, &header, error);

    if (result == 0)
        result = convoy_json_strings(
            http, "trusted_proxies", valid,
            "addresses and networks of proxies, e.g. \"10.1.2.3\", \"fd00::/8\", or \"unix\"", &list, error);
    if (result < 0 || list == NULL)
        goto out;
    while (list[count] != NULL)
        count++;
    proxy->trusted = calloc((size_t)count + 1, sizeof *proxy->trusted);
    if (proxy->trusted == NULL) {
        result = convoy_fail(error, -ENOMEM, "%s: out of memory", http->file);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i], UNIX_SOCKETS) == 0)
            proxy->local = true;
        else if (convoy_address_range_parse(list[i], &proxy->trusted[proxy->count]))
            proxy->count++;
out:
    proxy->header = (enum convoy_forwarded_header)header;
    convoy_json_strings_free(list);
    return result;
}

void convoy_proxy_config_clear(struct convoy_proxy_config *proxy)
{
    free(proxy->trusted);
    *proxy = (struct convoy_proxy_config){0};
}

static bool contains(const struct convoy_address_range *range, const uint8_t bytes[16])
{
    uint32_t whole = range->bits / 8, rest = range->bits % 8;

    return memcmp(range->bytes, bytes, whole) == 0 &&
           (rest == 0 || ((range->bytes[whole] ^ bytes[whole]) & (0xff00 >> rest) & 0xff) == 0);
}

bool convoy_proxy_trusted(const struct convoy_proxy_config *proxy, const struct sockaddr *address)
{
    uint8_t bytes[16];

    if (address == NULL)
        return false;
    if (address->sa_family == AF_UNIX)
        return proxy->local;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, address, sizeof four);
        memcpy(bytes, mapped, sizeof mapped);
        memcpy(bytes + sizeof mapped, &four.sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, address, sizeof six);
        memcpy(bytes, &six.sin6_addr, 16);
    } else {
        return false;
    }
    for (uint32_t i = 0; i < proxy->count; i++)
        if (contains(&proxy->trusted[i], bytes))
            return true;
    return false;
}
