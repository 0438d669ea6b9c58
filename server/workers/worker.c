#include "server/workers/worker.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/daemon/service.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int convoy_worker_program(char *path, size_t capacity, struct convoy_error *error)
{
    static const char name[] = "convoy-worker";
    ssize_t length = readlink("/proc/self/exe", path, capacity - 1);
    char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof name > capacity)
        return convoy_fail(error, -ENOENT, "cannot find the daemon's own folder, where convoy-worker lies");
    memcpy(slash + 1, name, sizeof name);
    if (access(path, X_OK) != 0)
        return convoy_fail(error, -errno, "cannot start %s: %s", path, strerror(errno));
    return 0;
}

int convoy_worker_prepare(struct convoy_worker *worker, uv_loop_t *loop, uint32_t device_index,
                          uint32_t model_count, uint32_t streams, const char *cache_dir,
                          const struct convoy_worker_events *events, void *context,
                          struct convoy_error *error)
{
    memset(worker, 0, sizeof *worker);
    int code = convoy_channel_create(&worker->channel, error);
    if (code != 0)
        return code;
    worker->loop = loop;
    worker->events = events;
    worker->context = context;
    worker->device_index = device_index;
    worker->model_count = model_count;
    worker->streams = streams;
    worker->cache_dir = cache_dir;
    convoy_line_reader_begin(&worker->lines, CONVOY_WORKER_LINE_MAX);
    return 0;
}

/* gone() is told once the process was waited for, its socket said all, and libuv let go of the handles. */
static void tell_when_gone(struct convoy_worker *worker)
{
    char text[CONVOY_ERROR_BYTES + 64];
    const char *reason = "exit";
    if (!worker->exited || !worker->ended || worker->open_handles > 0)
        return;
    if (worker->exit_signal != 0) {
        reason = "signal";
        snprintf(text, sizeof text, "killed by signal %d (%s)", worker->exit_signal,
                 strsignal(worker->exit_signal));
    } else {
        snprintf(text, sizeof text, "exit status %d", (int)worker->exit_status);
    }
    if (worker->lost_reason[0] != '\0') {
        reason = "lost";
        snprintf(text, sizeof text, "%s", worker->lost_reason);
    }
    if (worker->kill_reason != NULL)
        reason = worker->kill_reason;
    worker->running = false;
    worker->events->gone(worker->context, worker, reason, text);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct convoy_worker *worker = handle->data;
    worker->open_handles--;
    tell_when_gone(worker);
}

static void on_process_exit(uv_process_t *process, int64_t status, int signal)
{
    struct convoy_worker *worker = process->data;
    worker->exited = true;
    worker->exit_status = status;
    worker->exit_signal = signal;
    uv_close((uv_handle_t *)process, on_handle_closed);
}

static void end_of_socket(struct convoy_worker *worker)
{
    worker->ended = true;
    uv_close((uv_handle_t *)&worker->control, on_handle_closed);
    /* A worker that closes its socket but lives on would never be replaced. */
    if (!worker->exited)
        uv_process_kill(&worker->process, SIGKILL);
}

static void kill_for_protocol(struct convoy_worker *worker, const char *reason)
{
    convoy_log(CONVOY_LOG_ERROR, "a worker is not understood", CONVOY_STR("reason", reason));
    convoy_worker_kill(worker, "protocol");
}

/* Takes message over. False when it is none that a worker sends. */
static bool handle_message(struct convoy_worker *worker, cJSON *json, struct convoy_error *error)
{
    struct convoy_worker_message message;
    bool sound = convoy_worker_message_read(json, worker->model_count, &message, error) == 0;
    if (sound && message.says == CONVOY_SAYS_LOST)
        snprintf(worker->lost_reason, sizeof worker->lost_reason, "%s", message.text);
    else if (sound)
        worker->events->message(worker->context, worker, &message);
    convoy_worker_message_free(&message);
    return sound;
}

static void lend_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct convoy_worker *worker = handle->data;
    char *room;
    size_t bytes;
    (void)suggested;
    (void)convoy_line_reader_room(&worker->lines, &room, &bytes); /* without room on_read() gets UV_ENOBUFS */
    *buffer = uv_buf_init(room, (unsigned)bytes);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct convoy_worker *worker = stream->data;
    struct convoy_error error;
    cJSON *json;
    int code = 0;
    (void)buffer;
    if (got == 0)
        return;
    if (got < 0) {
        if (got == UV_ENOBUFS)
            kill_for_protocol(worker, worker->lines.code == -EMSGSIZE ? "its line has no end"
                                                                      : strerror(-worker->lines.code));
        end_of_socket(worker);
        return;
    }
    worker->heard_us = convoy_now_us();
    convoy_line_reader_received(&worker->lines, (size_t)got);
    while ((code = convoy_line_reader_next(&worker->lines, &json, &error)) > 0)
        if (!handle_message(worker, json, &error))
            break;
    if (code != 0)
        kill_for_protocol(worker, error.message);
}

