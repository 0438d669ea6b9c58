/* What registry.c and registry_state.c share. */
#ifndef CONVOY_SERVER_REGISTRY_INTERNAL_H
#define CONVOY_SERVER_REGISTRY_INTERNAL_H

#include "engine/base/shared_lock.h"
#include "engine/ipc/channel.h"
#include "server/models/model_internal.h"
#include "server/models/registry.h"

struct convoy_registry {
    struct convoy_shared_lock lock; /* guards models, count, settled, and what model.h says of records */
    const struct convoy_config *config;
    struct convoy_metrics *metrics;
    struct convoy_model_record *models[CONVOY_MAX_MODELS]; /* by number; NULL: free */
    uint32_t count;                                        /* one above the highest number in use */
    bool settled;
    uint64_t generations;   /* given out */
    _Atomic uint32_t loads; /* counted, of all models */
};

/* Shows in /metrics whether a record of model's name and version is READY; removes the series when none is to
 * be served. Under the lock. */
void convoy_registry_tell_ready(struct convoy_registry *registry, const struct convoy_model_record *model);

#endif
