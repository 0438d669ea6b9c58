#include "engine/cuda/runtime/calls.h"

#include <errno.h>
#include <stdatomic.h>

static const char *const names[] = {
#define CONVOY_CUDA_NAME(name) #name,
    CONVOY_CUDA_CALLS(CONVOY_CUDA_NAME)
#undef CONVOY_CUDA_NAME
};

/* The heartbeat reads them while the compute thread counts. beside: of all other threads. */
static _Atomic uint64_t counts[CONVOY_CUDA_CALL_COUNT], beside[CONVOY_CUDA_CALL_COUNT];

void convoy_cuda_count(enum convoy_cuda_call call)
{
    /* One thread writes, so this needs no locked instruction. */
    atomic_store_explicit(&counts[call], atomic_load_explicit(&counts[call], memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void convoy_cuda_count_beside(enum convoy_cuda_call call)
{
    atomic_fetch_add_explicit(&beside[call], 1, memory_order_relaxed);
}

void convoy_cuda_report(void (*report)(void *context, const char *name, uint64_t value), void *context)
{
    for (int i = 0; i < CONVOY_CUDA_CALL_COUNT; i++) {
        uint64_t count = atomic_load_explicit(&counts[i], memory_order_relaxed) +
                         atomic_load_explicit(&beside[i], memory_order_relaxed);
        if (count > 0)
            report(context, names[i], count);
    }
}

static int out_of_memory(const char *call, struct convoy_error *error)
{
    size_t available = 0, total = 0;
    (void)cudaGetLastError(); /* not sticky: the next call must not report it again */
    convoy_cuda_count_beside(CONVOY_CUDA_cudaMemGetInfo); /* any thread comes here */
    (void)cudaMemGetInfo(&available, &total);
    return convoy_fail(error, -ENOMEM, "%s: the device is out of memory: %zu of %zu bytes are free", call,
                       available, total);
}

int convoy_cuda_check(cudaError_t code, const char *call, struct convoy_error *error)
{
    switch (code) {
    case cudaSuccess:
        return 0;
    case cudaErrorMemoryAllocation:
        return out_of_memory(call, error);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
        return convoy_fail(error, -ENODEV, "%s: %s", call, cudaGetErrorString(code));
    default:
        return convoy_fail(error, -EIO, "%s: %s (%s)", call, cudaGetErrorString(code),
                           cudaGetErrorName(code));
    }
}
