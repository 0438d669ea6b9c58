#include "server/master/link_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Adds text with its NUL byte; false when it does not fit. */
static bool add_text(struct convoy_packet *packet, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (packet->length + bytes > CONVOY_PACKET_TEXT)
        return false;
    memcpy(packet->text + packet->length, text, bytes);
    packet->length += (uint32_t)bytes;
    return true;
}

int convoy_link_start(struct convoy_link *link, const char *label, char *const *arguments, const int fds[5],
                      convoy_link_exited *exited, void *context, uint32_t *number, pid_t *pid,
                      struct convoy_error *error)
{
    struct convoy_packet *packet = &link->packet;
    struct convoy_linked_worker *worker = calloc(1, sizeof *worker);
    int32_t value = 0;
    if (worker == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for starting %s", arguments[0]);
    *worker = (struct convoy_linked_worker){
        .it = {.number = ++link->last_number, .memory = -1, .control = -1, .doorbell = -1},
        .adopted = true,
        .exited = exited,
        .context = context};
    packet->type = CONVOY_PACKET_START;
    packet->number = worker->it.number;
    packet->value = 0;
    packet->length = 0;
    bool fits = add_text(packet, label);
    for (char *const *at = arguments; *at != NULL && fits; at++)
        fits = add_text(packet, *at);
    if (!fits) {
        free(worker);
        return convoy_fail(error, -E2BIG, "cannot start %s: its arguments are too long", arguments[0]);
    }
    memcpy(packet->fds, fds, sizeof packet->fds);
    packet->fd_count = CONVOY_PACKET_FDS;
    int code = convoy_packet_send(link->socket, packet);
    packet->fd_count = 0;
    if (code == 0)
        code = convoy_link_await(link, CONVOY_PACKET_STARTED, worker->it.number, &value);
    if (code == 0 && value < 0)
        code = value;
    if (code != 0) {
        convoy_link_kill(link, worker->it.number); /* an answer that comes too late */
        free(worker);
        return convoy_fail(error, code, "cannot start %s: %s", arguments[0], strerror(-code));
    }
    *number = worker->it.number;
    *pid = value;
    worker->next = link->workers;
    link->workers = worker;
    return 0;
}

void convoy_link_adopt(struct convoy_link *link, const char *label, convoy_link_exited *exited, void *context,
                       struct convoy_link_worker *result)
{
    for (struct convoy_linked_worker *worker = link->workers; worker != NULL; worker = worker->next) {
        if (worker->label != label)
            continue;
        worker->adopted = true;
        worker->exited = exited;
        worker->context = context;
        *result = worker->it;
    }
}

void convoy_link_pass(struct convoy_link *link, uint32_t number, convoy_link_exited *exited, void *context)
{
    for (struct convoy_linked_worker *worker = link->workers; worker != NULL; worker = worker->next) {
        if (worker->it.number != number || !worker->adopted)
            continue;
        worker->exited = exited;
        worker->context = context;
    }
}

const char *convoy_link_label_at(const struct convoy_link *link, uint32_t index)
{
    for (const struct convoy_linked_worker *worker = link->workers; worker != NULL; worker = worker->next)
        if (!worker->adopted && index-- == 0)
            return worker->label;
    return NULL;
}

void convoy_link_kill_rest(struct convoy_link *link)
{
    for (const struct convoy_linked_worker *worker = link->workers; worker != NULL; worker = worker->next)
        if (!worker->adopted)
            convoy_link_kill(link, worker->it.number);
}

void convoy_link_label(struct convoy_link *link, uint32_t number, const char *label)
{
    (void)convoy_link_send(link, CONVOY_PACKET_LABEL, number, label, -1);
}

void convoy_link_kill(struct convoy_link *link, uint32_t number)
{
    (void)convoy_packet_tell(link->socket, CONVOY_PACKET_KILL, number, 0);
}
