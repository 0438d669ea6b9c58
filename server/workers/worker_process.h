/* One convoy-worker process: has the master start it, reads its messages and hears of its end. It knows
 * nothing about models or slots, which are the supervisor's. Everything runs on the control loop. */
#ifndef CONVOY_SERVER_WORKER_PROCESS_H
#define CONVOY_SERVER_WORKER_PROCESS_H

#include "engine/ipc/channel.h"
#include "engine/ipc/line_reader.h"
#include "server/config/model_name.h"
#include "server/master/link.h"
#include "server/workers/worker_message.h"

#include <uv.h>

/* Which models a worker is for: the name of one, or these. No name is one of them. */
#define CONVOY_OF_ALL   "*"
#define CONVOY_OF_NONE  "" /* none yet */
#define CONVOY_OF_BYTES (CONVOY_MODEL_NAME_BYTES + 1)

struct convoy_worker_process;

/* Called on the control loop. */
struct convoy_worker_process_events {
    void (*message)(void *context, struct convoy_worker_process *process,
                    const struct convoy_worker_message *message);
    void (*finished_slots)(void *context, struct convoy_worker_process *process); /* the done doorbell rang */
    /* The process has ended and all its messages were delivered (of a child that has its socket, too, and
     * writes on, only the first MiB). reason: a short constant for the metric;
     * text: a sentence. */
    void (*gone)(void *context, struct convoy_worker_process *process, const char *reason, const char *text);
};

struct convoy_worker_process {
    uv_loop_t *loop;
    const struct convoy_worker_process_events *events;
    void *context;
    uint32_t device_index, model_count, streams;
    uint32_t cores;           /* of the front */
    const char *cache_dir;    /* NULL: none; owned by the configuration */
    struct convoy_link *link; /* to the master, set before a process is started */
    const char *of;           /* the models that it is for; owned by the supervisor */
    bool other_models;        /* the next process is for others than the one before: other memory */
    bool unconfined;          /* the next process is started without its sandbox */
    bool pixels_only;         /* the next process is never sent JPEG files */
    uint32_t canary_ms;       /* rest of the next process between checks of its device; 0: none */
    uint32_t orphan_ms; /* that the next process lives without a front; 0: as long as its socket is open */
    const char *tune;   /* as it is configured: a worker of a front with another one is not adopted */
    struct convoy_channel channel; /* lives as long as this record; each process in turn maps it */

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
    uv_poll_t doorbell;
    uv_idle_t brief_wait; /* active while the next ring is expected soon (brief_wait.h) */
    uint64_t rang_us;     /* when the doorbell rang last */
    bool exited, ended;   /* exited: waited for; ended: its socket was read to its end, or is read no more */
    int exit_status;      /* as waitpid(2) tells it */
    int open_handles;
    struct convoy_line_reader lines; /* from the control socket */
};

/* Prepares the record and creates its channel; no process is started. events, and what context points to,
 * must outlive it. */
int convoy_worker_process_prepare(struct convoy_worker_process *process, uv_loop_t *loop,
                                  uint32_t device_index, uint32_t model_count, uint32_t streams,
                                  const char *cache_dir, const struct convoy_worker_process_events *events,
                                  void *context, struct convoy_error *error);
/* Starts a process; none may be running. tune: "on", "off", "force". An error means that none was started. */
int convoy_worker_process_start(struct convoy_worker_process *process, const char *backend, const char *tune,
                                struct convoy_error *error);
/* Instead of starting one: takes over the worker of a front that is gone, if the master holds one that this
 * front would have started alike, with a channel. Of another backend than backend ("auto": any) it is not.
 * False: there is none. After its HELLO, which says that it does nothing for the dead front any more,
 * process->channel is laid out. */
bool convoy_worker_process_adopt(struct convoy_worker_process *process, const char *backend);
/* How large a channel a front before has laid out for this device, and with which backend (at least 16
 * bytes): false when the master holds no worker for it that could be adopted. */
bool convoy_worker_process_adoptable(const struct convoy_worker_process *process, const char *backend,
                                     struct convoy_channel_size *size, char *found);
/* For which models and device the worker is that the master holds with this index, which counts up to a call
 * that returns false. */
bool convoy_worker_process_held(const struct convoy_link *link, uint32_t index, uint32_t *device,
                                char of[CONVOY_OF_BYTES]);
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
