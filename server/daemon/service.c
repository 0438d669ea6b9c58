#include "server/daemon/service.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef CONVOY_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#define UPDATE_MS  1000u     /* how often the status line is updated */
#define EXTEND_US  60000000u /* how much longer a start in which something moves may take */
#define LEAVING_US 10000000u /* for ending the workers and freeing memory, in addition to draining */

#ifdef CONVOY_SYSTEMD
int convoy_service_sockets(int *first, uint32_t *result, struct convoy_error *error)
{
    int count = sd_listen_fds(0);
    *first = SD_LISTEN_FDS_START;
    if (count < 0)
        return convoy_fail(error, count, "cannot take the sockets over from systemd: %s", strerror(-count));
    if (count > CONVOY_LISTEN_MAX)
        return convoy_fail(
            error, -EINVAL,
            "systemd handed over %d sockets, convoyd serves %d: leave out some ListenStream in "
            "convoyd.socket",
            count, CONVOY_LISTEN_MAX);
    *result = (uint32_t)count;
    return 0;
}

/* The interval of the watchdog's beats; 0: there is no watchdog. */
static uint64_t beat_ms(void)
{
    uint64_t limit_us = 0;
    if (sd_watchdog_enabled(0, &limit_us) <= 0)
        return 0;
    return limit_us / 2000 > 0 ? limit_us / 2000 : 1;
}
#else
int convoy_service_sockets(int *first, uint32_t *result, struct convoy_error *error)
{
    (void)error;
    *first = -1;
    *result = 0;
    return 0;
}

static uint64_t beat_ms(void)
{
    return 0;
}
#endif

/* The status line, for operators who read "systemctl status". */
static void describe(const struct convoy_service *service, const struct convoy_model_states *states,
                     const struct convoy_health *health, char *text, size_t size)
{
    uint32_t all = states->loading + states->ready + states->failed;
    int length;
    if (all == 0 && states->unloaded > 0)
        length =
            snprintf(text, size, "serving no model, %" PRIu32 " known: POST /v2/repository/models/NAME/load",
                     states->unloaded);
    else if (all == 0)
        length = snprintf(text, size, "there is no model to serve: put one at %s/NAME/VERSION/model.onnx",
                          service->config->models);
    else if (states->loading > 0)
        length =
            snprintf(text, size, "loading models: %" PRIu32 " of %" PRIu32 " done%s", all - states->loading,
                     all, service->started ? ", no progress: the log says why" : "");
    else if (states->ready == 0)
        length = snprintf(text, size, "no model can be served, %" PRIu32 " FAILED: /v2/models says why",
                          states->failed);
    else
        length =
            snprintf(text, size, "serving %" PRIu32 " model%s", states->ready, states->ready > 1 ? "s" : "");
    if (states->ready > 0 && states->failed > 0 && (size_t)length < size)
        length += snprintf(text + length, size - (size_t)length, ", %" PRIu32 " FAILED: /v2/models says why",
                           states->failed);
    if (states->ready > 0 && !health->worker && (size_t)length < size)
        length += snprintf(text + length, size - (size_t)length, "; no worker is up: the log says why");
    if (service->problem[0] != '\0' && (size_t)length < size)
        snprintf(text + length, size - (size_t)length, "; the configuration was not taken over: %s",
                 service->problem);
}

/* The status must be one line: text behind a newline would be another message. As much of text as fits, cut
 * between characters, because systemd accepts only valid UTF-8. */
static void one_line(const char *text, char line[CONVOY_SERVICE_SENTENCE_SIZE])
{
    size_t length = strlen(text), used = 0, bytes;
    while ((bytes = convoy_utf8_character(text + used, length - used)) > 0 &&
           used + bytes < CONVOY_SERVICE_SENTENCE_SIZE) {
        memcpy(line + used, text + used, bytes);
        if ((unsigned char)line[used] < ' ')
            line[used] = ' ';
        used += bytes;
    }
    line[used] = '\0';
}

/* Sends the status line if it has changed, or in any case when first, which is sent before it, is not empty.
 */
static void notify_status(struct convoy_service *service, const char *first, const char *text)
{
    char state[CONVOY_SERVICE_SENTENCE_SIZE + 128], line[CONVOY_SERVICE_SENTENCE_SIZE];
    one_line(text, line);
    if (first[0] == '\0' && strcmp(service->status, line) == 0)
        return;
    memcpy(service->status, line, sizeof line);
    snprintf(state, sizeof state, "%s%sSTATUS=%s", first, first[0] != '\0' ? "\n" : "", service->status);
    convoy_link_notify(service->link, state);
}

