#include "server/daemon/lifecycle.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/ipc/channel.h"
#include "server/repository/manager.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK_MS       5 /* how often a draining daemon checks whether the last request was answered */
#define LAST_MOMENT_US 500000u

/* A front that hands over answers what it has within this; new connections wait meanwhile. */
#define LEAVE_US       5000000u
#define LEAVE_CHECK_MS 1

/* A client that keeps its connection may be sending when the last request is answered. Its connection stays
 * open for this long after the listening socket was closed, so that the client reads a 503. An end of file
 * would look like a lost answer. */
#define KEPT_US 250000u

static void on_stopped(void *context)
{
    struct convoy_lifecycle *life = context;
    if (life->health != NULL)
        convoy_http_stop(life->health); /* answers to the last */
    uv_close((uv_handle_t *)&life->master, NULL);
    uv_close((uv_handle_t *)&life->turn, NULL);
    uv_close((uv_handle_t *)&life->timer, NULL);
    convoy_service_stop(life->service);
}

static void end_workers(struct convoy_lifecycle *life)
{
    uv_timer_stop(&life->timer);
    if (convoy_supervisor_keeps(life->supervisor)) {
        convoy_link_keep(life->link);
        life->left = true;
        uv_stop(life->loop);
        return;
    }
    convoy_http_stop(life->http);
    convoy_access_stop_admin(life->access);
    life->http = NULL;
    convoy_supervisor_stop(life->supervisor, on_stopped, life);
}

static void on_stopping(uv_timer_t *timer)
{
    struct convoy_lifecycle *life = timer->data;
    if (convoy_http_open_requests(life->http) == 0 || convoy_now_us() >= life->drain_until_us)
        end_workers(life);
}

/* Open requests are answered with 503 now; their connections have LAST_MOMENT_US to send it. */
static void stop(struct convoy_lifecycle *life)
{
    uint64_t left = convoy_http_open_requests(life->http);
    life->phase = CONVOY_STOPPING;
    if (left > 0)
        convoy_log(CONVOY_LOG_WARNING, "requests are given up", CONVOY_UINT("requests", left));
    convoy_batcher_stop(convoy_supervisor_batcher(life->supervisor));
    convoy_manager_stop(life->manager);
    convoy_reload_stop(&life->reload);
    life->drain_until_us = convoy_now_us() + LAST_MOMENT_US;
    uv_timer_start(&life->timer, on_stopping, 0, CHECK_MS);
}

static void on_draining(uv_timer_t *timer)
{
    struct convoy_lifecycle *life = timer->data;
    uint64_t now_us = convoy_now_us();
    bool kept = now_us < life->keep_until_us && convoy_http_open_connections(life->http) > 0;
    if ((!convoy_http_busy(life->http) && !kept) || now_us >= life->drain_until_us)
        stop(life);
}

static void drain(struct convoy_lifecycle *life)
{
    life->phase = CONVOY_DRAINING;
    life->drain_until_us = convoy_now_us() + life->config->drain_timeout_ms * (uint64_t)1000;
    convoy_http_close_listener(life->http);
    if (life->access->admin != NULL)
        convoy_http_close_listener(life->access->admin);
    life->keep_until_us = convoy_now_us() + KEPT_US;
    uv_timer_start(&life->timer, on_draining, 0, CHECK_MS);
}

static void on_lingered(uv_timer_t *timer)
{
    drain(timer->data);
}

static void terminate(struct convoy_lifecycle *life, int number)
{
    switch (life->phase) {
    case CONVOY_SERVING:
        convoy_log(CONVOY_LOG_INFO, "draining", CONVOY_STR("signal", number == SIGINT ? "SIGINT" : "SIGTERM"),
                   CONVOY_UINT("open_requests", convoy_http_open_requests(life->http)));
        life->phase = CONVOY_LINGERING;
        convoy_service_stopping(life->service, convoy_http_open_requests(life->http));
        convoy_supervisor_drain(life->supervisor);
        uv_timer_start(&life->timer, on_lingered, life->config->drain_ms, 0);
        break;
    case CONVOY_LINGERING:
        drain(life);
        break;
    case CONVOY_DRAINING:
        stop(life);
        break;
    default:
        break;
    }
}

static void on_reload_begun(void *context)
{
    const struct convoy_lifecycle *life = context;
    convoy_service_reloading(life->service);
}

