#include "engine/cuda/runtime/memory.h"
#include "engine/cuda/runtime/calls.h"

#include <errno.h>

int convoy_cuda_allocate(size_t bytes, const char *what, void **memory, struct convoy_error *error)
{
    int failed = CONVOY_CUDA(error, cudaMalloc, (memory, bytes));
    if (failed != -ENOMEM)
        return failed;
    size_t available = 0, total = 0;
    failed = CONVOY_CUDA(error, cudaMemGetInfo, (&available, &total));
    if (failed)
        return failed;
    return convoy_fail(error, -ENOMEM,
                       "the device is out of memory: %zu bytes were asked for %s, %zu of %zu are free; serve "
                       "fewer models, or lower max_batch or worker.streams",
                       bytes, what, available, total);
}

void convoy_cuda_release(void *memory)
{
    struct convoy_error ignored;
    if (memory != NULL)
        (void)CONVOY_CUDA(&ignored, cudaFree, (memory));
}
