#include "server/workers/supervisor_internal.h"

#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_US            60000000u /* or hang_timeout_ms, if more: how long loading a model may take */
#define SETTLED_US         1000000u  /* a worker that served for this long did not fail to start */
#define FIRST_BACKOFF_MS   100u
#define LONGEST_BACKOFF_MS 5000u

_Static_assert(CONVOY_MAX_WORKERS <= CONVOY_BATCHER_WORKERS, "the batcher takes all workers");

static void start_worker(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    struct convoy_error error;
    worker->attached = worker->said_hello = worker->serving = worker->completed = worker->distrusted = false;
    worker->loading = NO_MODEL;
    worker->excused = false;
    worker->free_bytes = 0;
    memset(worker->answered, 0, CONVOY_MAX_MODELS * sizeof *worker->answered);
    memset(worker->asked, 0, CONVOY_MAX_MODELS * sizeof *worker->asked);
    memset(worker->unsent, 0, CONVOY_MAX_MODELS * sizeof *worker->unsent);
    worker->channel_unsent = false;
    const char *tune = convoy_heartbeat_tune(worker);
    int code = convoy_worker_process_start(&worker->process, supervisor->backend, tune, &error);
    if (code != 0) {
        convoy_log(CONVOY_LOG_ERROR, "no worker can be started", CONVOY_STR("reason", error.message));
        uv_timer_start(&worker->restart, supervisor->on_restart, LONGEST_BACKOFF_MS, 0);
    }
}

static void on_restart(uv_timer_t *timer)
{
    start_worker(timer->data);
}

void convoy_supervisor_wake(struct device_worker *worker)
{
    worker->dormant = false;
    start_worker(worker);
}

int convoy_supervisor_add(struct convoy_supervisor *supervisor, uint32_t device, const char *of,
                          struct convoy_error *error)
{
    if (supervisor->worker_count == CONVOY_MAX_WORKERS)
        return convoy_fail(error, -ENOSPC,
                           "worker.per_model: there are %u workers already, of all devices together: unload "
                           "a model, name fewer devices in its config.json, or set it to false",
                           CONVOY_MAX_WORKERS);
    struct device_worker *worker = calloc(1, sizeof *worker);
    if (supervisor->deaths[device] == NULL)
        supervisor->deaths[device] = calloc(CONVOY_MAX_MODELS, sizeof *supervisor->deaths[device]);
    if (worker == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for a worker");
    snprintf(worker->of, sizeof worker->of, "%s", of);
    struct convoy_worker_settings settings = convoy_supervisor_settings(supervisor, device, worker->of);
    worker->answered = calloc(CONVOY_MAX_MODELS, sizeof *worker->answered);
    worker->asked = calloc(CONVOY_MAX_MODELS, sizeof *worker->asked);
    worker->unsent = calloc(CONVOY_MAX_MODELS, sizeof *worker->unsent);
    worker->deaths = supervisor->deaths[device];
    worker->kept = calloc(CONVOY_MAX_MODELS, sizeof *worker->kept);
    int code = worker->answered == NULL || worker->asked == NULL || worker->unsent == NULL ||
                       worker->deaths == NULL || worker->kept == NULL
                   ? convoy_fail(error, -ENOMEM, "out of memory for a worker")
                   : convoy_worker_process_prepare(&worker->process, supervisor->loop, &settings,
                                                   CONVOY_MAX_MODELS, &supervisor->events, worker, error);
    if (code != 0) {
        free(worker->answered);
        free(worker->asked);
        free(worker->unsent);
        free(worker->kept);
        free(worker);
        return code;
    }
    worker->supervisor = supervisor;
    worker->process.link = supervisor->link;
    snprintf(worker->device, sizeof worker->device, "%s", supervisor->backend);
    uv_timer_init(supervisor->loop, &worker->restart);
    worker->restart.data = worker;
    supervisor->workers[supervisor->worker_count++] = worker;
    if (device >= supervisor->device_count)
        supervisor->device_count = device + 1;
    convoy_worker_left_adopt(&worker->process.left, supervisor->link, &settings, convoy_ending_gone, worker);
    if (!convoy_adopt_begin(worker))
        start_worker(worker);
    return 0;
}

/* What a device's first worker is for. */
static const char *first_of(const struct convoy_supervisor *supervisor)
{
    return supervisor->config->worker.per_model ? CONVOY_OF_NONE : CONVOY_OF_ALL;
}

static void on_hello(struct device_worker *worker, const struct convoy_worker_message *message)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    struct convoy_error error;
    if (worker->said_hello)
        return;
    worker->said_hello = true;
    worker->streams = message->hello.streams;
    worker->files_ahead = message->hello.files_ahead;
    snprintf(worker->device, sizeof worker->device, "%s", message->hello.device);
    worker->metrics = convoy_per_model_metrics(worker);
    worker->kind = convoy_hash(0, message->hello.description, strlen(message->hello.description));
    convoy_metrics_worker_process(worker->metrics, worker->process.pid);
    if (!worker->adopted)
        convoy_log(CONVOY_LOG_INFO, "worker started", CONVOY_STR("device", worker->device),
                   CONVOY_STR("description", message->hello.description),
                   CONVOY_INT("pid", worker->process.pid), convoy_per_model_field(worker));
    /* The backend that "auto" chose is kept: after a fault the next worker uses the GPU again, not the CPU.
     */
    snprintf(supervisor->backend, sizeof supervisor->backend, "%s", message->hello.backend);
    uint32_t known = supervisor->device_count;
    for (uint32_t device = known; device < message->hello.device_count; device++)
        if (convoy_supervisor_add(supervisor, device, first_of(supervisor), &error) != 0)
            convoy_log(CONVOY_LOG_ERROR, "a device is left out", CONVOY_STR("reason", error.message));
    if (supervisor->device_count > known)
        convoy_per_model_place_all(supervisor);
    if (!worker->adopted)
        convoy_loading_begin(worker);
}

