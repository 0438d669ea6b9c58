#include "server/workers/supervisor.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/workers/heartbeat.h"
#include "server/workers/loading.h"
#include "server/workers/supervisor_internal.h"
#include "server/workers/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_MS           50        /* how often workers are looked at */
#define LIVE_US            1000000u  /* the loop is alive when it turned within this */
#define START_US           10000000u /* a worker may take this long to say HELLO */
#define LOAD_US            60000000u /* and this long, or hang_timeout_ms if that is more, to load a model */
#define RETRY_US           5000000u /* how often a model that was READY and FAILED later is asked for again */
#define SETTLED_US         1000000u /* a worker that served this long did not fail to start */
#define FIRST_BACKOFF_MS   100u
#define LONGEST_BACKOFF_MS 5000u
#define STOP_MS            2000u /* a worker that does not end by itself is killed after this */

static void start_member(struct member *member)
{
    struct convoy_supervisor *supervisor = member->supervisor;
    struct convoy_error error;
    member->attached = member->greeted = member->serving = member->completed = false;
    member->loading = NO_MODEL;
    memset(member->answered, 0, CONVOY_MAX_MODELS * sizeof *member->answered);
    memset(member->asked, 0, CONVOY_MAX_MODELS * sizeof *member->asked);
    const char *tune = convoy_heartbeat_tune(member);
    int code = convoy_worker_start(&member->worker, supervisor->backend, tune, &error);
    if (code != 0) {
        convoy_log(CONVOY_LOG_ERROR, "no worker can be started", CONVOY_STR("reason", error.message));
        uv_timer_start(&member->restart, supervisor->on_restart, LONGEST_BACKOFF_MS, 0);
    }
}

static void on_restart(uv_timer_t *timer)
{
    start_member(timer->data);
}

/* A record for one more device; started at once. */
static int add_member(struct convoy_supervisor *supervisor, uint32_t device, struct convoy_error *error)
{
    struct member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for a worker");
    member->answered = calloc(CONVOY_MAX_MODELS, sizeof *member->answered);
    member->asked = calloc(CONVOY_MAX_MODELS, sizeof *member->asked);
    member->deaths = calloc(CONVOY_MAX_MODELS, sizeof *member->deaths);
    member->kept = calloc(CONVOY_MAX_MODELS, sizeof *member->kept);
    int code =
        member->answered == NULL || member->asked == NULL || member->deaths == NULL || member->kept == NULL
            ? convoy_fail(error, -ENOMEM, "out of memory for a worker")
            : convoy_worker_prepare(&member->worker, supervisor->loop, device, CONVOY_MAX_MODELS,
                                    supervisor->config->worker.streams, supervisor->config->cache_dir,
                                    &supervisor->events, member, error);
    if (code != 0) {
        free(member->answered);
        free(member->asked);
        free(member->deaths);
        free(member->kept);
        free(member);
        return code;
    }
    member->supervisor = supervisor;
    snprintf(member->device, sizeof member->device, "%s", supervisor->backend);
    uv_timer_init(supervisor->loop, &member->restart);
    member->restart.data = member;
    supervisor->members[supervisor->member_count++] = member;
    start_member(member);
    return 0;
}

static void greet(struct member *member, const struct convoy_worker_message *message)
{
    struct convoy_supervisor *supervisor = member->supervisor;
    struct convoy_error error;
    if (member->greeted)
        return;
    member->greeted = true;
    member->streams = message->hello.streams;
    snprintf(member->device, sizeof member->device, "%s", message->hello.device);
    member->metrics = convoy_metrics_device(supervisor->metrics, member->device);
    convoy_log(CONVOY_LOG_INFO, "worker started", CONVOY_STR("device", member->device),
               CONVOY_STR("description", message->hello.description),
               CONVOY_INT("pid", member->worker.process.pid));
    /* What "auto" became holds for good: after a fault the GPU is asked for again, not the CPU. */
    snprintf(supervisor->backend, sizeof supervisor->backend, "%s", message->hello.backend);
    for (uint32_t device = supervisor->member_count; device < message->hello.device_count; device++)
        if (add_member(supervisor, device, &error) != 0)
            convoy_log(CONVOY_LOG_ERROR, "a device is left out", CONVOY_STR("reason", error.message));
    convoy_loading_begin(member);
}

