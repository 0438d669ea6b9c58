/* What the registry's lock guards of a model: its state, which changes only here, and views of it. */
#include "server/models/registry_internal.h"

#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>

void convoy_registry_view(struct convoy_registry *registry, struct convoy_model_record *model,
                          struct convoy_model_view *view)
{
    convoy_shared_lock_read(&registry->lock);
    convoy_model_view_fill(model, view);
    convoy_shared_lock_end_read(&registry->lock);
}

/* Changes the state, also in /metrics. */
static void set_state(struct convoy_registry *registry, struct convoy_model_record *model,
                      enum convoy_model_state state, bool evicted)
{
    convoy_shared_lock_write(&registry->lock);
    model->state = state;
    model->evicted = evicted;
    convoy_registry_tell_ready(registry, model);
    convoy_shared_lock_end_write(&registry->lock);
}

void convoy_registry_set_loading(struct convoy_registry *registry, struct convoy_model_record *model)
{
    set_state(registry, model, CONVOY_MODEL_LOADING, model->evicted);
}

void convoy_registry_set_unloading(struct convoy_registry *registry, struct convoy_model_record *model,
                                   bool evicted)
{
    set_state(registry, model, CONVOY_MODEL_UNLOADING, evicted);
}

void convoy_registry_set_unloaded(struct convoy_registry *registry, struct convoy_model_record *model,
                                  bool evicted)
{
    set_state(registry, model, CONVOY_MODEL_UNLOADED, evicted);
}

void convoy_registry_set_ready(struct convoy_registry *registry, struct convoy_model_record *model,
                               const struct convoy_model_shape *shape)
{
    convoy_shared_lock_write(&registry->lock);
    model->shape = *shape;
    model->state = CONVOY_MODEL_READY;
    model->evicted = false;
    convoy_registry_tell_ready(registry, model);
    convoy_shared_lock_end_write(&registry->lock);
    convoy_labels_compare(model);
}

void convoy_registry_set_precision(struct convoy_registry *registry, struct convoy_model_record *model,
                                   const char *precision)
{
    convoy_shared_lock_write(&registry->lock);
    snprintf(model->shape.precision, sizeof model->shape.precision, "%s", precision);
    convoy_shared_lock_end_write(&registry->lock);
}

void convoy_registry_set_failed(struct convoy_registry *registry, struct convoy_model_record *model,
                                const char *reason)
{
    convoy_shared_lock_write(&registry->lock);
    model->state = CONVOY_MODEL_FAILED;
    model->evicted = false;
    snprintf(model->reason, sizeof model->reason, "%s", reason);
    convoy_registry_tell_ready(registry, model);
    convoy_shared_lock_end_write(&registry->lock);
    convoy_metrics_model_failures(registry->metrics, model->name, model->version, 1);
    convoy_log(CONVOY_LOG_ERROR, "model failed", CONVOY_STR("model", model->name),
               CONVOY_STR("version", model->version), CONVOY_STR("reason", reason));
}

void convoy_registry_count_load(struct convoy_registry *registry, struct convoy_model_record *model)
{
    uint32_t load = atomic_fetch_add_explicit(&registry->loads, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&model->load, load, memory_order_relaxed);
}
