#include "server/models/budget.h"

#include <errno.h>

uint64_t convoy_budget_of(const struct convoy_model_record *model)
{
    return model->plan.weight_bytes > 0 ? model->plan.weight_bytes : model->bytes;
}

static bool on_devices(const struct convoy_model_record *model)
{
    return model->state == CONVOY_MODEL_LOADING || model->state == CONVOY_MODEL_READY ||
           model->state == CONVOY_MODEL_UNLOADING;
}

uint64_t convoy_budget_taken(struct convoy_registry *registry, const struct convoy_model_record *except)
{
    uint64_t taken = 0;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model != NULL && model != except && on_devices(model))
            taken += convoy_budget_of(model);
    }
    return taken;
}

int convoy_budget_check(const struct convoy_config *config, struct convoy_registry *registry,
                        const struct convoy_model_record *model, struct convoy_error *error)
{
    uint64_t limit = config->repository.device_bytes;
    uint64_t taken = convoy_budget_taken(registry, model), needed = convoy_budget_of(model);
    if (limit == 0 || (needed <= limit && taken <= limit - needed))
        return 0;
    return convoy_fail(
        error, -ENOMEM,
        "it needs %llu bytes of a device, and %llu of repository.device_bytes = %llu are taken: "
        "unload a model, raise that, or set repository.unload_idle",
        (unsigned long long)needed, (unsigned long long)taken, (unsigned long long)limit);
}