/* A worker is up when it is attached and serves at least one model, unless there is none to serve: one that
 * hangs in loading must not make the daemon look ready. */
static void note_up(struct member *member)
{
    struct convoy_supervisor *supervisor = member->supervisor;
    if (member->up || !member->attached ||
        (!member->serving && convoy_registry_any_ready(supervisor->registry)))
        return;
    member->up = true;
    supervisor->up++;
    atomic_store(&supervisor->any_up, true);
    convoy_metrics_worker_up(member->metrics, true);
}

static void note_down(struct member *member)
{
    struct convoy_supervisor *supervisor = member->supervisor;
    if (!member->up)
        return;
    member->up = false;
    supervisor->up--;
    atomic_store(&supervisor->last_up_us, convoy_now_us());
    atomic_store(&supervisor->any_up, supervisor->up > 0);
    convoy_metrics_worker_up(member->metrics, false);
}

static void on_attached(struct member *member)
{
    struct convoy_error error;
    if (member->attached || member->worker.channel.base == NULL)
        return;
    if (member->lane == NULL && convoy_lane_new(member->supervisor->batcher, &member->worker.channel,
                                                member->device, &member->lane, &error) != 0) {
        convoy_log(CONVOY_LOG_ERROR, "a worker is of no use", CONVOY_STR("reason", error.message));
        return;
    }
    member->attached = true;
    convoy_lane_up(member->lane, member->streams);
    convoy_loading_attached(member);
    note_up(member);
}

static void on_message(void *context, struct convoy_worker *worker,
                       const struct convoy_worker_message *message)
{
    struct member *member = context;
    enum convoy_log_level level = CONVOY_LOG_INFO;
    (void)worker;
    switch (message->says) {
    case CONVOY_SAYS_HELLO:
        greet(member, message);
        break;
    case CONVOY_SAYS_ATTACHED:
        on_attached(member);
        break;
    case CONVOY_SAYS_LOADING:
        member->loading = (int)message->model;
        member->loading_us = convoy_now_us();
        break;
    case CONVOY_SAYS_LOADED:
    case CONVOY_SAYS_FAILED:
        member->loading = NO_MODEL;
        convoy_loading_answered(member, message);
        note_up(member);
        break;
    case CONVOY_SAYS_HEARTBEAT:
        convoy_heartbeat(member, message);
        break;
    case CONVOY_SAYS_TUNED:
        convoy_loading_tuned(member, message);
        break;
    case CONVOY_SAYS_MEMORY:
        convoy_heartbeat_memory(member, message);
        break;
    case CONVOY_SAYS_LOG:
        convoy_log_level_parse(message->level, &level);
        convoy_log(level, "worker", CONVOY_STR("device", member->device), CONVOY_STR("text", message->text));
        break;
    default:
        break;
    }
}

static void on_finished_slots(void *context, struct convoy_worker *worker)
{
    struct member *member = context;
    (void)worker;
    if (member->lane == NULL || !member->attached)
        return;
    member->completed = true;
    uint32_t nonsense = convoy_lane_collect(member->lane);
    if (nonsense > 0) {
        convoy_log(CONVOY_LOG_ERROR, "a worker reported slots that it was not given",
                   CONVOY_STR("device", member->device), CONVOY_UINT("reports", nonsense));
        convoy_worker_kill(&member->worker, "protocol");
    }
}

