/* Which devices a model is for: those that "devices" in its config.json names, or all. A worker is not asked
 * for the others, and nobody waits for its answer.
 *
 * On the control loop. */
#ifndef CONVOY_SERVER_PLACEMENT_H
#define CONVOY_SERVER_PLACEMENT_H

#include "engine/base/error.h"
#include "server/models/model.h"

#include <stdbool.h>

struct member;
struct convoy_supervisor;

/* The model is for this worker's device. */
bool convoy_placement_here(const struct member *member, const struct convoy_model *model);

/* Once it is known how many devices there are: -ENODEV with a sentence when the model is for none of them; a
 * warning is logged when some of its devices are missing. */
int convoy_placement_check(const struct convoy_supervisor *supervisor, const struct convoy_model *model,
                           struct convoy_error *error);

/* Some worker has loaded the model, or may still do so: it has not answered, and its device was not given up,
 * which it is after three starts in a row that failed. */
bool convoy_placement_hope(const struct convoy_supervisor *supervisor, const struct convoy_model *model);

/* What some worker found out about the model; NULL while none has loaded it. */
const struct convoy_model_shape *convoy_placement_shape(const struct convoy_supervisor *supervisor,
                                                        const struct convoy_model *model);

#endif
