/* What nvcc adds to C++ for device code, on the CPU: tests/emulation/README.md. */
#ifndef CONVOY_TESTS_EMULATION_CUDA_RUNTIME_H
#define CONVOY_TESTS_EMULATION_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __shared__ static /* one block runs at a time, or one cluster, which then shares it */
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __align__(n)    __attribute__((aligned(n)))

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(2) uchar2 {
    unsigned char x, y;
};
struct uchar3 {
    unsigned char x, y, z;
};
struct alignas(4) uchar4 {
    unsigned char x, y, z, w;
};
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline int2 make_int2(int x, int y)
{
    return {x, y};
}
static inline int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

/* Of the thread that runs; set by the emulation. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

/* The threads of a block call it in the same line of the source. */
void __syncthreads(int line = __builtin_LINE());
void __syncwarp(unsigned mask = 0xffffffffu);
/* Gives value to the warp's lane and returns what `from` gave; all lanes of the warp must call. */
uint64_t convoy_emulated_shuffle(uint64_t value, int from);
/* kernels/device/mma.cuh: d += a b, of words that are one tf32 or two fp16. */
void convoy_emulated_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool halves);
void convoy_emulated_load_matrices(uint32_t (&a)[4], const void *row);
void convoy_emulated_load_transposed(uint32_t (&a)[4], const void *row);
void convoy_emulated_store_matrices(void *row, const uint32_t (&a)[4]);
/* kernels/device/wgmma.cuh: products of matrices that descriptors tell, computed when they are waited for. */
void convoy_emulated_wgmma(float (*sum)[4], int tiles, uint64_t a, uint64_t b);
/* The same with a in registers; transposed: columns of b are contiguous, of 8 tiles. */
void convoy_emulated_wgmma_registers(float (*sum)[4], int tiles, const uint32_t (&a)[4], uint64_t b,
                                     bool transposed);
void convoy_emulated_wgmma_end();
void convoy_emulated_wgmma_wait(int groups);
void convoy_emulated_threads_sync(int threads);
void convoy_emulated_group_sync(); /* of this thread's warpgroup */
/* kernels/device/bulk_copy.cuh: barriers in shared memory, which count arrivals and the bytes of copies; a
 * copy returns its bytes, and who calls it tells the barrier of them. */
void convoy_emulated_barrier_make(uint64_t *place, int arrivals);
void convoy_emulated_barrier_arrive(uint64_t *place);
void convoy_emulated_barrier_expect(uint64_t *place, int bytes);
void convoy_emulated_barrier_came(uint64_t *place, int bytes);
void convoy_emulated_barrier_wait(uint64_t *place, int parity);
int convoy_emulated_copy_bulk(void *to, const void *from, int bytes);
/* kernels/device/tensor_copy.cuh: boxes of tensors. steps, lower and upper are of x, then y. */
typedef struct alignas(64) CUtensorMap {
    void *data;
    int64_t dims[4], strides[4];
    int box[2], lower[2], upper[2], steps[2], side[2];
} CUtensorMap;
int convoy_emulated_copy_box(void *shared, const CUtensorMap *map, int column, int row);
void convoy_emulated_store_box(const CUtensorMap *map, const void *shared, int column, int row);
int convoy_emulated_copy_patch(void *shared, const CUtensorMap *map, int channel, int x, int y, int n);
void convoy_emulated_store_patch(const CUtensorMap *map, const void *shared, int channel, int x, int y,
                                 int n);
int convoy_emulated_copy_tap(void *shared, const CUtensorMap *map, int channel, int x, int y, int n,
                             int tap_x, int tap_y);
/* Dynamic shared memory of the block. */
void *convoy_emulated_shared();
/* kernels/device/cluster.cuh: the last is where bytes at `at` lie in another block of the cluster. */
int convoy_emulated_cluster_rank();
void convoy_emulated_cluster_sync();
void *convoy_emulated_cluster_place(const void *at, int rank, size_t bytes);

static inline int convoy_emulated_lane()
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}
template <typename T> static inline T convoy_emulated_exchange(T value, int from)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = convoy_emulated_shuffle(bits, from);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T> static inline T __shfl_sync(unsigned, T value, int lane)
{
    return convoy_emulated_exchange(value, lane % 32);
}
template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask)
{
    return convoy_emulated_exchange(value, convoy_emulated_lane() ^ mask);
}
template <typename T> static inline T __shfl_down_sync(unsigned, T value, unsigned delta)
{
    int lane = convoy_emulated_lane();
    return convoy_emulated_exchange(value, lane + (int)delta < 32 ? lane + (int)delta : lane);
}

template <typename T> static inline T __ldg(const T *pointer)
{
    return *pointer;
}
template <typename T> static inline T atomicAdd(T *pointer, T value)
{
    T old = *pointer;
    *pointer = old + value;
    return old;
}
#define __expf convoy_emulated_expf /* glibc has one of that name */
static inline float convoy_emulated_expf(float x)
{
    return expf(x);
}
static inline float __fdividef(float x, float y)
{
    return x / y;
}
static inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline float __int_as_float(int x)
{
    float y;
    memcpy(&y, &x, sizeof y);
    return y;
}
template <typename T, typename U> static inline auto min(T a, U b) -> decltype(a + b)
{
    return a < b ? a : b;
}
template <typename T, typename U> static inline auto max(T a, U b) -> decltype(a + b)
{
    return a > b ? a : b;
}

enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6
};
union cudaLaunchAttributeValue {
    char pad[64];
    struct {
        unsigned x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed; /* nothing changes: kernels run one after the other */
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
typedef struct {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

/* Queues a launch of kernel on a stream, or records it. body runs one thread of one block. */
cudaError_t convoy_emulated_launch(const cudaLaunchConfig_t *config, const void *kernel,
                                   std::function<void()> body);
cudaError_t convoy_emulated_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value);

template <typename... Parameters, typename... Arguments>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                                             Arguments &&...arguments)
{
    std::tuple<std::decay_t<Parameters>...> values(static_cast<Parameters>(arguments)...);
    return convoy_emulated_launch(config, reinterpret_cast<const void *>(kernel),
                                  [kernel, values]() { std::apply(kernel, values); });
}

struct cudaFuncAttributes {
    int numRegs;
};
/* CONVOY_EMULATED_FAULT=code:1 is a chip that the build has no code for. */
cudaError_t convoy_emulated_code();
template <typename Kernel>
static inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, Kernel)
{
    attributes->numRegs = 0;
    return convoy_emulated_code();
}
template <typename Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute attribute, int value)
{
    return convoy_emulated_set_attribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
template <typename Kernel>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int, size_t)
{
    *blocks = 1;
    return cudaSuccess;
}
template <typename T>
static inline cudaError_t cudaMemcpyToSymbolAsync(T &symbol, const void *from, size_t bytes, size_t offset,
                                                  cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpyAsync((char *)&symbol + offset, from, bytes, kind, stream);
}
#endif
#endif