/* A worker is up when it is attached and serves at least one model, unless there is no model to serve: a
 * worker that hangs while it loads must not make the daemon look ready. */
static void mark_up(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    if (worker->up || !worker->attached ||
        (!worker->serving && convoy_registry_any_ready(supervisor->registry)))
        return;
    worker->up = true;
    worker->up_us = convoy_now_us();
    supervisor->up++;
    atomic_store(&supervisor->any_up, true);
    convoy_metrics_worker_up(worker->metrics, true);
}

static void mark_down(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    if (!worker->up)
        return;
    worker->up = false;
    supervisor->up--;
    atomic_store(&supervisor->last_up_us, convoy_now_us());
    atomic_store(&supervisor->any_up, supervisor->up > 0);
    convoy_metrics_worker_up(worker->metrics, false);
}

static void on_attached(struct device_worker *worker)
{
    struct convoy_error error;
    if (worker->attached || worker->process.channel.base == NULL)
        return;
    if (worker->slots == NULL &&
        convoy_worker_slots_new(worker->supervisor->batcher, &worker->process.channel, worker->device,
                                &worker->slots, &error) != 0) {
        convoy_log(CONVOY_LOG_ERROR, "a worker is of no use", CONVOY_STR("reason", error.message));
        return;
    }
    worker->attached = true;
    convoy_worker_slots_up(worker->slots, worker->streams);
    convoy_worker_slots_ahead(worker->slots, worker->files_ahead);
    convoy_loading_attached(worker);
    mark_up(worker);
}

