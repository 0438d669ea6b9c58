/* Who may ask what of the daemon's servers: its keys and limits, a gate for each server, and the server on
 * the admin socket. On the control loop. */
#ifndef CONVOY_SERVER_ACCESS_H
#define CONVOY_SERVER_ACCESS_H

#include "engine/base/error.h"
#include "server/api/app.h"
#include "server/config/config.h"
#include "server/http/http.h"
#include "server/security/gate.h"

struct convoy_access_control {
    struct convoy_keyring *keyring;
    struct convoy_limits *limits;
    struct convoy_gate gate, health_gate, admin_gate;
    struct convoy_http *admin;         /* NULL: there is no admin socket */
    struct convoy_config admin_config; /* that it runs with */
    char admin_path[108];
    struct convoy_listen_address admin_address; /* that path */
};

/* Reads the keys and makes the table of limits. Errors: those of convoy_keyring_new(), -ENOMEM. The caller
 * frees with convoy_access_free() in any case. */
int convoy_access_new(const struct convoy_config *config, struct convoy_metrics *metrics,
                      struct convoy_access_control *access, struct convoy_error *error);

/* SIGHUP: takes over the roles that need no key, and the limits, of which http gets the rate of bodies. What
 * needs a restart (auth.keys, loopback_admin, admin_listen) stays. -ENOMEM, and nothing is taken over. */
int convoy_access_reload(struct convoy_access_control *access, struct convoy_http *http,
                         const struct convoy_access_config *fresh, struct convoy_error *error);

/* After the servers have stopped. */
void convoy_access_free(struct convoy_access_control *access);

/* Has a server ask the gate. */
void convoy_access_guard(struct convoy_http_options *options, struct convoy_gate *gate);

/* Descriptors that the admin server needs. */
uint32_t convoy_access_descriptors(const struct convoy_config *config);

/* Whether something of fresh differs from what the daemon started with that only a restart takes over;
 * restart is then a sentence that names all of it. */
bool convoy_access_restart(const struct convoy_access_control *access,
                           const struct convoy_access_config *fresh, struct convoy_error *restart);

/* Serves on the admin socket, where there is to be one; options: those of the server at port, of which it
 * takes the routes and the application. With "auto" it is no error when it cannot. */
int convoy_access_start_admin(struct convoy_access_control *access, const struct convoy_http_options *options,
                              uint16_t port, struct convoy_error *error);

/* Stops it, after the other server: that one's end_work has ended the application's threads. */
void convoy_access_stop_admin(struct convoy_access_control *access);

#endif
