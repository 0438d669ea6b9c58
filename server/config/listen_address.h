/* Addresses on which HTTP is answered, as the configuration and the command line write them. */
#ifndef CONVOY_SERVER_LISTEN_ADDRESS_H
#define CONVOY_SERVER_LISTEN_ADDRESS_H

#include "engine/base/error.h"

#include <stdint.h>

struct convoy_json;

#define CONVOY_LISTEN_MAX 16 /* addresses */

/* Strings are owned. */
struct convoy_listen_address {
    char *written;
    char *host;    /* without brackets; "" means every address of the machine; NULL: a Unix socket */
    uint16_t port; /* 0: the kernel chooses */
    char *path;    /* of a Unix socket; NULL: TCP */
};

struct convoy_listen_addresses {
    struct convoy_listen_address *list;
    uint32_t count;
};

/* Splits "HOST:PORT", "[v6]:PORT" or ":PORT" (every address). *host is malloc'd, without brackets, and the
 * caller's. origin begins the sentences of errors, e.g. "--listen". -EINVAL, -ENOMEM. */
int convoy_listen_parse(const char *origin, const char *text, char **host, uint16_t *port,
                        struct convoy_error *error);

/* Adds one more address: as above, or "unix:PATH". -EINVAL also for one that is there already (port 0 is a
 * new one each time), and past CONVOY_LISTEN_MAX. */
int convoy_listen_add(const char *origin, const char *text, struct convoy_listen_addresses *addresses,
                      struct convoy_error *error);

/* Reads one address, or an array of them, in place of those that are there; an absent key leaves them. */
int convoy_listen_read(const struct convoy_json *root, const char *key,
                       struct convoy_listen_addresses *addresses, struct convoy_error *error);

/* Reads the mode of the socket files: octal digits, as chmod(1) takes them. */
int convoy_listen_mode_read(const struct convoy_json *root, const char *key, uint32_t *mode,
                            struct convoy_error *error);

void convoy_listen_clear(struct convoy_listen_addresses *addresses);

#endif
