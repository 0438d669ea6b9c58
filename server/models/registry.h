/* All models that the front knows, in numbered places.
 *
 * A name and version may have several records: the newest reading of its files, and older ones that still
 * answer. Those who ask get the best: one that is READY before one that is not, the highest version, the
 * newest reading.
 *
 * Threads: records are added and removed on the control loop alone, which may use convoy_registry_at(); all
 * else is for any thread. */
#ifndef CONVOY_SERVER_REGISTRY_H
#define CONVOY_SERVER_REGISTRY_H

#include "server/models/model.h"

struct convoy_registry;

/* Without any model. config and metrics must outlive it. */
int convoy_registry_new(const struct convoy_config *config, struct convoy_metrics *metrics,
                        struct convoy_registry **registry, struct convoy_error *error);
void convoy_registry_close(struct convoy_registry *registry); /* NULL is allowed */

/* ---- The control loop's ---- */

/* One above the highest number in use. */
uint32_t convoy_registry_count(const struct convoy_registry *registry);
/* NULL: the number is free. Not held. */
struct convoy_model *convoy_registry_at(struct convoy_registry *registry, uint32_t number);

/* A record for what a look at the repository found: UNLOADED, or FAILED for problem (NULL: none). config is
 * taken over, also after an error; NULL with a problem alone. It counts on in the statistics of an older
 * record of the same version. -ENOMEM; -ENFILE: there are CONVOY_MAX_MODELS already. */
int convoy_registry_add(struct convoy_registry *registry, const struct convoy_repository_entry *entry,
                        struct convoy_model_config *config, const char *problem, struct convoy_model **model,
                        struct convoy_error *error);
/* Frees the record, unless somebody holds it: then it returns false. */
bool convoy_registry_remove(struct convoy_registry *registry, struct convoy_model *model);

/* Changes of a model's state, which /metrics shows at once. */
void convoy_registry_set_loading(struct convoy_registry *registry, struct convoy_model *model);
/* The first worker has loaded it, and found this shape. */
void convoy_registry_set_ready(struct convoy_registry *registry, struct convoy_model *model,
                               const struct convoy_model_shape *shape);
/* Logs the reason, which is copied. */
void convoy_registry_set_failed(struct convoy_registry *registry, struct convoy_model *model,
                                const char *reason);
/* evicted: it is loaded again on the next request, which stays so until it is READY or FAILED. */
void convoy_registry_set_unloading(struct convoy_registry *registry, struct convoy_model *model,
                                   bool evicted);
void convoy_registry_set_unloaded(struct convoy_registry *registry, struct convoy_model *model, bool evicted);
/* What its worker computes in, when tuning has changed that. */
void convoy_registry_set_precision(struct convoy_registry *registry, struct convoy_model *model,
                                   const char *precision);
/* A worker loaded it (again): the model's load number is another one, so that the response cache gives no
 * answers of before. */
void convoy_registry_count_load(struct convoy_registry *registry, struct convoy_model *model);

/* Takes labels and the batching delay of fresh over (SIGHUP), and frees fresh. Without memory the labels
 * stay. */
void convoy_registry_reconfigure(struct convoy_registry *registry, struct convoy_model *model,
                                 struct convoy_model_config *fresh);

/* Every model to be served at start is READY or FAILED from now on; a state that stays. */
void convoy_registry_settle(struct convoy_registry *registry);

/* ---- Any thread's ---- */

/* A copy of what a request needs; the caller ends it with convoy_model_view_end(). */
void convoy_registry_view(struct convoy_registry *registry, struct convoy_model *model,
                          struct convoy_model_view *view);

/* version NULL: see above. name NULL: the default model (the configured one, or the only one). Returns a
 * model that is held, or NULL when there is none; *why is then a sentence for the user. */
struct convoy_model *convoy_registry_find(struct convoy_registry *registry, const char *name,
                                          const char *version, struct convoy_error *why);
/* True when name was not given and no default can be chosen (a 400, not a 404). */
bool convoy_registry_default_missing(struct convoy_registry *registry);

/* By name, then by version, the best record of each; name NULL: all. Of one that answers while a newer
 * reading of its files FAILED, reason is why. */
struct convoy_model_list {
    struct convoy_model_view *views;
    uint32_t count;
};
int convoy_registry_list(struct convoy_registry *registry, const char *name, struct convoy_model_list *list,
                         struct convoy_error *error);
void convoy_model_list_end(struct convoy_model_list *list);

bool convoy_registry_any_ready(struct convoy_registry *registry);
/* How many names and versions are in each state; LOADING beside one that answers counts as READY. */
struct convoy_model_states {
    uint32_t loading, ready, failed, unloaded;
};
void convoy_registry_states(struct convoy_registry *registry, struct convoy_model_states *states);
/* convoy_registry_settle() was called, and a model is READY, or none is to be served. */
bool convoy_registry_settled(struct convoy_registry *registry);

#endif
