/* convoyd, the daemon: as it is started it becomes the master, which starts it again as the front. The front
 * owns the sockets, the queues and the shared slots; convoy-worker owns the device. */
#include "engine/base/cores.h"
#include "engine/base/hide_memory.h"
#include "engine/base/log.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/routes.h"
#include "server/daemon/access.h"
#include "server/daemon/beside.h"
#include "server/daemon/check_config.h"
#include "server/daemon/held.h"
#include "server/daemon/lifecycle.h"
#include "server/daemon/options.h"
#include "server/daemon/service.h"
#include "server/http/access_log.h"
#include "server/http/http.h"
#include "server/http/linger.h"
#include "server/http/suspension.h"
#include "server/master/master.h"
#include "server/security/tls.h"
#include "server/security/tls_credentials.h"
#include "server/tracing/exporter.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* When the daemon is started without standard streams, sockets or the channel would get their descriptors,
 * and log lines would be written to them. open() takes the lowest free descriptor, so each call fills one
 * gap. */
static void fill_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", O_RDWR);
}

static int complain(const struct convoy_error *error)
{
    fprintf(stderr, "convoyd: %s\n", error->message);
    return 1;
}

/* Of health_listen: those who ask are few, and ask briefly. */
#define HEALTH_CONNECTIONS 64
#define HEALTH_TIMEOUT_MS  5000
#define HEALTH_DESCRIPTORS                                                                                   \
    (HEALTH_CONNECTIONS + CONVOY_LINGER_DESCRIPTORS + 16) /* its threads' and listener's, too */

/* Nothing that health or metrics ask for is done by other threads. */
static void no_work(void *app)
{
    (void)app;
}

/* *tls stays NULL where no certificate is configured. */
static int start_tls(const struct convoy_config *config, struct convoy_metrics *metrics,
                     struct convoy_tls **tls, struct convoy_error *error)
{
    struct convoy_tls_credentials *credentials;
    int code = config->tls.certificate != NULL ? convoy_tls_load(&config->tls, &credentials, error) : 0;

    if (code != 0 || config->tls.certificate == NULL)
        return code;
    convoy_log(CONVOY_LOG_INFO, "certificate read", CONVOY_STR("file", config->tls.certificate),
               CONVOY_UINT("expires", convoy_tls_expiry(credentials)));
    *tls = convoy_tls_new(credentials, metrics);
    return *tls != NULL ? 0 : convoy_fail(error, -1, "out of memory for TLS");
}

/* Makes the application and serves it. *app is the caller's to free in any case. */
static int start_http(const struct convoy_app *parts, int inherited_fd, uint32_t inherited_count,
                      const struct convoy_held_sockets *held, bool waits, const struct convoy_tls *tls,
                      struct convoy_access_control *access, struct convoy_app **app,
                      struct convoy_http **http, struct convoy_error *error)
{
    int code = convoy_app_new(parts, app, error);
    if (code != 0)
        return code;
    struct convoy_http_options options = {
        .config = parts->config,
        .metrics = parts->metrics,
        .inherited_fd = inherited_fd,
        .inherited_count = inherited_count,
        .held = held,
        .waits = waits,
        .tls = tls != NULL ? convoy_tls_hooks(tls) : NULL,
        .listen_option = "--listen",
        .other_descriptors = convoy_access_descriptors(parts->config) +
                             (parts->config->health_listen != NULL ? HEALTH_DESCRIPTORS : 0),
        .routes = convoy_routes,
        .route_count = convoy_route_count - (parts->config->web.enabled ? 0 : convoy_page_route_count),
        .unknown_path = "POST an image to /classify, or GET "
                        "/v2/models for what is served",
        .app = *app,
        .state_bytes = sizeof(struct convoy_call),
        .release = convoy_routes_release,
        .begin_round = convoy_batcher_hold,
        .end_round = convoy_batcher_let_go,
        .end_work = convoy_app_end_work};
    convoy_access_guard(&options, &access->gate);
    convoy_batcher_hold_by_cores(convoy_cores());
    convoy_batcher_done_in_rounds(convoy_supervisor_batcher(parts->supervisor), convoy_resume_hold,
                                  convoy_resume_let_go);
    code = convoy_http_start(&options, http, error);
    if (code != 0)
        return code;
    code = convoy_access_start_admin(access, &options, convoy_http_port(*http), error);
    if (code != 0) {
        convoy_manager_stop(parts->manager);
        convoy_http_stop(*http);
    }
    return code;
}

