/* Who may ask what, and how often: the sections auth, limits and admin_listen of the daemon's configuration,
 * and the origins of http.cors_origins. docs/keys.md explains them, docs/configuration.md lists them. */
#ifndef CONVOY_SERVER_ACCESS_CONFIG_H
#define CONVOY_SERVER_ACCESS_CONFIG_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_json;

enum convoy_limit_by { CONVOY_LIMIT_BY_ADDRESS, CONVOY_LIMIT_BY_KEY };

/* A rate of 0 is no limit. */
struct convoy_limit_config {
    double requests_per_second, images_per_second;
    uint32_t burst;                 /* requests at once after a pause; 0: what one second allows */
    uint32_t concurrent;            /* requests of one client that are not answered yet */
    uint32_t body_bytes_per_second; /* a body that comes more slowly is cut off */
    enum convoy_limit_by by;        /* BY_KEY: by the address where there is no key */
};

struct convoy_auth_config {
    char *keys;         /* the file of keys; NULL: none */
    unsigned anonymous; /* the roles that need no key */
    bool loopback_admin;
};

/* Member names are the keys. */
struct convoy_access_config {
    struct convoy_auth_config auth;
    struct convoy_limit_config limits;
    char *admin_listen;  /* "auto", "unix:PATH", or NULL: none */
    char **cors_origins; /* of http; ends with NULL; NULL: none. "*" stands alone */
};

/* The built-in values; false when memory is out. */
bool convoy_access_config_default(struct convoy_access_config *access);
void convoy_access_config_free(struct convoy_access_config *access);

/* Reads the sections of the document over what access holds. -EINVAL, -ENOMEM. */
int convoy_access_config_read(const struct convoy_json *root, struct convoy_access_config *access,
                              struct convoy_error *error);
/* Reads cors_origins of the section http, and its hosts, which are the caller's to free. */
int convoy_access_config_read_http(const struct convoy_json *http, struct convoy_access_config *access,
                                   char ***hosts, struct convoy_error *error);

#endif
