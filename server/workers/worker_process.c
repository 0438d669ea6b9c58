#include "server/workers/worker_process.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/workers/environment.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define REST_BYTES (1u << 20) /* as much as is read of a worker's messages after its end */

int convoy_worker_process_prepare(struct convoy_worker_process *process, uv_loop_t *loop,
                                  uint32_t device_index, uint32_t model_count, uint32_t streams,
                                  const char *cache_dir, const struct convoy_worker_process_events *events,
                                  void *context, struct convoy_error *error)
{
    memset(process, 0, sizeof *process);
    int code = convoy_channel_create(&process->channel, error);
    if (code != 0)
        return code;
    process->loop = loop;
    process->events = events;
    process->context = context;
    process->device_index = device_index;
    process->model_count = model_count;
    process->streams = streams;
    process->cache_dir = cache_dir;
    convoy_line_reader_begin(&process->lines, CONVOY_WORKER_LINE_MAX);
    return 0;
}

/* Calls gone() when the process was waited for, its socket is at its end, and libuv has closed the handles.
 */
static void report_gone(struct convoy_worker_process *process)
{
    char text[CONVOY_ERROR_BYTES + 64];
    const char *reason = "exit";
    if (!process->exited || !process->ended || process->open_handles > 0)
        return;
    if (process->exit_signal != 0) {
        reason = "signal";
        snprintf(text, sizeof text, "killed by signal %d (%s)", process->exit_signal,
                 strsignal(process->exit_signal));
    } else {
        snprintf(text, sizeof text, "exit status %d", (int)process->exit_status);
    }
    if (process->lost_reason[0] != '\0') {
        reason = "lost";
        snprintf(text, sizeof text, "%s", process->lost_reason);
    }
    if (process->kill_reason != NULL)
        reason = process->kill_reason;
    process->running = false;
    process->events->gone(process->context, process, reason, text);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct convoy_worker_process *process = handle->data;
    process->open_handles--;
    report_gone(process);
}

static void on_socket_end(struct convoy_worker_process *process)
{
    process->ended = true;
    uv_close((uv_handle_t *)&process->control, on_handle_closed);
    /* A worker that closes its socket but lives on would never be replaced. */
    if (!process->exited)
        uv_process_kill(&process->child, SIGKILL);
}

static void kill_for_protocol(struct convoy_worker_process *process, const char *reason)
{
    convoy_log(CONVOY_LOG_ERROR, "a worker is not understood", CONVOY_STR("reason", reason));
    convoy_worker_process_kill(process, "protocol");
}

/* Handles one message, which it frees. False when a worker does not send such a message. */
static bool handle_message(struct convoy_worker_process *process, cJSON *json, struct convoy_error *error)
{
    struct convoy_worker_message message;
    bool sound = convoy_worker_message_read(json, process->model_count, &message, error) == 0;
    if (sound && message.type == CONVOY_WORKER_LOST)
        snprintf(process->lost_reason, sizeof process->lost_reason, "%s", message.text);
    else if (sound)
        process->events->message(process->context, process, &message);
    convoy_worker_message_free(&message);
    return sound;
}

static void lend_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct convoy_worker_process *process = handle->data;
    char *room;
    size_t bytes;
    (void)suggested;
    (void)convoy_line_reader_room(&process->lines, &room,
                                  &bytes); /* without room on_read() gets UV_ENOBUFS */
    *buffer = uv_buf_init(room, (unsigned)bytes);
}

/* Handles the lines of so many bytes more, which are in the line reader's room. */
static void take_lines(struct convoy_worker_process *process, size_t got)
{
    struct convoy_error error;
    cJSON *json;
    int code = 0;
    process->heard_us = convoy_now_us();
    convoy_line_reader_received(&process->lines, got);
    while ((code = convoy_line_reader_next(&process->lines, &json, &error)) > 0)
        if (!handle_message(process, json, &error))
            break;
    if (code != 0)
        kill_for_protocol(process, error.message);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct convoy_worker_process *process = stream->data;
    (void)buffer;
    if (got == 0)
        return;
    if (got < 0) {
        if (got == UV_ENOBUFS)
            kill_for_protocol(process, process->lines.code == -EMSGSIZE ? "its line has no end"
                                                                        : strerror(-process->lines.code));
        on_socket_end(process);
        return;
    }
    take_lines(process, (size_t)got);
}

/* What the process wrote before it ended. The socket's end is not waited for: a child of the process may hold
 * it open for ever. */
static void read_rest(struct convoy_worker_process *process)
{
    uv_os_fd_t socket;
    char *room;
    size_t bytes, taken = 0;
    if (uv_fileno((uv_handle_t *)&process->control, &socket) != 0)
        return;
    while (taken < REST_BYTES && convoy_line_reader_room(&process->lines, &room, &bytes) == 0) {
        ssize_t got = recv(socket, room, bytes, MSG_DONTWAIT);
        if (got <= 0)
            return;
        take_lines(process, (size_t)got);
        taken += (size_t)got;
    }
}

static void on_process_exit(uv_process_t *child, int64_t status, int signal)
{
    struct convoy_worker_process *process = child->data;
    process->exited = true;
    process->exit_status = status;
    process->exit_signal = signal;
    if (!process->ended) {
        read_rest(process);
        on_socket_end(process);
    }
    uv_close((uv_handle_t *)&process->doorbell, on_handle_closed);
    uv_close((uv_handle_t *)child, on_handle_closed);
}

