/* The activations of kernels whose results are rounded to fp16: those of kernels/device/unary.cuh and GELU.
 */
#ifndef CONVOY_KERNELS_NHWC_ACTIVATE_CUH
#define CONVOY_KERNELS_NHWC_ACTIVATE_CUH

#include "kernels/device/unary.cuh"

/* x times the normal distribution up to x, by the polynomial of Abramowitz and Stegun, 7.1.26, whose error is
 * below 1.5e-7: 14 instructions, where erff takes some 30. */
static __device__ __forceinline__ float nhwc_gelu(float x)
{
    float z = fabsf(x) * 0.707106781f;
    float t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
    float p = fmaf(t, fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f),
                   0.254829592f);
    float beyond = 0.5f * p * t * __expf(-z * z); /* of the distribution, above |x| */
    return x * (x < 0.0f ? beyond : 1.0f - beyond);
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
    if (act.kind == CONVOY_UNARY_GELU) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                values[i][j] = nhwc_gelu(values[i][j]);
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