static void on_reload_done(void *context, const struct convoy_config *fresh, const char *problem)
{
    const struct convoy_lifecycle *life = context;
    struct convoy_error restart;
    if (fresh == NULL) {
        convoy_log(CONVOY_LOG_ERROR, "the configuration is not taken over", CONVOY_STR("reason", problem));
    } else {
        struct convoy_error error;
        if (convoy_access_reload(life->access, life->http, &fresh->access, &error) != 0) {
            convoy_log(CONVOY_LOG_ERROR, "auth and limits are not taken over",
                       CONVOY_STR("reason", error.message));
            problem = "auth and limits are not taken over: out of memory";
        }
        if (convoy_access_restart(life->access, &fresh->access, &restart)) {
            convoy_log(CONVOY_LOG_WARNING, restart.message);
            if (problem == NULL)
                problem = restart.message;
        }
        convoy_link_log(life->link, fresh->log.format, fresh->log.level);
        convoy_supervisor_new_limits(life->supervisor);
        convoy_manager_scan(life->manager);
        convoy_log(CONVOY_LOG_INFO, "configuration read again");
    }
    convoy_service_reloaded(life->service, problem);
}

/* Everything was answered, or the time is over. */
static void on_leaving(uv_timer_t *timer)
{
    struct convoy_lifecycle *life = timer->data;
    uint64_t now_us = convoy_now_us();
    bool busy =
        convoy_http_busy(life->http) || (now_us < life->keep_until_us && convoy_http_has_fresh(life->http));
    if (busy && now_us < life->drain_until_us)
        return;
    uv_timer_stop(timer);
    life->left = true;
    uv_stop(life->loop);
}

static void on_handover(void *context)
{
    struct convoy_lifecycle *life = context;
    if (life->phase != CONVOY_SERVING)
        return;
    convoy_log(CONVOY_LOG_INFO, "handing over to another front",
               CONVOY_UINT("open_requests", convoy_http_open_requests(life->http)));
    life->phase = CONVOY_LEAVING;
    life->drain_until_us = convoy_now_us() + LEAVE_US;
    life->keep_until_us = convoy_now_us() + KEPT_US;
    convoy_http_leave(life->http);
    if (life->access->admin != NULL)
        convoy_http_leave(life->access->admin);
    if (life->health != NULL)
        convoy_http_leave(life->health);
    uv_timer_start(&life->timer, on_leaving, 0, LEAVE_CHECK_MS);
}

static void on_signal(void *context, int number)
{
    struct convoy_lifecycle *life = context;
    if (number == SIGHUP)
        convoy_reload_begin(&life->reload);
    else
        terminate(life, number);
}

static void listen_to_master(struct convoy_lifecycle *life)
{
    if (convoy_link_dispatch(life->link))
        return;
    /* The kernel is about to kill this process, too. */
    convoy_log(CONVOY_LOG_ERROR, "the master is gone");
    _exit(EXIT_FAILURE);
}

static void on_master(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    listen_to_master(poll->data);
}

/* While an answer of the master was waited for, others came. */
static void on_turn(uv_prepare_t *turn)
{
    struct convoy_lifecycle *life = turn->data;
    if (convoy_link_waiting(life->link))
        listen_to_master(life);
}

int convoy_lifecycle_start(struct convoy_lifecycle *life, struct convoy_error *error)
{
    life->phase = CONVOY_SERVING;
    life->reload = (struct convoy_reload){.loop = life->loop,
                                          .file = life->options->config,
                                          .registry = life->registry,
                                          .keyring = life->access->keyring,
                                          .tls = life->tls,
                                          .begun = on_reload_begun,
                                          .done = on_reload_done,
                                          .context = life};
    int code = uv_poll_init(life->loop, &life->master, convoy_link_fd(life->link));
    if (code != 0)
        return convoy_fail(error, code, "cannot listen to the master: %s", uv_strerror(code));
    life->master.data = life;
    uv_poll_start(&life->master, UV_READABLE, on_master);
    uv_prepare_init(life->loop, &life->turn);
    life->turn.data = life;
    uv_prepare_start(&life->turn, on_turn);
    uv_timer_init(life->loop, &life->timer);
    life->timer.data = life;
    convoy_link_on_signal(life->link, on_signal, life);
    convoy_link_on_handover(life->link, on_handover, life);
    return 0;
}

void convoy_lifecycle_serve(struct convoy_lifecycle *life)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], SIG_IGN); /* a terminal sends them to the master and to this process */
    convoy_link_serving(life->link, CONVOY_CHANNEL_ABI);
}
