/* Memory that nvJPEG keeps for itself: what it asks for is counted, and bounded. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_MEMORY_H
#define CONVOY_ENGINE_CUDA_JPEG_MEMORY_H

#include "engine/cuda/decode/nvjpeg_abi.h"

#include <stdatomic.h>
#include <stdint.h>

/* What all states of a decoder together may keep on the device, and as much pinned. */
#define CONVOY_JPEG_MEMORY_BYTES ((uint64_t)1 << 30)

struct convoy_jpeg_memory {
    _Atomic uint64_t device_bytes, pinned_bytes; /* that nvJPEG has */
    /* for nvjpegCreateExV2(), which keeps the pointers; any thread calls them */
    struct convoy_nvjpeg_device_allocator device;
    struct convoy_nvjpeg_pinned_allocator pinned;
};

/* memory stays where it is. */
void convoy_jpeg_memory_init(struct convoy_jpeg_memory *memory);

#endif
