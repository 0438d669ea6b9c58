/* What registry.c and model.c share. */
#ifndef CONVOY_SERVER_REGISTRY_INTERNAL_H
#define CONVOY_SERVER_REGISTRY_INTERNAL_H

#include "engine/ipc/channel.h"
#include "server/models/registry.h"

#include <pthread.h>

struct convoy_labels {
    atomic_uint holders;
    struct convoy_label_list list;
};

/* Takes the list over; NULL when memory is out. */
struct convoy_labels *convoy_labels_new(struct convoy_label_list *list);
void convoy_labels_release(struct convoy_labels *labels); /* NULL is allowed */
/* Says when a READY model's labels are not as many as its classes. Under the lock. */
void convoy_labels_compare(const struct convoy_model *model);

struct convoy_registry {
    pthread_mutex_t lock; /* of the table, of what its models say is under it, and of settled */
    const struct convoy_config *config;
    struct convoy_metrics *metrics;
    struct convoy_model *models[CONVOY_MAX_MODELS]; /* by number; NULL: free */
    uint32_t count;                                 /* one above the highest number in use */
    bool settled;
    uint64_t generations;   /* given out */
    _Atomic uint32_t loads; /* counted, of all models */
};

/* The view's fields. Under the lock. */
void convoy_model_view_locked(struct convoy_model *model, struct convoy_model_view *view);

/* What /metrics says of a name and version: whether one of its records is READY, and nothing when none is to
 * be. Under the lock. */
void convoy_registry_tell_ready(struct convoy_registry *registry, const struct convoy_model *model);

#endif