static void on_doorbell(uv_poll_t *poll, int status, int events)
{
    struct convoy_worker_process *process = poll->data;
    (void)status;
    (void)events;
    /* A worker that lives on and answers no more is found as one that hangs. */
    if (!convoy_channel_clear_doorbell(process->channel.doorbell_fd))
        uv_poll_stop(poll);
    process->events->finished_slots(process->context, process);
}

static void watch_doorbell(struct convoy_worker_process *process)
{
    uv_poll_init(process->loop, &process->doorbell, process->channel.doorbell_fd);
    process->doorbell.data = process;
    uv_poll_start(&process->doorbell, UV_READABLE, on_doorbell);
    process->open_handles++;
}

int convoy_worker_process_start(struct convoy_worker_process *process, const char *backend, const char *tune,
                                struct convoy_error *error)
{
    char program[PATH_MAX], device[16], streams[16], canary_ms[16];
    int code = convoy_worker_program(program, sizeof program, error);
    if (code != 0)
        return code;
    char **environment = convoy_worker_environment();
    if (environment == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for starting %s", program);
    code = convoy_channel_renew_doorbell(&process->channel, error);
    if (code != 0) {
        free(environment);
        return code;
    }
    snprintf(device, sizeof device, "%u", process->device_index);
    snprintf(streams, sizeof streams, "%u", process->streams);
    snprintf(canary_ms, sizeof canary_ms, "%u", process->canary_ms);
    char *arguments[20] = {
        program,     "--serve", "--backend", (char *)(uintptr_t)backend, "--device",    device,
        "--streams", streams,   "--tune",    (char *)(uintptr_t)tune,    "--canary-ms", canary_ms};
    char **more = arguments + 12;
    if (process->cache_dir != NULL) {
        *more++ = "--cache-dir";
        *more++ = (char *)(uintptr_t)process->cache_dir;
    }
    if (process->unconfined) {
        *more++ = "--sandbox";
        *more++ = "off";
    }

    process->exited = process->ended = false;
    process->kill_reason = NULL;
    process->lost_reason[0] = '\0';
    convoy_line_reader_reset(&process->lines);
    process->started_us = process->heard_us = convoy_now_us();
    uv_pipe_init(process->loop, &process->control, 0);
    uv_stdio_container_t descriptors[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        [CONVOY_FD_CONTROL] = {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
                               .data.stream = (uv_stream_t *)&process->control},
        [CONVOY_FD_MEMORY] = {.flags = UV_INHERIT_FD, .data.fd = process->channel.memory_fd},
        [CONVOY_FD_DOORBELL] = {.flags = UV_INHERIT_FD, .data.fd = process->channel.worker_doorbell_fd}};
    uv_process_options_t options = {.file = program,
                                    .args = arguments,
                                    .env = environment,
                                    .exit_cb = on_process_exit,
                                    .stdio = descriptors,
                                    .stdio_count = sizeof descriptors / sizeof descriptors[0]};
    process->control.data = process;
    process->child.data = process;
    process->open_handles = 2;
    process->running = true;
    code = uv_spawn(process->loop, &process->child, &options);
    free(environment);
    convoy_channel_handed_over(&process->channel);
    if (code != 0) {
        convoy_fail(error, code, "cannot start %s: %s", program, uv_strerror(code));
        process->exited = process->ended = true;
        process->exit_status = -1;
        process->exit_signal = 0;
        snprintf(process->lost_reason, sizeof process->lost_reason, "%s", error->message);
        uv_close((uv_handle_t *)&process->child, on_handle_closed);
        uv_close((uv_handle_t *)&process->control, on_handle_closed);
        return 0; /* gone() reports it, as for a process that ended at once */
    }
    watch_doorbell(process);
    uv_read_start((uv_stream_t *)&process->control, lend_room, on_read);
    return 0;
}

/* A message that libuv writes. */
struct pending_write {
    uv_write_t request;
    char *text;
};

static void free_pending(struct pending_write *pending)
{
    cJSON_free(pending->text);
    free(pending);
}

static void on_written(uv_write_t *request, int status)
{
    (void)status; /* a worker whose socket fails is about to end */
    free_pending(request->data);
}

int convoy_worker_process_send(struct convoy_worker_process *process, cJSON *message)
{
    if (!process->running || process->ended) {
        cJSON_Delete(message);
        return -ENOTCONN;
    }
    struct pending_write *pending = calloc(1, sizeof *pending);
    char *text = cJSON_PrintUnformatted(message); /* NULL for NULL */
    cJSON_Delete(message);
    if (pending == NULL || text == NULL) {
        cJSON_free(text);
        free(pending);
        return -ENOMEM;
    }
    size_t length = strlen(text);
    text[length] = '\n'; /* in the terminator's place */
    pending->text = text;
    pending->request.data = pending;
    uv_buf_t buffer = uv_buf_init(text, (unsigned)(length + 1));
    int code = uv_write(&pending->request, (uv_stream_t *)&process->control, &buffer, 1, on_written);
    if (code != 0)
        free_pending(pending);
    return code;
}

void convoy_worker_process_kill(struct convoy_worker_process *process, const char *reason)
{
    if (!process->running)
        return;
    if (process->kill_reason == NULL)
        process->kill_reason = reason;
    if (!process->exited)
        uv_process_kill(&process->child, SIGKILL);
}

void convoy_worker_process_free(struct convoy_worker_process *process)
{
    convoy_channel_destroy(&process->channel);
    convoy_line_reader_free(&process->lines);
}
