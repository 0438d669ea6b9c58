#include "engine/worker/serve.h"

#include "engine/base/brief_wait.h"
#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/pause.h"
#include "engine/base/wake_fd.h"
#include "engine/worker/canary.h"
#include "engine/worker/confine.h"
#include "engine/worker/hold_last.h"
#include "engine/worker/serve_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define HEARTBEAT_MS 100
#define AWAY_US      1000000u /* a worker that comes back after so long was stopped */

#define PAUSE_ROUNDS 4    /* of looking at slots, in each pause of a load */
#define IDLE_US      5000 /* how long a slot may wait because the backend is tuning, kernels' own time aside */

struct command {
    struct convoy_list link;
    cJSON *json;
};

/* For struct convoy_background. */
static bool serve_once(void *context)
{
    return convoy_worker_run_slots(context);
}

/* backend.h's pause(): a model that takes long to load must not hold up those that serve. */
static void pause_load(void *context)
{
    struct convoy_worker *worker = context;
    int rounds = 0;
    while (worker->serves_beside && rounds < PAUSE_ROUNDS && convoy_worker_run_slots(worker))
        rounds++;
}

/* backend.h's run_beside(). */
static void run_beside(void *context, void (*work)(void *argument), void *argument)
{
    const struct convoy_worker *worker = context;
    if (worker->serves_beside)
        convoy_background_run(&worker->background, work, argument);
    else
        work(argument);
}

static void load(struct convoy_worker *worker, uint32_t model, const cJSON *command)
{
    struct convoy_error error;
    cJSON *described = NULL;
    const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(command, "path"));
    uint64_t files = path != NULL ? convoy_worker_canary_files(path) : 0;
    /* Unless others are to be served meanwhile nothing runs: a fault that comes out then is the model's, not
     * a slot's. */
    worker->serves_beside = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(command, "beside"));
    if (!worker->serves_beside)
        convoy_worker_collect_all(worker);
    atomic_store(&worker->phase, CONVOY_PHASE_LOADING);
    convoy_worker_send_model(worker, "loading", model, NULL, NULL);
    convoy_worker_unload(&worker->device, &worker->nets[model]);
    int code =
        convoy_worker_load(&worker->device, command, worker->serves_beside ? &worker->background : NULL,
                           &worker->nets[model], &described, &error);
    worker->serves_beside = false;
    if (code == -ENODEV)
        convoy_worker_lose_device(worker, &error); /* says nothing of the model */
    if (code == 0) {
        convoy_worker_collect_all(worker);
        if (files == convoy_worker_canary_files(path)) {
            char text[24];
            snprintf(text, sizeof text, "%" PRIx64, files);
            cJSON_AddStringToObject(described, "files", text);
        }
        convoy_worker_check_loaded(worker, model, described);
        convoy_worker_remember(&worker->nets[model], command, described);
    }
    if (code == 0)
        convoy_worker_send_model(worker, "loaded", model, described, NULL);
    else
        convoy_worker_send_model(worker, "failed", model, NULL, error.message);
    convoy_worker_memory_later(worker);
    worker->idle_left = true;
    atomic_store(&worker->phase, CONVOY_PHASE_RUNNING);
}

/* Says how large a model's rows and outputs are, before it is loaded. */
static void measure(struct convoy_worker *worker, uint32_t model, const cJSON *command)
{
    struct convoy_error error;
    cJSON *described = NULL;
    atomic_store(&worker->phase, CONVOY_PHASE_LOADING);
    convoy_worker_send_model(worker, "loading", model, NULL,
                             NULL); /* it may be the file that this process dies of */
    int code = convoy_worker_measure(command, &described, &error);
    convoy_worker_send_model(worker, "measured", model, described, code != 0 ? error.message : NULL);
    atomic_store(&worker->phase, CONVOY_PHASE_RUNNING);
}

/* backend.h's changed(). */
static void send_tuned(void *context, struct convoy_net *net, const struct convoy_net_info *info)
{
    struct convoy_worker *worker = context;
    for (uint32_t model = 0; model < CONVOY_MAX_MODELS; model++) {
        if (worker->nets[model].net != net)
            continue;
        /* That it takes files from now on changes no answer. */
        if (worker->nets[model].info.takes_jpeg == info->takes_jpeg)
            worker->nets[model].known.changed = worker->checks.changed = true;
        worker->nets[model].info = *info;
        cJSON *object = cJSON_CreateObject();
        convoy_worker_describe(info, object);
        convoy_worker_remember_tuned(&worker->nets[model], info);
        convoy_worker_send_model(worker, "tuned", model, object, NULL);
        convoy_worker_send_memory(worker);
    }
}

