/* Which models a worker is asked to load, in which order, what its answers mean, and how large slots are. */
#ifndef CONVOY_SERVER_LOADING_H
#define CONVOY_SERVER_LOADING_H

#include "server/workers/worker_message.h"

struct member;
struct convoy_supervisor;

/* The worker said HELLO: hands it the channel (once its size is known) and every model of its device that
 * is not FAILED, those whose images wait first. */
void convoy_loading_begin(struct member *member);
/* Every worker is asked to load the model, from the beginning. */
void convoy_loading_load(struct convoy_supervisor *supervisor, struct convoy_model *model);
/* Every worker that has it is told to unload it. */
void convoy_loading_unload(struct convoy_supervisor *supervisor, const struct convoy_model *model);
/* Has the worker not answered yet for the model with this number, which is to be served? */
bool convoy_loading_waits(const struct member *member, uint32_t number);
/* The worker mapped the channel: what it loaded before is served from now on. */
void convoy_loading_attached(struct member *member);
/* LOADED or FAILED came. */
void convoy_loading_answered(struct member *member, const struct convoy_worker_message *message);
/* TUNED came: a loaded model's kernels and weights are others than LOADED said. */
void convoy_loading_tuned(struct member *member, const struct convoy_worker_message *message);
/* The worker died while it loaded member->loading. A model that does this twice is FAILED. */
void convoy_loading_died(struct member *member);
/* After a worker answered or died: models that no device can load any more are FAILED, and slots are sized
 * when all others are loaded somewhere. */
void convoy_loading_settle(struct convoy_supervisor *supervisor);
/* Asks again for models that were READY once and FAILED later by what their file said. */
void convoy_loading_retry(struct member *member);
/* Frees the answers kept. */
void convoy_loading_forget(struct member *member);

#endif
