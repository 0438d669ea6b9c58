/* A cell: 8 channels of a pixel, 16 bytes, as 8 floats of a thread. */
#ifndef CONVOY_KERNELS_NHWC_CELLS_CUH
#define CONVOY_KERNELS_NHWC_CELLS_CUH

#include "kernels/device/grid.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/nhwc.h"
#include "kernels/nhwc/activate.cuh"
#include "kernels/nhwc/overflow.cuh"

#define NHWC_CELL    8
#define NHWC_THREADS 256

static __device__ __forceinline__ void nhwc_unpack(const uint4 &words, float (&values)[NHWC_CELL])
{
    const uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        values[i * 2] = convoy_from_half(word[i] & 0xffffu);
        values[i * 2 + 1] = convoy_from_half(word[i] >> 16);
    }
}

static __device__ __forceinline__ uint4 nhwc_pack(const float (&values)[NHWC_CELL])
{
    return make_uint4(convoy_half2(values[0], values[1]), convoy_half2(values[2], values[3]),
                      convoy_half2(values[4], values[5]), convoy_half2(values[6], values[7]));
}

/* Numbers first to first + 7 of a vector of c; `instead` where there is no vector, or no number. */
static __device__ __forceinline__ void nhwc_load_vector(const float *vector, int first, int c, float instead,
                                                        float (&values)[NHWC_CELL])
{
    const float *from = vector + first;
    int left = vector != nullptr ? c - first : 0;
    if (reinterpret_cast<uintptr_t>(from) % 16 == 0 && left >= NHWC_CELL) {
        float4 low = __ldg(reinterpret_cast<const float4 *>(from));
        float4 high = __ldg(reinterpret_cast<const float4 *>(from) + 1);
        values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
        values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
        return;
    }
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        values[e] = e < left ? __ldg(from + e) : instead;
}

static __device__ __forceinline__ void nhwc_load(const convoy_fp16 *from, float (&values)[NHWC_CELL])
{
    nhwc_unpack(*reinterpret_cast<const uint4 *>(from), values);
}

static __device__ __forceinline__ void nhwc_store(convoy_fp16 *to, const float (&values)[NHWC_CELL])
{
    *reinterpret_cast<uint4 *>(to) = nhwc_pack(values);
}

/* The same for new numbers, of image n. */
static __device__ __forceinline__ void nhwc_store_new(convoy_fp16 *to, const float (&values)[NHWC_CELL],
                                                      const struct convoy_overflow &overflow, int64_t n)
{
    const uint4 cell = nhwc_pack(values);
    uint32_t over = 0;
    nhwc_collect_over(cell, &over);
    nhwc_tell(overflow, nhwc_any_over(over), n);
    *reinterpret_cast<uint4 *>(to) = cell;
}

/* The larger of two numbers each, NaN if one of them is. */
static __device__ __forceinline__ uint32_t nhwc_larger(uint32_t a, uint32_t b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t larger;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
#else
    return convoy_half2(convoy_larger(convoy_from_half(a & 0xffffu), convoy_from_half(b & 0xffffu)),
                        convoy_larger(convoy_from_half(a >> 16), convoy_from_half(b >> 16)));
#endif
}

/* The smaller ones, in the same way. */
static __device__ __forceinline__ uint32_t nhwc_smaller(uint32_t a, uint32_t b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t smaller;
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
#else
    return nhwc_larger(a ^ 0x80008000u, b ^ 0x80008000u) ^ 0x80008000u;
#endif
}

static __device__ __forceinline__ uint4 nhwc_larger(const uint4 &a, const uint4 &b)
{
    return make_uint4(nhwc_larger(a.x, b.x), nhwc_larger(a.y, b.y), nhwc_larger(a.z, b.z),
                      nhwc_larger(a.w, b.w));
}

/* The activation of a cell. */
static __device__ __forceinline__ void nhwc_activate(struct convoy_unary act, float (&values)[NHWC_CELL])
{
    float(&row)[1][NHWC_CELL] = reinterpret_cast<float(&)[1][NHWC_CELL]>(values);
    nhwc_activate_all(act, row);
}

#endif
