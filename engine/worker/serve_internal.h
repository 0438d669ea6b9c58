/* What the files of a worker that serves share: serve.c (commands of the front, the two threads),
 * serve_messages.c (what is told to the front),
 * serve_slots.c (slots of the channel), serve_maps.c (slots that ask for a class activation map),
 * serve_behind.c (what the backend prepares while it serves), serve_spare.c (waiting to take the place of
 * another worker), self_check.c (whether the device computes rightly) and serve_adopt.c (a front that takes
 * the worker over from one that is gone). */
#ifndef CONVOY_ENGINE_WORKER_SERVE_INTERNAL_H
#define CONVOY_ENGINE_WORKER_SERVE_INTERNAL_H

#include "engine/base/list.h"
#include "engine/ipc/channel.h"
#include "engine/worker/background.h"
#include "engine/worker/control.h"
#include "engine/worker/nets.h"

#include <pthread.h>
#include <stdatomic.h>

/* What a submitted slot needs until it is collected. */
struct convoy_worker_flight {
    uint32_t generation, model; /* copies: the header is the front's to change */
    bool jpeg;                  /* its rows are JPEG files */
    struct convoy_job_times times;
    /* Of a slot that asks for a map: what it asks for, the job's outputs, and where the slot's own begin. */
    uint32_t map;
    float *scores_and_maps;
    uint8_t *outputs;
    size_t output_bytes;
};

/* Slots that ask for a map. The network that computes maps is loaded when the first one comes. */
struct convoy_worker_mapping {
    uint64_t waiting; /* for the network of `model`; a bit for each slot */
    uint64_t ready;   /* the network is loaded: they are the next slots */
    uint32_t model;
    uint32_t loaded;  /* networks that are */
    uint64_t look_us; /* when one of them may have been unused for long enough */
    uint64_t rest_until_us;
};

/* Checks of the device in idle time. Each round goes through all models: first a model's weights, in slices,
 * then its canary; at last, once, the decoder of JPEG files. */
struct convoy_worker_checks {
    uint64_t period_us; /* of rest between two rounds; 0: no rounds */
    bool worked;        /* there was work since the last look at the clock */
    uint64_t worked_us, due_us;
    bool begun;     /* there is a round */
    uint32_t model; /* the next one of it; CONVOY_MAX_MODELS: the decoder */
    bool weights_done;
    uint64_t busy_us; /* that the round took so far */
    bool changed;     /* a network's known answer has to be taken again */
};

/* A piece of work that the backend has left for when its networks serve (backend.h's run_behind()). */
struct convoy_worker_behind {
    void (*work)(void *argument); /* NULL: there is none */
    int (*done)(void *argument, struct convoy_error *error);
    void *argument;
    uint64_t begin_us, latest_us; /* when it is to begin: what there is to do delays it; 0: not known yet */
    pthread_t thread;
    bool begun;
    bool inside;       /* it ran on the compute thread: there is no thread to wait for */
    atomic_bool runs;  /* what heartbeats say */
    atomic_bool ended; /* work() has returned */
};

/* What the front is told with each heartbeat. */
enum convoy_worker_phase {
    CONVOY_PHASE_STARTING,
    CONVOY_PHASE_LOADING,
    CONVOY_PHASE_TUNING,
    CONVOY_PHASE_RUNNING
};

struct convoy_worker {
    struct convoy_control control;
    struct convoy_worker_device device;
    atomic_int phase; /* enum convoy_worker_phase */
    uint64_t health;  /* the main thread's: number of the last health that was sent */
    bool is_spare;    /* the main thread's: it waits to take a worker's place, or is about to */

    /* commands of the front, from the main thread to the compute thread */
    pthread_mutex_t lock;
    struct convoy_list commands; /* of struct command, the oldest first */
    int wake_fd;

    /* the compute thread's own */
    struct convoy_channel channel;
    bool attached, idle_left; /* idle_left: the backend may have use for idle moments */
    uint64_t memory_us;       /* when "memory" is to be sent; 0: it need not be */
    uint32_t cores;           /* of this process */
    bool waits_briefly;       /* the next wait begins with looking again (brief_wait.h) */
    bool serves_beside;       /* slots are run in the pauses of the load or unload that is under way */
    bool renumbering;         /* the front knows models by other numbers, until its command "keep" */
    struct convoy_worker_net nets[CONVOY_MAX_MODELS];
    struct convoy_worker_flight flights[CONVOY_MAX_SLOTS];
    uint32_t in_flight, jpeg_in_flight; /* jpeg_in_flight: those of JPEG files among them */
    struct convoy_background background;
    struct convoy_worker_checks checks;
    struct convoy_worker_mapping mapping;
    struct convoy_worker_behind behind;
};

/* serve_messages.c */

/* The process is the unit of recovery: nothing is cleaned up, because freeing through a lost device can hang.
 * Sends "health" and "lost". Any thread. */
_Noreturn void convoy_worker_lose_device(struct convoy_worker *worker, const struct convoy_error *error);

/* The message "hello". The caller sends it. */
cJSON *convoy_worker_hello(const struct convoy_worker *worker);
/* Sends "heartbeat", with the phase, whether the backend prepares something behind, and its counters. Any
 * thread. */
