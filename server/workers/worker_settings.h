/* How a worker is started: what a process and the spares that may take its place have in common, and what a
 * front must agree with to adopt it. */
#ifndef CONVOY_SERVER_WORKER_SETTINGS_H
#define CONVOY_SERVER_WORKER_SETTINGS_H

#include "server/config/config.h"
#include "server/config/model_name.h"

#include <stdbool.h>
#include <stdint.h>

/* Which models a worker is for: the name of one, or these. No name is one of them. */
#define CONVOY_OF_ALL   "*"
#define CONVOY_OF_NONE  "" /* none yet */
#define CONVOY_OF_BYTES (CONVOY_MODEL_NAME_BYTES + 1)

#define CONVOY_BACKEND_BYTES 16 /* of a backend's name */

/* What a worker is confined to. What is pointed to is owned by the configuration or by the caller. */
struct convoy_worker_sandbox {
    const struct convoy_worker_config *config; /* its keys sandbox, confine_files, readable and user */
    const char *models;                        /* the folder that models lie in */
    bool models_change; /* while the worker runs models may come that were not there when it started */
};

/* The strings are owned by the configuration or by the caller. */
struct convoy_worker_settings {
    uint32_t device_index, streams;
    const char *cache_dir; /* NULL: none */
    const char *of;        /* the models that it is for */
    const char *tune; /* as it is configured: "on", "off" or "force". A process may be started with another */
    struct convoy_worker_sandbox sandbox;
    bool pixels_only;   /* it is never sent JPEG files */
    uint32_t canary_ms; /* of rest between checks of its device; 0: none */
    uint32_t spares;    /* processes that wait to take its place */
    uint32_t orphan_ms; /* that it lives without a front; 0: as long as its socket is open */
};

static inline struct convoy_worker_sandbox convoy_worker_sandbox_of(const struct convoy_config *config)
{
    return (struct convoy_worker_sandbox){.config = &config->worker,
                                          .models = config->models,
                                          .models_change = config->repository.control != CONVOY_CONTROL_NONE};
}

#endif
