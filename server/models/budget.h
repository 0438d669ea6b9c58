/* How much of a device the models may take together: repository.device_bytes.
 *
 * A model that is loaded or about to be counts with the size of its files until a worker has reported the
 * size of its weights (a backend may repack or pad them), then with that size. Models on different devices
 * are counted as if all were on each. On the control loop. */
#ifndef CONVOY_SERVER_BUDGET_H
#define CONVOY_SERVER_BUDGET_H

#include "engine/base/error.h"
#include "server/models/registry.h"

/* Bytes of all models on devices, without `except` (NULL: none is left out). */
uint64_t convoy_budget_taken(struct convoy_registry *registry, const struct convoy_model_record *except);

/* Bytes that the model takes or will take. */
uint64_t convoy_budget_of(const struct convoy_model_record *model);

/* 0 when the model fits beside what is taken; -ENOMEM with a sentence that has the figures. */
int convoy_budget_check(const struct convoy_config *config, struct convoy_registry *registry,
                        const struct convoy_model_record *model, struct convoy_error *error);

#endif