void convoy_worker_send_heartbeat(struct convoy_worker *worker);
/* Sends "health" if something is known that was not sent yet. The main thread's alone. */
void convoy_worker_send_new_health(struct convoy_worker *worker);
/* Sends a message of that type about a model. object: what else is in it, which this frees; NULL: nothing.
 * reason may be NULL. The compute thread's alone. */
void convoy_worker_send_model(struct convoy_worker *worker, const char *type, uint32_t model, cJSON *object,
                              const char *reason);
/* Sends "memory", after models went or were tuned: the question costs time. The compute thread's alone. */
void convoy_worker_send_memory(struct convoy_worker *worker);
/* A model was loaded: it is sent a second later. */
void convoy_worker_memory_later(struct convoy_worker *worker);
/* In each turn. */
void convoy_worker_memory_turn(struct convoy_worker *worker);
/* How long until that has something to do, as poll() takes it. */
int convoy_worker_memory_wait_ms(const struct convoy_worker *worker);

/* A member of a command that is a number of zero or more; UINT64_MAX when it is none. */
uint64_t convoy_worker_number(const cJSON *command, const char *key);

/* serve_adopt.c, the compute thread's alone. Keeps what a later front must know of the model: the command
 * that it was loaded with, and the message "loaded" as far as it is made. */
void convoy_worker_remember(struct convoy_worker_net *net, const cJSON *command, const cJSON *described);
/* The same after it was tuned. */
void convoy_worker_remember_tuned(struct convoy_worker_net *net, const struct convoy_net_info *info);
/* The commands "adopt" and "keep". */
void convoy_worker_adopt(struct convoy_worker *worker);
void convoy_worker_keep(struct convoy_worker *worker, const cJSON *command);

/* The compute thread's alone. One round over the channel, which begins jobs and ends one; false when there
 * was nothing to do. */
bool convoy_worker_run_slots(struct convoy_worker *worker);
/* The slot's job failed, or was never one. */
void convoy_worker_fail_slot(struct convoy_worker *worker, uint32_t slot, uint32_t generation, int code);

/* serve_maps.c, the compute thread's alone. */

/* job is the slot's, which asks for a map: has the network that *net becomes write into memory of the
 * flight's. Returns 0; 1: the slot waits until that network is loaded, and is begun again then; or what the
 * slot's completion says. */
int convoy_worker_map_job(struct convoy_worker *worker, uint32_t slot, struct convoy_job *job,
                          struct convoy_net **net);
/* The job has run: writes the slot's outputs, its map and what the report says of that. */
void convoy_worker_map_done(struct convoy_worker *worker, uint32_t slot);
/* A slot that has waited and can begin now; false if there is none. */
bool convoy_worker_map_next(struct convoy_worker *worker, uint32_t *slot);
/* No slot waits any more: the front that wanted them is gone. */
void convoy_worker_map_forget(struct convoy_worker *worker);
/* Loads the network that slots wait for, or unloads one that was not used for a while; false when there is
 * nothing to do. */
bool convoy_worker_map_load(struct convoy_worker *worker);
/* How long until that may unload one, as poll() takes it. */
int convoy_worker_map_wait_ms(const struct convoy_worker *worker);

/* serve_behind.c, the compute thread's alone. */

/* backend.h's run_behind(). */
void convoy_worker_run_behind(void *context, void (*work)(void *argument),
                              int (*done)(void *argument, struct convoy_error *error), void *argument);
/* In each turn: begins the work when nothing more urgent is left, and calls done() when it has ended. busy:
 * there are slots in this turn; commanded: there is a command, and perhaps more. */
void convoy_worker_behind_turn(struct convoy_worker *worker, bool busy, bool commanded);
/* How long until that has something to do, as poll() takes it. wake_fd rings when the work has ended. */
int convoy_worker_behind_wait_ms(const struct convoy_worker *worker);

/* A spare, while it has one thread: it ends with the process that started it. */
void convoy_worker_begin_spare(struct convoy_worker *worker);
/* backend.h's opened(). A spare says "opened", with the device's memory unless that is NULL, and waits, for
 * as long as it takes, until the front writes to the control socket. It is a worker from then on. The process
 * ends when front and master have closed the socket. */
void convoy_worker_wait_as_spare(void *context, const struct convoy_device_memory *memory);

/* Waits until no job is in flight. */
void convoy_worker_collect_all(struct convoy_worker *worker);

/* The compute thread's alone, with no job in flight. A difference ends the process, after it told the front.
 */

/* period_us: of rest between two rounds of checks; 0: none. */
void convoy_worker_check_init(struct convoy_worker *worker, uint64_t period_us);
/* The model was loaded: takes its known answer. The first run costs more than later ones (code is loaded,
 * memory is touched), and no request pays for that. Adds "first_run_us", "row_us" (of the second run) and
 * "canary" to the message "loaded". */
void convoy_worker_check_loaded(struct convoy_worker *worker, uint32_t model, cJSON *described);
/* Networks for which changed() was called compute with other kernels: compares their answers with the first
 * ones within a bound. */
void convoy_worker_check_changed(struct convoy_worker *worker);
/* Does a part of a round that is due: a slice of weights, a canary, or the decoder's file; false when there
 * is nothing to do. */
bool convoy_worker_check_idle(struct convoy_worker *worker);
/* How long until that has something to do, as poll() takes it. */
int convoy_worker_check_wait_ms(const struct convoy_worker *worker);

#endif