/* Accepts connections on the socket. When threads or memory are missing, the next update tries again. */
static void accept_connections(struct convoy_service *service)
{
    struct convoy_error error;
    service->holds = convoy_http_accept(service->http, &error) != 0;
    if (service->holds)
        convoy_log(CONVOY_LOG_ERROR, "connections are not taken yet", CONVOY_STR("reason", error.message));
}

static void update(struct convoy_service *service)
{
    struct convoy_model_states states;
    struct convoy_health health;
    char text[CONVOY_SERVICE_SENTENCE_SIZE], extend[48] = "";
    uint64_t now = convoy_now_us();
    if (service->draining)
        return;
    convoy_registry_states(service->registry, &states);
    convoy_supervisor_health(service->supervisor, &health);
    /* Once a model is READY the manager still has to see it, in the next turn: until then /v2/health/ready is
     * 503. */
    bool settled = states.loading == 0 && (states.ready == 0 || (health.settled && health.worker));
    uint32_t answered = states.ready + states.failed;
    /* A worker that runs is loading; the supervisor kills one that takes too long. */
    if (answered != service->answered || convoy_supervisor_loads(service->supervisor)) {
        service->answered = answered;
        service->moved_us = now;
        if (now - service->extended_us > EXTEND_US / 2) {
            service->extended_us = now;
            snprintf(extend, sizeof extend, "EXTEND_TIMEOUT_USEC=%u", EXTEND_US);
        }
    }
    bool starts = !service->started && (settled || now - service->moved_us > CONVOY_SERVICE_PATIENCE_US);
    service->started = service->started || starts;
    bool follows = convoy_link_epoch(service->link) > 1 && !convoy_supervisor_adopts(service->supervisor);
    if (service->holds &&
        (service->started || follows || now - service->began_us > CONVOY_SERVICE_PATIENCE_US))
        accept_connections(service);
    describe(service, &states, &health, text, sizeof text);
    notify_status(service, starts ? "READY=1" : service->started ? "" : extend, text);
    if (service->started)
        uv_check_stop(&service->turn);
}

static void on_turn(uv_check_t *turn)
{
    update(turn->data);
}

static void on_update(uv_timer_t *timer)
{
    update(timer->data);
}

static void on_beat(uv_timer_t *timer)
{
    const struct convoy_service *service = timer->data;
    convoy_link_notify(service->link, "WATCHDOG=1");
}

void convoy_service_start(struct convoy_service *service)
{
    const char *address = getenv("NOTIFY_SOCKET");
    uint64_t every_ms = beat_ms();
    service->active = (address != NULL && address[0] != '\0') || service->holds;
    service->started = service->draining = false;
    service->answered = 0;
    service->extended_us = 0;
    service->began_us = service->moved_us = convoy_now_us();
    service->status[0] = service->problem[0] = '\0';
    if (!service->active)
        return;
#ifndef CONVOY_SYSTEMD
    convoy_log(CONVOY_LOG_WARNING, "built without libsystemd: the service manager is told nothing, use "
                                   "Type=exec in the unit");
#endif
    uv_check_init(service->loop, &service->turn);
    uv_timer_init(service->loop, &service->update);
    uv_timer_init(service->loop, &service->beat);
    service->turn.data = service->update.data = service->beat.data = service;
    uv_check_start(&service->turn, on_turn);
    uv_timer_start(&service->update, on_update, UPDATE_MS, UPDATE_MS);
    if (every_ms > 0)
        uv_timer_start(&service->beat, on_beat, 0, every_ms);
}

void convoy_service_reloading(struct convoy_service *service)
{
    char state[80];
    /* Before the daemon has started, the READY=1 that ends a reload would say that it had. */
    if (!service->active || !service->started || service->draining)
        return;
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, convoy_now_us());
    convoy_link_notify(service->link, state);
}

void convoy_service_reloaded(struct convoy_service *service, const char *problem)
{
    snprintf(service->problem, sizeof service->problem, "%s", problem != NULL ? problem : "");
    if (!service->active || service->draining)
        return;
    if (service->started)
        convoy_link_notify(service->link, "READY=1");
    update(service);
}

void convoy_service_stopping(struct convoy_service *service, uint64_t open_requests)
{
    char first[80], text[80];
    if (!service->active)
        return;
    service->draining = true;
    uint64_t longest_us =
        (service->config->drain_ms + (uint64_t)service->config->drain_timeout_ms) * 1000 + LEAVING_US;
    snprintf(first, sizeof first, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64, longest_us);
    snprintf(text, sizeof text, "draining: %" PRIu64 " request%s to answer", open_requests,
             open_requests == 1 ? "" : "s");
    notify_status(service, first, text);
}

void convoy_service_stop(struct convoy_service *service)
{
    if (!service->active)
        return;
    uv_close((uv_handle_t *)&service->turn, NULL);
    uv_close((uv_handle_t *)&service->update, NULL);
    uv_close((uv_handle_t *)&service->beat, NULL);
}
