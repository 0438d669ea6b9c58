/* What a service manager (systemd) hands over and is told: the listening socket, readiness, the watchdog.
 *
 * All of it goes by environment variables (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)) and does
 * nothing where they are not set. They are for this process alone: whoever starts another one gives it
 * convoy_service_environment(). Everything runs on the control loop, so that a loop that is stuck falls
 * silent.
 *
 * Started (READY=1) means that every model found at start is READY or FAILED and, if one is READY, a worker
 * is up: the daemon would answer as well as it ever will without a change from outside. That may be with no
 * model at all. Failing the start would only have the same happen again, and restarting what can be is the
 * supervisor's work: the status line says what is wrong. For the same reason a daemon in which nothing moves
 * for CONVOY_SERVICE_PATIENCE_US, because no worker can be started, counts as started. A worker that lives
 * moves.
 *
 * Connections to a socket that the manager holds are taken from then on, and CONVOY_SERVICE_PATIENCE_US after
 * the start at the latest: whoever came between two instances would else be told that models are loading. */
#ifndef CONVOY_SERVER_SERVICE_H
#define CONVOY_SERVER_SERVICE_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/http/http.h"
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
    bool holds; /* the socket is the manager's: connections are taken when there are models, or patience is
                   over */

    uv_check_t turn;   /* after each turn of the loop, until the daemon is started */
    uv_timer_t look;   /* whether the status line is still true */
    uv_timer_t beat;   /* the watchdog's */
    bool active;       /* there is somebody to tell, or a socket to let somebody in by */
    bool started;      /* READY=1 is out */
    bool draining;     /* STOPPING=1 is out */
    uint32_t answered; /* models READY or FAILED when last looked */
    uint64_t began_us;
    uint64_t moved_us;    /* when that number changed, or a worker was last seen to load */
    uint64_t extended_us; /* when the manager was last asked for more time */
    char status[CONVOY_SERVICE_SENTENCE_SIZE]; /* as last told */
    char problem[CONVOY_ERROR_BYTES];          /* why the last reload did not take, or empty */
};

/* The socket that the manager opened, with close-on-exec; -1 when it opened none. -EINVAL for more than one.
 */
int convoy_service_socket(int *fd, struct convoy_error *error);

/* The environment for a process that is not the daemon itself. free() frees all of it, the strings stay the
 * environment's. NULL when memory is out. */
char **convoy_service_environment(void);

/* Begins to tell. */
void convoy_service_start(struct convoy_service *service);

/* Around reading the configuration again; problem is NULL when it was taken over. */
void convoy_service_reloading(struct convoy_service *service);
void convoy_service_reloaded(struct convoy_service *service, const char *problem);

/* SIGTERM was seen, open_requests are to be answered. */
void convoy_service_stopping(struct convoy_service *service, uint64_t open_requests);

/* Closes the handles on the loop, which has to turn once more. */
void convoy_service_stop(struct convoy_service *service);

#endif
