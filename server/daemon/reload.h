/* SIGHUP: reads the daemon's configuration, its certificate and the configurations of all models again.
 *
 * Reading may block for as long as a file system takes, so libuv's thread pool does it; the control loop,
 * with its heartbeats, goes on. The results are applied on the control loop. Everything here is called on the
 * control loop. */
#ifndef CONVOY_SERVER_RELOAD_H
#define CONVOY_SERVER_RELOAD_H

#include "server/config/config.h"
#include "server/models/registry.h"
#include "server/security/keyring.h"

#include <uv.h>

struct convoy_reading;
struct convoy_tls;

struct convoy_reload {
    /* Filled in by the caller; the rest is zero. */
    uv_loop_t *loop;
    const char *file; /* the configuration file; NULL: as convoy_config_load() finds it */
    struct convoy_registry *registry;
    struct convoy_keyring *keyring; /* NULL: none */
    struct convoy_tls *tls; /* gets the certificate and the key that are read; NULL: there is no TLS */
    void (*begun)(void *context);
    /* After the log's settings and the models' labels and delays were taken over. fresh: the configuration
     * that was read, the reload's own; NULL: nothing was taken over, and problem says why. With fresh,
     * problem says why the certificate was not; else it is NULL. */
    void (*done)(void *context, const struct convoy_config *fresh, const char *problem);
    void *context;

    uv_work_t work;
    struct convoy_reading *reading; /* NULL: none is under way */
    bool again, stopped;
};

/* Begins to read. Called while a reading is under way, it has another one follow, because that one may have
 * seen older files. begun() is called for each reading. */
void convoy_reload_begin(struct convoy_reload *reload);
/* Nothing is taken over from now on, and done() is not called any more. The loop has to turn until a reading
 * that is under way has come back. */
void convoy_reload_stop(struct convoy_reload *reload);

#endif
