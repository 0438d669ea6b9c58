#include "server/security/gate.h"

#include "engine/base/clock.h"
#include "server/http/client_address.h"
#include "server/http/http_state.h"
#include "server/http/local_client.h"
#include "server/http/origin.h"
#include "server/http/request.h"
#include "server/http/status.h"

#include <string.h>
#include <strings.h>

/* What is known of who asks. */
struct caller {
    unsigned roles;
    bool tried; /* it gave a key, which is none of ours */
    bool named; /* it gave a key, which is key */
    struct convoy_key key;
};

static const struct convoy_gate *gate_of(const struct convoy_request *request)
{
    return request->http->options.gate;
}

static struct convoy_limits *limits_of(const struct convoy_gate *gate)
{
    return atomic_load_explicit(&gate->limits, memory_order_acquire);
}

void convoy_gate_change(struct convoy_gate *gate, const struct convoy_access_config *access,
                        struct convoy_limits *limits)
{
    atomic_store_explicit(&gate->anonymous, access->auth.anonymous, memory_order_relaxed);
    atomic_store_explicit(&gate->by_key, access->limits.by == CONVOY_LIMIT_BY_KEY, memory_order_relaxed);
    atomic_store_explicit(&gate->limits, limits, memory_order_release);
}

const char *convoy_gate_bearer(const char *authorization, size_t *length)
{
    static const char scheme[] = "Bearer";
    const size_t word = sizeof scheme - 1;

    if (strncasecmp(authorization, scheme, word) != 0 || authorization[word] != ' ')
        return NULL;
    const char *key = authorization + word + strspn(authorization + word, " ");
    *length = strlen(key);
    return *length > 0 ? key : NULL;
}

static bool is_loopback_admin(const struct convoy_gate *gate, const struct convoy_request *request)
{
    const char *host = convoy_request_header(request, "Host");
    char *const *hosts = gate->config->http.hosts;

    return gate->config->access.auth.loopback_admin && convoy_client_is_direct(request) &&
           convoy_host_is_own(host, hosts) &&
           convoy_origin_allowed(convoy_request_header(request, "Origin"), host, hosts);
}

static void identify(const struct convoy_gate *gate, const struct convoy_request *request,
                     enum convoy_role needed, struct caller *caller)
{
    const char *authorization = convoy_request_header(request, "Authorization");
    size_t length = 0;
    const char *key =
        gate->keyring == NULL || authorization == NULL ? NULL : convoy_gate_bearer(authorization, &length);

    *caller = (struct caller){.roles = atomic_load_explicit(&gate->anonymous, memory_order_relaxed)};
    if (key != NULL) {
        caller->named = convoy_keyring_find(gate->keyring, key, length, &caller->key);
        caller->tried = !caller->named;
    }
    if (caller->named)
        caller->roles |= caller->key.roles;
    if (needed == CONVOY_ROLE_ADMIN && is_loopback_admin(gate, request))
        caller->roles |= CONVOY_ROLE_BIT(CONVOY_ROLE_ADMIN);
}

/* True of a request that no endpoint answers: a 404, a 405, a preflight. */
static bool is_unanswered(const struct convoy_request *request)
{
    return request->refusal != 0 || request->preflight;
}

/* Admin for what changes something by a path that also shows it. */
static enum convoy_role role_needed(const struct convoy_request *request)
{
    if (is_unanswered(request))
        return CONVOY_ROLE_NONE;
    bool changes =
        request->route->method == CONVOY_GET_OR_POST && convoy_method_of(request->method) == CONVOY_POST;

    return changes ? CONVOY_ROLE_ADMIN : request->route->role;
}

static bool refuse_role(const struct convoy_gate *gate, struct convoy_request *request,
                        enum convoy_role needed, const struct caller *caller)
{
    const char *role = convoy_role_text(needed);

    if (caller->tried) {
        convoy_fail(
            &request->refusal_reason, 0,
            "the key is not known: send one that the server's file of keys has, as Authorization: Bearer "
            "KEY");
        return convoy_request_refuse(request, CONVOY_HTTP_UNAUTHORIZED);
    }
    if (caller->named) {
        convoy_fail(
            &request->refusal_reason, 0,
            "the key %s lacks the role %s, which this needs: give it the role in the server's file of "
            "keys, or send another key",
            caller->key.name, role);
        return convoy_request_refuse(request, CONVOY_HTTP_FORBIDDEN);
    }
    if (gate->keyring != NULL) {
        convoy_fail(&request->refusal_reason, 0,
                    "this needs a key with the role %s: send it as Authorization: Bearer KEY", role);
        return convoy_request_refuse(request, CONVOY_HTTP_UNAUTHORIZED);
    }
    convoy_fail(&request->refusal_reason, 0, "%s",
                gate->config->access.auth.loopback_admin
                    ? "this is for the server's own machine: connect to a loopback address under its name, "
                      "without a proxy between and not from another site's page; or give the server keys "
                      "(auth.keys)"
                    : "this changes the server: ask over its admin socket (`convoy` does so by itself on the "
                      "server's machine), with a key (auth.keys), or from its loopback address after setting "
                      "auth.loopback_admin");
    return convoy_request_refuse(request, CONVOY_HTTP_FORBIDDEN);
}

