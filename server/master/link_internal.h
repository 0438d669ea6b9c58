/* What link.c and link_worker.c share. */
#ifndef CONVOY_SERVER_MASTER_LINK_INTERNAL_H
#define CONVOY_SERVER_MASTER_LINK_INTERNAL_H

#include "server/master/link.h"

/* A packet without text that came while an answer was waited for. */
struct convoy_link_event {
    struct convoy_link_event *next;
    uint32_t type, number;
    int32_t value;
};

struct convoy_link_item {
    struct convoy_link_item *next;
    int fd;
    char key[];
};

struct convoy_linked_worker {
    struct convoy_linked_worker *next;
    struct convoy_link_worker it;
    char *label;  /* NULL when this front started it */
    bool adopted; /* or started by this front */
    convoy_link_exited *exited;
    void *context;
};

struct convoy_link {
    int socket;
    uint32_t epoch, last_number;
    uint32_t restarts[CONVOY_RESTARTS];
    bool gone; /* the master */
    bool prepares, beside;
    struct convoy_link_item *items;
    struct convoy_linked_worker
        *workers; /* that live, as far as is known; held ones in the order of their numbers */
    struct convoy_link_event *events, **last_event;
    void (*on_signal)(void *context, int number);
    void *signal_context;
    void (*on_handover)(void *context);
    void *handover_context;
    void (*on_go)(void *context);
    void *go_context;
    struct convoy_packet packet;
};

/* Waits for the answer of this type and number. */
int convoy_link_await(struct convoy_link *link, enum convoy_packet_type type, uint32_t number,
                      int32_t *value);
/* Sends a packet with a text and perhaps a descriptor (-1: none). */
int convoy_link_send(struct convoy_link *link, enum convoy_packet_type type, uint32_t number,
                     const char *text, int fd);

#endif
