/* The messages that a worker sends on its control socket. They are read strictly: the daemon uses nothing
 * that it has not checked. A worker sends JSON objects, one a line (engine/ipc/line_reader.h). Messages of an
 * unknown type are reported as CONVOY_WORKER_UNKNOWN and ignored, so that a newer worker may send them. */
#ifndef CONVOY_SERVER_WORKER_MESSAGE_H
#define CONVOY_SERVER_WORKER_MESSAGE_H

#include "engine/base/device_health.h"
#include "engine/ipc/canary.h"
#include "server/batching/batcher.h"
#include "server/models/model.h"

#include <cjson/cJSON.h>

#define CONVOY_WORKER_LINE_MAX (1u << 20) /* bytes of a line; 512 layers with long names need 100 KiB */
#define CONVOY_MAX_DEVICES     16
#define CONVOY_MAX_WORKERS     64 /* of all devices: with worker.per_model a device has several */

enum convoy_worker_message_type {
    CONVOY_WORKER_UNKNOWN,
    CONVOY_WORKER_HELLO,
    CONVOY_WORKER_ATTACHED,
    CONVOY_WORKER_LOADING,
    CONVOY_WORKER_MEASURED, /* the shape of a model that is not loaded yet */
    CONVOY_WORKER_LOADED,
    CONVOY_WORKER_FAILED,
    CONVOY_WORKER_HELD,    /* to a front that adopts it: as LOADED, under the number that it has so far */
    CONVOY_WORKER_ADOPTED, /* all HELD were sent */
    CONVOY_WORKER_TUNED,   /* a loaded model's kernels and weights have changed */
    CONVOY_WORKER_CHECKED, /* whether the device still computes as it did */
    CONVOY_WORKER_MEMORY,
    CONVOY_WORKER_HEALTH, /* what the device's driver says of it */
    CONVOY_WORKER_HEARTBEAT,
    CONVOY_WORKER_LOG,
    CONVOY_WORKER_LOST
};

/* What a worker looked at, with what is known of it. */
enum convoy_device_check {
    CONVOY_CHECK_CANARY,  /* a model's answer to one row */
    CONVOY_CHECK_WEIGHTS, /* a model's weights on the device */
    CONVOY_CHECK_DECODER  /* the device's decoder of JPEG files; of no model */
};

struct convoy_worker_message {
    enum convoy_worker_message_type type;
    cJSON *json;    /* the whole message, for counters and what HELD was loaded with; strings below
                       point into it */
    uint32_t model; /* LOADING, MEASURED, LOADED, FAILED, HELD, TUNED, CHECKED but for the decoder: less than
                       the model count given */
    const char *text;  /* FAILED and LOST: the reason; MEASURED: why there is no shape, or ""; LOG: the
                          message; HEARTBEAT: the phase; CHECKED: how it differs, or "" */
    const char *level; /* LOG */
    bool preparing;    /* HEARTBEAT: the device's JPEG decoder is being prepared while models are served */
    struct {
        char backend[16], device[32], description[128];
        uint32_t device_count, streams;
        bool attached;        /* of a worker that is adopted: it has mapped its channel */
        uint32_t turn;        /* then: the area of outputs that it writes to, 0 or 1 */
        uint32_t files_ahead; /* slots of JPEG files that it takes besides streams; 0: it decodes none */
    } hello;
    struct {
        struct convoy_model_shape shape; /* of TUNED only layer_count; of MEASURED nothing else is set */
        uint64_t weight_bytes;
        uint64_t first_run_us, row_us;    /* of LOADED: how long one row took, and another one; 0: unknown */
        struct convoy_layer_name *layers; /* shape.layer_count of them, owned by the message */
        bool takes_files;                 /* the model's rows may be JPEG files */
        uint64_t files;                   /* of LOADED: a number of the files that were read; 0: unknown */
        struct convoy_canary canary;      /* of LOADED: without its hash; count 0: there is none */
    } loaded;                             /* and TUNED */
    struct {
        bool same;
        enum convoy_device_check check;
    } checked;
    struct {
        uint64_t weights, workspace, free, total;
    } memory; /* bytes on the device */
    struct convoy_device_health health;
};

/* Reads json, an object that the message owns from now on. -EPROTO with a sentence when a worker of this
 * build does not send such a message; -ENOMEM. Free with convoy_worker_message_free() also after an error. */
int convoy_worker_message_read(cJSON *json, uint32_t model_count, struct convoy_worker_message *message,
                               struct convoy_error *error);
void convoy_worker_message_free(struct convoy_worker_message *message);

/* Its name in messages, metrics and the log. Static. */
const char *convoy_device_check_name(enum convoy_device_check check);

/* Reads the part of LOADED that `convoy-worker --check` also prints. -EPROTO with a sentence. */
int convoy_worker_message_shape(const cJSON *json, struct convoy_model_shape *shape,
                                struct convoy_error *error);

#endif
