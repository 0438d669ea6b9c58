/* Roles: what a client may do. Pure functions, any thread. */
#ifndef CONVOY_SERVER_ROLE_H
#define CONVOY_SERVER_ROLE_H

#include <stdbool.h>
#include <stddef.h>

/* A route that names no role needs admin: a mistake there shuts a door instead of opening one. */
enum convoy_role {
    CONVOY_ROLE_ADMIN,   /* changes what is served, logged or traced */
    CONVOY_ROLE_INFER,   /* asks models, and what models there are */
    CONVOY_ROLE_METRICS, /* reads counters and settings */
    CONVOY_ROLE_NONE     /* of a route: health, which needs none */
};

/* Names of keys have at most 64 characters, of letters, digits, '.', '_', '-'. */
#define CONVOY_KEY_NAME_BYTES 65

/* Of a set of roles. */
#define CONVOY_ROLE_BIT(role) (1u << (role))
#define CONVOY_ROLES_ALL                                                                                     \
    (CONVOY_ROLE_BIT(CONVOY_ROLE_ADMIN) | CONVOY_ROLE_BIT(CONVOY_ROLE_INFER) |                               \
     CONVOY_ROLE_BIT(CONVOY_ROLE_METRICS))

/* "admin", "infer", "metrics"; "" for CONVOY_ROLE_NONE. */
const char *convoy_role_text(enum convoy_role role);

/* The role that text, of length bytes, names. False when it names none. */
bool convoy_role_parse(const char *text, size_t length, enum convoy_role *role);

#endif
