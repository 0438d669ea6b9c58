#include "engine/cuda/decode/jpeg_memory.h"

#include "engine/cuda/runtime/calls.h"

#include <stdbool.h>

/* Counts bytes and says whether they are within the bound. */
static bool count_bytes(_Atomic uint64_t *count, size_t bytes)
{
    if (atomic_fetch_add(count, bytes) + bytes <= CONVOY_JPEG_MEMORY_BYTES)
        return true;
    atomic_fetch_sub(count, bytes);
    return false;
}

static int allocate_device(void *context, void **memory, size_t bytes, cudaStream_t stream)
{
    struct convoy_jpeg_memory *own = context;
    struct convoy_error ignored;
    (void)stream;
    if (!count_bytes(&own->device_bytes, bytes))
        return cudaErrorMemoryAllocation;
    if (CONVOY_CUDA_BESIDE(&ignored, cudaMalloc, (memory, bytes)) == 0)
        return cudaSuccess;
    atomic_fetch_sub(&own->device_bytes, bytes);
    return cudaErrorMemoryAllocation;
}

static int release_device(void *context, void *memory, size_t bytes, cudaStream_t stream)
{
    struct convoy_jpeg_memory *own = context;
    struct convoy_error ignored;
    (void)stream;
    atomic_fetch_sub(&own->device_bytes, bytes);
    return CONVOY_CUDA_BESIDE(&ignored, cudaFree, (memory)) == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

static int allocate_pinned(void *context, void **memory, size_t bytes, cudaStream_t stream)
{
    struct convoy_jpeg_memory *own = context;
    struct convoy_error ignored;
    (void)stream;
    if (!count_bytes(&own->pinned_bytes, bytes))
        return cudaErrorMemoryAllocation;
    if (CONVOY_CUDA_BESIDE(&ignored, cudaMallocHost, (memory, bytes)) == 0)
        return cudaSuccess;
    atomic_fetch_sub(&own->pinned_bytes, bytes);
    return cudaErrorMemoryAllocation;
}

static int release_pinned(void *context, void *memory, size_t bytes, cudaStream_t stream)
{
    struct convoy_jpeg_memory *own = context;
    struct convoy_error ignored;
    (void)stream;
    atomic_fetch_sub(&own->pinned_bytes, bytes);
    return CONVOY_CUDA_BESIDE(&ignored, cudaFreeHost, (memory)) == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

void convoy_jpeg_memory_init(struct convoy_jpeg_memory *memory)
{
    memory->device = (struct convoy_nvjpeg_device_allocator){allocate_device, release_device, memory};
    memory->pinned = (struct convoy_nvjpeg_pinned_allocator){allocate_pinned, release_pinned, memory};
}
