/* `convoy-worker --check`: tries whether a model can be loaded. */
#ifndef CONVOY_ENGINE_WORKER_CHECK_H
#define CONVOY_ENGINE_WORKER_CHECK_H

struct convoy_worker_confinement;

/* What a model's config.json says of its input; NULL and 0 where it says nothing. */
struct convoy_worker_check_input {
    const char *layout;
    long height, width;
};

/* Loads the model at path on the backend, confined as `confinement` says, and prints one line of JSON: the
 * message "loaded" with "ok": true, or {"ok": false, "reason": ...}. Returns the exit status, 0 or 1. */
int convoy_worker_check(const char *backend, const char *path, const struct convoy_worker_check_input *input,
                        struct convoy_worker_confinement *confinement);

#endif