/* backend.h's progress(). A clock that costs nothing to read keeps the threads of a job from fighting for the
 * count at each small layer. */
static void report_progress(void *context)
{
    static _Thread_local struct timespec last;
    struct convoy_worker *worker = context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (!worker->attached || (now.tv_sec == last.tv_sec && now.tv_nsec == last.tv_nsec))
        return;
    last = now;
    convoy_channel_progress(&worker->channel);
}

/* backend.h's log(). */
static void send_log(void *context, const char *level, const char *text)
{
    struct convoy_worker *worker = context;
    convoy_control_log(&worker->control, level, "%s", text);
}

/* A moment without work is the backend's; false when it has no use for it. What is timed beside work of its
 * own would be timed wrongly, and kept. */
static bool use_idle(struct convoy_worker *worker)
{
    struct convoy_error error;
    if (worker->device.backend->idle == NULL || !worker->idle_left || worker->in_flight > 0 ||
        !worker->attached || worker->renumbering || worker->behind.work != NULL)
        return false;
    /* The front must know before it may be the last that it hears. */
    if (atomic_exchange(&worker->phase, CONVOY_PHASE_TUNING) != CONVOY_PHASE_TUNING)
        convoy_worker_send_heartbeat(worker);
    int more = worker->device.backend->idle(worker->device.device, IDLE_US, &error);
    if (more < 0)
        convoy_worker_lose_device(worker, &error);
    convoy_worker_check_changed(worker);
    worker->idle_left = more > 0;
    if (more == 0)
        atomic_store(&worker->phase, CONVOY_PHASE_RUNNING);
    return worker->idle_left;
}

uint64_t convoy_worker_number(const cJSON *command, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(command, key);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 ? (uint64_t)item->valuedouble : UINT64_MAX;
}

static void unload(struct convoy_worker *worker, uint32_t model)
{
    convoy_worker_collect_all(worker);
    struct convoy_worker_net net = worker->nets[model];
    worker->nets[model] = (struct convoy_worker_net){0}; /* no slot finds it in the pauses */
    worker->serves_beside = true;
    convoy_worker_unload(&worker->device, &net);
    worker->serves_beside = false;
    convoy_worker_send_memory(worker);
}

static void attach(struct convoy_worker *worker, const cJSON *command)
{
    struct convoy_error error;
    struct convoy_channel_size size = {.slots = (uint32_t)convoy_worker_number(command, "slots"),
                                       .input_bytes = convoy_worker_number(command, "input_bytes"),
                                       .output_bytes = convoy_worker_number(command, "output_bytes")};
    if (worker->attached)
        return;
    if (convoy_channel_attach(&worker->channel, CONVOY_FD_MEMORY, CONVOY_FD_DOORBELL, &size, &error) != 0 ||
        worker->device.backend->attach(worker->device.device, worker->channel.base, worker->channel.bytes,
                                       &error) != 0)
        convoy_worker_lose_device(worker, &error);
    worker->channel.turn = convoy_worker_number(command, "turn") == 1;
    worker->attached = true;
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(answer, "type", "attached");
    convoy_control_send(&worker->control, answer);
}

static void handle_command(struct convoy_worker *worker, const cJSON *command)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(command, "type"));
    uint64_t model = convoy_worker_number(command, "model");
    if (type == NULL)
        return;
    if (strcmp(type, "load") == 0 && model < CONVOY_MAX_MODELS)
        load(worker, (uint32_t)model, command);
    else if (strcmp(type, "measure") == 0 && model < CONVOY_MAX_MODELS)
        measure(worker, (uint32_t)model, command);
    else if (strcmp(type, "unload") == 0 && model < CONVOY_MAX_MODELS)
        unload(worker, (uint32_t)model);
    else if (strcmp(type, "channel") == 0)
        attach(worker, command);
    else if (strcmp(type, "memory") == 0)
        convoy_worker_send_memory(worker);
    else if (strcmp(type, "adopt") == 0)
        convoy_worker_adopt(worker);
    else if (strcmp(type, "keep") == 0)
        convoy_worker_keep(worker, command);
    else if (strcmp(type, "exit") == 0)
        _exit(0);
}

static cJSON *next_command(struct convoy_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    struct convoy_list *first = convoy_list_take_first(&worker->commands);
    pthread_mutex_unlock(&worker->lock);
    if (first == NULL)
        return NULL;
    struct command *command = convoy_list_entry(first, struct command, link);
    cJSON *json = command->json;
    free(command);
    return json;
}

