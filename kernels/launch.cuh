/* How every kernel here is launched, and how it gets shared memory beyond 48 KiB.
 *
 * Launches go through cudaLaunchKernelEx and never through <<<>>>, so that the files also compile with a
 * plain C++ compiler against the emulation of tests/emulation, where the kernels' arithmetic is checked
 * without a GPU. */
#ifndef CONVOY_KERNELS_LAUNCH_CUH
#define CONVOY_KERNELS_LAUNCH_CUH

#include <cuda_runtime.h>

/* Inside a kernel: name points to the dynamic shared memory of the launch, 16-byte aligned. */
#ifdef __CUDACC__
#define CONVOY_DYNAMIC_SHARED(type, name)                                                                    \
    extern __shared__ float4 convoy_shared_memory[];                                                         \
    type *name = reinterpret_cast<type *>(convoy_shared_memory)
#else
#define CONVOY_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(convoy_emulated_shared())
#endif

/* Marks a struct that a kernel takes by value: it stays in the constant bank that it was launched with, where
 * it can be indexed and passed by reference; without the mark each thread would copy it to its stack. */
#ifdef __CUDACC__
#define CONVOY_PARAMETER const __grid_constant__
#else
#define CONVOY_PARAMETER const
#endif

#define CONVOY_STATIC_SHARED_MAX (48 * 1024) /* bytes a block may have without asking */
#define CONVOY_PORTABLE_CLUSTER  8           /* blocks a cluster may have without asking */

static inline int64_t convoy_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Launches kernel over grid blocks of block threads with shared_bytes of dynamic shared memory for each
 * block; cluster blocks that are neighbours in x, of which grid.x is a multiple, run together (cluster.cuh),
 * 1: each for itself. Returns what the launch itself returned. */
template <typename... Parameters, typename... Arguments>
static cudaError_t convoy_launch_cluster(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                         unsigned cluster, size_t shared_bytes, cudaStream_t stream,
                                         Arguments... arguments)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute dimension = {};
    cudaError_t error = cudaSuccess;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    if (shared_bytes > CONVOY_STATIC_SHARED_MAX)
        error = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error == cudaSuccess && cluster > CONVOY_PORTABLE_CLUSTER)
        error = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                     cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess)
        return error;
    if (cluster > 1) {
        dimension.id = cudaLaunchAttributeClusterDimension;
        dimension.val.clusterDim.x = cluster;
        dimension.val.clusterDim.y = dimension.val.clusterDim.z = 1;
        config.attrs = &dimension;
        config.numAttrs = 1;
    }
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* The same, each block for itself. */
template <typename... Parameters, typename... Arguments>
static cudaError_t convoy_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                 cudaStream_t stream, Arguments... arguments)
{
    return convoy_launch_cluster(kernel, grid, block, 1, shared_bytes, stream, arguments...);
}

#endif
