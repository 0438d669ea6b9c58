/* A thread that asks NVML for a GPU's health, a second apart, and counts the errors that the driver reports.
 * It makes every call of NVML and holds no lock meanwhile: a call that takes long, or never returns, keeps
 * nothing else waiting. It begins without the GPU's place on the bus, so that NVML is started while CUDA
 * is. */
#ifndef CONVOY_ENGINE_CUDA_HEALTH_H
#define CONVOY_ENGINE_CUDA_HEALTH_H

#include "engine/base/device_health.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_cuda_health; /* a running thread */

/* Starts the thread. period_ms: between two samples. log, which may be NULL, is called on that thread, too:
 * level, text as in backend.h. NULL when there is no memory or no thread, which is said to log. */
struct convoy_cuda_health *convoy_cuda_health_begin(uint32_t period_ms, void *context,
                                                    void (*log)(void *context, const char *level,
                                                                const char *text));

/* The GPU is at that place on the PCI bus (nvml.h). Waits at most limit_ms until NVML was started and has
 * found it, or cannot: a worker is confined after that, and NVML starts with what is forbidden then. Logs
 * nothing. */
void convoy_cuda_health_find(struct convoy_cuda_health *health, const char *bus, uint32_t limit_ms);
/* Samples, errors and lines of the log begin now. Does not wait: while the driver takes down what another
 * process had opened, NVML answers hundreds of milliseconds later. */
void convoy_cuda_health_watch(struct convoy_cuda_health *health);

/* As health() of backend.h. Any thread. */
bool convoy_cuda_health_read(struct convoy_cuda_health *health, uint32_t wait_ms,
                             struct convoy_device_health *result);

/* Ends the thread and frees health, which may be NULL. A thread that NVML does not let go is left behind with
 * its memory after two seconds. */
void convoy_cuda_health_end(struct convoy_cuda_health *health);

#endif