/* A worker that worked is replaced at once; one that died before it did anything is a start that failed. */
static uint64_t next_delay_ms(struct member *member, bool worked)
{
    uint64_t delay = worked ? 0 : member->backoff_ms;
    if (worked)
        member->backoff_ms = FIRST_BACKOFF_MS;
    else
        member->backoff_ms =
            member->backoff_ms * 2 < LONGEST_BACKOFF_MS ? member->backoff_ms * 2 : LONGEST_BACKOFF_MS;
    return delay;
}

static void check_stopped(struct convoy_supervisor *supervisor);

static void on_gone(void *context, struct convoy_worker *worker, const char *reason, const char *text)
{
    struct member *member = context;
    struct convoy_supervisor *supervisor = member->supervisor;
    bool was_loading = member->loading != NO_MODEL;
    bool worked = member->completed || (member->serving && convoy_now_us() - worker->started_us > SETTLED_US);
    uint32_t again = 0, running = 0;
    if (supervisor->stopped != NULL) {
        check_stopped(supervisor);
        return;
    }
    if (member->attached) {
        running = convoy_lane_in_flight(member->lane);
        on_finished_slots(member, worker); /* what it finished before it died counts */
        worked = worked || running > 0;
        again = convoy_lane_down(member->lane, !was_loading);
    } else if (member->lane != NULL) {
        convoy_lane_lost(member->lane);
    }
    note_down(member);
    /* A worker that never said HELLO has no device yet: its restarts count under the backend's name. */
    convoy_metrics_worker_restart(
        member->greeted ? member->metrics : convoy_metrics_device(supervisor->metrics, member->device),
        reason);
    if (member->backoff_ms == 0)
        member->backoff_ms = FIRST_BACKOFF_MS;
    if (was_loading)
        convoy_loading_died(member);
    convoy_heartbeat_died(member, running > 0);
    member->attached = false;
    convoy_channel_reset(&worker->channel);
    uint64_t delay = next_delay_ms(member, worked);
    convoy_log(CONVOY_LOG_ERROR, "worker died and is replaced", CONVOY_STR("device", member->device),
               CONVOY_STR("reason", reason), CONVOY_STR("text", text), CONVOY_UINT("images_run_again", again),
               CONVOY_UINT("in_ms", delay));
    if (delay == 0)
        start_member(member);
    else
        uv_timer_start(&member->restart, on_restart, delay, 0);
    convoy_loading_settle(supervisor);
}

static void watch_member(struct member *member, uint64_t now)
{
    uint64_t limit = member->supervisor->config->worker.hang_timeout_ms * (uint64_t)1000;
    uint64_t start_limit = limit > START_US ? limit : START_US;
    if (!member->worker.running)
        return;
    bool silent = member->greeted ? now - member->worker.heard_us > limit
                                  : now - member->worker.started_us > start_limit;
    uint64_t load_limit = limit > LOAD_US ? limit : LOAD_US;
    bool loads_forever = member->loading != NO_MODEL && now - member->loading_us > load_limit;
    /* While it loads a model its slots wait rightly; the heartbeat still has to come. */
    bool stalled =
        member->attached && member->loading == NO_MODEL && convoy_lane_stalled_us(member->lane) > limit;
    if (silent || stalled || loads_forever)
        convoy_worker_kill(&member->worker, "hang");
}

static void on_watch(uv_timer_t *timer)
{
    struct convoy_supervisor *supervisor = timer->data;
    uint64_t now = convoy_now_us(), last = atomic_exchange(&supervisor->turned_us, now);
    /* When this process itself was stopped, workers are not to blame for what it did not hear. Half the hang
     * timeout leaves room for a heartbeat. */
    uint64_t half = supervisor->config->worker.hang_timeout_ms * (uint64_t)500;
    bool was_away = now - last > (half < LIVE_US ? half : LIVE_US);
    for (uint32_t i = 0; i < supervisor->member_count; i++) {
        struct member *member = supervisor->members[i];
        if (was_away) {
            member->worker.heard_us = member->worker.started_us = member->loading_us = now;
            if (member->lane != NULL)
                convoy_lane_forgive(member->lane);
        } else if (supervisor->stopped == NULL) {
            watch_member(member, now);
        }
    }
    if (supervisor->stopped != NULL || now - supervisor->retried_us < RETRY_US)
        return;
    supervisor->retried_us = now;
    for (uint32_t i = 0; i < supervisor->member_count; i++)
        if (supervisor->members[i]->loading == NO_MODEL)
            convoy_loading_retry(supervisor->members[i]);
}

