#include "server/master/hold.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_MS 5000 /* a new front reads at its start */

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The packet's descriptor, which is the caller's now; -1 when it has none. */
static int take(struct convoy_packet *packet, uint32_t index)
{
    int fd = index < packet->fd_count ? packet->fds[index] : -1;
    if (fd >= 0)
        packet->fds[index] = -1;
    return fd;
}

bool convoy_hold_item(struct convoy_hold *hold, struct convoy_packet *packet)
{
    struct convoy_held_item *item = malloc(sizeof *item + packet->length + 1);
    if (item == NULL)
        return false;
    convoy_hold_drop(hold, packet->text);
    memcpy(item->key, packet->text, (size_t)packet->length + 1);
    item->fd = take(packet, 0);
    item->next = hold->items;
    hold->items = item;
    return true;
}

void convoy_hold_drop(struct convoy_hold *hold, const char *key)
{
    for (struct convoy_held_item **at = &hold->items; *at != NULL; at = &(*at)->next) {
        struct convoy_held_item *item = *at;
        if (strcmp(item->key, key) != 0)
            continue;
        *at = item->next;
        close_if_open(&item->fd);
        free(item);
        return;
    }
}

bool convoy_hold_worker(struct convoy_hold *hold, struct convoy_packet *packet, pid_t pid)
{
    struct convoy_held_worker *worker = hold->workers;
    while (worker < hold->workers + CONVOY_HOLD_WORKERS && worker->number != 0)
        worker++;
    char *label = strdup(packet->text);
    if (worker == hold->workers + CONVOY_HOLD_WORKERS || label == NULL) {
        free(label);
        return false;
    }
    *worker = (struct convoy_held_worker){.number = packet->number,
                                          .pid = pid,
                                          .pidfd = -1,
                                          .memory = take(packet, 1),
                                          .control = take(packet, 3),
                                          .doorbell = take(packet, 4),
                                          .label = label};
    return true;
}

bool convoy_hold_stored(struct convoy_hold *hold, const struct convoy_held_worker *worker)
{
    if (convoy_hold_find(hold, worker->number) != NULL)
        return false;
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++) {
        if (hold->workers[i].number != 0)
            continue;
        hold->workers[i] = *worker;
        return true;
    }
    return false;
}

void convoy_hold_kill(const struct convoy_held_worker *worker)
{
    if (worker->exited)
        return;
    if (worker->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, worker->pidfd, SIGKILL, NULL, 0);
    else
        kill(worker->pid, SIGKILL);
}

struct convoy_held_worker *convoy_hold_find(struct convoy_hold *hold, uint32_t number)
{
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++)
        if (number != 0 && hold->workers[i].number == number)
            return &hold->workers[i];
    return NULL;
}

struct convoy_held_worker *convoy_hold_find_pid(struct convoy_hold *hold, pid_t pid)
{
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++)
        if (hold->workers[i].number != 0 && !hold->workers[i].exited && hold->workers[i].pidfd < 0 &&
            hold->workers[i].pid == pid)
            return &hold->workers[i];
    return NULL;
}

void convoy_hold_label(struct convoy_hold *hold, uint32_t number, const char *label)
{
    struct convoy_held_worker *worker = convoy_hold_find(hold, number);
    char *copy = worker != NULL ? strdup(label) : NULL;
    if (copy == NULL)
        return;
    free(worker->label);
    worker->label = copy;
}

void convoy_hold_exited(struct convoy_held_worker *worker, int status)
{
    worker->exited = true;
    worker->status = status;
    close_if_open(&worker->memory);
    close_if_open(&worker->control);
    close_if_open(&worker->doorbell);
    close_if_open(&worker->pidfd);
}

void convoy_hold_forget(struct convoy_held_worker *worker)
{
    free(worker->label);
    *worker = (struct convoy_held_worker){0};
}

uint32_t convoy_hold_living(const struct convoy_hold *hold)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++)
        count += hold->workers[i].number != 0 && !hold->workers[i].exited;
    return count;
}

static int send_item(int socket, const struct convoy_held_item *item, struct convoy_packet *packet)
{
    packet->type = CONVOY_PACKET_HELD;
    packet->length = (uint32_t)strlen(item->key);
    memcpy(packet->text, item->key, packet->length);
    packet->fd_count = item->fd >= 0 ? 1 : 0;
    packet->fds[0] = item->fd;
    return convoy_packet_send_within(socket, packet, READ_MS);
}

static int send_worker(int socket, const struct convoy_held_worker *worker, struct convoy_packet *packet)
{
    packet->type = CONVOY_PACKET_WORKER;
    packet->number = worker->number;
    packet->value = worker->pid;
    packet->length = (uint32_t)strlen(worker->label);
    memcpy(packet->text, worker->label, packet->length);
    packet->fd_count = 3;
    packet->fds[0] = worker->memory;
    packet->fds[1] = worker->control;
    packet->fds[2] = worker->doorbell;
    return convoy_packet_send_within(socket, packet, READ_MS);
}

static int send_items(const struct convoy_hold *hold, int socket, bool remarks_alone)
{
    static struct convoy_packet packet;
    int code = 0;
    packet = (struct convoy_packet){0};
    for (const struct convoy_held_item *item = hold->items; item != NULL && code == 0; item = item->next)
        if (item->fd < 0 || !remarks_alone)
            code = send_item(socket, item, &packet);
    return code;
}

int convoy_hold_send_items(const struct convoy_hold *hold, int socket)
{
    return send_items(hold, socket, false);
}

int convoy_hold_send_remarks(const struct convoy_hold *hold, int socket)
{
    return send_items(hold, socket, true);
}

int convoy_hold_send_workers(struct convoy_hold *hold, int socket)
{
    static struct convoy_packet packet;
    int code = 0;
    packet = (struct convoy_packet){0};
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS && code == 0; i++) {
        struct convoy_held_worker *worker = &hold->workers[i];
        if (worker->number != 0 && worker->exited)
            convoy_hold_forget(worker);
        else if (worker->number != 0)
            code = send_worker(socket, worker, &packet);
    }
    return code;
}

void convoy_hold_move_items(struct convoy_hold *from, struct convoy_hold *to)
{
    while (from->items != NULL) {
        struct convoy_held_item *item = from->items;
        from->items = item->next;
        convoy_hold_drop(to, item->key);
        item->next = to->items;
        to->items = item;
    }
}

void convoy_hold_move_workers(struct convoy_hold *from, struct convoy_hold *to)
{
    memcpy(to->workers, from->workers, sizeof to->workers);
    memset(from->workers, 0, sizeof from->workers);
}

void convoy_hold_free(struct convoy_hold *hold)
{
    while (hold->items != NULL)
        convoy_hold_drop(hold, hold->items->key);
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++) {
        if (hold->workers[i].number == 0)
            continue;
        if (!hold->workers[i].exited)
            convoy_hold_exited(&hold->workers[i], 0);
        convoy_hold_forget(&hold->workers[i]);
    }
}