static void on_message(void *context, struct convoy_worker_process *process,
                       const struct convoy_worker_message *message)
{
    struct device_worker *worker = context;
    enum convoy_log_level level = CONVOY_LOG_INFO;
    (void)process;
    if ((worker->distrusted && message->type != CONVOY_WORKER_LOG) ||
        !convoy_per_model_hears(worker, message))
        return;
    switch (message->type) {
    case CONVOY_WORKER_HELLO:
        on_hello(worker, message);
        break;
    case CONVOY_WORKER_ATTACHED:
        on_attached(worker);
        break;
    case CONVOY_WORKER_LOADING:
        worker->loading = (int)message->model;
        worker->loading_us = convoy_now_us();
        worker->excused = worker->process.left.exists;
        break;
    case CONVOY_WORKER_MEASURED:
        worker->loading = NO_MODEL;
        convoy_measure_answered(worker, message);
        break;
    case CONVOY_WORKER_LOADED:
    case CONVOY_WORKER_FAILED:
        worker->loading = NO_MODEL;
        convoy_loading_answered(worker, message);
        mark_up(worker);
        break;
    case CONVOY_WORKER_HELD:
        convoy_adopt_held(worker, message);
        break;
    case CONVOY_WORKER_ADOPTED:
        convoy_adopt_end(worker);
        break;
    case CONVOY_WORKER_HEARTBEAT:
        convoy_heartbeat(worker, message);
        break;
    case CONVOY_WORKER_TUNED:
        convoy_loading_tuned(worker, message);
        break;
    case CONVOY_WORKER_CHECKED:
        convoy_canary_checked(worker, message);
        break;
    case CONVOY_WORKER_MEMORY:
        convoy_heartbeat_memory(worker, message);
        break;
    case CONVOY_WORKER_HEALTH:
        convoy_heartbeat_health(worker, message);
        break;
    case CONVOY_WORKER_LOG:
        convoy_log_level_parse(message->level, &level);
        convoy_log(level, "worker", CONVOY_STR("device", worker->device), CONVOY_STR("text", message->text),
                   convoy_per_model_field(worker));
        break;
    default:
        break;
    }
}

static bool on_finished_slots(void *context, struct convoy_worker_process *process)
{
    struct device_worker *worker = context;
    (void)process;
    if (worker->slots == NULL || !worker->attached || worker->distrusted)
        return false;
    worker->completed = true;
    uint32_t nonsense = convoy_worker_slots_collect(worker->slots);
    if (nonsense > 0) {
        convoy_log(CONVOY_LOG_ERROR, "a worker reported slots that it was not given",
                   CONVOY_STR("device", worker->device), CONVOY_UINT("reports", nonsense),
                   convoy_per_model_field(worker));
        convoy_worker_process_kill(&worker->process, "protocol");
    }
    return nonsense == 0;
}

/* A worker that did some work is replaced at once. One that died before that is a failed start, and delays
 * grow. */
static uint64_t next_delay_ms(struct device_worker *worker, bool worked)
{
    uint64_t delay = worked ? 0 : worker->backoff_ms;
    if (worked)
        worker->backoff_ms = FIRST_BACKOFF_MS;
    else
        worker->backoff_ms =
            worker->backoff_ms * 2 < LONGEST_BACKOFF_MS ? worker->backoff_ms * 2 : LONGEST_BACKOFF_MS;
    return delay;
}

