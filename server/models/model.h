/* A model: one version of a network, as one reading of its files found it.
 *
 * When files change, a new record (another generation) is made and loaded beside the old one; requests that
 * are bound to the old record finish there. So the model that answers a request never changes during the
 * request.
 *
 * Threads: number, names, paths and configuration do not change while the record is held. State, shape and
 * labels change under the registry's lock; convoy_registry_view() copies what a request needs of them. Label
 * tables are reference-counted, so that SIGHUP can replace them while requests use the old ones.
 *
 * Ownership: the registry owns records and frees one only while it is not held. A record that a registry
 * function returned is held until convoy_model_release(), and that of a view until convoy_model_view_end().
 */
#ifndef CONVOY_SERVER_MODEL_H
#define CONVOY_SERVER_MODEL_H

#include "engine/base/error.h"
#include "engine/base/input_type.h"
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
    /* Answers the requests that are bound to it (took a view while it was READY), and takes no others. */
    CONVOY_MODEL_UNLOADING
};

/* What a worker's LOADED says. */
struct convoy_model_shape {
    uint32_t channels, height, width;  /* of the input; one that is no image has a height and width of 1 */
    enum convoy_input_type input_type; /* as the network declares it */
    bool input_nhwc;                   /* its axes are N, H, W, C there, else N, C, H, W */
    uint32_t outputs_per_row;          /* sum over the network's outputs */
    uint32_t output_count;
    uint32_t output_elements[16];
    uint32_t output_rank[16];    /* of a row's share of each output, as the network declares it: 1 to 8 */
    uint32_t output_dims[16][8]; /* their product is output_elements */
    char input_name[64];
    char output_names[16][64];
    uint32_t layer_count;
    bool ends_in_softmax, ends_in_sigmoid;
    uint32_t map_height, map_width; /* of a class activation map; 0: there is none, for map_reason */
    char map_reason[192];
    char precision[8];
    char platform[32];
};

/* Does the network take pictures: grey, red green blue, or these and alpha? */
static inline bool convoy_model_takes_pictures(const struct convoy_model_shape *shape)
{
    return shape->channels == 1 || shape->channels == 3 || shape->channels == 4;
}

/* The dimensions of a row of the input as the network declares them: C, H, W or H, W, C. */
static inline void convoy_model_input_dims(const struct convoy_model_shape *shape, uint32_t dims[3])
{
    dims[0] = shape->input_nhwc ? shape->height : shape->channels;
    dims[1] = shape->input_nhwc ? shape->width : shape->height;
    dims[2] = shape->input_nhwc ? shape->channels : shape->width;
}

struct convoy_labels; /* a counted label list */

struct convoy_model_record {
    uint32_t number; /* in the registry and in slot headers; reused once the record is gone */
    uint32_t version_number;
    uint64_t generation; /* unique; a later reading has a larger one */
    char *name, *version;
    char *path;            /* of model.onnx: handed to workers, never opened here */
    char *folder;          /* models/NAME */
    uint64_t stamp, bytes; /* as struct convoy_repository_entry */
    struct convoy_model_metrics *metrics;
    struct convoy_statistics *statistics; /* of this version; NULL when its configuration is unusable */
    struct convoy_model_config *config;   /* NULL when unusable; SIGHUP changes its max_delay_us */

    _Atomic uint32_t load;    /* number of the load that its answers come from; unique over all models */
    _Atomic uint32_t holders; /* requests and views */
    _Atomic uint64_t used_us; /* when a request last asked for it */
    atomic_bool takes_files;  /* all devices that serve it decode JPEG files; changed by the control loop */

    /* for the control loop alone */
    struct {
        bool present;          /* the last scan of the repository found its files */
        bool newest;           /* reading of its files */
        bool wanted;           /* to be served: the newest reading of a version that the policy selects */
        bool covered;          /* all wanted versions of its name are READY: others may be unloaded */
        bool evicted;          /* wanted, but unloaded to make room; loaded again on the next request */
        bool no_room;          /* FAILED because a device had no room */
        bool told;             /* the master remembers that it is READY */
        uint64_t weight_bytes; /* on the device where it takes most; 0: not known yet */
    } plan;

    /* under the registry's lock */
    enum convoy_model_state state;
    bool evicted; /* loaded on the next request for it, or being loaded for one; false once READY or FAILED */
    char reason[CONVOY_ERROR_BYTES]; /* why it is FAILED */
    struct convoy_model_shape shape; /* valid once READY, unchanged thereafter */
    struct convoy_labels *labels;
};

const struct convoy_label_list *convoy_labels_list(const struct convoy_labels *labels);

/* A request's copy of what it needs of a model; release with convoy_model_view_end(). */
struct convoy_model_view {
    struct convoy_model_record *model;
    enum convoy_model_state state;
    bool evicted; /* not READY; a request that computes with it loads it and waits */
    char reason[CONVOY_ERROR_BYTES];
    struct convoy_model_shape shape;
    struct convoy_labels *labels;
    uint32_t max_delay_us;
    enum convoy_output_activation activation; /* of the first output; never AUTO */
    double threshold;                         /* classes of a lower probability are left out */
    struct convoy_resizing resizing;
};

/* Any thread. A hold is one call of convoy_model_release() that is due. */
void convoy_model_hold(struct convoy_model_record *model);
void convoy_model_release(struct convoy_model_record *model); /* NULL is allowed */

void convoy_model_view_end(struct convoy_model_view *view);
/* The label of class index; valid until convoy_model_view_end(). A class beyond the table has its number as
 * label, written into buffer (at least 16 bytes). */
const char *convoy_model_label(const struct convoy_model_view *view, uint32_t index, char *buffer);

/* The labels' file as the model's configuration names it; "" when there is none. Valid until
 * convoy_model_view_end(). */
const char *convoy_model_label_file(const struct convoy_model_view *view);

/* ---- Counting, for any thread: in /metrics under the model's name and in the statistics of its version, so
 * that both agree. Some relaxed atomic additions, no lock. ---- */

/* A request whose images were examined was answered, us microseconds after its last byte; well: with 200. */
void convoy_model_answered(struct convoy_model_record *model, bool well, uint64_t us);
/* Images waited for their run, so long each. */
void convoy_model_waited(struct convoy_model_record *model, const struct convoy_observations *waits);
/* A batch of so many rows finished well on device. */
void convoy_model_ran(struct convoy_model_record *model, struct convoy_device_metrics *device, uint32_t rows,
                      const struct convoy_batch_times *times);

/* The lookup of an image in the response cache took ns nanoseconds; so did the insertion of one that was
 * missed. */
void convoy_model_looked_up(struct convoy_model_record *model, bool hit, uint64_t ns);
void convoy_model_inserted(struct convoy_model_record *model, uint64_t ns);

#endif
