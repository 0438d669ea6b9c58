#include "server/http/proxy_header.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 12  /* no header is shorter, and they tell the version */
#define V1_MOST     107 /* with the end of the line */
#define V2_FIXED    16

static const uint8_t signature[FIRST_BYTES] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                               0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};
static const char v1_word[] = "PROXY ";

static bool is_v2(const uint8_t *bytes)
{
    return memcmp(bytes, signature, sizeof signature) == 0;
}

size_t convoy_proxy_header_more(const uint8_t *bytes, size_t have)
{
    if (have < FIRST_BYTES)
        return FIRST_BYTES - have;
    if (is_v2(bytes)) {
        if (have < V2_FIXED)
            return V2_FIXED - have;
        size_t whole = V2_FIXED + ((size_t)bytes[14] << 8 | bytes[15]);
        return bytes[12] >> 4 != 2 || whole > CONVOY_PROXY_HEADER_MAX || have > whole
                   ? CONVOY_PROXY_HEADER_BAD
                   : whole - have;
    }
    if (memcmp(bytes, v1_word, sizeof v1_word - 1) != 0)
        return CONVOY_PROXY_HEADER_BAD;
    if (bytes[have - 2] == '\r' && bytes[have - 1] == '\n')
        return 0;
    return have < V1_MOST ? 1 : CONVOY_PROXY_HEADER_BAD;
}

static bool read_v2(const uint8_t *bytes, size_t length, union convoy_proxy_address *client)
{
    enum { LOCAL = 0x20, PROXY = 0x21, UNSPECIFIED = 0x00, TCP4 = 0x11, TCP6 = 0x21, UNIX = 0x31 };
    const uint8_t *addresses = bytes + V2_FIXED;
    size_t room = length - V2_FIXED;

    if (bytes[12] == LOCAL)
        return true; /* the proxy's own check of the server */
    if (bytes[12] != PROXY)
        return false;
    switch (bytes[13]) {
    case UNSPECIFIED:
    case UNIX:
        return true;
    case TCP4: /* two addresses, two ports */
        if (room < 12)
            return false;
        client->four.sin_family = AF_INET;
        memcpy(&client->four.sin_addr, addresses, 4);
        memcpy(&client->four.sin_port, addresses + 8, 2);
        return true;
    case TCP6:
        if (room < 36)
            return false;
        client->six.sin6_family = AF_INET6;
        memcpy(&client->six.sin6_addr, addresses, 16);
        memcpy(&client->six.sin6_port, addresses + 32, 2);
        return true;
    default:
        return false;
    }
}

static bool read_port(const char *text, in_port_t *port)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long number =
        digits >= 1 && digits <= 5 && text[digits] == '\0' ? strtoul(text, NULL, 10) : 65536;

    *port = htons((uint16_t)number);
    return number <= 65535;
}

/* Of "TCP4 FROM TO FROM-PORT TO-PORT". */
static bool read_words(char *const words[5], union convoy_proxy_address *client)
{
    uint8_t to[16];
    in_port_t to_port;

    if (strcmp(words[0], "TCP4") == 0) {
        client->four.sin_family = AF_INET;
        return inet_pton(AF_INET, words[1], &client->four.sin_addr) == 1 &&
               inet_pton(AF_INET, words[2], to) == 1 && read_port(words[3], &client->four.sin_port) &&
               read_port(words[4], &to_port);
    }
    if (strcmp(words[0], "TCP6") == 0) {
        client->six.sin6_family = AF_INET6;
        return inet_pton(AF_INET6, words[1], &client->six.sin6_addr) == 1 &&
               inet_pton(AF_INET6, words[2], to) == 1 && read_port(words[3], &client->six.sin6_port) &&
               read_port(words[4], &to_port);
    }
    return false;
}

static bool read_v1(const uint8_t *bytes, size_t length, union convoy_proxy_address *client)
{
    char text[V1_MOST + 1], *words[5];
    size_t start = sizeof v1_word - 1, end = length - 2, count = 0;

    memcpy(text, bytes, end);
    text[end] = '\0';
    if (strlen(text) != end || strcspn(text, "\r\n") != end)
        return false;
    if (strncmp(text + start, "UNKNOWN", 7) == 0 && (text[start + 7] == '\0' || text[start + 7] == ' '))
        return true; /* what follows is to be ignored */
    for (char *at = text + start; at != NULL && count < 5; count++) {
        char *space = strchr(at, ' ');
        words[count] = at;
        if (space != NULL)
            *space++ = '\0';
        else if (count < 4)
            return false;
        at = space;
    }
    return strlen(words[4]) == (size_t)(text + end - words[4]) && read_words(words, client);
}

bool convoy_proxy_header_read(const uint8_t *bytes, size_t length, union convoy_proxy_address *client)
{
    memset(client, 0, sizeof *client);
    if (length < FIRST_BYTES || convoy_proxy_header_more(bytes, length) != 0)
        return false;
    return is_v2(bytes) ? read_v2(bytes, length, client)
                        : length <= V1_MOST && read_v1(bytes, length, client);
}
