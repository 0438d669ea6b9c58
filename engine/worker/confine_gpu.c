#include "engine/worker/confine_gpu.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool convoy_worker_gpu_starts_confined(const char *devices, const char *mps_named, const char *mps_usual,
                                       struct convoy_error *why)
{
    static const char *const files[] = {"nvidiactl", "nvidia-uvm", "nvidia[0-9]*"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char pattern[PATH_MAX];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s", devices, files[i]);
        if (glob(pattern, 0, NULL, &found) != 0) {
            (void)convoy_fail(
                why, -ENOENT,
                "%s is missing, and a confined process cannot have it made (before convoyd starts, "
                "`nvidia-modprobe -u -c N` makes it, for each GPU N)",
                pattern);
            return false;
        }
        globfree(&found);
    }
    struct stat status;
    const char *mps = mps_named != NULL ? mps_named : mps_usual;
    if (stat(mps, &status) == 0 && (mps_named != NULL || status.st_uid == 0 || status.st_uid == geteuid())) {
        (void)convoy_fail(why, -EEXIST, "%s is there: clients of CUDA's MPS open files in it", mps);
        return false;
    }
    return true;
}