/* Health and metrics on an address of their own, where one is configured: they are answered while every
 * connection and every thread of the other one is taken. *own is the configuration that it runs with,
 * *address its address. */
static int start_health(const struct convoy_app *parts, struct convoy_app *app,
                        const struct convoy_held_sockets *held, bool waits,
                        struct convoy_access_control *access, struct convoy_config *own,
                        struct convoy_listen_address *address, struct convoy_http **health,
                        struct convoy_error *error)
{
    if (parts->config->health_listen == NULL)
        return 0;
    *own = *parts->config;
    *address = (struct convoy_listen_address){.written = parts->config->health_listen,
                                              .host = parts->config->health_host,
                                              .port = parts->config->health_port};
    own->listen = (struct convoy_listen_addresses){address, 1};
    own->http.proxy = (struct convoy_proxy_config){0}; /* it is asked past the proxies */
    own->http.threads = 1;
    own->http.connections = HEALTH_CONNECTIONS;
    own->http.connections_per_address = HEALTH_CONNECTIONS; /* making room is fairer than refusing here */
    own->http.idle_timeout_ms = own->http.request_timeout_ms = HEALTH_TIMEOUT_MS;
    struct convoy_http_options options = {.config = own,
                                          .metrics = parts->metrics,
                                          .listen_option = "--health-listen",
                                          .held = held,
                                          .waits = waits,
                                          .evicts = true,
                                          .routes = convoy_health_routes,
                                          .route_count = convoy_health_route_count,
                                          .unknown_path = "health_listen answers /v2/health/live, "
                                                          "/v2/health/ready and /metrics alone",
                                          .app = app,
                                          .state_bytes = sizeof(struct convoy_call),
                                          .release = convoy_routes_release,
                                          .end_work = no_work};
    convoy_access_guard(&options, &access->health_gate);
    int code = convoy_http_start(&options, health, error);
    if (code == 0)
        convoy_log(CONVOY_LOG_INFO, "health and metrics are answered", CONVOY_STR("host", address->host),
                   CONVOY_UINT("port", convoy_http_port(*health)));
    return code;
}

/* A line for each address; the first says more. */
static void log_listening(const struct convoy_http *http, const struct convoy_tls *tls, bool inherited,
                          const struct convoy_app *parts)
{
    const struct convoy_config *config = parts->config;
    struct convoy_http_address address;

    for (uint32_t i = 0; convoy_http_address(http, i, &address); i++) {
        const char *scheme = tls != NULL && !address.local ? "https" : "http";
        const char *host = inherited || address.local ? address.text : config->listen.list[i].host;
        if (i == 0)
            convoy_log(CONVOY_LOG_INFO, "convoyd listens", CONVOY_STR("version", CONVOY_VERSION),
                       CONVOY_STR("host", host), CONVOY_UINT("port", address.port),
                       CONVOY_STR("scheme", scheme), CONVOY_STR("socket", inherited ? "systemd" : "own"),
                       CONVOY_STR("models", config->models),
                       CONVOY_UINT("model_versions", convoy_registry_count(parts->registry)),
                       CONVOY_STR("configuration", config->file != NULL ? config->file : "built-in"));
        else
            convoy_log(CONVOY_LOG_INFO, "convoyd also listens", CONVOY_STR("host", host),
                       CONVOY_UINT("port", address.port), CONVOY_STR("scheme", scheme));
    }
}

/* Connections to the other addresses are accepted from now on, those of the main one when workers serve. */
static int accept_others(struct convoy_http *admin, struct convoy_http *health, struct convoy_error *error)
{
    int code = admin != NULL ? convoy_http_accept(admin, error) : 0;
    return code == 0 && health != NULL ? convoy_http_accept(health, error) : code;
}

/* Another front takes over, at once or at the next start: this one ends, and its workers go on. */
_Noreturn static void leave(struct convoy_lifecycle *life, struct convoy_exporter *exporter)
{
    convoy_batcher_stop(convoy_supervisor_batcher(life->supervisor)); /* of what is not answered in time */
    convoy_manager_stop(life->manager);
    convoy_http_stop(life->http);
    convoy_access_stop_admin(life->access);
    if (life->health != NULL)
        convoy_http_stop(life->health);
    convoy_exporter_free(exporter);
    convoy_log(CONVOY_LOG_INFO,
               life->phase == CONVOY_LEAVING ? "convoyd's front has handed over" : "convoyd ends");
    _exit(EXIT_SUCCESS); /* handles of the loop are open still */
}