static void on_batcher_timer(uv_poll_t *poll, int status, int events)
{
    struct convoy_supervisor *supervisor = poll->data;
    (void)status;
    (void)events;
    convoy_batcher_tick(supervisor->batcher);
}

static void set_limits(struct convoy_supervisor *supervisor, const struct convoy_model *model)
{
    const struct convoy_batching *batching = &model->config->batching;
    convoy_batcher_set_limits(supervisor->batcher, model,
                              &(struct convoy_batcher_limits){batching->max_batch, batching->max_delay_us,
                                                              batching->max_queue, batching->weight});
}

void convoy_supervisor_new_limits(struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model *model = convoy_registry_at(supervisor->registry, i);
        if (model != NULL && model->config != NULL)
            set_limits(supervisor, model);
    }
}

void convoy_supervisor_load(struct convoy_supervisor *supervisor, struct convoy_model *model)
{
    convoy_batcher_model_new(supervisor->batcher, model);
    set_limits(supervisor, model);
    convoy_loading_load(supervisor, model);
}

bool convoy_supervisor_released(struct convoy_supervisor *supervisor, const struct convoy_model *model)
{
    for (uint32_t i = 0; i < supervisor->member_count; i++)
        if (supervisor->members[i]->asked[model->number] > 0)
            return false;
    return convoy_batcher_model_idle(supervisor->batcher, model);
}

void convoy_supervisor_unload(struct convoy_supervisor *supervisor, const struct convoy_model *model)
{
    convoy_loading_unload(supervisor, model);
}

void convoy_supervisor_tell(struct convoy_supervisor *supervisor, void (*changed)(void *), void *context)
{
    supervisor->changed = changed;
    supervisor->changed_context = context;
}

int convoy_supervisor_new(uv_loop_t *loop, const struct convoy_config *config,
                          struct convoy_registry *registry, struct convoy_metrics *metrics,
                          struct convoy_supervisor **result, struct convoy_error *error)
{
    struct convoy_supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (supervisor == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the supervisor");
    supervisor->loop = loop;
    supervisor->config = config;
    supervisor->registry = registry;
    supervisor->metrics = metrics;
    supervisor->events = (struct convoy_worker_events){on_message, on_finished_slots, on_gone};
    supervisor->on_restart = on_restart;
    snprintf(supervisor->backend, sizeof supervisor->backend, "%s",
             convoy_backend_choice_text(config->backend));
    int code =
        convoy_batcher_new(CONVOY_MAX_MODELS, CONVOY_MAX_DEVICES, metrics, &supervisor->batcher, error);
    if (code != 0) {
        free(supervisor);
        return code;
    }
    supervisor->retry = calloc(CONVOY_MAX_MODELS, sizeof *supervisor->retry);
    if (supervisor->retry == NULL) {
        convoy_batcher_free(supervisor->batcher);
        free(supervisor);
        return convoy_fail(error, -ENOMEM, "out of memory for the supervisor");
    }
    atomic_store(&supervisor->turned_us, convoy_now_us());
    atomic_store(&supervisor->last_up_us, 0);
    *result = supervisor;
    return 0;
}

void convoy_supervisor_start(struct convoy_supervisor *supervisor)
{
    struct convoy_error error;
    uv_timer_init(supervisor->loop, &supervisor->watch);
    supervisor->watch.data = supervisor;
    uv_timer_start(&supervisor->watch, on_watch, WATCH_MS, WATCH_MS);
    uv_poll_init(supervisor->loop, &supervisor->batcher_timer, convoy_batcher_timer(supervisor->batcher));
    supervisor->batcher_timer.data = supervisor;
    uv_poll_start(&supervisor->batcher_timer, UV_READABLE, on_batcher_timer);
    if (add_member(supervisor, 0, &error) != 0)
        convoy_log(CONVOY_LOG_ERROR, "no worker can be started", CONVOY_STR("reason", error.message));
}

static void check_stopped(struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->member_count; i++)
        if (supervisor->members[i]->worker.running)
            return;
    for (uint32_t i = 0; i < supervisor->member_count; i++) {
        convoy_worker_retire(&supervisor->members[i]->worker);
        uv_close((uv_handle_t *)&supervisor->members[i]->restart, NULL);
    }
    uv_close((uv_handle_t *)&supervisor->watch, NULL);
    uv_close((uv_handle_t *)&supervisor->batcher_timer, NULL);
    uv_close((uv_handle_t *)&supervisor->stop_timer, NULL);
    supervisor->stopped(supervisor->stopped_context);
}

