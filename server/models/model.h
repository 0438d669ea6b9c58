/* A model: one version of a network, as one reading of its files found it.
 *
 * When files change a new record is made (a generation) that is loaded beside the old one; requests that are
 * bound to the old one finish there. So what a request is answered with never changes under it.
 *
 * Threads: number, names, paths and configuration do not change while anybody holds the record. State, shape
 * and labels change under the registry's lock and are read through snapshots: convoy_registry_view() copies
 * what a request needs. Label tables are counted, so that SIGHUP can replace them under running requests. A
 * model that a registry function returned is held, and so is that of a view: it is let go with
 * convoy_model_release() or convoy_model_view_end(), and its record lives until then. */
#ifndef CONVOY_SERVER_MODEL_H
#define CONVOY_SERVER_MODEL_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/config/model_config.h"
#include "server/metrics/metrics.h"
#include "server/metrics/statistics.h"
#include "server/models/repository.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum convoy_model_state {
    CONVOY_MODEL_UNLOADED, /* known, and on no device */
    CONVOY_MODEL_LOADING,
    CONVOY_MODEL_READY,
    CONVOY_MODEL_FAILED,
    /* Answers those that are bound to it, and takes nobody any more. Bound is who took a view of it while it
     * was READY. */
    CONVOY_MODEL_UNLOADING
};

/* What a worker's LOADED says. */
struct convoy_model_shape {
    uint32_t channels, height, width;
    uint32_t outputs_per_row; /* sum over the network's outputs */
    uint32_t output_count;
    uint32_t output_elements[16];
    char input_name[64];
    char output_names[16][64];
    uint32_t layer_count;
    bool ends_in_softmax;
    char precision[8];
    char platform[32];
};

struct convoy_labels; /* a counted label list */

struct convoy_model {
    uint32_t
        number; /* its place in the registry, as in the channel's slot headers; used again once it is free */
    uint32_t version_number;
    uint64_t generation; /* later readings have larger ones; of all records one each */
    char *name, *version;
    char *path;            /* of model.onnx: handed to workers, never opened here */
    char *folder;          /* models/NAME */
    uint64_t stamp, bytes; /* as struct convoy_repository_entry */
    struct convoy_model_metrics *metrics;
    struct convoy_statistics *statistics; /* of this version; NULL when its configuration is unusable */
    struct convoy_model_config
        *config; /* NULL when unusable; its max_delay_us changes at SIGHUP, on the control loop */

    _Atomic uint32_t load;    /* which loading of any model its answers come from; changes with each */
    _Atomic uint32_t holders; /* requests and views */
    _Atomic uint64_t used_us; /* when a request last asked for it */

    /* the control loop's own */
    struct {
        bool present;          /* its files are there, as far as the last look went */
        bool newest;           /* reading of its files */
        bool wanted;           /* to be served: the newest reading of a version that its policy takes */
        bool covered;          /* every wanted one of its name is READY: what is not wanted may go */
        bool evicted;          /* wanted, but unloaded to make room; loaded again on the next request */
        bool no_room;          /* FAILED for want of memory */
        uint64_t weight_bytes; /* of the device where it takes most; 0: not known yet */
    } plan;

    /* under the registry's lock */
    enum convoy_model_state state;
    bool evicted; /* loaded on the next request for it, or being loaded for one; false once READY or FAILED */
    char reason[CONVOY_ERROR_BYTES]; /* why it is FAILED */
    struct convoy_model_shape shape; /* valid once READY, unchanged thereafter */
    struct convoy_labels *labels;
};

/* A request's copy of what it needs of a model; release with convoy_model_view_end(). */
struct convoy_model_view {
    struct convoy_model *model;
    enum convoy_model_state state;
    bool evicted; /* not READY; a request that computes with it loads it and waits */
    char reason[CONVOY_ERROR_BYTES];
    struct convoy_model_shape shape;
    struct convoy_labels *labels;
    uint32_t max_delay_us;
    bool softmax; /* apply softmax to the first output */
    bool crop;    /* resize rule */
};

void convoy_model_hold(struct convoy_model *model);
void convoy_model_release(struct convoy_model *model); /* NULL is allowed */

/* One more release is due: for a copy of view. */
void convoy_model_view_hold(struct convoy_model_view *view);
void convoy_model_view_end(struct convoy_model_view *view);
/* The text of class index; valid until convoy_model_view_end(). Classes beyond the table are their number,
 * written into buffer (at least 16 bytes). */
const char *convoy_model_label(const struct convoy_model_view *view, uint32_t index, char *buffer);

/* The file of the labels, as the model's configuration calls it; "" when there is none. Valid until
 * convoy_model_view_end(). */
const char *convoy_model_label_file(const struct convoy_model_view *view);

/* Counting, in /metrics under the model's name and in the statistics of its version, so that the two agree.
 * Any thread; see both headers for what it costs. */

/* A request whose images were looked at was answered, well (200) or not, us after its last byte. */
void convoy_model_answered(struct convoy_model *model, bool well, uint64_t us);
/* So many images waited so long, each, before their run. */
void convoy_model_waited(struct convoy_model *model, uint64_t us, uint32_t images);
/* A batch of rows images finished well on device. */
void convoy_model_ran(struct convoy_model *model, struct convoy_device_metrics *device, uint32_t rows,
                      const struct convoy_batch_times *times);

/* An image was looked up in the response cache, in ns nanoseconds; what was missed was inserted. */
void convoy_model_looked_up(struct convoy_model *model, bool hit, uint64_t ns);
void convoy_model_inserted(struct convoy_model *model, uint64_t ns);

#endif