static void on_gone(void *context, struct convoy_worker_process *process, const char *reason,
                    const char *text)
{
    struct device_worker *worker = context;
    struct convoy_supervisor *supervisor = worker->supervisor;
    /* While it prepared its decoder neither a model nor a slot is to blame: a deadly one shows again. */
    bool was_preparing = worker->preparing, was_loading = worker->loading != NO_MODEL && !was_preparing;
    bool worked =
        worker->completed || (worker->serving && convoy_now_us() - process->started_us > SETTLED_US);
    uint32_t again = 0, running = 0;
    if (supervisor->stopped != NULL) {
        convoy_supervisor_check_stopped(supervisor);
        return;
    }
    if (worker->attached) {
        running = convoy_worker_slots_in_flight(worker->slots);
        on_finished_slots(worker, process); /* slots that it finished before it died count */
        worked = worked || running > 0;
        again =
            convoy_worker_slots_down(worker->slots, !was_loading && !was_preparing && !worker->distrusted);
    } else if (worker->slots != NULL) {
        convoy_worker_slots_lost(worker->slots);
    }
    mark_down(worker);
    convoy_metrics_worker_process(worker->metrics, 0);
    if (convoy_per_model_gone(worker))
        return;
    /* Without HELLO the device's name is not known: the restart counts under the backend's name. */
    convoy_metrics_worker_restart(worker->said_hello ? worker->metrics : convoy_per_model_metrics(worker),
                                  reason);
    if (worker->backoff_ms == 0)
        worker->backoff_ms = FIRST_BACKOFF_MS;
    if (was_loading)
        convoy_quarantine_died(worker);
    convoy_heartbeat_died(worker, running > 0);
    worker->attached = false;
    convoy_adopt_forget(worker);
    convoy_channel_reset(&process->channel);
    uint64_t delay = next_delay_ms(worker, worked);
    const char *what =
        worker->said_hello ? "worker died and is replaced" : "worker cannot start and is tried again";
    convoy_log(CONVOY_LOG_ERROR, what, CONVOY_STR("device", worker->device), CONVOY_STR("reason", reason),
               CONVOY_STR("text", text), CONVOY_UINT("images_run_again", again), CONVOY_UINT("in_ms", delay),
               convoy_per_model_field(worker));
    if (delay == 0)
        start_worker(worker);
    else
        uv_timer_start(&worker->restart, on_restart, delay, 0);
    convoy_loading_settle(supervisor);
}

uint64_t convoy_supervisor_load_limit_us(const struct convoy_config *config)
{
    uint64_t limit = config->worker.hang_timeout_ms * (uint64_t)1000;
    return limit > LOAD_US ? limit : LOAD_US;
}

static void on_batcher_timer(uv_poll_t *poll, int status, int events)
{
    struct convoy_supervisor *supervisor = poll->data;
    (void)status;
    (void)events;
    convoy_batcher_tick(supervisor->batcher);
}

static void set_limits(struct convoy_supervisor *supervisor, const struct convoy_model_record *model)
{
    const struct convoy_batching *batching = &model->config->batching;
    convoy_batcher_set_limits(supervisor->batcher, model,
                              &(struct convoy_batcher_limits){batching->max_batch, batching->max_delay_us,
                                                              batching->max_queue, batching->weight});
}

void convoy_supervisor_new_limits(struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model != NULL && model->config != NULL)
            set_limits(supervisor, model);
    }
}

void convoy_supervisor_load(struct convoy_supervisor *supervisor, struct convoy_model_record *model)
{
    convoy_batcher_model_new(supervisor->batcher, model);
    set_limits(supervisor, model);
    convoy_loading_load(supervisor, model);
}

bool convoy_supervisor_released(struct convoy_supervisor *supervisor, const struct convoy_model_record *model)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (convoy_loading_is_asked(supervisor->workers[i], model->number))
            return false;
    return convoy_batcher_model_idle(supervisor->batcher, model);
}

void convoy_supervisor_unload(struct convoy_supervisor *supervisor, const struct convoy_model_record *model)
{
    convoy_loading_unload(supervisor, model);
}

void convoy_supervisor_on_change(struct convoy_supervisor *supervisor, void (*changed)(void *), void *context)
{
    supervisor->changed = changed;
    supervisor->changed_context = context;
}