/* A front knows how many there were when it takes over, and there is no other while it serves. */
static void count_restarts(struct convoy_metrics *metrics, const struct convoy_link *link)
{
    static const char *const reasons[CONVOY_RESTARTS] = {[CONVOY_RESTART_SIGNAL] = "signal",
                                                         [CONVOY_RESTART_EXIT] = "exit",
                                                         [CONVOY_RESTART_UPGRADE] = "upgrade"};
    for (int i = 0; i < CONVOY_RESTARTS; i++)
        convoy_metrics_front_restarts(metrics, reasons[i],
                                      convoy_link_restarts(link, (enum convoy_restart)i));
}

/* What a front needs to become the one that serves. */
struct takeover {
    struct convoy_lifecycle *life;
    const struct convoy_app *parts;
    bool inherited; /* its sockets are the service manager's */
};

static void begin_to_serve(const struct takeover *it)
{
    struct convoy_lifecycle *life = it->life;
    const struct convoy_app *parts = it->parts;
    convoy_lifecycle_serve(life);
    count_restarts(parts->metrics, life->link);
    log_listening(life->http, life->tls, it->inherited, parts);
    if (convoy_registry_count(parts->registry) == 0)
        convoy_log(CONVOY_LOG_WARNING, "there is no model to serve: put one at NAME/VERSION/model.onnx",
                   CONVOY_STR("models", parts->config->models));
    convoy_service_start(life->service);
}

/* The front before has gone, and the models are loaded. */
static void on_go(void *context)
{
    const struct takeover *it = context;
    struct convoy_error error;
    convoy_link_drop_rest(it->life->link, ""); /* of addresses that are configured no longer */
    if (accept_others(it->life->access->admin, it->life->health, &error) != 0)
        _exit(complain(&error)); /* the master starts another front */
    begin_to_serve(it);
}

