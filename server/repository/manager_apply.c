/* Loads and unloads models until those that are loaded are those that are to be served. */
#include "server/repository/manager_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/models/budget.h"

static void unload(struct convoy_manager *manager, struct convoy_model_record *model, const char *why)
{
    convoy_registry_set_unloading(manager->registry, model, model->plan.wanted && model->plan.evicted);
    convoy_log(CONVOY_LOG_INFO, "model unloads", CONVOY_STR("model", model->name),
               CONVOY_STR("version", model->version), CONVOY_STR("reason", why));
}

/* Evicts the least recently used model; false when there is none. */
static bool rest_one(struct convoy_manager *manager)
{
    struct convoy_model_record *idlest = NULL;
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model != NULL && model->state == CONVOY_MODEL_READY && model->plan.wanted &&
            (idlest == NULL || atomic_load(&model->used_us) < atomic_load(&idlest->used_us)))
            idlest = model;
    }
    if (idlest == NULL)
        return false;
    idlest->plan.evicted = true;
    unload(manager, idlest, "it makes room for another until it is asked for");
    return true;
}

static bool some_are(struct convoy_manager *manager, enum convoy_model_state state)
{
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model != NULL && model->state == state)
            return true;
    }
    return false;
}

/* Will there be room? A model that is LOADING can be evicted once it is READY. */
static bool room_comes(struct convoy_manager *manager)
{
    return some_are(manager, CONVOY_MODEL_UNLOADING) ||
           (manager->config->repository.unload_idle &&
            (rest_one(manager) || some_are(manager, CONVOY_MODEL_LOADING)));
}

/* Returns whether it must be called again later. */
static bool load(struct convoy_manager *manager, struct convoy_model_record *model)
{
    struct convoy_error reason;
    bool failed = model->state == CONVOY_MODEL_FAILED; /* because there was no room; there may be now */
    if (convoy_budget_check(manager->config, manager->registry, model, &reason) != 0) {
        bool fits_alone = convoy_budget_of(model) <= manager->config->repository.device_bytes;
        if (failed)
            return false;
        if (fits_alone && room_comes(manager)) {
            convoy_registry_set_unloaded(manager->registry, model, manager->config->repository.unload_idle);
            return true;
        }
        model->plan.no_room = true;
        convoy_registry_set_failed(manager->registry, model, reason.message);
        return false;
    }
    if (failed && !convoy_supervisor_released(manager->supervisor, model))
        return true;
    atomic_store(&model->used_us, convoy_now_us()); /* a new model is not the least recently used one */
    model->plan.no_room = model->plan.evicted = false;
    convoy_registry_set_loading(manager->registry, model);
    convoy_supervisor_load(manager->supervisor, model);
    return false;
}

/* Completes an unload. The record is removed when its files are gone or a newer record of the version exists.
 * Returns whether it must be called again, because the model is still in use. */
static bool end_of(struct convoy_manager *manager, struct convoy_model_record *model)
{
    if (!convoy_supervisor_released(manager->supervisor, model))
        return true;
    if (model->state == CONVOY_MODEL_UNLOADING && atomic_load(&model->holders) > 0)
        return true;
    convoy_supervisor_unload(manager->supervisor, model);
    if (model->state == CONVOY_MODEL_UNLOADING)
        convoy_log(CONVOY_LOG_INFO, "model unloaded", CONVOY_STR("model", model->name),
                   CONVOY_STR("version", model->version));
    if (!model->plan.newest || !model->plan.present)
        return !convoy_registry_remove(manager->registry, model);
    convoy_registry_set_unloaded(manager->registry, model, model->plan.wanted && model->evicted);
    return false;
}

/* Returns whether it must be called again later. */
static bool apply_wanted(struct convoy_manager *manager, struct convoy_model_record *model)
{
    if (model->state == CONVOY_MODEL_UNLOADING) /* being evicted, or wanted again after the unload began */
        return end_of(manager, model) || !model->plan.evicted;
    if (model->state == CONVOY_MODEL_UNLOADED && !model->plan.evicted)
        return load(manager, model);
    if (model->state == CONVOY_MODEL_FAILED && model->plan.no_room)
        return load(manager, model);
    return false;
}

static bool apply_unwanted(struct convoy_manager *manager, struct convoy_model_record *model)
{
    model->plan.evicted = model->plan.no_room = false;
    switch (model->state) {
    case CONVOY_MODEL_READY:
        if (!model->plan.covered)
            return false; /* it serves until its replacement is READY */
        unload(manager, model,
               model->plan.newest ? "it is not to be served any more" : "its files were read again");
        return true;
    case CONVOY_MODEL_LOADING:
        unload(manager, model, "it is not to be served any more");
        return true;
    case CONVOY_MODEL_UNLOADING:
        return end_of(manager, model);
    default:
        /* An UNLOADED record stays; a FAILED record without a configuration can never be loaded. */
        if (model->plan.newest && model->plan.present &&
            (model->state == CONVOY_MODEL_UNLOADED || model->config == NULL))
            return false;
        return end_of(manager, model);
    }
}

/* Loaded models may take more memory than their files. Returns whether one is being evicted. */
static bool keep_budget(struct convoy_manager *manager)
{
    uint64_t limit = manager->config->repository.device_bytes;
    return limit > 0 && manager->config->repository.unload_idle &&
           !some_are(manager, CONVOY_MODEL_UNLOADING) &&
           convoy_budget_taken(manager->registry, NULL) > limit && rest_one(manager);
}

bool convoy_manager_apply(struct convoy_manager *manager)
{
    bool again = false, loading = false;
    convoy_select_versions(manager->registry, convoy_manager_serves_name, manager);
    /* Unloads come first: they make room for loads. */
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model != NULL && !model->plan.wanted)
            again = apply_unwanted(manager, model) || again;
    }
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || !model->plan.wanted)
            continue;
        again = apply_wanted(manager, model) || again;
        loading = loading || model->state == CONVOY_MODEL_LOADING;
    }
    if (!loading)
        convoy_registry_settle(manager->registry);
    return keep_budget(manager) || again;
}
