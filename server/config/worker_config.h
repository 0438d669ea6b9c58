/* The object "worker" of the daemon's configuration: the processes that own the devices;
 * docs/configuration.md describes each key. */
#ifndef CONVOY_SERVER_WORKER_CONFIG_H
#define CONVOY_SERVER_WORKER_CONFIG_H

#include "engine/base/error.h"
#include "server/config/user.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_json;

/* Whether workers may open no files but those that they need. */
enum convoy_confine_files_choice {
    CONVOY_CONFINE_FILES_AUTO, /* on the CPU, and without a device, where all models are there at the start */
    CONVOY_CONFINE_FILES_ON,
    CONVOY_CONFINE_FILES_OFF
};

extern const char *const convoy_confine_files_choices[]; /* NULL-terminated, in the order of the enum */

#define CONVOY_MOST_SPARES   4  /* of a worker */
#define CONVOY_MOST_READABLE 16 /* folders */

/* Member names are the keys. */
struct convoy_worker_config {
    uint32_t streams, slots;
    uint32_t hang_timeout_ms;
    uint64_t slot_bytes; /* 0: by the largest model, see docs/configuration.md */
    bool sandbox;        /* workers are confined */
    enum convoy_confine_files_choice confine_files;
    char **readable; /* folders that workers may read besides the models'; ends with NULL; NULL: none */
    char *user;      /* that workers run as: "UID:GID[,GID...]"; NULL: docs/systemd.md says whom they take */
    uint32_t canary_ms; /* of rest between checks of an idle device; 0: none */
    uint32_t orphan_ms; /* that workers live on after the daemon, under a service manager; 0: not */
    uint32_t spares;    /* processes that wait to take the place of a GPU's worker */
    bool per_model;     /* a worker for each model of a device, and not one for all */
};

extern const struct convoy_worker_config convoy_worker_config_default;

/* Reads the object over *worker. -EINVAL, -ENOMEM. */
int convoy_worker_config_read(const struct convoy_json *root, struct convoy_worker_config *worker,
                              struct convoy_error *error);
void convoy_worker_config_clear(struct convoy_worker_config *worker);

#endif
