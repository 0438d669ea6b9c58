#include "server/http/origin.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* The length of host without ":PORT". */
static size_t name_length(const char *host)
{
    if (host[0] == '[') {
        const char *end = strchr(host, ']');
        return end != NULL ? (size_t)(end + 1 - host) : strlen(host);
    }
    return strcspn(host, ":");
}

static bool is_loopback(const char *name, size_t length)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr address;

    if ((length == 9 && strncasecmp(name, "localhost", 9) == 0) ||
        (length == 5 && memcmp(name, "[::1]", 5) == 0))
        return true;
    if (length >= sizeof text)
        return false;
    memcpy(text, name, length);
    text[length] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

bool convoy_host_is_own(const char *host, char *const *hosts)
{
    if (host == NULL)
        return false;
    size_t length = name_length(host);
    if (is_loopback(host, length))
        return true;
    for (; hosts != NULL && *hosts != NULL; hosts++)
        if (strlen(*hosts) == length && strncasecmp(*hosts, host, length) == 0)
            return true;
    return false;
}

bool convoy_origin_allowed(const char *origin, const char *host, char *const *hosts)
{
    if (origin == NULL)
        return true;
    const char *named = strncmp(origin, "http://", 7) == 0    ? origin + 7
                        : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                              : NULL;
    return named != NULL && host != NULL && strcasecmp(named, host) == 0 && convoy_host_is_own(host, hosts);
}
