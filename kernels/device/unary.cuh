/* The activations of struct convoy_unary on the device, as every kernel's epilogue applies them.
 *
 * The kind is the same for all threads of a launch, so the switch is a uniform branch. NaN stays NaN, which
 * is why the comparisons are written out where fmaxf would drop it. Library tanhf and expf: 2 ulp, where the
 * hardware's tanh.approx (5e-4) would miss fp32's 1e-6. */
#ifndef CONVOY_KERNELS_UNARY_CUH
#define CONVOY_KERNELS_UNARY_CUH

#include "kernels/kernels.h"

/* NaN if one of them is, where fmaxf would drop it. */
static __device__ __forceinline__ float convoy_larger(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
#else
    return a > b || a != a ? a : b;
#endif
}

static __device__ __forceinline__ float convoy_clamp(float x, float low, float high)
{
    return x < low ? low : (x > high ? high : x);
}

/* Between 0 and 1; 0 for NaN, which the product that follows makes NaN again: one instruction. */
static __device__ __forceinline__ float convoy_saturate(float x)
{
#ifdef __CUDA_ARCH__
    return __saturatef(x);
#else
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
#endif
}

/* 2^x, wrong by 2 ulp; what is below 2^-126 becomes 0. */
static __device__ __forceinline__ float convoy_rough_exp2(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* 1 / x for x from 1 on, wrong by 1 ulp; beyond 2^126 it may be 0. */
static __device__ __forceinline__ float convoy_rough_reciprocal(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return 1.0f / x;
#endif
}

/* ROUGH: for results that are rounded to fp16, tanh and sigmoid in fewer instructions, wrong by less than
 * 1e-6 of 1 by the bounds that CUDA documents for __expf, __fdividef and the instructions above. */
template <bool ROUGH = false>
static __device__ __forceinline__ float convoy_apply_unary(struct convoy_unary unary, float x)
{
    switch (unary.kind) {
    case CONVOY_UNARY_NONE:
        return x;
    case CONVOY_UNARY_RELU:
        return convoy_larger(x, 0.0f);
    case CONVOY_UNARY_LEAKY_RELU:
        return x < 0.0f ? unary.alpha * x : x;
    case CONVOY_UNARY_SIGMOID:
        return ROUGH ? __fdividef(1.0f, 1.0f + __expf(-x)) : 1.0f / (1.0f + expf(-x));
    case CONVOY_UNARY_TANH:
        return ROUGH ? 1.0f - __fdividef(2.0f, __expf(2.0f * x) + 1.0f) : tanhf(x);
    case CONVOY_UNARY_CLIP:
        return convoy_clamp(x, unary.alpha, unary.beta);
    case CONVOY_UNARY_HARD_SIGMOID:
        return convoy_clamp(unary.alpha * x + unary.beta, 0.0f, 1.0f);
    case CONVOY_UNARY_HARD_SWISH:
        return x * convoy_saturate(x * (1.0f / 6.0f) + 0.5f);
    case CONVOY_UNARY_SWISH:
        return ROUGH ? x * convoy_rough_reciprocal(1.0f + convoy_rough_exp2(x * -1.442695041f))
                     : x / (1.0f + expf(-x));
    default:
        return x;
    }
}

static __device__ __forceinline__ float convoy_softplus(float x)
{
    return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)));
}

/* Every kind, for kernels that compute nothing else: the functions that are long stay out of the epilogues of
 * convolutions and products. */
