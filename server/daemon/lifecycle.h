/* Handles the daemon's signals: draining, stopping, reloading. On the control loop. */
#ifndef CONVOY_SERVER_LIFECYCLE_H
#define CONVOY_SERVER_LIFECYCLE_H

#include "server/config/config.h"
#include "server/daemon/access.h"
#include "server/daemon/options.h"
#include "server/daemon/reload.h"
#include "server/daemon/service.h"
#include "server/http/http.h"
#include "server/master/link.h"
#include "server/workers/supervisor.h"

#include <uv.h>

/* SIGTERM and SIGINT: /v2/health/ready answers 503 at once; serving goes on for drain_ms; then the listening
 * socket is closed and accepted requests are answered, for at most drain_timeout_ms, and requests on kept
 * connections are answered with 503 for a moment longer; then the workers end and the loop returns. A second
 * signal skips the waiting. SIGHUP: keys, log settings, labels, batching delays and the certificate are read
 * again (reload.h).
 *
 * When another front is to take over (SIGUSR2): no connection is accepted, open requests and those that come
 * on open connections are served, for at most 5 s; then the loop returns with `left`, and the workers go on.
 */
struct convoy_lifecycle {
    uv_loop_t *loop;
    const struct convoy_config *config;
    const struct convoy_daemon_options *options;
    struct convoy_registry *registry;
    struct convoy_supervisor *supervisor;
    struct convoy_manager *manager;
    struct convoy_http *http;
    struct convoy_http *health; /* of health_listen; NULL: none */
    struct convoy_access_control *access;
    struct convoy_tls *tls; /* NULL: none */
    struct convoy_service *service;
    struct convoy_link *link; /* to the master, from which signals come */

    struct convoy_reload reload;
    uv_poll_t master;
    uv_prepare_t turn; /* before each wait of the loop */
    uv_timer_t timer;  /* of the phase that drains */
    enum { CONVOY_SERVING, CONVOY_LINGERING, CONVOY_DRAINING, CONVOY_STOPPING, CONVOY_LEAVING } phase;
    bool left; /* the loop has stopped because another front takes over; workers go on */
    uint64_t drain_until_us;
    uint64_t keep_until_us; /* for kept connections without a request */
};

/* Listens to the master. The caller has filled in the members up to link. Returns 0 or a negative errno. */
int convoy_lifecycle_start(struct convoy_lifecycle *life, struct convoy_error *error);
/* This front is the one that serves: ignores the signals that the master hands on from now on. */
void convoy_lifecycle_serve(struct convoy_lifecycle *life);

#endif
