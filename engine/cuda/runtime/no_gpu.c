#include "engine/cuda/runtime/no_gpu.h"

#include <errno.h>
#include <stdlib.h>

/* Where neither the driver's library nor its devices are, the machine may still have them: in a container. */
#define IN_A_CONTAINER "in a container, start it with its GPUs (docker run --gpus all)"

int convoy_cuda_no_gpu(cudaError_t code, int driver, int runtime, struct convoy_error *error)
{
    const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
    if (driver == 0)
        return convoy_fail(
            error, -ENODEV,
            "NVIDIA's driver is not installed (there is no libcuda.so.1): install it until nvidia-smi "
            "lists the GPU; " IN_A_CONTAINER);
    if (code == cudaErrorInsufficientDriver && driver / 1000 < runtime / 1000)
        return convoy_fail(
            error, -ENODEV,
            "NVIDIA's driver is too old: it is for CUDA %d.%d, and this build needs one for CUDA %d.0 or "
            "later: update the driver (nvidia-smi shows its version)",
            driver / 1000, driver % 1000 / 10, runtime / 1000);
    if (code == cudaErrorNoDevice && chosen != NULL)
        return convoy_fail(
            error, -ENODEV,
            "the driver shows no GPU: CUDA_VISIBLE_DEVICES is '%.64s', which selects none: unset it, or "
            "name a GPU that nvidia-smi -L lists",
            chosen);
    if (code == cudaErrorNoDevice)
        return convoy_fail(
            error, -ENODEV,
            "the driver shows no GPU: look whether nvidia-smi -L lists one, and whether this user may "
            "open /dev/nvidia*; " IN_A_CONTAINER);
    return convoy_fail(
        error, -ENODEV,
        "no GPU can be used: %s (%s); look whether nvidia-smi works, and restart the machine if its "
        "driver was updated since",
        cudaGetErrorString(code), cudaGetErrorName(code));
}
