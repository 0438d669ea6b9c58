/* What the master holds for its fronts: listening sockets and remarks by key, and the workers with their
 * channels. It understands none of it.
 *
 * Threads: one. */
#ifndef CONVOY_SERVER_MASTER_HOLD_H
#define CONVOY_SERVER_MASTER_HOLD_H

#include "server/master/packet.h"

#include <stdbool.h>
#include <sys/types.h>

/* At most 64 workers, or one and four spares for each of 16 devices; those whose end the front has not heard
 * of count, too. */
#define CONVOY_HOLD_WORKERS 256

struct convoy_held_item {
    struct convoy_held_item *next;
    int fd; /* -1: a remark */
    char key[];
};

struct convoy_held_worker {
    uint32_t number; /* the front's; 0: free */
    pid_t pid;
    int pidfd; /* of one that is no child of this process: readable when it has exited; -1: it is a child */
    bool exited, told; /* told: the front knows that it exited, or never knew the worker */
    int status;
    int memory, control, doorbell; /* -1 when it exited */
    char *label;
};

struct convoy_hold {
    struct convoy_held_item *items;
    struct convoy_held_worker workers[CONVOY_HOLD_WORKERS];
};

/* Takes packet's descriptor, if it has one. An item of the same key is replaced. False when memory is out. */
bool convoy_hold_item(struct convoy_hold *hold, struct convoy_packet *packet);
void convoy_hold_drop(struct convoy_hold *hold, const char *key);

/* Takes the last two descriptors and the memory of a START packet, for the worker with this pid. False when
 * there is no place or no memory. */
bool convoy_hold_worker(struct convoy_hold *hold, struct convoy_packet *packet, pid_t pid);
/* Takes a worker that another master held, with its label and descriptors. False: there is no place, or its
 * number is taken; nothing is taken then. */
bool convoy_hold_stored(struct convoy_hold *hold, const struct convoy_held_worker *worker);
struct convoy_held_worker *convoy_hold_find(struct convoy_hold *hold, uint32_t number);
struct convoy_held_worker *convoy_hold_find_pid(struct convoy_hold *hold, pid_t pid);
void convoy_hold_label(struct convoy_hold *hold, uint32_t number, const char *label);
/* SIGKILL, unless it has exited. */
void convoy_hold_kill(const struct convoy_held_worker *worker);
/* It has exited: its descriptors are closed. */
void convoy_hold_exited(struct convoy_held_worker *worker, int status);
/* Forgets a worker that has exited. */
void convoy_hold_forget(struct convoy_held_worker *worker);
/* How many live. */
uint32_t convoy_hold_living(const struct convoy_hold *hold);

/* Both send to a new front, which may take some seconds to read it: the items; the workers, of which those
 * that have exited are forgotten. 0 or a negative errno. */
int convoy_hold_send_items(const struct convoy_hold *hold, int socket);
int convoy_hold_send_workers(struct convoy_hold *hold, int socket);

/* The same of remarks alone. */
int convoy_hold_send_remarks(const struct convoy_hold *hold, int socket);

/* Moves all items of one to the other, where they replace those of the same keys. */
void convoy_hold_move_items(struct convoy_hold *from, struct convoy_hold *to);
/* Moves all workers to a hold that has none. */
void convoy_hold_move_workers(struct convoy_hold *from, struct convoy_hold *to);

void convoy_hold_free(struct convoy_hold *hold);

#endif
