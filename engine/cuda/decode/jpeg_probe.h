/* Does a decoder decode? Two small files whose pixels are known. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_PROBE_H
#define CONVOY_ENGINE_CUDA_JPEG_PROBE_H

#include "engine/base/error.h"
#include "engine/cuda/decode/nvjpeg.h"

#include <stdint.h>

/* Decodes a colour picture, a grey one and the colour one again as a batch, and compares every sample.
 * memory: CONVOY_JPEG_PROBE_BYTES of the device's. Waits for the stream. Returns 0, -ENOTSUP with a sentence,
 * or an error of CUDA that means that the device is lost. */
#define CONVOY_JPEG_PROBE_BYTES (40u << 10)
int convoy_jpeg_probe(const struct convoy_nvjpeg *nvjpeg, convoy_nvjpeg_handle handle,
                      convoy_nvjpeg_state state, int output, uint8_t *memory, cudaStream_t stream,
                      struct convoy_error *error);

#endif
