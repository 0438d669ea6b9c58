#include "server/master/link_internal.h"

#include "engine/base/clock.h"
#include "server/master/child.h"
#include "server/master/store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

bool convoy_link_inherited(void)
{
    return getenv(CONVOY_MASTER_VARIABLE) != NULL;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Takes over what the packet says that the master holds. A remark may be told twice. */
static int take_held(struct convoy_link *link)
{
    struct convoy_packet *packet = &link->packet;
    if (packet->fd_count == 0 && convoy_link_has_remark(link, packet->text))
        return 0;
    struct convoy_link_item *item = malloc(sizeof *item + packet->length + 1);
    if (item == NULL)
        return -ENOMEM;
    memcpy(item->key, packet->text, (size_t)packet->length + 1);
    item->fd = packet->fd_count > 0 ? packet->fds[0] : -1;
    packet->fds[0] = -1;
    item->next = link->items;
    link->items = item;
    return 0;
}

static int take_worker(struct convoy_link *link)
{
    struct convoy_packet *packet = &link->packet;
    struct convoy_linked_worker **last = &link->workers;
    struct convoy_linked_worker *worker = calloc(1, sizeof *worker);
    char *label = strdup(packet->text);
    if (worker == NULL || label == NULL || packet->fd_count != 3) {
        free(worker);
        free(label);
        return -ENOMEM;
    }
    worker->label = label;
    worker->it = (struct convoy_link_worker){packet->number, packet->value, packet->fds[0], packet->fds[1],
                                             packet->fds[2]};
    packet->fd_count = 0;
    if (packet->number > link->last_number)
        link->last_number = packet->number;
    while (*last != NULL)
        last = &(*last)->next;
    *last = worker;
    return 0;
}

/* Receives one packet within the limit; -ETIMEDOUT. */
static int receive(struct convoy_link *link, uint64_t until_us)
{
    for (;;) {
        int code = convoy_packet_receive(link->socket, &link->packet);
        if (code == 0)
            link->gone = true;
        if (code != -EAGAIN)
            return code == 0 ? -ECONNRESET : code < 0 ? code : 0;
        uint64_t now_us = convoy_now_us();
        if (now_us >= until_us)
            return -ETIMEDOUT;
        struct pollfd readable = {.fd = link->socket, .events = POLLIN};
        poll(&readable, 1, (int)((until_us - now_us) / 1000 + 1));
    }
}

/* Takes the packet, if it tells of what the master holds: 1; 0: it does not; or a negative errno. */
static int take_told(struct convoy_link *link)
{
    uint32_t type = link->packet.type;
    int code = 0;
    if (type == CONVOY_PACKET_HELD)
        code = take_held(link);
    else if (type == CONVOY_PACKET_WORKER)
        code = take_worker(link);
    else if (type == CONVOY_PACKET_RESTARTS && link->packet.number < CONVOY_RESTARTS)
        link->restarts[link->packet.number] = (uint32_t)link->packet.value;
    else
        return 0;
    convoy_packet_close(&link->packet);
    return code == 0 ? 1 : code;
}

/* Until BEGIN, GO or BESIDE. */
static int receive_held(struct convoy_link *link)
{
    uint64_t until_us = convoy_now_us() + CONVOY_LINK_ANSWER_MS * 1000;
    int code;
    while ((code = receive(link, until_us)) == 0) {
        uint32_t type = link->packet.type;
        if ((code = take_told(link)) < 0)
            return code;
        convoy_packet_close(&link->packet);
        if (type == CONVOY_PACKET_BEGIN) {
            link->epoch = link->packet.number;
            link->prepares = link->packet.value != 0;
        }
        link->beside = type == CONVOY_PACKET_BESIDE;
        if (type == CONVOY_PACKET_BEGIN || type == CONVOY_PACKET_GO || type == CONVOY_PACKET_BESIDE)
            return 0;
    }
    return code;
}

bool convoy_link_prepares(const struct convoy_link *link)
{
    return link->prepares;
}

bool convoy_link_prepared(struct convoy_link *link, int abi)
{
    struct pollfd readable = {.fd = link->socket, .events = POLLIN};
    if (convoy_packet_tell(link->socket, CONVOY_PACKET_PREPARED, 0, abi) != 0)
        return false;
    while (poll(&readable, 1, -1) < 0 && errno == EINTR)
        ;
    return receive_held(link) == 0;
}

bool convoy_link_beside(const struct convoy_link *link)
{
    return link->beside;
}

void convoy_link_loading(struct convoy_link *link)
{
    (void)convoy_packet_tell(link->socket, CONVOY_PACKET_LOADING, 0, 0);
}

void convoy_link_loaded(struct convoy_link *link, int abi)
{
    (void)convoy_packet_tell(link->socket, CONVOY_PACKET_PREPARED, 0, abi);
}

void convoy_link_on_go(struct convoy_link *link, void (*on_go)(void *), void *context)
{
    link->on_go = on_go;
    link->go_context = context;
}

void convoy_link_on_handover(struct convoy_link *link, void (*on_handover)(void *), void *context)
{
    link->on_handover = on_handover;
    link->handover_context = context;
}

struct convoy_link *convoy_link_new(int socket)
{
    struct convoy_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->socket = socket;
    link->last_event = &link->events;
    return link;
}

int convoy_link_open(struct convoy_link **result, struct convoy_error *error)
{
    const char *number = getenv(CONVOY_MASTER_VARIABLE);
    long socket = number != NULL ? strtol(number, NULL, 10) : -1;
    int type = 0;
    socklen_t size = sizeof type;
    if (socket <= STDERR_FILENO || getsockopt((int)socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        type != SOCK_SEQPACKET)
        return convoy_fail(error, -EINVAL, "%s is set, but is no socket to a master: unset it",
                           CONVOY_MASTER_VARIABLE);
    /* Here and not in the master: where the file has capabilities, execve() would undo it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    fcntl((int)socket, F_SETFD, FD_CLOEXEC);
    struct convoy_link *link = convoy_link_new((int)socket);
    if (link == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the link to the master");
    /* A master that ended before the call above closed its end. */
    int code = receive_held(link);
    if (code != 0) {
        convoy_link_free(link);
        return convoy_fail(error, code, "the master does not say what it holds: %s", strerror(-code));
    }
    *result = link;
    return 0;
}

void convoy_link_free(struct convoy_link *link)
{
    if (link == NULL)
        return;
    close(link->socket);
    while (link->items != NULL) {
        struct convoy_link_item *item = link->items;
        link->items = item->next;
        close_if_open(item->fd);
        free(item);
    }
    while (link->workers != NULL) {
        struct convoy_linked_worker *worker = link->workers;
        link->workers = worker->next;
        if (!worker->adopted) {
            close_if_open(worker->it.memory);
            close_if_open(worker->it.control);
            close_if_open(worker->it.doorbell);
        }
        free(worker->label);
        free(worker);
    }
    while (link->events != NULL) {
        struct convoy_link_event *event = link->events;
        link->events = event->next;
        free(event);
    }
    free(link);
}

uint32_t convoy_link_epoch(const struct convoy_link *link)
{
    return link->epoch;
}

uint32_t convoy_link_restarts(const struct convoy_link *link, enum convoy_restart reason)
{
    return link->restarts[reason];
}

bool convoy_link_can_keep(void)
{
    return convoy_store_exists();
}

void convoy_link_keep(struct convoy_link *link)
{
    (void)convoy_packet_tell(link->socket, CONVOY_PACKET_KEEP, 0, 0);
}

int convoy_link_fd(const struct convoy_link *link)
{
    return link->socket;
}

bool convoy_link_waiting(const struct convoy_link *link)
{
    return link->events != NULL;
}

static void worker_exited(struct convoy_link *link, uint32_t number, int status)
{
    struct convoy_linked_worker **at = &link->workers, *worker;
    while (*at != NULL && (*at)->it.number != number)
        at = &(*at)->next;
    if ((worker = *at) == NULL)
        return;
    *at = worker->next;
    if (worker->exited != NULL) {
        worker->exited(worker->context, status);
    } else {
        close_if_open(worker->it.memory);
        close_if_open(worker->it.control);
        close_if_open(worker->it.doorbell);
    }
    free(worker->label);
    free(worker);
}

static void handle(struct convoy_link *link, uint32_t type, uint32_t number, int32_t value)
{
    if (type == CONVOY_PACKET_EXITED)
        worker_exited(link, number, value);
    else if (type == CONVOY_PACKET_HANDOVER && link->on_handover != NULL)
        link->on_handover(link->handover_context);
    else if (type == CONVOY_PACKET_GO && link->on_go != NULL)
        link->on_go(link->go_context);
    else if (type == CONVOY_PACKET_SIGNAL && link->on_signal != NULL)
        link->on_signal(link->signal_context, value);
}

bool convoy_link_dispatch(struct convoy_link *link)
{
    for (;;) {
        struct convoy_link_event *event = link->events;
        if (event != NULL) {
            struct convoy_link_event it = *event;
            if ((link->events = event->next) == NULL)
                link->last_event = &link->events;
            free(event);
            handle(link, it.type, it.number, it.value);
            continue;
        }
        int code = link->gone ? -ECONNRESET : convoy_packet_receive(link->socket, &link->packet);
        if (code == 0)
            link->gone = true;
        if (code != 1)
            return !link->gone;
        if (take_told(link) != 0) /* without memory a remark is lost */
            continue;
        convoy_packet_close(&link->packet);
        handle(link, link->packet.type, link->packet.number, link->packet.value);
    }
}

void convoy_link_on_signal(struct convoy_link *link, void (*on_signal)(void *, int), void *context)
{
    link->on_signal = on_signal;
    link->signal_context = context;
}

/* Keeps what came for convoy_link_dispatch(). */
static int keep(struct convoy_link *link)
{
    struct convoy_link_event *event = malloc(sizeof *event);
    convoy_packet_close(&link->packet);
    if (event == NULL)
        return -ENOMEM;
    *event = (struct convoy_link_event){NULL, link->packet.type, link->packet.number, link->packet.value};
    *link->last_event = event;
    link->last_event = &event->next;
    return 0;
}

int convoy_link_await(struct convoy_link *link, enum convoy_packet_type type, uint32_t number, int32_t *value)
{
    uint64_t until_us = convoy_now_us() + CONVOY_LINK_ANSWER_MS * 1000;
    for (;;) {
        int code = receive(link, until_us);
        if (code != 0)
            return code;
        if (link->packet.type == type && link->packet.number == number) {
            *value = link->packet.value;
            convoy_packet_close(&link->packet);
            return 0;
        }
        code = take_told(link);
        if (code < 0 || (code == 0 && (code = keep(link)) != 0))
            return code;
    }
}

int convoy_link_send(struct convoy_link *link, enum convoy_packet_type type, uint32_t number,
                     const char *text, int fd)
{
    struct convoy_packet *packet = &link->packet;
    size_t length = strlen(text);
    if (length > CONVOY_PACKET_TEXT)
        return -EMSGSIZE;
    packet->type = type;
    packet->number = number;
    packet->value = 0;
    packet->length = (uint32_t)length;
    memcpy(packet->text, text, length);
    packet->fds[0] = fd;
    packet->fd_count = fd >= 0 ? 1 : 0;
    int code = convoy_packet_send(link->socket, packet);
    packet->fd_count = 0;
    return code;
}

void convoy_link_serving(struct convoy_link *link, int abi)
{
    (void)convoy_packet_tell(link->socket, CONVOY_PACKET_SERVING, 0, abi);
}

void convoy_link_log(struct convoy_link *link, enum convoy_log_format format, enum convoy_log_level level)
{
    (void)convoy_packet_tell(link->socket, CONVOY_PACKET_LOG, format, (int32_t)level);
}

void convoy_link_notify(struct convoy_link *link, const char *state)
{
    (void)convoy_link_send(link, CONVOY_PACKET_NOTIFY, 0, state, -1);
}

int convoy_link_take(struct convoy_link *link, const char *key)
{
    for (struct convoy_link_item **at = &link->items; *at != NULL; at = &(*at)->next) {
        struct convoy_link_item *item = *at;
        if (strcmp(item->key, key) != 0)
            continue;
        int fd = item->fd;
        *at = item->next;
        free(item);
        return fd;
    }
    return -1;
}

bool convoy_link_take_remark(struct convoy_link *link, const char *prefix, char *rest, size_t capacity)
{
    for (struct convoy_link_item **at = &link->items; *at != NULL; at = &(*at)->next) {
        struct convoy_link_item *item = *at;
        if (item->fd >= 0 || strncmp(item->key, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(rest, capacity, "%s", item->key + strlen(prefix));
        *at = item->next;
        free(item);
        return true;
    }
    return false;
}

bool convoy_link_has_remark(const struct convoy_link *link, const char *key)
{
    for (const struct convoy_link_item *item = link->items; item != NULL; item = item->next)
        if (item->fd < 0 && strcmp(item->key, key) == 0)
            return true;
    return false;
}

void convoy_link_hold(struct convoy_link *link, const char *key, int fd)
{
    (void)convoy_link_send(link, CONVOY_PACKET_HOLD, 0, key, fd);
}

void convoy_link_drop(struct convoy_link *link, const char *key)
{
    int32_t nothing;
    uint32_t number = ++link->last_number;
    if (convoy_link_send(link, CONVOY_PACKET_DROP, number, key, -1) == 0)
        (void)convoy_link_await(link, CONVOY_PACKET_DROPPED, number, &nothing);
}

void convoy_link_drop_rest(struct convoy_link *link, const char *prefix)
{
    for (struct convoy_link_item **at = &link->items; *at != NULL;) {
        struct convoy_link_item *item = *at;
        if (strncmp(item->key, prefix, strlen(prefix)) != 0) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        close_if_open(item->fd);
        convoy_link_drop(link, item->key);
        free(item);
    }
}