static __device__ __forceinline__ float convoy_apply_any_unary(struct convoy_unary unary, float x)
{
    switch (unary.kind) {
    case CONVOY_UNARY_EXP:
        return expf(x);
    case CONVOY_UNARY_LOG:
        return logf(x);
    case CONVOY_UNARY_SQRT:
        return sqrtf(x);
    case CONVOY_UNARY_ABS:
        return fabsf(x);
    case CONVOY_UNARY_ERF:
        return erff(x);
    case CONVOY_UNARY_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.707106781f));
    case CONVOY_UNARY_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(0.797884561f * (x + 0.044715f * x * x * x)));
    case CONVOY_UNARY_ELU:
        return x < 0.0f ? unary.alpha * expm1f(x) : x;
    case CONVOY_UNARY_SOFTPLUS:
        return convoy_softplus(x);
    case CONVOY_UNARY_MISH:
        return x * tanhf(convoy_softplus(x));
    case CONVOY_UNARY_ROUND:
        return rintf(x);
    case CONVOY_UNARY_FLOOR:
        return floorf(x);
    case CONVOY_UNARY_CEIL:
        return ceilf(x);
    case CONVOY_UNARY_SIGN:
        return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x);
    case CONVOY_UNARY_POW:
        return powf(x, unary.alpha);
    case CONVOY_UNARY_THRESHOLDED:
        return x > unary.alpha ? x : 0.0f;
    case CONVOY_UNARY_SIN:
        return sinf(x);
    case CONVOY_UNARY_COS:
        return cosf(x);
    case CONVOY_UNARY_ATAN:
        return atanf(x);
    default:
        return convoy_apply_unary(unary, x);
    }
}

/* Does x <= y imply act(x) <= act(y)? Then a maximum may be taken before the activation: max pooling needs a
 * quarter of the activations, or less. */
static __host__ __device__ __forceinline__ bool convoy_unary_rises(struct convoy_unary unary)
{
    switch (unary.kind) {
    case CONVOY_UNARY_LEAKY_RELU:
    case CONVOY_UNARY_HARD_SIGMOID:
        return unary.alpha >= 0.0f;
    case CONVOY_UNARY_HARD_SWISH:
    case CONVOY_UNARY_SWISH:
        return false;
    case CONVOY_UNARY_NONE:
    case CONVOY_UNARY_RELU:
    case CONVOY_UNARY_SIGMOID:
    case CONVOY_UNARY_TANH:
    case CONVOY_UNARY_CLIP:
        return true;
    default: /* those that follow no convolution */
        return false;
    }
}

template <enum convoy_unary_kind KIND, bool ROUGH, int ROWS, int COLUMNS>
static __device__ __forceinline__ void convoy_activate_as(struct convoy_unary act,
                                                          float (&values)[ROWS][COLUMNS])
{
    act.kind = KIND;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            values[i][j] = convoy_apply_unary<ROUGH>(act, values[i][j]);
}

/* The activation of all of a thread's outputs, chosen once: straight code for each kind, where a choice for
 * each output would make a hundred instructions of it and miss the instruction cache. */
template <bool ROUGH = false, int ROWS, int COLUMNS>
static __device__ __forceinline__ void convoy_activate(struct convoy_unary act,
                                                       float (&values)[ROWS][COLUMNS])
{
    switch (act.kind) {
    case CONVOY_UNARY_NONE:
        return;
    case CONVOY_UNARY_RELU:
        convoy_activate_as<CONVOY_UNARY_RELU, ROUGH>(act, values);
        return;
    case CONVOY_UNARY_LEAKY_RELU:
        convoy_activate_as<CONVOY_UNARY_LEAKY_RELU, ROUGH>(act, values);
        return;
    case CONVOY_UNARY_SIGMOID:
        convoy_activate_as<CONVOY_UNARY_SIGMOID, ROUGH>(act, values);
        return;
    case CONVOY_UNARY_TANH:
        convoy_activate_as<CONVOY_UNARY_TANH, ROUGH>(act, values);
        return;
    case CONVOY_UNARY_CLIP:
        convoy_activate_as<CONVOY_UNARY_CLIP, ROUGH>(act, values);
        return;
    case CONVOY_UNARY_HARD_SIGMOID:
        convoy_activate_as<CONVOY_UNARY_HARD_SIGMOID, ROUGH>(act, values);
        return;
    case CONVOY_UNARY_HARD_SWISH:
        convoy_activate_as<CONVOY_UNARY_HARD_SWISH, ROUGH>(act, values);
        return;
    case CONVOY_UNARY_SWISH:
        convoy_activate_as<CONVOY_UNARY_SWISH, ROUGH>(act, values);
        return;
    default: /* those that follow no other kernel */
        return;
    }
}

#endif