static void on_stop_timeout(uv_timer_t *timer)
{
    struct convoy_supervisor *supervisor = timer->data;
    for (uint32_t i = 0; i < supervisor->member_count; i++)
        convoy_worker_kill(&supervisor->members[i]->worker, "stop");
}

void convoy_supervisor_stop(struct convoy_supervisor *supervisor, void (*stopped)(void *), void *context)
{
    supervisor->stopped = stopped;
    supervisor->stopped_context = context;
    uv_timer_init(supervisor->loop, &supervisor->stop_timer);
    supervisor->stop_timer.data = supervisor;
    uv_timer_start(&supervisor->stop_timer, on_stop_timeout, STOP_MS, 0);
    for (uint32_t i = 0; i < supervisor->member_count; i++) {
        cJSON *message = cJSON_CreateObject();
        cJSON_AddStringToObject(message, "type", "exit");
        uv_timer_stop(&supervisor->members[i]->restart);
        convoy_worker_tell(&supervisor->members[i]->worker, message);
    }
    check_stopped(supervisor);
}

void convoy_supervisor_free(struct convoy_supervisor *supervisor)
{
    if (supervisor == NULL)
        return;
    convoy_batcher_free(supervisor->batcher);
    for (uint32_t i = 0; i < supervisor->member_count; i++) {
        struct member *member = supervisor->members[i];
        convoy_worker_free(&member->worker);
        convoy_loading_forget(member);
        free(member->answered);
        free(member->asked);
        free(member->deaths);
        free(member->kept);
        free(member);
    }
    free(supervisor->retry);
    free(supervisor);
}

void convoy_supervisor_drain(struct convoy_supervisor *supervisor)
{
    atomic_store(&supervisor->draining, true);
}

void convoy_supervisor_health(struct convoy_supervisor *supervisor, struct convoy_health *health)
{
    uint64_t now = convoy_now_us(), turned = atomic_load(&supervisor->turned_us);
    uint64_t last_up = atomic_load(&supervisor->last_up_us);
    uint64_t grace = supervisor->config->ready_grace_ms * (uint64_t)1000;
    health->live = now < turned + LIVE_US;
    health->draining = atomic_load(&supervisor->draining);
    health->worker = atomic_load(&supervisor->any_up) || (last_up > 0 && now < last_up + grace);
    health->settled = convoy_registry_settled(supervisor->registry);
}

bool convoy_supervisor_loads(const struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->member_count; i++) {
        const struct member *member = supervisor->members[i];
        for (uint32_t model = 0; model < convoy_registry_count(supervisor->registry); model++)
            if (member->worker.running && member->greeted && convoy_loading_waits(member, model))
                return true;
    }
    return false;
}

struct convoy_batcher *convoy_supervisor_batcher(struct convoy_supervisor *supervisor)
{
    return supervisor->batcher;
}
