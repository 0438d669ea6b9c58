/* The front's end of the socket to its master (master.h): what the master holds from the front before, which
 * starts workers for this one and says how they ended.
 *
 * Requests that have an answer wait for it, for at most CONVOY_LINK_ANSWER_MS: the master does nothing else.
 * Other calls do not wait; what the master cannot take at once is lost.
 *
 * Threads: the control loop alone. */
#ifndef CONVOY_SERVER_MASTER_LINK_H
#define CONVOY_SERVER_MASTER_LINK_H

#include "engine/base/error.h"
#include "engine/base/log.h"
#include "server/master/packet.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CONVOY_LINK_ANSWER_MS 5000

struct convoy_link;

/* A worker that a front before started and that lives, as far as is known. */
struct convoy_link_worker {
    uint32_t number;
    pid_t pid;
    int memory, control, doorbell; /* the front's ends */
};

/* Whether this process is a master's front. */
bool convoy_link_inherited(void);
/* Opens the link and receives what the master holds. The kernel ends this process from now on when the master
 * ends. -EINVAL when this process is no front. */
int convoy_link_open(struct convoy_link **link, struct convoy_error *error);
/* A link over this socket, which it owns, to a master that holds nothing. NULL when memory is out. */
struct convoy_link *convoy_link_new(int socket);
void convoy_link_free(struct convoy_link *link);

/* Counts fronts from 1 on: above 1 this one takes over from one that crashed or hands over. */
uint32_t convoy_link_epoch(const struct convoy_link *link);

/* How many fronts of this master followed another for that reason, this one included. 0 of a master that does
 * not say so. */
uint32_t convoy_link_restarts(const struct convoy_link *link, enum convoy_restart reason);

/* To be watched for reading; then, and whenever convoy_link_waiting(), convoy_link_dispatch() is to be
 * called. */
int convoy_link_fd(const struct convoy_link *link);
bool convoy_link_waiting(const struct convoy_link *link);
/* Calls what convoy_link_start() and convoy_link_on_signal() were given. False when the master is gone. */
bool convoy_link_dispatch(struct convoy_link *link);
void convoy_link_on_signal(struct convoy_link *link, void (*on_signal)(void *context, int number),
                           void *context);

/* Whether the front before serves still, and hands over to this one. */
bool convoy_link_prepares(const struct convoy_link *link);
/* This front could serve: waits until the front before has gone, and receives its workers. False when the
 * master wants it no more. abi: of the channels. When they are not those of the workers that run, it returns
 * while the front before serves: convoy_link_beside(). */
bool convoy_link_prepared(struct convoy_link *link, int abi);
/* Whether this front is to load its models into workers of its own, beside the front that serves. The master
 * gives it up when it says neither of the two that follow for twenty seconds. */
bool convoy_link_beside(const struct convoy_link *link);
void convoy_link_loading(struct convoy_link *link);
/* They are loaded: on_go() is called when the front before has gone, with remarks to be taken as they are
 * then.
 */
void convoy_link_loaded(struct convoy_link *link, int abi);
void convoy_link_on_go(struct convoy_link *link, void (*on_go)(void *context), void *context);
/* Called when another front is to take over from this one. */
void convoy_link_on_handover(struct convoy_link *link, void (*on_handover)(void *context), void *context);
/* Listens; signals come as packets. */
void convoy_link_serving(struct convoy_link *link, int abi);
void convoy_link_log(struct convoy_link *link, enum convoy_log_format format, enum convoy_log_level level);
/* For the service manager, in the master's name. */
void convoy_link_notify(struct convoy_link *link, const char *state);

/* Whether workers can be left to the next start of the daemon: there is a service manager. */
bool convoy_link_can_keep(void);
/* This front ends in order, and its workers are left to the next start. */
void convoy_link_keep(struct convoy_link *link);

/* ---- What is held for the next front ---- */

/* The descriptor that is held under the key, which becomes the caller's; -1: none. */
int convoy_link_take(struct convoy_link *link, const char *key);
/* Takes the remark whose key begins so: the rest of it is copied. False: there is none. The master holds it
 * on. */
bool convoy_link_take_remark(struct convoy_link *link, const char *prefix, char *rest, size_t capacity);
/* Whether there is a remark with this key, which was not taken. */
bool convoy_link_has_remark(const struct convoy_link *link, const char *key);
/* Holds a copy of fd; -1: the key alone, a remark. */
void convoy_link_hold(struct convoy_link *link, const char *key, int fd);
/* Drops what is held under the key, and waits until the master has closed it. */
void convoy_link_drop(struct convoy_link *link, const char *key);
/* Drops what was held under keys that begin so and was not taken. */
void convoy_link_drop_rest(struct convoy_link *link, const char *prefix);

/* ---- Workers ---- */

/* exited() is called with the status that waitpid(2) tells. */
typedef void convoy_link_exited(void *context, int status);

/* Starts a worker. fds: its control socket, memory and doorbell, then the control socket and the doorbell of
 * this end, which the master keeps copies of; all stay the caller's. *number is the worker's from now on. */
int convoy_link_start(struct convoy_link *link, const char *label, char *const *arguments, const int fds[5],
                      convoy_link_exited *exited, void *context, uint32_t *number, pid_t *pid,
                      struct convoy_error *error);
/* Another one is told of the end of a worker that this front started or adopted. */
void convoy_link_pass(struct convoy_link *link, uint32_t number, convoy_link_exited *exited, void *context);
/* The labels of held workers that were not adopted: index counts up to NULL. Valid until the worker's end is
 * dispatched. */
const char *convoy_link_label_at(const struct convoy_link *link, uint32_t index);
/* Takes the worker with this label, as convoy_link_label_at() returned it: its descriptors are the caller's.
 */
void convoy_link_adopt(struct convoy_link *link, const char *label, convoy_link_exited *exited, void *context,
                       struct convoy_link_worker *worker);
/* Kills the held workers that were not adopted. */
void convoy_link_kill_rest(struct convoy_link *link);
void convoy_link_label(struct convoy_link *link, uint32_t number, const char *label);
/* SIGKILL. */
void convoy_link_kill(struct convoy_link *link, uint32_t number);

#endif
