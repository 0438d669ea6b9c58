/* All models that the front knows, by number.
 *
 * A name and version may have several records: the newest reading of its files, and older ones that still
 * answer. A lookup finds the best: a READY record before one that is not, then the highest version, then the
 * newest reading.
 *
 * Threads: only the control loop adds, removes and changes records, and it may use convoy_registry_at(); the
 * functions of the last section are for any thread.
 *
 * Locks: the registry's lock guards the table of records and each record's state, reason, shape, labels and
 * batching delay. It is a shared lock: requests that look up and view models do not wait for each other
 * (engine/base/shared_lock.h). While it is held, the metrics' lock may be taken (a series that is made);
 * nothing is logged, read or waited for. */
#ifndef CONVOY_SERVER_REGISTRY_H
#define CONVOY_SERVER_REGISTRY_H

#include "server/models/model.h"

struct convoy_registry;

/* Makes a registry without models. config and metrics must outlive it. Errors: -ENOMEM. */
int convoy_registry_new(const struct convoy_config *config, struct convoy_metrics *metrics,
                        struct convoy_registry **registry, struct convoy_error *error);
/* Frees the registry and its records, which nothing may hold any more. NULL is allowed. */
void convoy_registry_close(struct convoy_registry *registry);

/* ---- For the control loop alone ---- */

/* Returns one more than the highest number in use. */
uint32_t convoy_registry_count(const struct convoy_registry *registry);
/* Returns the record of this number, not held; NULL where the number is free. */
struct convoy_model_record *convoy_registry_at(struct convoy_registry *registry, uint32_t number);

/* Makes a record for a version that a scan of the repository found: UNLOADED, or FAILED when problem is not
 * NULL. config is taken over, also after an error; it may be NULL only beside a problem. The record shares
 * the statistics of an older record of the same version. -ENOMEM; -ENFILE: there are CONVOY_MAX_MODELS
 * already. */
int convoy_registry_add(struct convoy_registry *registry, const struct convoy_repository_entry *entry,
                        struct convoy_model_config *config, const char *problem,
                        struct convoy_model_record **model, struct convoy_error *error);
/* Frees the record and returns true; returns false when a request holds it. */
bool convoy_registry_remove(struct convoy_registry *registry, struct convoy_model_record *model);

/* The functions set_... change a model's state. /metrics shows the change at once. */
void convoy_registry_set_loading(struct convoy_registry *registry, struct convoy_model_record *model);
/* READY: a first worker loaded the model and found this shape, which is copied. Logs when labels and classes
 * differ in number. */
void convoy_registry_set_ready(struct convoy_registry *registry, struct convoy_model_record *model,
                               const struct convoy_model_shape *shape);
/* FAILED. Copies and logs the reason. */
void convoy_registry_set_failed(struct convoy_registry *registry, struct convoy_model_record *model,
                                const char *reason);
/* UNLOADING, UNLOADED. evicted: the next request loads the model again; this holds until it is READY or
 * FAILED. */
void convoy_registry_set_unloading(struct convoy_registry *registry, struct convoy_model_record *model,
                                   bool evicted);
void convoy_registry_set_unloaded(struct convoy_registry *registry, struct convoy_model_record *model,
                                  bool evicted);
/* Notes the precision that the worker computes in, after tuning changed it. */
void convoy_registry_set_precision(struct convoy_registry *registry, struct convoy_model_record *model,
                                   const char *precision);
/* A worker loaded the model (again), or computed it wrongly: gives it another load number, so that the
 * response cache does not return earlier answers. */
void convoy_registry_count_load(struct convoy_registry *registry, struct convoy_model_record *model);

/* Takes labels and the batching delay over from fresh (SIGHUP), and frees fresh. Where memory is out the
 * labels stay. */
void convoy_registry_reconfigure(struct convoy_registry *registry, struct convoy_model_record *model,
                                 struct convoy_model_config *fresh);

/* Notes, for good, that every model to be served at start is READY or FAILED. */
void convoy_registry_settle(struct convoy_registry *registry);

/* ---- For any thread ---- */

/* Copies what a request needs of a model; the caller ends the view with convoy_model_view_end(). */
void convoy_registry_view(struct convoy_registry *registry, struct convoy_model_record *model,
                          struct convoy_model_view *view);

/* Finds the best record of a name. version NULL: any version. name NULL: the default model (the configured
 * one, or the only one). The record is held; the caller releases it with convoy_model_release(). NULL when
 * there is none: *why is then a sentence for the client. */
struct convoy_model_record *convoy_registry_find(struct convoy_registry *registry, const char *name,
                                                 const char *version, struct convoy_error *why);
/* True when there is no default model (400 where a request names none, not 404). */
bool convoy_registry_default_missing(struct convoy_registry *registry);

/* Views of the best record of each version, by name, then by version. */
struct convoy_model_list {
    struct convoy_model_view *views;
    uint32_t count;
};
/* Lists the versions of name; NULL: of all names. Where a record answers while a newer reading of its files
 * FAILED, the view's reason is why. The caller ends the list with convoy_model_list_end(). Errors: -ENOMEM.
 */
int convoy_registry_list(struct convoy_registry *registry, const char *name, struct convoy_model_list *list,
                         struct convoy_error *error);
void convoy_model_list_end(struct convoy_model_list *list);

bool convoy_registry_any_ready(struct convoy_registry *registry);
/* How many versions are in each state. A version that answers while a newer reading is LOADING counts as
 * READY. */
struct convoy_model_states {
    uint32_t loading, ready, failed, unloaded;
};
void convoy_registry_states(struct convoy_registry *registry, struct convoy_model_states *states);
/* True when convoy_registry_settle() was called and a model is READY, or no model is to be served. */
bool convoy_registry_settled(struct convoy_registry *registry);

#endif
