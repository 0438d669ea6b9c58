#include "engine/worker/confine_gpu.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool convoy_worker_gpu_starts_confined(const char *devices, const char *mps, struct convoy_error *why)
{
    static const char *const files[] = {"nvidiactl", "nvidia-uvm"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", devices, files[i]);
        if (access(path, F_OK) != 0) {
            (void)convoy_fail(why, -ENOENT,
                              "%s is missing, which CUDA makes only in a process that is not confined "
                              "(`nvidia-modprobe -c 0 -u` makes it before)",
                              path);
            return false;
        }
    }
    struct stat status;
    if (stat(mps, &status) == 0 && (status.st_uid == 0 || status.st_uid == geteuid())) {
        (void)convoy_fail(why, -EEXIST, "%s is there: CUDA's MPS opens files in it", mps);
        return false;
    }
    return true;
}
