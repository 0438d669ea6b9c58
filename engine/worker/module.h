/* Backend modules: found beside the worker's binary (a build tree) or in ../lib/convoyd (an installation).
 *
 * For tests: where CONVOY_TEST_FAULT is set and convoy-faults.so lies in one of these places, that module
 * wraps the backend's functions (engine/backend.h, tests/faults/faults.h). Packages and installed trees do
 * not have it. */
#ifndef CONVOY_ENGINE_WORKER_MODULE_H
#define CONVOY_ENGINE_WORKER_MODULE_H

#include "engine/backend.h"
#include "engine/worker/confine.h"

/* An opened device of a backend. The module stays loaded for the life of the process. */
struct convoy_worker_device {
    const struct convoy_backend *backend;
    struct convoy_device *device;
    struct convoy_device_info info;
};

/* backend: "cpu", "cuda", "null", or "auto": cuda where there is a driver and a device, else cpu. notice (may
 * be NULL) says why "auto" did not take cuda, or is empty. confinement (may be NULL): what is to be confined
 * before a module is loaded. Call it before other threads start: it changes the environment for libraries of
 * the modules. Returns 0, -ENOENT (not installed), -ELIBACC, -ELIBBAD, or an
 * error of the backend's open(). */
int convoy_worker_open_device(const char *backend, uint32_t index, const struct convoy_open_options *options,
                              struct convoy_worker_confinement *confinement,
                              struct convoy_worker_device *device, struct convoy_error *notice,
                              struct convoy_error *error);
/* Accepts a device that could not be opened. */
void convoy_worker_close_device(struct convoy_worker_device *device);

#endif
