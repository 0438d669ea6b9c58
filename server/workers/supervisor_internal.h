/* What supervisor.c, supervisor_loading.c, supervisor_quarantine.c, supervisor_canary.c,
 * supervisor_measure.c, supervisor_placement.c, supervisor_per_model.c, supervisor_heartbeat.c,
 * supervisor_watch.c, supervisor_files.c, supervisor_adopt.c, supervisor_spare.c, supervisor_ending.c,
 * supervisor_health.c and supervisor_stop.c share. All of it belongs to the control loop, except the atomics.
 */
#ifndef CONVOY_SERVER_SUPERVISOR_INTERNAL_H
#define CONVOY_SERVER_SUPERVISOR_INTERNAL_H

#include "engine/base/log.h"
#include "server/workers/supervisor.h"
#include "server/workers/worker_command.h"
#include "server/workers/worker_process.h"

#include <stdatomic.h>

#define NO_MODEL       (-1)
#define CONVOY_LIVE_US 1000000u /* the loop is alive when it turned within this */
#define MAX_COUNTERS   64       /* names of counters that a worker may export */

#define CONVOY_WATCH_MS 50 /* how often workers are checked */

/* A model's command that could not be sent; it is tried again every WATCH_MS. */
enum unsent { UNSENT_NONE, UNSENT_MEASURE, UNSENT_LOAD, UNSENT_LOAD_BESIDE, UNSENT_UNLOAD };

/* A worker's answer for a model. LOADED may come before the channel is laid out. */
struct kept_answer {
    bool loaded;
    bool takes_files; /* its rows may be JPEG files */
    uint64_t first_run_us, row_us;
    struct convoy_model_shape shape;
    struct convoy_layer_name *layers; /* until the batcher takes them */
};

/* Workers of one device that died in a row while they loaded a model. */
struct loading_deaths {
    uint64_t files; /* fingerprint of the files that the counts are for */
    uint32_t count;
    uint32_t wrong;  /* workers that computed the model wrongly, in a row */
    bool wrong_late; /* one of them did so after it had loaded it: right again is what passes that check */
};

/* The first answer to the canary's row, of certain files on devices of one kind. */
struct known_answer {
    struct known_answer *next;
    uint64_t files, kind;
    struct convoy_canary answer;
};

/* A model that an adopted worker has loaded. */
struct held_model {
    struct held_model *next;
    uint32_t was;                         /* its number in the front before; message.model is the one here */
    struct convoy_worker_message message; /* as LOADED; owns the layers, and no JSON */
};

/* A worker of a device, its only one unless worker.per_model: what is known about the device, and about the
 * process that serves it now. */
struct device_worker {
    struct convoy_supervisor *supervisor;
    struct convoy_worker_process process;
    struct convoy_worker_slots *slots; /* NULL until the channel is laid out */
    struct convoy_device_metrics *metrics;
    char of[CONVOY_OF_BYTES]; /* the models that it is for */
    bool retires;             /* its process is being ended: nothing of its models is to be served */
    bool dormant;             /* it has no process, until a model needs one */
    char device[32];
    uint64_t kind; /* of its device: a hash of what it is */
    uint32_t streams;
    bool said_hello, attached;
    bool distrusted;         /* this process computes wrongly: nothing that it says counts any more */
    bool adopted;            /* this process is of a front before */
    bool adopting;           /* and has not yet said what it has loaded */
    struct held_model *held; /* so far */
    uint32_t files_ahead;    /* slots of JPEG files that it decodes while it computes others; 0: none */
    bool serving;            /* this process has a model to serve */
    bool up;                 /* attached and serving: counted in supervisor->up */
    uint64_t up_us;          /* since when */
    bool completed;          /* this process finished a slot */
    char phase[16];          /* as reported last; "": none */
    uint32_t tuning_deaths;  /* deaths while tuning, in a row */
    bool told_no_spare;      /* of this device: the log says why there is none */
    bool preparing;          /* its JPEG decoder, as reported last */
    uint64_t preparing_us;   /* since when */
    uint32_t decoder_deaths; /* deaths while preparing it, in a row */
    int loading;             /* the model that it reported to be loading, or NO_MODEL */
    uint64_t loading_us;     /* since when */
    bool excused;            /* its loading began beside a process that was ending, and did not fail since */
    uint64_t free_bytes;     /* of its device's memory, as this process reported last */
    uint64_t health_us;      /* when its device's health came last; 0: what came is not shown any more */
    uint64_t xids;           /* that this process reported so far */
    bool listened;           /* another worker of the device spoke of it when this one reported last */
    uint32_t counter_count;  /* entries in counters: names that it may export */
    char counters[MAX_COUNTERS][48];
    uint8_t *answered;             /* by model: LOADED or FAILED came */
    uint32_t *asked;               /* by model: LOADs without an answer yet */
    uint8_t *unsent;               /* by model: enum unsent */
    bool channel_unsent;           /* CHANNEL could not be sent yet */
    struct loading_deaths *deaths; /* by model; shared by all workers of the device */
    struct kept_answer *kept;      /* by model */
    uint64_t backoff_ms;
    uv_timer_t restart;
};

