/* The service manager (systemd): the listening socket that it hands over, and what it is told: readiness, a
 * status line, the watchdog's beats.
 *
 * Everything goes by environment variables (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)), and
 * nothing happens where they are not set. The master sets them for this process, and sends in its own name
 * what the manager is told. They are for these two processes alone: processes that the daemon starts get
 * convoy_worker_environment(). Everything runs on the control loop, so a loop that is stuck sends no beats.
 *
 * READY=1 means that every model found at start is READY or FAILED and, if one is READY, a worker is up:
 * without a change from outside the daemon will not answer better than now. There may be no model at all.
 * Failing the start instead would not help: the next start would meet the same, and the supervisor already
 * restarts workers. The status line says what is wrong. For the same reason the daemon also counts as started
 * when nothing has moved for CONVOY_SERVICE_PATIENCE_US, because no worker can be started. A worker that
 * lives counts as movement.
 *
 * Connections to a front that follows one that crashed are accepted when the workers that it takes over
 * serve.
 *
 * Connections to a socket that the service manager holds are accepted from then on, and at the latest
 * CONVOY_SERVICE_PATIENCE_US after the start: clients that connect between two instances wait instead of
 * being told that models are loading. */
#ifndef CONVOY_SERVER_SERVICE_H
#define CONVOY_SERVER_SERVICE_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/http/http.h"
#include "server/master/link.h"
#include "server/models/registry.h"
#include "server/workers/supervisor.h"

#include <uv.h>

#define CONVOY_SERVICE_PATIENCE_US   10000000u
#define CONVOY_SERVICE_SENTENCE_SIZE 1024

struct convoy_service {
    /* Filled in by the caller before convoy_service_start(). */
    uv_loop_t *loop;
    const struct convoy_config *config;
    struct convoy_registry *registry;
    struct convoy_supervisor *supervisor;
    struct convoy_http *http;
    struct convoy_link *link; /* to the master, which the service manager knows, and this process not */
    /* Connections are not accepted yet: the socket is the service manager's, or this front follows one that
     * crashed. */
    bool holds;

    uv_check_t turn;   /* after each turn of the loop, until the daemon is started */
    uv_timer_t update; /* updates the status line */
    uv_timer_t beat;   /* the watchdog's */
    bool active;       /* there is a service manager or a socket of one */
    bool started;      /* READY=1 is out */
    bool draining;     /* STOPPING=1 is out */
    uint32_t answered; /* models READY or FAILED at the last update */
    uint64_t began_us;
    uint64_t moved_us;    /* when that number last changed, or a worker was last loading */
    uint64_t extended_us; /* when the manager was last asked for more time */
    char status[CONVOY_SERVICE_SENTENCE_SIZE]; /* as last sent */
    char problem[CONVOY_ERROR_BYTES];          /* why the last reload failed, or empty */
};

/* The sockets that the service manager opened: *count consecutive descriptors, 0: none. -EINVAL for more than
 * CONVOY_LISTEN_MAX. */
int convoy_service_sockets(int *first, uint32_t *count, struct convoy_error *error);

/* Begins to report. */
void convoy_service_start(struct convoy_service *service);

/* Before and after the configuration is read again; problem: why it failed, or NULL. */
void convoy_service_reloading(struct convoy_service *service);
void convoy_service_reloaded(struct convoy_service *service, const char *problem);

/* SIGTERM came; open_requests: requests that are still to be answered. */
void convoy_service_stopping(struct convoy_service *service, uint64_t open_requests);

/* Closes the handles; the loop has to turn once more. */
void convoy_service_stop(struct convoy_service *service);

#endif
