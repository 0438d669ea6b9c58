/* The gate: which requests are let in, by key, role and limit, before their body is read.
 *
 * A client has the roles of its key, those that need none (auth.anonymous), and admin where it comes over the
 * admin socket, or, with auth.loopback_admin, from a loopback address with a Host of this machine, without a
 * header of a proxy's and without the Origin of another site. docs/keys.md says all of it to users. */
#ifndef CONVOY_SERVER_GATE_H
#define CONVOY_SERVER_GATE_H

#include "server/config/config.h"
#include "server/metrics/metrics.h"
#include "server/security/keyring.h"
#include "server/security/limits.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct convoy_request;

/* Of one HTTP server (convoy_http_options.gate). Everything that is pointed to outlives it. */
struct convoy_gate {
    const struct convoy_config *config;
    struct convoy_metrics *metrics;
    struct convoy_keyring *keyring; /* NULL: there are no keys */
    bool trusted;                   /* the admin socket's: who may connect to it may do everything */
    /* What follows may change while requests come (convoy_gate_change()). */
    _Atomic(struct convoy_limits *) limits; /* NULL: no limits. Once there it stays: tickets point into it */
    _Atomic unsigned anonymous;             /* the roles that need no key */
    atomic_bool by_key;                     /* limits are of keys, where there are such */
};

/* Has these roles, limits and this kind of client hold from now on, also at first. limits: NULL, or a table
 * that outlives the gate; not NULL any more once it was another. Any thread. */
void convoy_gate_change(struct convoy_gate *gate, const struct convoy_access_config *access,
                        struct convoy_limits *limits);

/* convoy_http_options.admit: true, or false with the refusal set: 401, 403 or 429. Sets key_name. A request
 * that no endpoint answers (404, 405, a preflight) needs no role, and counts in the limits all the same. */
bool convoy_gate_admit(struct convoy_request *request);

/* Would a request of this client that needs role be let in? Of a request that was let in; counts nothing. */
bool convoy_gate_allows(const struct convoy_request *request, enum convoy_role role);

/* The request, which was let in, brings so many images. On its HTTP thread. */
void convoy_gate_charge(const struct convoy_request *request, uint32_t images);

/* convoy_http_options.leave: at the end of a request, whether it was let in or not. */
void convoy_gate_leave(struct convoy_request *request);

/* Finds the key in the value of Authorization, "Bearer KEY"; NULL where it is of another kind or malformed.
 * Pure. */
const char *convoy_gate_bearer(const char *authorization, size_t *length);

#endif