static int sooner(int a_ms, int b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* How long the compute thread may sleep; -1: until something rings. */
static int wait_ms(const struct convoy_worker *worker)
{
    int ms = sooner(convoy_worker_check_wait_ms(worker), convoy_worker_map_wait_ms(worker));
    ms = sooner(ms, convoy_worker_behind_wait_ms(worker));
    return sooner(ms, convoy_worker_memory_wait_ms(worker));
}

/* Until there are slots, a command, or something to do in an idle moment. While it waits briefly it looks for
 * slots alone. */
static void wait_for_ring(struct convoy_worker *worker, struct pollfd doorbells[2])
{
    uint64_t begun_us = convoy_now_us();
    bool some = false;
    while (worker->waits_briefly && !some && convoy_now_us() < begun_us + CONVOY_BRIEF_WAIT_US) {
        some = convoy_channel_pending(&worker->channel);
        convoy_pause();
    }
    doorbells[0].revents = doorbells[1].revents = 0;
    if (!some && convoy_channel_sleep(&worker->channel))
        poll(doorbells, 2, wait_ms(worker));
    convoy_channel_attend(&worker->channel, true);
    worker->waits_briefly = convoy_brief_wait(convoy_now_us() - begun_us, worker->cores);
}

static void *compute(void *context)
{
    struct convoy_worker *worker = context;
    struct convoy_error error;
    if (worker->device.backend->enter != NULL &&
        worker->device.backend->enter(worker->device.device, &error) != 0)
        convoy_worker_lose_device(worker, &error);
    struct pollfd doorbells[] = {{.fd = worker->wake_fd, .events = POLLIN},
                                 {.fd = CONVOY_FD_DOORBELL, .events = POLLIN}};
    for (;;) {
        /* Slots first: a model that takes long to load must not hold back those that wait for a loaded one.
         */
        bool busy = convoy_worker_run_slots(worker);
        cJSON *command = next_command(worker);
        worker->checks.worked = worker->checks.worked || busy || command != NULL;
        convoy_worker_behind_turn(worker, busy, command != NULL);
        convoy_worker_memory_turn(worker);
        if (command != NULL) {
            handle_command(worker, command);
            cJSON_Delete(command);
        } else if (!convoy_worker_map_load(worker) && !busy && !use_idle(worker) &&
                   !convoy_worker_check_idle(worker)) {
            wait_for_ring(worker, doorbells);
            if (doorbells[0].revents != 0)
                convoy_wake_fd_clear(worker->wake_fd);
            /* When the front has gone, the main thread ends this process. */
            if (doorbells[1].revents != 0 && !convoy_channel_clear_doorbell(CONVOY_FD_DOORBELL))
                doorbells[1].fd = -1;
        }
    }
    return NULL;
}

static bool is_of_type(const cJSON *command, const char *type)
{
    const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(command, "type"));
    return own != NULL && strcmp(own, type) == 0;
}

/* What a front that is gone wanted. The next one asks for what it wants itself, except for the channel's
 * size, which it knows to have been sent. Under the lock. */
static void forget_commands(struct convoy_worker *worker)
{
    convoy_list_for_each(at, following, &worker->commands) {
        struct command *command = convoy_list_entry(at, struct command, link);
        cJSON *nothing = is_of_type(command->json, "channel") ? NULL : cJSON_CreateObject();
        if (nothing == NULL)
            continue;
        cJSON_Delete(command->json);
        command->json = nothing; /* a command without a type is passed by */
    }
}

static void queue_command(void *context, cJSON *json)
{
    struct convoy_worker *worker = context;
    struct command *command = malloc(sizeof *command);
    if (command == NULL)
        abort();
    command->json = json;
    pthread_mutex_lock(&worker->lock);
    if (is_of_type(json, "adopt"))
        forget_commands(worker);
    convoy_list_add_last(&worker->commands, &command->link);
    pthread_mutex_unlock(&worker->lock);
    convoy_wake_fd_ring(worker->wake_fd);
}

/* A worker that cannot be confined serves all the same, and says so: the front decides whom it trusts, and an
 * old kernel is no reason not to serve. */
static void confine(struct convoy_worker *worker, const struct convoy_worker_confinement *confinement)
{
    struct convoy_error error;
    char text[CONVOY_CONFINED_BYTES];
    convoy_worker_confined_text(confinement, text);
    if (convoy_worker_confine(confinement, &error) == 0)
        convoy_control_log(&worker->control, "info",
                           "confined: no sockets, no processes, no other process's memory or signals; %s",
                           text);
    else
        convoy_control_log(&worker->control, "warning", "not confined: %s; %s", error.message, text);
}