/* How large a model's rows and outputs are, as a worker said before it was loaded. */
struct convoy_measured {
    bool known, useless; /* useless: its file cannot be read, which its loading will say */
    struct convoy_model_shape shape;
};

struct convoy_supervisor {
    uv_loop_t *loop;
    struct convoy_link *link;
    const struct convoy_config *config;
    struct convoy_registry *registry;
    struct convoy_metrics *metrics;
    struct convoy_batcher *batcher;
    struct convoy_worker_process_events events;
    uv_timer_cb on_restart;
    char backend[CONVOY_BACKEND_BYTES]; /* what workers are started with; "auto" until the first HELLO */
    uint32_t worker_count, up;
    uint32_t device_count; /* that are known of; 0: not started */
    struct device_worker *workers[CONVOY_MAX_WORKERS];
    struct loading_deaths *deaths[CONVOY_MAX_DEVICES]; /* by device, then by model */
    struct known_answer **known;                       /* by model: a list */
    bool *retry; /* by model: FAILED after it was READY; to be asked for again */
    uint64_t retried_us;
    bool untidy; /* some worker may have no model any more */
    bool placed; /* models whose devices do not exist were set to FAILED */
    bool sized;
    struct device_worker *measurer;   /* whose worker was asked for the sizes of models; NULL: none */
    struct convoy_measured *measured; /* by model */
    struct convoy_channel_size size;
    uv_timer_t watch, stop_timer;
    uv_poll_t batcher_timer;
    void (*stopped)(void *context);
    void *stopped_context;
    void (*changed)(void *context); /* a model became READY or FAILED; may be NULL */
    void *changed_context;

    atomic_ullong turned_us, last_up_us;
    atomic_bool any_up, draining;
};

/* ---- supervisor.c ---- */

/* Adds a worker of the device for these models, and starts it, or takes over the one that a front before has
 * left. -ENOSPC: there are as many as there can be; -ENOMEM, or what a channel cannot be made for. */
int convoy_supervisor_add(struct convoy_supervisor *supervisor, uint32_t device, const char *of,
                          struct convoy_error *error);
/* Starts a process for a worker that is dormant. */
void convoy_supervisor_wake(struct device_worker *worker);

/* ---- supervisor_watch.c ---- */

/* Every CONVOY_WATCH_MS: kills workers that hang, and does what could not be done before. */
void convoy_watch(uv_timer_t *timer);

/* ---- supervisor_per_model.c: worker.per_model. Each model name has a worker of its own on each of its
 * devices: a process, a channel, slots. A process loads the versions of one name and nothing else, ever: when
 * none is served it is ended. A device where no model is has one worker that is for none yet.
 *
 * So that one that a model has taken over gets no row of another: the batcher gives a worker rows only of
 * what it serves, nothing that a worker says of other models is heard, and memory of a channel is renewed
 * before it is of other models. ---- */

