/* Does a decoder decode? Two small files whose pixels are known. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_PROBE_H
#define CONVOY_ENGINE_CUDA_JPEG_PROBE_H

#include "engine/base/error.h"
#include "engine/cuda/decode/nvjpeg.h"

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_JPEG_PROBE_BYTES (40u << 10)

/* What is tried. */
struct convoy_jpeg_probe {
    const struct convoy_nvjpeg *nvjpeg;
    convoy_nvjpeg_handle handle;
    convoy_nvjpeg_state state;
    int output;
    uint8_t *memory; /* CONVOY_JPEG_PROBE_BYTES of the device's */
    cudaStream_t stream;
};

/* Decodes a batch of colour pictures and one with a grey picture among them, and compares every sample. Waits
 * for the stream. Returns 0, and whether grey ones are right, too, with a sentence if not; -ENOTSUP with a
 * sentence; or an error of CUDA that means that the device is lost. */
int convoy_jpeg_probe(const struct convoy_jpeg_probe *probe, bool *takes_grey, struct convoy_error *error);

#endif
