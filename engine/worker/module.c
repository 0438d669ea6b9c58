#include "engine/worker/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds convoy-NAME.so in the two places. -ENOENT: it is in neither. */
static int find_module(const char *name, char *path, size_t capacity, struct convoy_error *error)
{
    char binary[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", binary, sizeof binary - 1);
    if (length < 0)
        return convoy_fail(error, -errno, "cannot find the worker's own folder: %s", strerror(errno));
    binary[length] = '\0';
    const char *folder = dirname(binary);
    static const char *const places[] = {"", "/../lib/convoyd"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int needed = snprintf(path, capacity, "%s%s/convoy-%s.so", folder, places[i], name);
        if (needed > 0 && (size_t)needed < capacity && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0)
            return 0;
    }
    return convoy_fail(error, -ENOENT, "there is no convoy-%s.so beside convoy-worker or in ../lib/convoyd",
                       name);
}

/* For tests: lets the module of faults, where it was built, put its functions in place of the backend's. */
static int add_faults(const struct convoy_backend **table, struct convoy_error *error)
{
    char path[PATH_MAX];
    if (getenv("CONVOY_TEST_FAULT") == NULL || find_module("faults", path, sizeof path, error) != 0)
        return 0;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return convoy_fail(error, -ELIBACC, "%s cannot be loaded: %s", path, dlerror());
    convoy_faults_entry_function entry = NULL;
    *(void **)&entry = dlsym(module, CONVOY_FAULTS_ENTRY);
    if (entry == NULL)
        return convoy_fail(error, -ELIBBAD, "%s lacks %s()", path, CONVOY_FAULTS_ENTRY);
    *table = entry(*table);
    return 0;
}

/* What an operator who wants this backend does. */
static const char *how_to_get(const char *backend)
{
    return strcmp(backend, "cuda") == 0 ? "install the package convoyd-cuda, or build where nvcc (CUDA 13) is"
                                        : "install convoyd again";
}

static int load_module(const char *backend, const struct convoy_backend **table, struct convoy_error *error)
{
    char path[PATH_MAX], name[64];
    snprintf(name, sizeof name, "backend-%s", backend);
    int code = find_module(name, path, sizeof path, error);
    if (code != 0)
        return convoy_fail_in(error, code, "the %s backend is not installed: %s", backend,
                              how_to_get(backend));
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return convoy_fail(error, -ELIBACC, "backend '%s' cannot be loaded: %s", backend, dlerror());
    convoy_backend_entry_function entry = NULL;
    *(void **)&entry = dlsym(module, CONVOY_BACKEND_ENTRY);
    if (entry == NULL)
        return convoy_fail(error, -ELIBBAD, "%s is not a backend: it lacks %s()", path, CONVOY_BACKEND_ENTRY);
    *table = entry();
    if ((*table)->abi != CONVOY_BACKEND_ABI)
        return convoy_fail(error, -ELIBBAD,
                           "%s speaks backend ABI %u, the worker %d: install both of one build", path,
                           (*table)->abi, CONVOY_BACKEND_ABI);
    return add_faults(table, error);
}

static int open_one(const char *backend, uint32_t index, const struct convoy_open_options *options,
                    struct convoy_worker_confinement *confinement, struct convoy_worker_device *device,
                    struct convoy_error *error)
{
    if (confinement != NULL)
        convoy_worker_confine_before(confinement, backend);
    int code = load_module(backend, &device->backend, error);
    if (code != 0)
        return code;
    code = device->backend->open(index, options, &device->device, &device->info, error);
    if (code != 0 && confinement != NULL && confinement->landlock > 0 && strcmp(backend, "cuda") == 0)
        return convoy_fail_in(error, code, "while files were confined (worker.confine_files)");
    return code;
}

int convoy_worker_open_device(const char *backend, uint32_t index, const struct convoy_open_options *options,
                              struct convoy_worker_confinement *confinement,
                              struct convoy_worker_device *device, struct convoy_error *notice,
                              struct convoy_error *error)
{
    memset(device, 0, sizeof *device);
    if (notice != NULL)
        notice->message[0] = '\0';
    if (strcmp(backend, "auto") != 0)
        return open_one(backend, index, options, confinement, device, error);
    if (open_one("cuda", index, options, confinement, device, notice) == 0)
        return 0;
    return open_one("cpu", index, options, confinement, device, error);
}

void convoy_worker_close_device(struct convoy_worker_device *device)
{
    if (device->device != NULL)
        device->backend->close(device->device);
    device->device = NULL;
}