/* Whether it is for models of that name. */
bool convoy_per_model_is_for(const struct device_worker *worker, const struct convoy_model_record *model);
/* Whether the message is to be heard: not when it is about a model that the worker is not for. */
bool convoy_per_model_hears(const struct device_worker *worker, const struct convoy_worker_message *message);
/* Makes sure that each of the model's devices has a worker for it. An error: none has. */
int convoy_per_model_place(struct convoy_supervisor *supervisor, const struct convoy_model_record *model,
                           struct convoy_error *error);
/* The same for all models, of which those that cannot be placed become FAILED: at the start, and when more
 * devices are found. */
void convoy_per_model_place_all(struct convoy_supervisor *supervisor);
/* Ends the workers whose models are not served any more. */
void convoy_per_model_tidy(struct convoy_supervisor *supervisor);
/* The worker's process is gone. True when it was meant to end. */
bool convoy_per_model_gone(struct device_worker *worker);
/* The last field of a line of the log: the model that the worker is for, if it is for one. */
struct convoy_log_field convoy_per_model_field(const struct device_worker *worker);
/* The metrics of the worker, whose device is known. */
struct convoy_device_metrics *convoy_per_model_metrics(const struct device_worker *worker);

/* ---- supervisor_loading.c: which models a worker is asked to load, in which order, what its answers mean,
 * and how large slots are ---- */

/* The worker said HELLO: sends it the channel's size (once that is known) and a LOAD for every model of its
 * device that is not FAILED; models that requests wait for come first, then the default model. Where slots
 * are not sized yet, models may be measured first (below). */
void convoy_loading_begin(struct device_worker *worker);
/* Asks every worker to load the model; earlier answers for it are forgotten. */
void convoy_loading_load(struct convoy_supervisor *supervisor, struct convoy_model_record *model);
/* Tells every worker that has the model to unload it. */
void convoy_loading_unload(struct convoy_supervisor *supervisor, const struct convoy_model_record *model);
/* Whether the worker has not answered yet for the model with this number, which is to be served. */
bool convoy_loading_waits(const struct device_worker *worker, uint32_t number);
/* Whether the worker has to load the model and has not answered yet. */
bool convoy_loading_is_asked(const struct device_worker *worker, uint32_t number);
/* Sends the commands that could not be sent before. */
void convoy_loading_send_again(struct device_worker *worker);
/* The worker mapped the channel: the models that it has loaded are served from now on. */
void convoy_loading_attached(struct device_worker *worker);
/* LOADED or FAILED came. */
void convoy_loading_answered(struct device_worker *worker, const struct convoy_worker_message *message);
/* TUNED came: a loaded model's kernels and weights differ from what LOADED said. */
void convoy_loading_tuned(struct device_worker *worker, const struct convoy_worker_message *message);
/* After a worker answered or died: models that no device can load any more become FAILED, and slots are sized
 * when all others are loaded somewhere. */
void convoy_loading_settle(struct convoy_supervisor *supervisor);
/* Asks again for models that were READY and became FAILED later because of their file. */
void convoy_loading_retry(struct device_worker *worker);
/* Frees the answers kept. */
void convoy_loading_forget(struct device_worker *worker);
/* No worker serves the model any more: it becomes FAILED, and waiting requests are answered. */
void convoy_loading_fail(struct convoy_supervisor *supervisor, struct convoy_model_record *model,
                         const char *reason);

/* Sends a command for a model, or notes that it has to be sent again. */
void convoy_loading_send(struct device_worker *worker, const struct convoy_model_record *model,
                         enum unsent command);

/* ---- supervisor_files.c: which devices decode JPEG files ---- */

/* Whether devices decode files of the models, where they can. */
bool convoy_files_wanted(const struct convoy_supervisor *supervisor);
/* What LOAD says of them to this worker. With "gpu" a model is READY only when its device decodes, or cannot.
 */
enum convoy_load_files convoy_files_of(const struct device_worker *worker);
/* What a worker says of the model has changed. Files go to a model only where each device that has it loaded
 * decodes them: any of them may get the row. */
void convoy_files_count_takers(struct convoy_supervisor *supervisor, struct convoy_model_record *model);

/* ---- supervisor_quarantine.c: a model whose loading kills two workers of a device in a row is not loaded
 * there again until its files change. Requests that load it cannot make it kill more workers, which other
 * models need ---- */

