/* What supervisor.c, supervisor_loading.c, supervisor_quarantine.c, supervisor_canary.c,
 * supervisor_measure.c, supervisor_placement.c, supervisor_per_model.c, supervisor_heartbeat.c,
 * supervisor_watch.c, supervisor_adopt.c, supervisor_health.c and supervisor_stop.c share. All of it belongs
 * to the control loop, except the atomics. */
#ifndef CONVOY_SERVER_SUPERVISOR_INTERNAL_H
#define CONVOY_SERVER_SUPERVISOR_INTERNAL_H

#include "engine/base/log.h"
#include "server/workers/supervisor.h"
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
    uint64_t first_run_us;
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
    bool completed;          /* this process finished a slot */
    char phase[16];          /* as reported last; "": none */
    uint32_t tuning_deaths;  /* deaths while tuning, in a row */
    int loading;             /* the model that it reported to be loading, or NO_MODEL */
    uint64_t loading_us;     /* since when */
    uint64_t health_us;      /* when its device's health came last; 0: what came is not shown any more */
    uint64_t xids;           /* that this process reported so far */
    bool listened;           /* another worker of the device spoke of it when this one reported last */
    uint32_t counter_count;  /* entries in counters: names that it may export */
    uint32_t
        files_ahead; /* slots of JPEG files that it decodes while it computes others; 0: it decodes none */
    bool serving;    /* this process has a model to serve */
    bool up;         /* attached and serving: counted in supervisor->up */
    bool completed;  /* this process finished a slot */
    char phase[16];  /* as reported last; "": none */
    uint32_t tuning_deaths; /* deaths while tuning, in a row */
    int loading;            /* the model that it reported to be loading, or NO_MODEL */
    uint64_t loading_us;    /* since when */
    uint32_t counter_count; /* entries in counters: names that it may export */