static int serve(const struct convoy_config *config, const struct convoy_daemon_options *options,
                 struct convoy_link *link)
{
    struct convoy_error error;
    struct convoy_registry *registry = NULL;
    struct convoy_supervisor *supervisor = NULL;
    struct convoy_manager *manager = NULL;
    struct convoy_app *app = NULL;
    struct convoy_tls *tls = NULL;
    struct convoy_exporter *exporter = NULL;
    struct convoy_http *http = NULL, *health = NULL;
    struct convoy_config health_config;
    struct convoy_listen_address health_address;
    struct convoy_service service;
    struct convoy_lifecycle life;
    struct convoy_access_control access;
    struct convoy_beside beside;
    uv_loop_t loop;
    const struct convoy_held_sockets held = convoy_held_by(link);
    const bool follows = convoy_link_epoch(link) > 1; /* a front that crashed */
    int status = 1, inherited_fd;
    uint32_t inherited_count;
    struct convoy_metrics *metrics = convoy_metrics_new();
    if (metrics == NULL) {
        convoy_fail(&error, -1, "out of memory");
        return complain(&error);
    }
    uv_loop_init(&loop);
    if (convoy_access_new(config, metrics, &access, &error) != 0 ||
        convoy_service_sockets(&inherited_fd, &inherited_count, &error) != 0 ||
        start_tls(config, metrics, &tls, &error) != 0 ||
        convoy_exporter_new(&config->tracing, metrics, &exporter, &error) != 0 ||
        convoy_registry_new(config, metrics, &registry, &error) != 0 ||
        convoy_supervisor_new(&loop, config, registry, metrics, &supervisor, &error) != 0 ||
        convoy_manager_new(&loop, config, registry, supervisor, &manager, &error) != 0) {
        status = complain(&error);
        goto done;
    }
    const struct convoy_app parts = {.config = config,
                                     .metrics = metrics,
                                     .registry = registry,
                                     .supervisor = supervisor,
                                     .manager = manager,
                                     .exporter = exporter};
    if (start_http(&parts, inherited_fd, inherited_count, &held, follows, tls, &access, &app, &http,
                   &error) != 0) {
        status = complain(&error);
        goto done;
    }
    if (start_health(&parts, app, &held, follows, &access, &health_config, &health_address, &health,
                     &error) != 0) {
        status = complain(&error);
        convoy_manager_stop(manager);
        convoy_http_stop(http);
        convoy_access_stop_admin(&access);
        goto done;
    }
    service = (struct convoy_service){.loop = &loop,
                                      .config = config,
                                      .registry = registry,
                                      .supervisor = supervisor,
                                      .http = http,
                                      .link = link,
                                      .holds = inherited_count > 0 || follows};
    life = (struct convoy_lifecycle){.loop = &loop,
                                     .config = config,
                                     .options = options,
                                     .registry = registry,
                                     .supervisor = supervisor,
                                     .manager = manager,
                                     .http = http,
                                     .health = health,
                                     .access = &access,
                                     .tls = tls,
                                     .service = &service,
                                     .link = link};
    if (convoy_link_prepares(link) && !convoy_link_prepared(link, CONVOY_CHANNEL_ABI))
        _exit(EXIT_FAILURE); /* the master has changed its mind, or is gone */
    const bool is_beside = convoy_link_beside(link);
    struct takeover takeover = {&life, &parts, inherited_count > 0};
    if ((follows && !is_beside && accept_others(access.admin, health, &error) != 0) ||
        convoy_lifecycle_start(&life, &error) != 0) {
        status = complain(&error);
        convoy_manager_stop(manager);
        convoy_http_stop(http);
        convoy_access_stop_admin(&access);
        if (health != NULL)
            convoy_http_stop(health);
        goto done;
    }
    if (!is_beside)
        begin_to_serve(&takeover);
    convoy_manager_follow(manager, link);
    if (!is_beside)
        convoy_link_drop_rest(link, ""); /* of addresses that are configured no longer */
    convoy_manager_start(manager);
    convoy_supervisor_start(supervisor, link);
    beside = (struct convoy_beside){.loop = &loop,
                                    .registry = registry,
                                    .supervisor = supervisor,
                                    .manager = manager,
                                    .link = link,
                                    .on_go = on_go,
                                    .context = &takeover};
    if (is_beside)
        convoy_beside_start(&beside);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (life.left)
        leave(&life, exporter);
    convoy_log(CONVOY_LOG_INFO, "convoyd ends");
    status = 0;
done:
    uv_loop_close(&loop);
    convoy_access_free(&access);
    convoy_app_free(app);
    convoy_exporter_free(exporter);
    convoy_tls_free(tls);
    convoy_manager_free(manager);
    convoy_supervisor_free(supervisor);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    return status;
}

static int run(const struct convoy_daemon_options *options, struct convoy_link *link)
{
    struct convoy_config *config;
    struct convoy_error error;
    int status;
    if (convoy_config_load(options->config, &config, &error) != 0)
        return complain(&error);
    if (convoy_options_apply(options, config, &error) != 0) {
        status = complain(&error);
    } else {
        convoy_log_configure(config->log.format, config->log.level);
        convoy_access_log_configure(config->log.access);
        if (link != NULL)
            convoy_link_log(link, config->log.format, config->log.level);
        status = link == NULL ? convoy_check_config(config) : serve(config, options, link);
    }
    convoy_config_free(config);
    return status;
}

int main(int argc, char **argv)
{
    struct convoy_daemon_options options;
    struct convoy_link *link = NULL;
    struct convoy_error error;
    fill_standard_streams();
    signal(SIGPIPE, SIG_IGN);
    convoy_hide_memory();     /* from workers, which run as the same user */
    signal(SIGXFSZ, SIG_IGN); /* a log that may not grow any more is no reason to end */
    bool is_front = convoy_link_inherited();
    if (is_front && convoy_link_open(&link, &error) != 0)
        return complain(&error);
    if (convoy_options_parse(argc, argv, &options, &error) != 0) {
        complain(&error);
        return CONVOY_EXIT_USAGE;
    }
    if (options.help) {
        fputs(convoy_options_help(), stdout);
        return 0;
    }
    if (options.version) {
        puts("convoyd " CONVOY_VERSION);
        return 0;
    }
    if (!is_front && !options.check_config)
        return convoy_master_run(argv);
    int status = run(&options, link);
    convoy_link_free(link);
    return status;
}
