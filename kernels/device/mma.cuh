/* One step of a warp on the tensor cores, and the numbers it works on.
 *
 * A product of 16 rows (A), 8 columns (B) and 8 words of the reduction, where a word is one tf32 or two fp16.
 * In words both shapes of the instruction (mma.sync m16n8k8 of tf32, m16n8k16 of fp16) spread their operands
 * over the lanes in the same way (PTX ISA, "Matrix Fragments for mma"): with g = lane / 4 and t = lane % 4,
 *   a[0] (g, t)  a[1] (g + 8, t)  a[2] (g, t + 4)  a[3] (g + 8, t + 4);  b[0] (t, g)  b[1] (t + 4, g);
 *   d[0] (g, 2t)  d[1] (g, 2t + 1)  d[2] (g + 8, 2t)  d[3] (g + 8, 2t + 1).
 *
 * tf32 is a float whose last 13 bits do not count (the hardware cuts them off). Needs sm_80; on older chips
 * the kernels that use this say so through takes(). */
#ifndef CONVOY_KERNELS_MMA_CUH
#define CONVOY_KERNELS_MMA_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

static __host__ __device__ __forceinline__ uint32_t convoy_float_bits(float x)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

static __host__ __device__ __forceinline__ float convoy_bits_float(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

/* The nearest tf32, ties away from zero: two integer instructions, where cvt.rna runs at a quarter of the
 * rate. A NaN may come out as another number; x minus that is NaN again. */
static __host__ __device__ __forceinline__ uint32_t convoy_tf32(float x)
{
    return (convoy_float_bits(x) + 0x1000u) & 0xffffe000u;
}

/* The nearest fp16, ties to even; beyond 65,504 infinity. */
static inline uint16_t convoy_half(float x)
{
    uint32_t bits = convoy_float_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) /* rounds to 65,536 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* less than 2^-14: in units of 2^-24, which adding 0.5 rounds to */
        float unit = convoy_bits_float(magnitude) + 0.5f;
        return (uint16_t)(sign | (convoy_float_bits(unit) - convoy_float_bits(0.5f)));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

/* Two fp16 in a word, low in the lower half. */
static __device__ __forceinline__ uint32_t convoy_half2(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return 0; /* never runs: without mma.sync of tf32 no kernel that needs this takes a shape */
#elif defined(__CUDA_ARCH__)
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return (uint32_t)convoy_half(low) | (uint32_t)convoy_half(high) << 16;
#endif
}

/* The value of an fp16 in the lower half of a word. */
static __host__ __device__ __forceinline__ float convoy_from_half(uint32_t bits)
{
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((uint16_t)bits));
    return value;
#else
    uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) /* infinity and NaN */
        return convoy_bits_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    /* The exponent is 112 too small; a product mends that, and what is below 2^-14 too. */
    return convoy_bits_float(sign | magnitude << 13) * convoy_bits_float(0x77800000u);
#endif
}

/* A word of which each byte is one of `word`: bits 4 i to 4 i + 3 of `bytes` say which is byte i, 4: zero. */
static __device__ __forceinline__ uint32_t convoy_pick_bytes(uint32_t word, unsigned bytes)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(word, 0, bytes);
#else
    uint32_t picked = 0;
    for (int i = 0; i < 4; i++) {
        unsigned from = bytes >> (4 * i) & 15u;
        picked |= from < 4 ? (word >> (8 * from) & 0xffu) << (8 * i) : 0;
    }
    return picked;
#endif
}

#if defined(__CUDACC__)

/* Four matrices of 8 rows of 16 bytes of shared memory (ldmatrix), spread as the fragment a above: lane l
 * gives the address of row l % 16, of its first four words (l < 16) or of its last four. offset: bytes from
 * tile. */
static __device__ __forceinline__ void convoy_load_matrices(uint32_t (&a)[4], const char *tile, int offset)
{
#if __CUDA_ARCH__ >= 800
    unsigned from = (unsigned)__cvta_generic_to_shared(tile) + (unsigned)offset;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(from));
#endif
}

/* The same with each matrix transposed: a lane gets two numbers of a column, one below the other, as the
 * fragment b wants them of a matrix that is kept row by row. */
static __device__ __forceinline__ void convoy_load_transposed(uint32_t (&a)[4], const char *tile, int offset)
{
#if __CUDA_ARCH__ >= 800
    unsigned from = (unsigned)__cvta_generic_to_shared(tile) + (unsigned)offset;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(from));
#endif
}

/* Stores four matrices as convoy_load_matrices() loads them (stmatrix; needs sm_90). */
static __device__ __forceinline__ void convoy_store_matrices(char *tile, int offset, const uint32_t (&a)[4])
{
#if __CUDA_ARCH__ >= 900
    unsigned to = (unsigned)__cvta_generic_to_shared(tile) + (unsigned)offset;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a[0]),
                 "r"(a[1]), "r"(a[2]), "r"(a[3])
                 : "memory");
#endif
}

static __device__ __forceinline__ void convoy_mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                       uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

static __device__ __forceinline__ void convoy_mma_half(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                       uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

#else

static inline void convoy_load_matrices(uint32_t (&a)[4], const char *tile, int offset)
{
    convoy_emulated_load_matrices(a, tile + offset);
}

static inline void convoy_load_transposed(uint32_t (&a)[4], const char *tile, int offset)
{
    convoy_emulated_load_transposed(a, tile + offset);
}

static inline void convoy_store_matrices(char *tile, int offset, const uint32_t (&a)[4])
{
    convoy_emulated_store_matrices(tile + offset, a);
}

static inline void convoy_mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    convoy_emulated_mma(d, a, b0, b1, false);
}

static inline void convoy_mma_half(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    convoy_emulated_mma(d, a, b0, b1, true);
}

#endif
#endif
