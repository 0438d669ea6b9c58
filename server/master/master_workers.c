#include "server/master/master_internal.h"

#include "server/master/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define MOST_ARGUMENTS 80 /* of a worker: 60 where all that can be configured is */
#define START_FDS      5
#define WORKER_FDS     3

/* Starts a worker for the front, and answers it. */
static void start(struct convoy_hold *hold, int socket, struct convoy_packet *packet)
{
    char *arguments[MOST_ARGUMENTS + 1];
    struct convoy_error error;
    uint32_t count = 0;
    pid_t pid = -EPROTO;
    const char *end = packet->text + packet->length;
    /* Behind the label. */
    char *at = packet->text + strlen(packet->text) + 1;
    for (; at < end && count < MOST_ARGUMENTS; at += strlen(at) + 1)
        arguments[count++] = at;
    arguments[count] = NULL;
    if (at < end)
        pid = -E2BIG; /* a front of a later build */
    else if (packet->number != 0 && packet->fd_count == START_FDS && count > 0 &&
             convoy_hold_find(hold, packet->number) == NULL)
        pid = convoy_child_worker(arguments, packet->fds, WORKER_FDS, &error);
    if (pid > 0 && !convoy_hold_worker(hold, packet, pid)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        pid = -ENOMEM;
    }
    (void)convoy_packet_tell(socket, CONVOY_PACKET_STARTED, packet->number, pid);
}

bool convoy_master_workers_request(struct convoy_hold *hold, int socket, struct convoy_packet *packet)
{
    const struct convoy_held_worker *worker;
    switch (packet->type) {
    case CONVOY_PACKET_START:
        start(hold, socket, packet);
        return true;
    case CONVOY_PACKET_LABEL:
        convoy_hold_label(hold, packet->number, packet->text);
        return true;
    case CONVOY_PACKET_KILL:
        worker = convoy_hold_find(hold, packet->number);
        if (worker != NULL)
            convoy_hold_kill(worker);
        return true;
    default:
        return false;
    }
}

bool convoy_master_workers_tell(struct convoy_hold *hold, int socket)
{
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS && socket >= 0; i++) {
        struct convoy_held_worker *worker = &hold->workers[i];
        if (worker->number == 0 || !worker->exited)
            continue;
        if (convoy_packet_tell(socket, CONVOY_PACKET_EXITED, worker->number, worker->status) == -EAGAIN)
            return false;
        convoy_hold_forget(worker);
    }
    return true;
}

void convoy_master_workers_reap_stored(struct convoy_hold *hold)
{
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++) {
        struct convoy_held_worker *worker = &hold->workers[i];
        struct pollfd ended = {.fd = worker->pidfd, .events = POLLIN};
        if (worker->number != 0 && !worker->exited && worker->pidfd >= 0 && poll(&ended, 1, 0) > 0)
            convoy_hold_exited(worker, SIGKILL);
    }
}

void convoy_master_workers_kill(struct convoy_hold *hold)
{
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++) {
        const struct convoy_held_worker *worker = &hold->workers[i];
        if (worker->number != 0)
            convoy_hold_kill(worker);
    }
}

void convoy_master_workers_give_up(struct convoy_hold *hold)
{
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++) {
        struct convoy_held_worker *worker = &hold->workers[i];
        if (worker->number == 0)
            continue;
        convoy_hold_kill(worker);
        if (!worker->exited)
            convoy_hold_exited(worker, SIGKILL);
        convoy_hold_forget(worker);
    }
}

void convoy_master_workers_end(struct convoy_hold *hold)
{
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++) {
        const struct convoy_held_worker *worker = &hold->workers[i];
        if (worker->number == 0 || worker->exited)
            continue;
        convoy_hold_kill(worker);
        if (worker->pidfd < 0)
            waitpid(worker->pid, NULL, 0);
    }
}
