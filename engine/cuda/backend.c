/* The CUDA backend's table. */
#include "engine/cuda/device.h"
#include "engine/cuda/net/net.h"
#include "engine/cuda/runtime/calls.h"

static void counters(struct convoy_device *device,
                     void (*report)(void *context, const char *name, uint64_t value), void *context)
{
    (void)device;
    convoy_cuda_report(report, context);
}

static bool health(struct convoy_device *device, uint32_t wait_ms, struct convoy_device_health *result)
{
    return device->health != NULL && convoy_cuda_health_read(device->health, wait_ms, result);
}

static const struct convoy_backend backend = {.abi = CONVOY_BACKEND_ABI,
                                              .name = "cuda",
                                              .keeps_graph = true,
                                              .open = convoy_cuda_open,
                                              .close = convoy_cuda_close,
                                              .enter = convoy_cuda_enter,
                                              .attach = convoy_cuda_attach,
                                              .load = convoy_cuda_load,
                                              .unload = convoy_cuda_unload,
                                              .submit = convoy_cuda_submit,
                                              .collect = convoy_cuda_collect,
                                              .idle = convoy_cuda_idle,
                                              .verify = convoy_cuda_verify,
                                              .verify_decoder = convoy_cuda_verify_decoder,
                                              .memory = convoy_cuda_memory,
                                              .counters = counters,
                                              .health = health};

__attribute__((visibility("default"))) const struct convoy_backend *convoy_backend_entry(void);
const struct convoy_backend *convoy_backend_entry(void)
{
    return &backend;
}