/* The model is to be loaded: what is counted for other files than its present ones is forgotten. */
void convoy_quarantine_renew(struct device_worker *worker, const struct convoy_model_record *model);
/* Whether the worker must not load the model with this number. */
bool convoy_quarantine_holds(const struct device_worker *worker, uint32_t number);
/* The worker loaded the model: only deaths in a row are the model's fault. */
void convoy_quarantine_clear(struct device_worker *worker, uint32_t number);
/* The worker died while it loaded worker->loading. A model that did this twice in a row is FAILED, unless
 * another device serves it or may still load it. */
void convoy_quarantine_died(struct device_worker *worker);
/* FAILED, with the reason that it is in quarantine, when no device can load it. */
void convoy_quarantine_check(struct convoy_supervisor *supervisor, struct convoy_model_record *model);

/* The worker computed the model wrongly; late: after it had loaded it. Twice in a row counts as two deaths.
 */
void convoy_quarantine_wrong(struct device_worker *worker, struct convoy_model_record *model, bool late);
/* The worker, which had loaded the model before, computes it rightly. */
void convoy_quarantine_right(struct device_worker *worker, uint32_t number);

/* ---- supervisor_canary.c: does a worker compute what others did? A worker runs one known row when it has
 * loaded a model, and again when it is idle. The first answer is kept; a worker whose answer differs from it
 * is killed before it serves, and what it finished and was not collected yet runs again elsewhere ---- */

/* LOADED came: whether the model may be served. When not, the worker is being killed. */
bool convoy_canary_accepts(struct device_worker *worker, struct convoy_model_record *model,
                           const struct convoy_worker_message *message);
/* CHECKED came. A worker that found a difference ends by itself. */
void convoy_canary_checked(struct device_worker *worker, const struct convoy_worker_message *message);
void convoy_canary_free(struct convoy_supervisor *supervisor);

/* ---- supervisor_measure.c: how large slots must be is known before models are loaded, so that each is
 * served as soon as it is. Where one model alone is to be loaded, nothing is measured ---- */

/* At HELLO, before slots are sized: true when models are measured first, by this worker or another; their
 * LOADs are sent when slots are sized. */
bool convoy_measure_begin(struct device_worker *worker);
/* MEASURED came. */
void convoy_measure_answered(struct device_worker *worker, const struct convoy_worker_message *message);
/* When the worker that measures is gone and another is there, that one goes on. */
void convoy_measure_go_on(struct convoy_supervisor *supervisor);
/* The model's shape from loading or measuring; NULL with *waits false where it will not be known. */
const struct convoy_model_shape *convoy_measure_shape(const struct convoy_supervisor *supervisor,
                                                      const struct convoy_model_record *model, bool *waits);

/* Chooses how large slots are, from the shapes that are known. */
void convoy_measure_size(struct convoy_supervisor *supervisor);

/* ---- supervisor_placement.c: which devices a model is for: those that "devices" in its config.json names,
 * or all. Other workers are not asked to load it, and their answers are not waited for ---- */

/* Whether the model is for the device with this number. */
bool convoy_placement_names(const struct convoy_model_record *model, uint32_t device);
/* Whether the model is for this worker and its device. */
bool convoy_placement_here(const struct device_worker *worker, const struct convoy_model_record *model);
/* To be called when it is known how many devices there are: -ENODEV with a sentence when the model is for
 * none of them; logs a warning when some of its devices are missing. */
int convoy_placement_check(const struct convoy_supervisor *supervisor,
                           const struct convoy_model_record *model, struct convoy_error *error);
/* Whether some worker has loaded the model or may still load it: it has not answered yet, and its device was
 * not given up. A device is given up after three failed starts in a row. */
bool convoy_placement_possible(const struct convoy_supervisor *supervisor,
                               const struct convoy_model_record *model);
/* The model's shape as a worker that loaded it reported it; NULL while none has. */
const struct convoy_model_shape *convoy_placement_shape(const struct convoy_supervisor *supervisor,
                                                        const struct convoy_model_record *model);

