#include "server/workers/worker_process.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/workers/worker_arguments.h"
#include "server/workers/worker_command.h"
#include "server/workers/worker_exit_text.h"
#include "server/workers/worker_label.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REST_BYTES (1u << 20) /* as much as is read of a worker's messages after its end */
#define LOOK_MS    2          /* how often it is looked whether a process that was killed may be left */
#define LOOK_US    10000000u  /* and for how long, if no other is ending: then its exit is waited for */

int convoy_worker_process_prepare(struct convoy_worker_process *process, uv_loop_t *loop,
                                  const struct convoy_worker_settings *settings, uint32_t model_count,
                                  const struct convoy_worker_process_events *events, void *context,
                                  struct convoy_error *error)
{
    memset(process, 0, sizeof *process);
    int code = convoy_channel_create(&process->channel, error);
    if (code != 0)
        return code;
    process->loop = loop;
    process->events = events;
    process->context = context;
    process->settings = *settings;
    process->spares.wanted = settings->spares;
    process->model_count = model_count;
    convoy_line_reader_begin(&process->lines, CONVOY_WORKER_LINE_MAX);
    return 0;
}

/* Calls gone() when the process was waited for, its socket is at its end, and libuv has closed the handles.
 */
static void report_gone(struct convoy_worker_process *process)
{
    char text[CONVOY_ERROR_BYTES + 64];
    const char *reason = "unknown";
    if (!process->exited || !process->ended || process->open_handles > 0)
        return;
    if (process->left_early) {
        snprintf(text, sizeof text, "it is ending: the log says how when it is gone");
    } else {
        reason = WIFSIGNALED(process->exit_status) ? "signal" : "exit";
        convoy_worker_exit_text(process->exit_status, text, sizeof text);
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

static void on_look(uv_timer_t *timer);

/* Nothing of a process that is being ended is waited for but its end: in the driver that may take long. It
 * may be left once it was killed and its socket is closed, which the kernel does when the last thread has run
 * its last instruction (engine/worker/hold_last.h). One that closes the socket itself is killed first, too:
 * it runs on for the time of an interrupt, and LOOK_MS later it does not. */
static void kill_and_look(struct convoy_worker_process *process)
{
    if (uv_is_active((uv_handle_t *)&process->look))
        return; /* it was killed */
    convoy_link_kill(process->link, process->number);
    if (process->events->may_leave == NULL)
        return;
    process->look_until_us = convoy_now_us() + LOOK_US;
    uv_timer_start(&process->look, on_look, LOOK_MS, LOOK_MS);
}

static void on_socket_end(struct convoy_worker_process *process)
{
    process->ended = true;
    uv_close((uv_handle_t *)&process->control, on_handle_closed);
    /* A worker that closes its socket but lives on would never be replaced. */
    if (!process->exited)
        kill_and_look(process);
}

static void kill_for_protocol(struct convoy_worker_process *process, const char *reason)
{
    convoy_log(CONVOY_LOG_ERROR, "a worker is not understood", CONVOY_STR("reason", reason));
    convoy_worker_process_kill(process, "protocol");
}

/* The worker of a front before is done with what that one gave it. */
static int take_channel_over(struct convoy_worker_process *process,
                             const struct convoy_worker_message *message, struct convoy_error *error)
{
    struct convoy_channel *channel = &process->channel;
    if (!message->hello.attached)
        return convoy_fail(error, -EPROTO, "it has not mapped its channel yet");
    int code = convoy_channel_take_over(channel, channel->memory_fd, channel->doorbell_fd,
                                        &process->adopted_size, convoy_link_epoch(process->link), error);
    channel->turn = message->hello.turn;
    process->adopting = code != 0;
    return code;
}

/* Handles one message, which it frees. False when a worker does not send such a message. */
static bool handle_message(struct convoy_worker_process *process, cJSON *json, struct convoy_error *error)
{
    struct convoy_worker_message message;
    bool sound = convoy_worker_message_read(json, process->model_count, &message, error) == 0;
    if (sound && message.type == CONVOY_WORKER_HELLO && process->adopting)
        sound = take_channel_over(process, &message, error) == 0;
    if (sound && message.type == CONVOY_WORKER_LOST) {
        snprintf(process->lost_reason, sizeof process->lost_reason, "%s", message.text);
        if (!process->exited)
            kill_and_look(process);
    } else if (sound)
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
        process->closed = got == UV_EOF || got == UV_ECONNRESET; /* reset: it had not read everything */
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

/* No thread of the process runs any more. */
static void end_handles(struct convoy_worker_process *process)
{
    process->exited = true;
    if (!process->ended) {
        read_rest(process);
        on_socket_end(process);
    }
    convoy_worker_doorbell_close(&process->doorbell, on_handle_closed);
    uv_close((uv_handle_t *)&process->look, on_handle_closed);
}

static void on_process_exit(void *context, int status)
{
    struct convoy_worker_process *process = context;
    process->exit_status = status;
    end_handles(process);
}

static void on_look(uv_timer_t *timer)
{
    struct convoy_worker_process *process = timer->data;
    if (process->left.exists) /* one at a time: this one's turn comes when that one is gone */
        process->look_until_us = convoy_now_us() + LOOK_US;
    if (process->events->may_leave(process->context, process) && process->closed) {
        process->left_early = process->other_outputs = true;
        convoy_worker_left_begin(&process->left, process->link, &process->settings, process->number,
                                 process->pid, process->events->left_gone, process->context);
        end_handles(process);
    } else if (convoy_now_us() > process->look_until_us) {
        uv_timer_stop(timer);
    }
}

static bool on_finished(void *context)
{
    struct convoy_worker_process *process = context;
    return process->events->finished_slots(process->context, process);
}

static void watch(struct convoy_worker_process *process)
{
    convoy_worker_doorbell_listen(&process->doorbell, process->loop, &process->channel, on_finished, process);
    uv_timer_init(process->loop, &process->look);
    process->look.data = process;
    process->open_handles += CONVOY_WORKER_DOORBELL_HANDLES + 1;
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

/* Sends text, which cJSON_free() frees and which may be NULL. */
static int send_text(struct convoy_worker_process *process, char *text, size_t length)
{
    struct pending_write *pending = text != NULL ? calloc(1, sizeof *pending) : NULL;
    if (pending == NULL) {
        cJSON_free(text);
        return -ENOMEM;
    }
    pending->text = text;
    pending->request.data = pending;
    uv_buf_t buffer = uv_buf_init(text, (unsigned)length);
    int code = uv_write(&pending->request, (uv_stream_t *)&process->control, &buffer, 1, on_written);
    if (code != 0)
        free_pending(pending);
    return code;
}

int convoy_worker_process_send(struct convoy_worker_process *process, cJSON *message)
{
    if (!process->running || process->ended) {
        cJSON_Delete(message);
        return -ENOTCONN;
    }
    char *text = cJSON_PrintUnformatted(message); /* NULL for NULL */
    size_t length = text != NULL ? strlen(text) : 0;
    cJSON_Delete(message);
    if (text != NULL)
        text[length] = '\n'; /* in the terminator's place */
    return send_text(process, text, length + 1);
}

/* The front before may have ended in the middle of a line. */
static int send_cut(struct convoy_worker_process *process)
{
    char *text = cJSON_malloc(sizeof CONVOY_LINE_CUT);
    if (text != NULL)
        memcpy(text, CONVOY_LINE_CUT, sizeof CONVOY_LINE_CUT);
    return send_text(process, text, sizeof CONVOY_LINE_CUT - 1);
}

static void begin(struct convoy_worker_process *process)
{
    process->exited = process->ended = process->closed = process->left_early = process->was_spare = false;
    process->kill_reason = NULL;
    process->lost_reason[0] = '\0';
    convoy_line_reader_reset(&process->lines);
    process->started_us = process->heard_us = convoy_now_us();
    uv_pipe_init(process->loop, &process->control, 0);
    process->control.data = process;
    process->open_handles = 1;
    process->running = true;
}

/* socket: this end of its control socket, which belongs to the handle from now on. */
static void listen_to(struct convoy_worker_process *process, int socket)
{
    int code = uv_pipe_open(&process->control, socket);
    watch(process);
    if (code == 0)
        code = uv_read_start((uv_stream_t *)&process->control, lend_room, on_read);
    if (code != 0)
        kill_for_protocol(process, uv_strerror(code));
}

bool convoy_worker_process_adopt(struct convoy_worker_process *process, const char *backend)
{
    char found[CONVOY_BACKEND_BYTES];
    struct convoy_link_worker held = {0};
    const char *label =
        convoy_worker_label_find(process->link, &process->settings, backend, &process->adopted_size, found);
    if (label == NULL)
        return false;
    convoy_link_adopt(process->link, label, on_process_exit, process, &held);
    convoy_channel_destroy(&process->channel);
    process->channel = (struct convoy_channel){
        .memory_fd = held.memory, .doorbell_fd = held.doorbell, .worker_doorbell_fd = -1};
    process->adopting = true;
    process->pid = held.pid;
    process->number = held.number;
    begin(process);
    convoy_line_reader_wait_for_cut(&process->lines);
    listen_to(process, held.control);
    if (send_cut(process) != 0 || convoy_worker_process_send(process, convoy_worker_command_adopt()) != 0)
        convoy_worker_process_kill(process, "protocol");
    return true;
}

void convoy_worker_process_laid_out(struct convoy_worker_process *process, const char *backend)
{
    char label[CONVOY_WORKER_LABEL_BYTES];
    convoy_worker_label_make(&process->settings, backend, &process->channel.size, label);
    convoy_link_label(process->link, process->number, label);
}

/* A channel that is not of a worker before, where that one could not be adopted after all. */
static int renew_channel(struct convoy_worker_process *process, struct convoy_error *error)
{
    if (!process->adopting) {
        int code = process->other_models ? convoy_channel_renew_memory(&process->channel, error) : 0;
        process->other_models = process->other_models && code != 0;
        return code == 0 ? convoy_channel_renew_doorbell(&process->channel, error) : code;
    }
    convoy_channel_destroy(&process->channel);
    process->adopting = false;
    return convoy_channel_create(&process->channel, error);
}

/* A spare that waits takes the dead one's place. */
static bool take_spare(struct convoy_worker_process *process, const char *backend,
                       const struct convoy_worker_arguments *arguments)
{
    char label[CONVOY_WORKER_LABEL_BYTES];
    struct convoy_link_worker taken;
    struct convoy_error error;
    if (!convoy_worker_spares_take(&process->spares, arguments->list, on_process_exit, process, &taken))
        return false;
    process->pid = taken.pid;
    process->number = taken.number;
    int code = convoy_channel_give_doorbell(&process->channel, taken.doorbell, &error);
    convoy_worker_label_make(&process->settings, backend, &(struct convoy_channel_size){0}, label);
    convoy_link_label(process->link, process->number, label);
    convoy_log(CONVOY_LOG_INFO, "the spare worker takes the place of the dead one",
               CONVOY_INT("pid", process->pid));
    begin(process);
    process->was_spare = true;
    listen_to(process, taken.control);
    if (code != 0 || send_cut(process) != 0) /* which wakes it */
        convoy_worker_process_kill(process, "protocol");
    return true;
}

int convoy_worker_process_start(struct convoy_worker_process *process, const char *backend, const char *tune,
                                struct convoy_error *error)
{
    char label[CONVOY_WORKER_LABEL_BYTES];
    struct convoy_worker_arguments arguments;
    int control[2];
    int code = convoy_worker_arguments_make(&arguments, &process->settings, backend, tune, error);
    if (process->other_outputs)
        convoy_channel_exchange_outputs(&process->channel);
    process->other_outputs = false;
    if (process->adopting || process->other_models) /* it would have the memory of before */
        convoy_worker_spares_end(&process->spares);
    if (code == 0 && take_spare(process, backend, &arguments))
        return 0;
    if (code == 0)
        code = renew_channel(process, error);
    if (code != 0)
        return code;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0)
        return convoy_fail(error, -errno, "cannot make a worker's control socket: %s", strerror(errno));
    convoy_worker_label_make(&process->settings, backend, &(struct convoy_channel_size){0}, label);
    const int descriptors[] = {control[1], process->channel.memory_fd, process->channel.worker_doorbell_fd,
                               control[0], process->channel.doorbell_fd};
    begin(process);
    code = convoy_link_start(process->link, label, arguments.list, descriptors, on_process_exit, process,
                             &process->number, &process->pid, error);
    close(control[1]);
    convoy_channel_handed_over(&process->channel);
    if (code != 0) {
        close(control[0]);
        process->exited = process->ended = true;
        process->exit_status = 0;
        snprintf(process->lost_reason, sizeof process->lost_reason, "%s", error->message);
        uv_close((uv_handle_t *)&process->control, on_handle_closed);
        return 0; /* gone() reports it, as for a process that ended at once */
    }
    listen_to(process, control[0]);
    return 0;
}

void convoy_worker_process_keep_spares(struct convoy_worker_process *process, const char *backend,
                                       const char *tune)
{
    struct convoy_worker_arguments arguments;
    struct convoy_error error;
    /* The file system is not asked for the program while no spare is missing. */
    if (convoy_worker_spares_due(&process->spares) &&
        convoy_worker_arguments_make(&arguments, &process->settings, backend, tune, &error) == 0)
        convoy_worker_spares_start(&process->spares, process->link, arguments.list,
                                   process->channel.memory_fd);
}

void convoy_worker_process_kill(struct convoy_worker_process *process, const char *reason)
{
    if (!process->running)
        return;
    if (process->kill_reason == NULL)
        process->kill_reason = reason;
    if (!process->exited)
        kill_and_look(process);
}

void convoy_worker_process_free(struct convoy_worker_process *process)
{
    convoy_worker_spares_end(&process->spares);
    convoy_channel_destroy(&process->channel);
    convoy_line_reader_free(&process->lines);
}
