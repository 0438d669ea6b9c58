/* One convoy-worker process: has the master start it, reads its messages and hears of its end. It knows
 * nothing about models or slots, which are the supervisor's. Everything runs on the control loop. */
#ifndef CONVOY_SERVER_WORKER_PROCESS_H
#define CONVOY_SERVER_WORKER_PROCESS_H

#include "engine/ipc/channel.h"
#include "engine/ipc/line_reader.h"
#include "server/master/link.h"
#include "server/workers/worker_doorbell.h"
#include "server/workers/worker_left.h"
#include "server/workers/worker_message.h"
#include "server/workers/worker_settings.h"
#include "server/workers/worker_spare.h"

#include <uv.h>

struct convoy_worker_process;

/* Called on the control loop. */
struct convoy_worker_process_events {
    void (*message)(void *context, struct convoy_worker_process *process,
                    const struct convoy_worker_message *message);
    /* It has finished slots, or its doorbell rang. False: they are not taken, until it rings again. */
    bool (*finished_slots)(void *context, struct convoy_worker_process *process);
    /* The process has ended, or is ending and may_leave() let it, and all its messages were delivered (of a
     * child that has its socket, too, and writes on, only the first MiB). reason: a short constant for the
     * metric; text: a sentence. */
    void (*gone)(void *context, struct convoy_worker_process *process, const char *reason, const char *text);
    /* Whether another process may begin while the kernel ends this one, of which no thread runs any more:
     * then gone() is called at once. NULL: never. */
    bool (*may_leave)(void *context, const struct convoy_worker_process *process);
    /* A process is dead that gone() was called for before. May be NULL. */
    convoy_worker_left_gone *left_gone;
};

struct convoy_worker_process {
    uv_loop_t *loop;
    const struct convoy_worker_process_events *events;
    void *context;
    uint32_t model_count;
    struct convoy_link *link;               /* to the master, set before a process is started */
    struct convoy_worker_settings settings; /* of the next process */
    bool other_models;             /* the next process is for others than the one before: other memory */
    struct convoy_channel channel; /* lives as long as this record; each process in turn maps it */
    struct convoy_worker_spares spares;
    struct convoy_worker_left left;
    bool other_outputs; /* the next process uses the other area of outputs */

    bool running;                         /* a process exists, or gone() was not called yet */
    uint64_t started_us;                  /* of this process */
    uint64_t heard_us;                    /* of its last message */
    const char *kill_reason;              /* why convoy_worker_process_kill() killed it; NULL: it did not */
    char lost_reason[CONVOY_ERROR_BYTES]; /* of its LOST message */

    pid_t pid;
    uint32_t number;                         /* the master's for it */
    bool adopting;                           /* it was told to adopt this front and has not said hello yet */
    struct convoy_channel_size adopted_size; /* of its channel */
    uv_pipe_t control;
    struct convoy_worker_doorbell doorbell;
    bool exited;     /* it was waited for, or left */
    bool ended;      /* its socket was read to its end, or is read no more */
    bool closed;     /* it was read to its end */
    bool left_early; /* it was left before it was dead */
    bool was_spare;
    uv_timer_t look;        /* active while it was killed and is not dead: may it be left? */
    uint64_t look_until_us; /* moves on while another one is ending */
    int exit_status;        /* as waitpid(2) tells it */
    int open_handles;
    struct convoy_line_reader lines; /* from the control socket */
};

/* Prepares the record and creates its channel; no process is started. events, and what context points to,
 * must outlive it. */
int convoy_worker_process_prepare(struct convoy_worker_process *process, uv_loop_t *loop,
                                  const struct convoy_worker_settings *settings, uint32_t model_count,
                                  const struct convoy_worker_process_events *events, void *context,
                                  struct convoy_error *error);
/* Starts a process, or has the spare take its place; none may be running. tune: "on", "off", "force". An
 * error means that none was started. */
int convoy_worker_process_start(struct convoy_worker_process *process, const char *backend, const char *tune,
                                struct convoy_error *error);
/* Makes sure that so many spares wait as are wanted, which convoy_worker_process_start() with this backend
 * and tune would take. One that cannot be started is tried again later: call it now and then, while the
 * process runs. */
void convoy_worker_process_keep_spares(struct convoy_worker_process *process, const char *backend,
                                       const char *tune);
/* Instead of starting one: takes over the worker of a front that is gone, if the master holds one that this
 * front would have started alike, with a channel. Of another backend than backend ("auto": any) it is not.
 * False: there is none. After its HELLO, which says that it does nothing for the dead front any more,
 * process->channel is laid out. */
bool convoy_worker_process_adopt(struct convoy_worker_process *process, const char *backend);
/* The channel is laid out for this process, of which the backend is known now: a later front could adopt it.
 */
void convoy_worker_process_laid_out(struct convoy_worker_process *process, const char *backend);
/* Sends message as a line and frees it. Does not wait: libuv sends later what the socket does not take now.
 * message NULL means that memory was out when it was made. Returns 0, -ENOMEM or another negative errno when
 * nothing was sent, and -ENOTCONN without a process. */
int convoy_worker_process_send(struct convoy_worker_process *process, cJSON *message);
/* Sends SIGKILL; gone() follows. reason: the metric's label; a string constant. */
void convoy_worker_process_kill(struct convoy_worker_process *process, const char *reason);
/* Frees the channel. After the loop ended. */
void convoy_worker_process_free(struct convoy_worker_process *process);

#endif
