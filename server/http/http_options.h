/* What the HTTP server is started with. */
#ifndef CONVOY_SERVER_HTTP_OPTIONS_H
#define CONVOY_SERVER_HTTP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_config;
struct convoy_held_sockets;
struct convoy_metrics;
struct convoy_request;
struct convoy_route;
struct convoy_tls_hooks;

/* Everything that is pointed to must outlive convoy_http_stop(). */
struct convoy_http_options {
    const struct convoy_config *config;
    struct convoy_metrics *metrics; /* each answer is counted here */
    /* Listening sockets from systemd, of consecutive descriptors; 0: listen on config's addresses. */
    uint32_t inherited_count;
    int inherited_fd; /* the first */
    /* Who holds the sockets that are opened here for the process that comes after this one; NULL: no process
     * does. */
    const struct convoy_held_sockets *held;
    bool waits; /* connections are accepted from convoy_http_accept() on, of any socket */

    const struct convoy_tls_hooks *tls; /* NULL: plain HTTP */

    const char *listen_option;  /* what the user chooses that address with, e.g. "--listen" */
    uint32_t other_descriptors; /* that the process needs besides those of this server */

    /* When all connections are taken, a new one takes the place of the oldest that no answer is made for;
     * else it waits. */
    bool evicts;

    const struct convoy_route *routes; /* route.h; the first row that fits a request answers it */
    size_t route_count;
    const char *unknown_path; /* the sentence of a 404: what there is instead */
    void *app;                /* of the application that answers: convoy_request.app */
    /* Called on the HTTP thread when the headers of a request are complete, before the body is read: false
     * with the refusal set keeps it out. The refusal may be set before (404, 405), or preflight: then nothing
     * but the client's limits is in question, and false replaces the refusal. leave() is called once at the
     * end of each request. Both may be NULL. gate is theirs. */
    bool (*admit)(struct convoy_request *request);
    void (*leave)(struct convoy_request *request);
    void *gate;
    /* Each request carries that many bytes of zeroed memory for the application: convoy_request.state. */
    size_t state_bytes;
    /* Called once at the end of each request, on its HTTP thread, for what state holds. */
    void (*release)(struct convoy_request *request);
    /* Called on each HTTP thread before and after it serves the connections that are ready, so that the
     * application can do for several requests together what would cost more one by one. NULL: nothing. */
    void (*begin_round)(void);
    void (*end_round)(void);
    /* Called once by convoy_http_stop(), on its thread; after this call has begun convoy_suspend() refuses.
     * The application finishes the work of its threads for suspended requests: when it returns, no such
     * thread touches a request any more. Requests that are suspended then are resumed after it. NULL: there
     * is no such thread, or none any more. */
    void (*end_work)(void *app);
};

#endif