/* No address begins with ff: those are of groups (RFC 4291, 2.7), which open no connection. */
static struct convoy_client_id id_of_key(const struct convoy_key *key)
{
    struct convoy_client_id id = {.bytes = {0xff}};

    memcpy(id.bytes + 1, key->digest, sizeof id.bytes - 1);
    return id;
}

/* False, with the refusal set, when the client is over a limit. */
static bool keep_limits(struct convoy_limits *limits, const struct convoy_gate *gate,
                        struct convoy_request *request, const struct caller *caller)
{
    static const char *const what[] = {[CONVOY_LIMIT_REQUESTS] = "requests a second",
                                       [CONVOY_LIMIT_IMAGES] = "images a second",
                                       [CONVOY_LIMIT_CONCURRENT] = "requests at a time"};
    bool by_key = atomic_load_explicit(&gate->by_key, memory_order_relaxed) && caller->named;
    struct convoy_client_id id;

    if (by_key)
        id = id_of_key(&caller->key);
    else if (!convoy_client_id_of(convoy_client_address(request), &id))
        return true;
    enum convoy_limit limit =
        convoy_limits_begin(limits, &id, convoy_now_ns(), &request->limit_ticket, &request->refusal_retry_s);
    if (limit == CONVOY_LIMIT_NONE)
        return true;
    convoy_fail(&request->refusal_reason, 0,
                "this %s has more %s than the server allows it (limits): send the request again in %d s",
                by_key ? "key" : "address", what[limit], request->refusal_retry_s);
    return convoy_request_refuse(request, CONVOY_HTTP_TOO_MANY_REQUESTS);
}

/* True of health and the page's files, whose probes and visitors are not to be kept out, whatever the method.
 */
static bool is_free(const struct convoy_request *request)
{
    return request->route != NULL && request->route->role == CONVOY_ROLE_NONE;
}

/* May the caller have what needs the role? */
static bool has_role(const struct caller *caller, enum convoy_role needed)
{
    return needed == CONVOY_ROLE_NONE || (!caller->tried && (caller->roles & CONVOY_ROLE_BIT(needed)) != 0);
}

bool convoy_gate_admit(struct convoy_request *request)
{
    const struct convoy_gate *gate = gate_of(request);
    struct caller caller;

    if (gate->trusted || is_free(request))
        return true;
    enum convoy_role needed = role_needed(request);
    identify(gate, request, needed, &caller);
    if (caller.named)
        memcpy(request->key_name, caller.key.name, sizeof request->key_name);
    /* Before the key counts, so that guessing is limited, too. */
    struct convoy_limits *limits = limits_of(gate);
    bool passes = limits == NULL || keep_limits(limits, gate, request, &caller);
    const char *outcome = "limited";
    if (passes) {
        passes = has_role(&caller, needed);
        outcome = passes ? "passed" : "forbidden";
        if (!passes)
            refuse_role(gate, request, needed, &caller);
    }
    if (caller.named)
        convoy_metrics_key(gate->metrics, caller.key.name, outcome);
    return passes;
}

bool convoy_gate_allows(const struct convoy_request *request, enum convoy_role role)
{
    const struct convoy_gate *gate = gate_of(request);
    struct caller caller;

    if (gate->trusted || role == CONVOY_ROLE_NONE)
        return true;
    identify(gate, request, role, &caller);
    return has_role(&caller, role);
}

void convoy_gate_charge(const struct convoy_request *request, uint32_t images)
{
    if (request->limit_ticket != 0)
        convoy_limits_charge(limits_of(gate_of(request)), request->limit_ticket, images, convoy_now_ns());
}

void convoy_gate_leave(struct convoy_request *request)
{
    if (request->limit_ticket != 0)
        convoy_limits_end(limits_of(gate_of(request)), request->limit_ticket);
    request->limit_ticket = 0;
}