/* ---- supervisor_heartbeat.c: what a worker reports while it lives: phase, counters, device memory, health
 * ----
 *
 * Only the tuner can meet a kernel that kills the device or never ends: after two workers in a row died while
 * they tuned, the device is served without tuning until convoyd starts again. The same of the JPEG decoder,
 * which is prepared while models are served: after two such deaths the front decodes. */

/* HEARTBEAT, MEMORY and HEALTH came. */
void convoy_heartbeat(struct device_worker *worker, const struct convoy_worker_message *message);
void convoy_heartbeat_memory(struct device_worker *worker, const struct convoy_worker_message *message);
void convoy_heartbeat_health(struct device_worker *worker, const struct convoy_worker_message *message);
/* The worker is gone; busy: with slots in flight. */
void convoy_heartbeat_died(struct device_worker *worker, bool busy);
/* Whether the next worker may have the device decode JPEG files. */
bool convoy_heartbeat_decodes(const struct device_worker *worker);
/* The next worker's --tune: "on", "off" or "force". */
const char *convoy_heartbeat_tune(const struct device_worker *worker);

/* ---- supervisor_adopt.c: workers of a front that is gone serve this one, with the models that they have
 * loaded ---- */

/* How a worker of the device for these models is started; it keeps `of`. */
struct convoy_worker_settings convoy_supervisor_settings(const struct convoy_supervisor *supervisor,
                                                         uint32_t device, const char *of);
/* At the start: the slots' size and the backend are those of the workers that can be adopted. Which ones
 * these are is written to `found`; returns how many there are. */
struct convoy_adoptable {
    uint32_t device;
    char of[CONVOY_OF_BYTES];
};
uint32_t convoy_adopt_prepare(struct convoy_supervisor *supervisor,
                              struct convoy_adoptable found[CONVOY_MAX_WORKERS]);
/* Whether there is a process to adopt for this worker, which is told so. */
bool convoy_adopt_begin(struct device_worker *worker);
/* How long a worker lives without a front: worker.orphan_ms, where it may have to; 0: not at all. */
uint32_t convoy_adopt_orphan_ms(const struct convoy_supervisor *supervisor);
/* HELD came. */
void convoy_adopt_held(struct device_worker *worker, const struct convoy_worker_message *message);
/* ADOPTED came: tells the worker what it is to keep, and takes that as loaded. */
void convoy_adopt_end(struct device_worker *worker);
/* The worker is gone. */
void convoy_adopt_forget(struct device_worker *worker);

/* ---- supervisor_spare.c: a process that waits to take a worker's place ---- */

/* Starts those that are wanted and do not wait. */
void convoy_spare_keep(struct device_worker *worker, uint64_t now);
/* Ends all. None is started while the daemon drains. */
void convoy_spare_end(struct convoy_supervisor *supervisor);

/* ---- supervisor_ending.c: a spare takes the place of a worker that is ending and not dead ---- */

/* worker_process.h's may_leave(): where a spare has opened the device, of whose memory more than half was
 * free. One at a time: a worker that dies meanwhile is waited for until the one before is gone. */
bool convoy_ending_may_leave(void *context, const struct convoy_worker_process *process);
/* worker_process.h's left_gone(): its memory on the device is free. Models that did not fit beside it are
 * loaded. */
void convoy_ending_gone(void *context);
/* FAILED came. Whether that is no answer, because the model was to be loaded beside a process that is ending:
 * it is asked for again when that one is gone. A worker that fails again has no excuse, nor is a process that
 * is overdue one. */
bool convoy_ending_excuses(struct device_worker *worker, const struct convoy_model_record *model,
                           const char *reason);
/* Every CONVOY_WATCH_MS. A process that is ending for longer than a model may be loaded is overdue: the log
 * says so once, models that wait for its end are asked for for the last time, and spares start beside it. */
void convoy_ending_watch(struct device_worker *worker, uint64_t now);

/* ---- supervisor_stop.c: every worker is told to exit, and killed when it does not ---- */

/* While the supervisor stops, a worker is gone: calls `stopped` when it was the last. */
void convoy_supervisor_check_stopped(struct convoy_supervisor *supervisor);

#endif
