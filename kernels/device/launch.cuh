/* Launching a kernel, with shared memory beyond 48 KiB, clusters and programmatic dependent launch.
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

/* A parameter of this type that a kernel takes by value: it stays in the constant bank that it was launched
 * with, where it can be indexed and passed by reference; without the mark each thread would copy it to its
 * stack. In the emulation, too, where thousands of copies would not fit into the cache. */
#ifdef __CUDACC__
#define CONVOY_PARAMETER(type) const __grid_constant__ type
#else
#define CONVOY_PARAMETER(type) const type &
#endif

/* Bytes of shared memory that a block may have: without cudaFuncSetAttribute(), and at most on sm_90. */
#define CONVOY_STATIC_SHARED_MAX (48 << 10)
#define CONVOY_SHARED_MAX        (227 << 10)

#define CONVOY_PORTABLE_CLUSTER 8 /* blocks that a cluster may have without cudaFuncSetAttribute() */

static inline int64_t convoy_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Clusters of blocks, and the relation to the launch before. */
struct convoy_launch_form {
    unsigned cluster; /* blocks that are neighbours in x, of which grid.x is a multiple, run together
                         (cluster.cuh) */
    bool early;       /* it begins with convoy_wait_for_previous() */
};

/* Is the current device of this compute capability, or of a later one? */
static inline bool convoy_has_capability(int least_major)
{
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           major >= least_major;
}

/* Launches kernel over grid blocks of block threads with shared_bytes of dynamic shared memory for each
 * block. Returns what the launch itself returned. */
template <typename... Parameters, typename... Arguments>
static cudaError_t convoy_launch_as(struct convoy_launch_form form, void (*kernel)(Parameters...), dim3 grid,
                                    dim3 block, size_t shared_bytes, cudaStream_t stream,
                                    Arguments... arguments)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attributes[2] = {};
    cudaError_t error = cudaSuccess;
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (shared_bytes > CONVOY_STATIC_SHARED_MAX)
        error = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (error == cudaSuccess && form.cluster > CONVOY_PORTABLE_CLUSTER)
        error = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                     cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess)
        return error;
    if (form.cluster > 1) {
        cudaLaunchAttribute *dimension = &attributes[config.numAttrs++];
        dimension->id = cudaLaunchAttributeClusterDimension;
        dimension->val.clusterDim.x = form.cluster;
        dimension->val.clusterDim.y = dimension->val.clusterDim.z = 1;
    }
    if (form.early && convoy_has_capability(9)) {
        cudaLaunchAttribute *early = &attributes[config.numAttrs++];
        early->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early->val.programmaticStreamSerializationAllowed = 1;
    }
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* The same without clusters. */
template <typename... Parameters, typename... Arguments>
static cudaError_t convoy_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                                 cudaStream_t stream, Arguments... arguments)
{
    return convoy_launch_as(convoy_launch_form{1, false}, kernel, grid, block, shared_bytes, stream,
                            arguments...);
}

/* The same for a kernel that may begin while the one before it ends (programmatic dependent launch), which
 * hides what a start costs. All its threads call convoy_wait_for_previous() before they read or write memory
 * that others write or read; so a kernel that waits for this one has waited for all kernels before it, too.
 */
template <typename... Parameters, typename... Arguments>
static cudaError_t convoy_launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                       size_t shared_bytes, cudaStream_t stream, Arguments... arguments)
{
    return convoy_launch_as(convoy_launch_form{1, true}, kernel, grid, block, shared_bytes, stream,
                            arguments...);
}

/* In such a kernel: waits until the kernels before it have ended and their writes are visible. */
static __device__ __forceinline__ void convoy_wait_for_previous(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* In any kernel: when all its blocks have called this, a kernel that was launched early may begin. */
static __device__ __forceinline__ void convoy_let_next_begin(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

#endif
