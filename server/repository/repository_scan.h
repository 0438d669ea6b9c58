/* Reads the model repository's folder: names, sizes, inodes and times, and the configurations of versions
 * that are new or changed. A scan may block for as long as the file system takes, so it runs on any thread
 * and uses only its own memory and files. The control loop takes the result over with convoy_reconcile(). */
#ifndef CONVOY_SERVER_REPOSITORY_SCAN_H
#define CONVOY_SERVER_REPOSITORY_SCAN_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/config/model_config.h"
#include "server/models/registry.h"
#include "server/models/repository.h"

/* A version that is read already; its configuration is not read again while its files' stamp is the same. */
struct convoy_known_version {
    char *name;
    uint32_t version;
    uint64_t stamp;
};

struct convoy_repository_scan {
    const struct convoy_config *config;
    struct convoy_known_version *known;
    uint32_t known_count;

    /* the result: */
    int code; /* a negative errno when the folder could not be read; error says why */
    struct convoy_error error;
    struct convoy_repository repository;
    uint32_t entry_count;                 /* repository's */
    struct convoy_model_config **configs; /* by entry; NULL: known, or it has a problem */
    char **problems;                      /* by entry; NULL: none, or known */
};

/* Prepares a scan. On the control loop. NULL when memory is out. config must outlive the scan. */
struct convoy_repository_scan *convoy_repository_scan_new(const struct convoy_config *config,
                                                          struct convoy_registry *registry);
/* Reads the folder; blocks for as long as the file system takes. */
void convoy_repository_scan_run(struct convoy_repository_scan *scan);
void convoy_repository_scan_free(struct convoy_repository_scan *scan); /* NULL is allowed */

#endif
