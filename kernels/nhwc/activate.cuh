/* The activations of kernels whose results are rounded to fp16: those of kernels/device/unary.cuh and GELU.
 */
#ifndef CONVOY_KERNELS_NHWC_ACTIVATE_CUH
#define CONVOY_KERNELS_NHWC_ACTIVATE_CUH

#include "kernels/device/unary.cuh"

/* 1 + exp(-p(x)): x divided by it is x times the normal distribution up to x, by a polynomial p fitted to
 * that (our own fit, |x| up to 6). The error of the product is below 2.6e-5, a tenth of fp16's at 0.5. Beyond
 * x^2 = 64 the polynomial would fall again. No more than 2^60, so that two of these can be multiplied. */
static __device__ __forceinline__ float nhwc_gelu_divisor(float x)
{
    float u = fminf(x * x, 64.0f);
    float p = fmaf(u, fmaf(u, 1.01426313e-3f, -0.106775724f), -2.30112134f);
    return 1.0f + convoy_rough_exp2(fminf(x * p, 60.0f));
}

/* GELU of two numbers, with one reciprocal: the special functions bound it. 11 instructions for each, where
 * erff takes some 30. The divisors' product is at most 2^121. */
static __device__ __forceinline__ void nhwc_gelu(float &x, float &y)
{
    float a = nhwc_gelu_divisor(x), b = nhwc_gelu_divisor(y);
    float both = convoy_rough_reciprocal(a * b);
    x *= both * b;
    y *= both * a;
}

/* (1 + tanh y) / 2 is the logistic function of 2 y. */
static __device__ __forceinline__ float nhwc_gelu_tanh(float x)
{
    return __fdividef(x, 1.0f + __expf(-1.595769122f * fmaf(0.044715f * x * x, x, x)));
}

template <int ROWS, int COLUMNS>
static __device__ __forceinline__ void nhwc_activate_all(struct convoy_unary act,
                                                         float (&values)[ROWS][COLUMNS])
{
    static_assert(COLUMNS % 2 == 0, "numbers come in pairs");
    if (act.kind == CONVOY_UNARY_GELU) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 2)
                nhwc_gelu(values[i][j], values[i][j + 1]);
    } else if (act.kind == CONVOY_UNARY_GELU_TANH) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                values[i][j] = nhwc_gelu_tanh(values[i][j]);
    } else {
        convoy_activate<true>(act, values);
    }
}

#endif