/* Whether no front has read what this worker sends for that long. A worker that is kept over a restart of the
 * daemon has a socket that stays open meanwhile; and of a front that never comes nothing else tells. When
 * this process itself was stopped for a while, the front may have been, too. */
static bool is_orphan(uint64_t limit_us, uint64_t now_us, bool *reads)
{
    static uint64_t read_us, looked_us;
    int unread = 0;
    *reads = limit_us == 0 || ioctl(CONVOY_FD_CONTROL, SIOCOUTQ, &unread) != 0 || unread == 0;
    if (*reads || now_us - looked_us > AWAY_US)
        read_us = now_us;
    looked_us = now_us;
    return now_us - read_us > limit_us;
}

static int refuse(struct convoy_worker *worker, const struct convoy_error *error)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "lost");
    cJSON_AddStringToObject(message, "reason", error->message);
    convoy_control_send(&worker->control, message);
    return CONVOY_EXIT_NO_DEVICE;
}

int convoy_worker_serve(const char *backend, uint32_t device_index,
                        struct convoy_worker_confinement *confinement, uint32_t canary_ms, uint32_t orphan_ms,
                        bool spare, const struct convoy_open_options *options)
{
    static struct convoy_worker worker; /* large, and needed until the process ends */
    struct convoy_open_options with_callbacks = *options;
    with_callbacks.context = &worker;
    with_callbacks.log = send_log;
    with_callbacks.changed = send_tuned;
    with_callbacks.pause = pause_load;
    with_callbacks.run_beside = run_beside;
    with_callbacks.run_behind = convoy_worker_run_behind;
    with_callbacks.progress = report_progress;
    with_callbacks.health = true;
    struct convoy_error error, notice;
    pthread_t thread;

    /* Ctrl-C reaches the whole process group; the front decides when a worker ends. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    int early = convoy_worker_confine_early(confinement, &error);
    with_callbacks.cache_dir = confinement->folders.write;
    if (spare)
        convoy_worker_begin_spare(&worker);
    with_callbacks.opened = spare ? convoy_worker_wait_as_spare : NULL;
    worker.cores = convoy_cores(); /* before confinement */
    convoy_control_open(&worker.control, CONVOY_FD_CONTROL);
    convoy_worker_hold_last(CONVOY_FD_CONTROL);
    if (early != 0 || convoy_worker_open_device(backend, device_index, &with_callbacks, confinement,
                                                &worker.device, &notice, &error) != 0)
        return refuse(&worker, &error);
    convoy_worker_wait_as_spare(&worker, NULL); /* where the backend did not */
    if (notice.message[0] != '\0')
        convoy_control_log(&worker.control, "info", "no GPU is used: %s", notice.message);
    convoy_control_send(&worker.control, convoy_worker_hello(&worker));

    convoy_worker_check_init(&worker, canary_ms * (uint64_t)1000);
    pthread_mutex_init(&worker.lock, NULL);
    convoy_list_init(&worker.commands);
    worker.channel.doorbell_fd = CONVOY_FD_DOORBELL; /* rings before it is attached are heard, too */
    worker.wake_fd = convoy_wake_fd_new();
    int failed = convoy_background_open(&worker.background, serve_once, &worker, &worker.channel, &error);
    if (!failed && worker.wake_fd < 0)
        failed = convoy_fail(&error, worker.wake_fd, "cannot make an eventfd: %s", strerror(-worker.wake_fd));
    if (!failed && confinement->sandbox)
        confine(&worker, confinement);
    if (!failed && (failed = -pthread_create(&thread, NULL, compute, &worker)) != 0)
        convoy_fail(&error, failed, "the worker cannot start its compute thread: %s", strerror(-failed));
    if (failed)
        convoy_worker_lose_device(&worker, &error);
    atomic_store(&worker.phase, CONVOY_PHASE_RUNNING);
    uint64_t next_beat = 0;
    while (!worker.control.closed) {
        uint64_t now = convoy_now_us();
        if (now >= next_beat) {
            bool reads;
            if (is_orphan(orphan_ms * (uint64_t)1000, now, &reads))
                _exit(0);
            if (reads) { /* else the socket would fill, and this thread wait */
                convoy_worker_send_heartbeat(&worker);
                convoy_worker_send_new_health(&worker);
            }
            next_beat = now + HEARTBEAT_MS * 1000u;
        }
        struct pollfd socket = {.fd = CONVOY_FD_CONTROL, .events = POLLIN};
        poll(&socket, 1, (int)((next_beat - now) / 1000u) + 1);
        convoy_control_receive(&worker.control, queue_command, &worker);
    }
    _exit(0); /* the front is gone or has closed the socket; the compute thread may be in the middle of a
                 batch */
}