/* Threads that copy the rows of parked images: two fill a slot of 4 MiB in half a millisecond. */
static uint32_t writers(void)
{
    uint32_t quarter = convoy_cores() / 4;
    return quarter < 2 ? 2 : quarter > CONVOY_BATCHER_WRITERS ? CONVOY_BATCHER_WRITERS : quarter;
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
    supervisor->events = (struct convoy_worker_process_events){on_message, on_finished_slots, on_gone,
                                                               convoy_ending_may_leave, convoy_ending_gone};
    supervisor->on_restart = on_restart;
    snprintf(supervisor->backend, sizeof supervisor->backend, "%s",
             convoy_backend_choice_text(config->backend));
    int code = convoy_batcher_new(CONVOY_MAX_MODELS, CONVOY_MAX_WORKERS, writers(), metrics,
                                  &supervisor->batcher, error);
    if (code != 0) {
        free(supervisor);
        return code;
    }
    if (config->worker.per_model)
        convoy_batcher_rows_only_where_served(supervisor->batcher);
    supervisor->retry = calloc(CONVOY_MAX_MODELS, sizeof *supervisor->retry);
    supervisor->known = calloc(CONVOY_MAX_MODELS, sizeof(struct known_answer *));
    supervisor->measured = calloc(CONVOY_MAX_MODELS, sizeof *supervisor->measured);
    if (supervisor->retry == NULL || supervisor->measured == NULL || supervisor->known == NULL) {
        convoy_batcher_free(supervisor->batcher);
        free(supervisor->retry);
        free(supervisor->measured);
        free(supervisor->known);
        free(supervisor);
        return convoy_fail(error, -ENOMEM, "out of memory for the supervisor");
    }
    atomic_store(&supervisor->turned_us, convoy_now_us());
    atomic_store(&supervisor->last_up_us, 0);
    *result = supervisor;
    return 0;
}

/* Those of a front before, and one for each device up to the last of these that has none. */
static void start_workers(struct convoy_supervisor *supervisor)
{
    struct convoy_adoptable found[CONVOY_MAX_WORKERS];
    struct convoy_error error;
    uint32_t count = convoy_adopt_prepare(supervisor, found), devices = 1;
    for (uint32_t i = 0; i < count; i++)
        devices = found[i].device >= devices ? found[i].device + 1 : devices;
    for (uint32_t device = 0; device < devices; device++) {
        int code = 0;
        bool any = false;
        for (uint32_t i = 0; i < count && code == 0; i++) {
            if (found[i].device != device)
                continue;
            code = convoy_supervisor_add(supervisor, device, found[i].of, &error);
            any = true;
        }
        if (!any)
            code = convoy_supervisor_add(supervisor, device, first_of(supervisor), &error);
        if (code != 0)
            convoy_log(CONVOY_LOG_ERROR, "no worker can be started", CONVOY_STR("reason", error.message));
    }
}

void convoy_supervisor_start(struct convoy_supervisor *supervisor, struct convoy_link *link)
{
    supervisor->link = link;
    uv_timer_init(supervisor->loop, &supervisor->watch);
    supervisor->watch.data = supervisor;
    uv_timer_start(&supervisor->watch, convoy_watch, CONVOY_WATCH_MS, CONVOY_WATCH_MS);
    uv_poll_init(supervisor->loop, &supervisor->batcher_timer, convoy_batcher_timer(supervisor->batcher));
    supervisor->batcher_timer.data = supervisor;
    uv_poll_start(&supervisor->batcher_timer, UV_READABLE, on_batcher_timer);
    start_workers(supervisor);
    convoy_per_model_place_all(supervisor);
    convoy_link_kill_rest(supervisor->link);
}

void convoy_supervisor_free(struct convoy_supervisor *supervisor)
{
    if (supervisor == NULL)
        return;
    convoy_batcher_free(supervisor->batcher);
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        struct device_worker *worker = supervisor->workers[i];
        convoy_worker_process_free(&worker->process);
        convoy_loading_forget(worker);
        convoy_adopt_forget(worker);
        free(worker->answered);
        free(worker->asked);
        free(worker->unsent);
        free(worker->kept);
        free(worker);
    }
    for (uint32_t device = 0; device < CONVOY_MAX_DEVICES; device++)
        free(supervisor->deaths[device]);
    free(supervisor->retry);
    free(supervisor->measured);
    convoy_canary_free(supervisor);
    free(supervisor);
}

struct convoy_batcher *convoy_supervisor_batcher(struct convoy_supervisor *supervisor)
{
    return supervisor->batcher;
}