static void on_doorbell(uv_poll_t *poll, int status, int events)
{
    struct convoy_worker *worker = poll->data;
    (void)status;
    (void)events;
    convoy_channel_quiet(worker->channel.done_fd);
    worker->events->finished_slots(worker->context, worker);
}

static void watch_doorbell(struct convoy_worker *worker)
{
    if (worker->doorbell_open)
        return;
    uv_poll_init(worker->loop, &worker->doorbell, worker->channel.done_fd);
    worker->doorbell.data = worker;
    uv_poll_start(&worker->doorbell, UV_READABLE, on_doorbell);
    worker->doorbell_open = true;
}

int convoy_worker_start(struct convoy_worker *worker, const char *backend, const char *tune,
                        struct convoy_error *error)
{
    char program[PATH_MAX], device[16], streams[16];
    int code = convoy_worker_program(program, sizeof program, error);
    if (code != 0)
        return code;
    char **environment = convoy_service_environment();
    if (environment == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for starting %s", program);
    snprintf(device, sizeof device, "%u", worker->device_index);
    snprintf(streams, sizeof streams, "%u", worker->streams);
    char *arguments[16] = {
        program,     "--serve", "--backend", (char *)(uintptr_t)backend, "--device", device,
        "--streams", streams,   "--tune",    (char *)(uintptr_t)tune};
    if (worker->cache_dir != NULL) {
        arguments[10] = "--cache-dir";
        arguments[11] = (char *)(uintptr_t)worker->cache_dir;
    }

    worker->exited = worker->ended = false;
    worker->kill_reason = NULL;
    worker->lost_reason[0] = '\0';
    convoy_line_reader_reset(&worker->lines);
    worker->started_us = worker->heard_us = convoy_now_us();
    uv_pipe_init(worker->loop, &worker->control, 0);
    uv_stdio_container_t descriptors[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        [CONVOY_FD_CONTROL] = {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
                               .data.stream = (uv_stream_t *)&worker->control},
        [CONVOY_FD_MEMORY] = {.flags = UV_INHERIT_FD, .data.fd = worker->channel.memory_fd},
        [CONVOY_FD_SUBMIT] = {.flags = UV_INHERIT_FD, .data.fd = worker->channel.submit_fd},
        [CONVOY_FD_DONE] = {.flags = UV_INHERIT_FD, .data.fd = worker->channel.done_fd}};
    uv_process_options_t options = {.file = program,
                                    .args = arguments,
                                    .env = environment,
                                    .exit_cb = on_process_exit,
                                    .stdio = descriptors,
                                    .stdio_count = sizeof descriptors / sizeof descriptors[0]};
    worker->control.data = worker;
    worker->process.data = worker;
    worker->open_handles = 2;
    worker->running = true;
    code = uv_spawn(worker->loop, &worker->process, &options);
    free(environment);
    if (code != 0) {
        convoy_fail(error, code, "cannot start %s: %s", program, uv_strerror(code));
        worker->exited = worker->ended = true;
        worker->exit_status = -1;
        worker->exit_signal = 0;
        snprintf(worker->lost_reason, sizeof worker->lost_reason, "%s", error->message);
        uv_close((uv_handle_t *)&worker->process, on_handle_closed);
        uv_close((uv_handle_t *)&worker->control, on_handle_closed);
        return 0; /* gone() tells it, as for a process that ended at once */
    }
    watch_doorbell(worker);
    uv_read_start((uv_stream_t *)&worker->control, lend_room, on_read);
    return 0;
}

struct letter {
    uv_write_t request;
    char *text;
};

static void on_sent(uv_write_t *request, int status)
{
    (void)status; /* a worker that cannot be told is on its way out */
    struct letter *letter = request->data;
    cJSON_free(letter->text);
    free(letter);
}

void convoy_worker_tell(struct convoy_worker *worker, cJSON *message)
{
    struct letter *letter = calloc(1, sizeof *letter);
    char *text = cJSON_PrintUnformatted(message);
    cJSON_Delete(message);
    if (letter == NULL || text == NULL || !worker->running || worker->ended) {
        cJSON_free(text);
        free(letter);
        return;
    }
    size_t length = strlen(text);
    text[length] = '\n'; /* in the terminator's place */
    letter->text = text;
    letter->request.data = letter;
    uv_buf_t buffer = uv_buf_init(text, (unsigned)(length + 1));
    if (uv_write(&letter->request, (uv_stream_t *)&worker->control, &buffer, 1, on_sent) != 0)
        on_sent(&letter->request, 0);
}

void convoy_worker_kill(struct convoy_worker *worker, const char *reason)
{
    if (!worker->running || worker->exited)
        return;
    if (worker->kill_reason == NULL)
        worker->kill_reason = reason;
    uv_process_kill(&worker->process, SIGKILL);
}

void convoy_worker_retire(struct convoy_worker *worker)
{
    if (worker->doorbell_open)
        uv_close((uv_handle_t *)&worker->doorbell, NULL);
    worker->doorbell_open = false;
}

void convoy_worker_free(struct convoy_worker *worker)
{
    convoy_channel_destroy(&worker->channel);
    convoy_line_reader_free(&worker->lines);
}
