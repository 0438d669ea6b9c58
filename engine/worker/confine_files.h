/* Which files a worker may open, by Landlock: what its programs and its device need, the models' folder, and
 * to write nothing but its cache. A model that takes the worker over then reads neither keys nor homes, and
 * changes no file that another program reads.
 *
 * Landlock restricts the calling thread and those that it makes. So it must come before a backend's module
 * starts threads, which is before the device is open. It takes PR_SET_NO_NEW_PRIVS: nvidia-modprobe, which a
 * driver starts where the GPU's device files are missing, gets no root rights by its set-user-ID bit then. */
#ifndef CONVOY_ENGINE_WORKER_CONFINE_FILES_H
#define CONVOY_ENGINE_WORKER_CONFINE_FILES_H

#include "engine/base/error.h"

#include <stdint.h>

#define CONVOY_MOST_FOLDERS 17 /* the models' folder, and worker.readable */

/* The strings are owned by the caller. */
struct convoy_worker_folders {
    const char
        *read[CONVOY_MOST_FOLDERS]; /* with what lies below. Of the first one, the models' folder, links
                                       in it are followed, one step: who writes there names models */
    uint32_t count;
    const char *write; /* the cache's, which is made if it is missing; NULL: none */
};

/* For the calling thread, threads that it makes later, and for good. Folders that are not there are passed
 * by. Returns the version of Landlock's ABI, which is above 0, or a negative errno: nothing is confined then.
 * -ENOSYS and -EOPNOTSUPP: this kernel has no Landlock; -EBUSY: the process has several threads. */
int convoy_worker_confine_files(const struct convoy_worker_folders *folders, struct convoy_error *error);

#endif
