/* How much of a device the models may take together: repository.device_bytes.
 *
 * A model counts with the size of its files until a worker has said what its weights became (a backend may
 * repack or pad them), and with that from then on, as long as it is loaded or about to be. Where models lie
 * on different devices they are counted as if all were on each. On the control loop. */
#ifndef CONVOY_SERVER_BUDGET_H
#define CONVOY_SERVER_BUDGET_H

#include "engine/base/error.h"
#include "server/models/registry.h"

/* Of the models on devices but except (NULL: all). */
uint64_t convoy_budget_taken(struct convoy_registry *registry, const struct convoy_model *except);

/* Bytes that the model takes, or is going to. */
uint64_t convoy_budget_of(const struct convoy_model *model);

/* 0 when the model fits beside what is taken; -ENOMEM with a sentence that has the figures. */
int convoy_budget_check(const struct convoy_config *config, struct convoy_registry *registry,
                        const struct convoy_model *model, struct convoy_error *error);

#endif
