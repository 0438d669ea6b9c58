#include "server/daemon/access.h"

#include "engine/base/log.h"
#include "server/http/linger.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of the admin socket: those who ask are few. */
#define ADMIN_CONNECTIONS 32
#define ADMIN_DESCRIPTORS (ADMIN_CONNECTIONS + CONVOY_LINGER_DESCRIPTORS + 16)

#define AUTO   "auto"
#define PREFIX "unix:"

int convoy_access_new(const struct convoy_config *config, struct convoy_metrics *metrics,
                      struct convoy_access_control *access, struct convoy_error *error)
{
    const struct convoy_access_config *wanted = &config->access;

    *access = (struct convoy_access_control){0};
    if (wanted->auth.keys != NULL) {
        int code = convoy_keyring_new(wanted->auth.keys, &access->keyring, error);
        if (code != 0)
            return code;
    }
    if (convoy_limits_wanted(&wanted->limits)) {
        access->limits = convoy_limits_new(&wanted->limits);
        if (access->limits == NULL)
            return convoy_fail(error, -ENOMEM, "out of memory for the table of limits");
    }
    struct convoy_gate *gates[] = {&access->gate, &access->health_gate, &access->admin_gate};
    for (int i = 0; i < 3; i++) {
        gates[i]->config = config;
        gates[i]->metrics = metrics;
        gates[i]->keyring = access->keyring;
        convoy_gate_change(gates[i], wanted, i == 0 ? access->limits : NULL);
    }
    access->admin_gate.trusted = true;
    return 0;
}

int convoy_access_reload(struct convoy_access_control *access, struct convoy_http *http,
                         const struct convoy_access_config *fresh, struct convoy_error *error)
{
    if (access->limits != NULL)
        convoy_limits_change(access->limits, &fresh->limits);
    else if (convoy_limits_wanted(&fresh->limits) &&
             (access->limits = convoy_limits_new(&fresh->limits)) == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the table of limits");
    convoy_gate_change(&access->gate, fresh, access->limits);
    convoy_gate_change(&access->health_gate, fresh, NULL);
    convoy_http_set_body_rate(http, fresh->limits.body_bytes_per_second);
    return 0;
}

static bool same_text(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

bool convoy_access_restart(const struct convoy_access_control *access,
                           const struct convoy_access_config *fresh, struct convoy_error *restart)
{
    const struct convoy_access_config *started = &access->gate.config->access;
    const struct {
        const char *name;
        bool differs;
    } settings[] = {
        {"auth.keys", !same_text(started->auth.keys, fresh->auth.keys)},
        {"auth.loopback_admin", started->auth.loopback_admin != fresh->auth.loopback_admin},
        {"admin_listen", !same_text(started->admin_listen, fresh->admin_listen)},
    };
    char names[CONVOY_ERROR_BYTES] = "";
    size_t length = 0;
    int count = 0;

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (settings[i].differs)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", count++ > 0 ? ", " : "",
                                       settings[i].name);
    if (count > 0)
        convoy_fail(restart, 0, "%s %s taken over at a start alone: restart convoyd", names,
                    count == 1 ? "is" : "are");
    return count > 0;
}

void convoy_access_free(struct convoy_access_control *access)
{
    convoy_keyring_free(access->keyring);
    convoy_limits_free(access->limits);
    *access = (struct convoy_access_control){0};
}

void convoy_access_guard(struct convoy_http_options *options, struct convoy_gate *gate)
{
    options->gate = gate;
    options->admit = convoy_gate_admit;
    options->leave = convoy_gate_leave;
}

uint32_t convoy_access_descriptors(const struct convoy_config *config)
{
    return config->access.admin_listen != NULL ? ADMIN_DESCRIPTORS : 0;
}

/* The folder for "auto": the service manager's, the user's, or root's. False where there is none. */
static bool runtime_folder(char *folder, size_t capacity)
{
    const char *service = getenv("RUNTIME_DIRECTORY"), *user = getenv("XDG_RUNTIME_DIR");
    int length = -1;

    if (service != NULL && service[0] == '/') {
        length = snprintf(folder, capacity, "%.*s", (int)strcspn(service, ":"), service);
    } else if (user != NULL && user[0] == '/') {
        length = snprintf(folder, capacity, "%s/convoyd", user);
        (void)mkdir(folder, S_IRWXU);
    } else if (geteuid() == 0) {
        length = snprintf(folder, capacity, "/run/convoyd");
        (void)mkdir(folder, S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH);
    }
    return length > 0 && (size_t)length < capacity;
}

/* False where there is to be no socket. The name has the port, so that several daemons may run. */
static bool choose_path(const char *admin_listen, uint16_t port, char *path, size_t capacity)
{
    char folder[PATH_MAX];
    int length;

    if (admin_listen == NULL)
        return false;
    if (strcmp(admin_listen, AUTO) != 0)
        length = snprintf(path, capacity, "%s", admin_listen + sizeof PREFIX - 1);
    else if (runtime_folder(folder, sizeof folder))
        length = snprintf(path, capacity, "%s/admin-%u.sock", folder, (unsigned)port);
    else
        return false;
    return length > 0 && (size_t)length < capacity;
}

int convoy_access_start_admin(struct convoy_access_control *access, const struct convoy_http_options *options,
                              uint16_t port, struct convoy_error *error)
{
    const char *wanted = options->config->access.admin_listen;

    if (!choose_path(wanted, port, access->admin_path, sizeof access->admin_path)) {
        if (wanted != NULL && strcmp(wanted, AUTO) == 0)
            convoy_log(CONVOY_LOG_INFO, "there is no admin socket",
                       CONVOY_STR("reason",
                                  "neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR names a folder for it: "
                                  "set one of them, or admin_listen to unix:PATH"));
        if (wanted == NULL || strcmp(wanted, AUTO) == 0)
            return 0;
        return convoy_fail(error, -ENAMETOOLONG, "admin_listen: the path %s is too long for a socket",
                           wanted);
    }
    access->admin_config = *options->config;
    access->admin_config.http.threads = 1;
    access->admin_config.http.connections = ADMIN_CONNECTIONS;
    access->admin_config.http.proxy = (struct convoy_proxy_config){0};
    access->admin_address = (struct convoy_listen_address){.path = access->admin_path};
    access->admin_config.listen = (struct convoy_listen_addresses){&access->admin_address, 1};
    access->admin_config.listen_mode = S_IRUSR | S_IWUSR;
    struct convoy_http_options own = *options;
    own.config = &access->admin_config;
    own.inherited_count = 0;
    own.tls = NULL;
    own.listen_option = "admin_listen";
    own.evicts = true;
    own.begin_round = own.end_round = NULL;
    own.end_work = NULL;
    convoy_access_guard(&own, &access->admin_gate);
    int code = convoy_http_start(&own, &access->admin, error);
    if (code == 0) {
        convoy_log(CONVOY_LOG_INFO, "admin requests are answered", CONVOY_STR("socket", access->admin_path));
        return 0;
    }
    access->admin = NULL;
    if (strcmp(wanted, AUTO) != 0)
        return code;
    convoy_log(CONVOY_LOG_WARNING, "there is no admin socket", CONVOY_STR("reason", error->message));
    return 0;
}

void convoy_access_stop_admin(struct convoy_access_control *access)
{
    if (access->admin != NULL)
        convoy_http_stop(access->admin);
    access->admin = NULL;
}
