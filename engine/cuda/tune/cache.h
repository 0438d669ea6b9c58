/* The cache of kernel times: the results of the tuner in a text file in cache_dir. Each device has its own
 * file, named after its name and number, so the workers of several GPUs never write the same one.
 *
 *   convoyd kernel times 4
 *   device NVIDIA H200
 *   driver 13000
 *   build 0.1.0 9f4c2a7d01b3e658
 *   12.75<TAB>per_layer:5x5x8<TAB>conv n8 x3x32x32 ...
 *   end 57 0123456789abcdef
 *
 * build is the version and a fingerprint of all kernels' names; the last line has the number of entries and
 * the fingerprint (XXH3, engine/base/hash.h) of all before it, so that half a file is noticed. A file that is
 * damaged, or of another device, driver or build, is ignored with a log line and replaced after the next
 * tuning. No problem with the file is a failure: without it, tuning is done again. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_CACHE_H
#define CONVOY_ENGINE_CUDA_CACHE_H

#include "engine/cuda/plan/kernel_choice.h"
#include "engine/cuda/runtime/gpu.h"

/* All zero: nothing is remembered. */
struct convoy_cuda_cache {
    char *folder, *file; /* paths */
    char *header;        /* the lines that the file must begin with */
};

/* Notes which file belongs to this device; folder is copied and may be NULL. Close after a failure as well. 0
 * or -ENOMEM. */
int convoy_cuda_cache_open(struct convoy_cuda_cache *cache, const struct convoy_cuda_gpu *gpu,
                           const char *folder, const char *device_name, int driver,
                           struct convoy_error *error);
void convoy_cuda_cache_close(struct convoy_cuda_cache *cache);

/* Replaces choices by what the file says; leaves them as they are when the file is missing or of no use. */
void convoy_cuda_cache_read(const struct convoy_cuda_cache *cache, const struct convoy_cuda_gpu *gpu,
                            struct convoy_cuda_kernel_choices *choices);

/* Replaces the file by choices. When several processes use one device, the last one to write wins. */
void convoy_cuda_cache_write(const struct convoy_cuda_cache *cache, const struct convoy_cuda_gpu *gpu,
                             const struct convoy_cuda_kernel_choices *choices);

#endif
