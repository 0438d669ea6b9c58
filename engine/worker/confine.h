/* Confinement of a worker: what a model that takes the process over can still do.
 *
 * Once confined the process computes, opens the files that it needs (engine/worker/confine_files.h) and uses
 * its device. It makes no socket, starts no process, neither looks into another process nor signals it, and
 * does nothing that only an administrator does: the calls for that end with EPERM. It is a list of what is
 * refused, not of what is allowed, because a GPU's driver uses calls that differ from version to version.
 *
 * In this order: convoy_worker_confine_early(); convoy_worker_confine_before(), for each backend that is
 * tried; convoy_worker_confine(), when the device is open and before a model is read. Threads: that which
 * starts the process. */
#ifndef CONVOY_ENGINE_WORKER_CONFINE_H
#define CONVOY_ENGINE_WORKER_CONFINE_H

#include "engine/base/error.h"
#include "engine/worker/confine_files.h"

#include <stdbool.h>

enum convoy_confine_files {
    CONVOY_FILES_AUTO, /* where the backend's device can be opened then (engine/worker/confine_gpu.h) */
    CONVOY_FILES_ON,
    CONVOY_FILES_OFF
};

/* What is asked for, and what became of it. */
struct convoy_worker_confinement {
    bool sandbox; /* false: nothing of all this, but for a user that is named */
    enum convoy_confine_files files;
    const char *user; /* engine/worker/own_user.h */
    struct convoy_worker_folders folders;
    int landlock;                                    /* its ABI: files are confined; 0: they are not */
    struct convoy_error why_same_user, why_any_file; /* empty: nothing speaks against it */
};

/* "auto", "on", "off", by number. */
extern const char *const convoy_confine_files_texts[];

/* At the start of the process, while it has one thread: takes a user of its own where root runs it, keeps no
 * capability but those to read files and to lock memory, and lets no other process of the same user read its
 * memory (but not in builds with sanitizers, which do that themselves at the end). folders.write changes with
 * the user. Returns 0 or a negative errno with a sentence: then nothing may run. */
int convoy_worker_confine_early(struct convoy_worker_confinement *confinement, struct convoy_error *error);

/* Before the module of a backend is loaded: confines files, where it is asked for with this backend and not
 * done. */
void convoy_worker_confine_before(struct convoy_worker_confinement *confinement, const char *backend);

/* For all threads of the process, of libraries too, and for good. Returns 0, or a negative errno when the
 * kernel or libseccomp refuses; of system calls none is refused then. */
int convoy_worker_confine(const struct convoy_worker_confinement *confinement, struct convoy_error *error);

/* What holds, for the log: files and the user. */
#define CONVOY_CONFINED_BYTES (2 * CONVOY_ERROR_BYTES + 128)
void convoy_worker_confined_text(const struct convoy_worker_confinement *confinement,
                                 char text[CONVOY_CONFINED_BYTES]);

#endif
