/* The models that the front knows: what the repository and the configuration say, and what workers learnt.
 *
 * Threads: name, version, path and number never change. State, shapes and labels change under the registry's
 * lock and are read through snapshots: convoy_model_view() copies what a request needs. Label tables are
 * counted, so that SIGHUP can replace them under running requests. */
#ifndef CONVOY_SERVER_MODEL_H
#define CONVOY_SERVER_MODEL_H

#include "engine/base/error.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/model_config.h"
#include "server/repository.h"
#include "server/statistics.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum convoy_model_state { CONVOY_MODEL_LOADING, CONVOY_MODEL_READY, CONVOY_MODEL_FAILED };

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
    uint32_t number; /* its index in the registry, as in the channel's slot headers */
    char *name, *version;
    char *path;   /* of model.onnx: handed to workers, never opened here */
    char *folder; /* models/NAME */
    struct convoy_model_metrics *metrics;
    struct convoy_statistics *statistics; /* of this version; NULL when its configuration is unusable */
    struct convoy_model_config
        *config; /* NULL when unusable; its max_delay_us changes at SIGHUP, on the control loop */

    _Atomic uint32_t loads; /* how often a worker loaded it: answers of before are not those of after */

    /* under the registry's lock */
    enum convoy_model_state state;
    char reason[CONVOY_ERROR_BYTES]; /* why it is FAILED */
    struct convoy_model_shape shape; /* valid once READY, unchanged thereafter */
    struct convoy_labels *labels;
};

/* A request's copy of what it needs of a model; release with convoy_model_view_end(). */
struct convoy_model_view {
    struct convoy_model *model;
    enum convoy_model_state state;
    char reason[CONVOY_ERROR_BYTES];
    struct convoy_model_shape shape;
    struct convoy_labels *labels;
    uint32_t max_delay_us;
    bool softmax; /* apply softmax to the first output */
    bool crop;    /* resize rule */
};

struct convoy_registry;

/* Scans config->models. A model whose config.json or labels are unusable is in the list, FAILED. */
int convoy_registry_open(const struct convoy_config *config, struct convoy_metrics *metrics,
                         struct convoy_registry **registry, struct convoy_error *error);
void convoy_registry_close(struct convoy_registry *registry);

uint32_t convoy_registry_count(const struct convoy_registry *registry);
struct convoy_model *convoy_registry_at(struct convoy_registry *registry, uint32_t number);

/* version NULL: the highest number. name NULL: the default model (the configured one, or the only one).
 * Returns NULL when there is none; *why is then a sentence for the user. */
struct convoy_model *convoy_registry_find(struct convoy_registry *registry, const char *name,
                                          const char *version, struct convoy_error *why);
/* True when name was not given and no default can be chosen (a 400, not a 404). */
bool convoy_registry_default_missing(const struct convoy_registry *registry);

/* "a, b, c": the models' names, for messages. Returns text. */
const char *convoy_registry_names(const struct convoy_registry *registry, char *text, size_t capacity);

void convoy_model_view(struct convoy_registry *registry, struct convoy_model *model,
                       struct convoy_model_view *view);
/* One more release is due: for a copy of view. */
void convoy_model_view_hold(struct convoy_model_view *view);
void convoy_model_view_end(struct convoy_model_view *view);

/* The text of class index; valid until convoy_model_view_end(). Classes beyond the table are their number,
 * written into buffer (at least 16 bytes). */
const char *convoy_model_label(const struct convoy_model_view *view, uint32_t index, char *buffer);

/* The file of the labels, as the model's configuration calls it; "" when there is none. Valid until
 * convoy_model_view_end(). */
const char *convoy_model_label_file(const struct convoy_model_view *view);

/* State changes, from the control loop. A model becomes READY with the first worker that loaded it. */
void convoy_model_ready(struct convoy_registry *registry, struct convoy_model *model,
                        const struct convoy_model_shape *shape);
/* What its worker computes in, when tuning has changed that. */
void convoy_model_precision(struct convoy_registry *registry, struct convoy_model *model,
                            const char *precision);
void convoy_model_failed(struct convoy_registry *registry, struct convoy_model *model, const char *reason);

/* Counting, in /metrics under the model's name and in the statistics of its version, so that the two agree.
 * Any thread; see both headers for what it costs. */

/* A request whose images were looked at was answered, well (200) or not, us after its last byte. */
void convoy_model_answered(struct convoy_model *model, bool well, uint64_t us);
/* An image waited before its run. */
void convoy_model_waited(struct convoy_model *model, uint64_t us);
/* A batch of rows images finished well on device. */
void convoy_model_ran(struct convoy_model *model, struct convoy_device_metrics *device, uint32_t rows,
                      const struct convoy_batch_times *times);

/* An image was looked up in the response cache, in ns nanoseconds; what was missed was inserted. */
void convoy_model_looked_up(struct convoy_model *model, bool hit, uint64_t ns);
void convoy_model_inserted(struct convoy_model *model, uint64_t ns);

bool convoy_registry_any_ready(struct convoy_registry *registry);
/* How many models are in each state. */
struct convoy_model_states {
    uint32_t loading, ready, failed;
};
void convoy_registry_states(struct convoy_registry *registry, struct convoy_model_states *states);
/* Every model is READY or FAILED and one is READY. */
bool convoy_registry_settled(struct convoy_registry *registry);

/* Reads labels and batching delays again (SIGHUP). Errors are logged, the old values stay. */
void convoy_registry_reload(struct convoy_registry *registry, const struct convoy_config *config);

#endif
