#include "engine/cpu/swish.h"

#include <dnnl.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))

/* e^-x is 2^t with t = -x log2(e): the whole part of t goes into the exponent, the rest r (-0.5 to 0.5)
 * through a polynomial that is nearest to 2^r, relatively, within 8e-8: c0 + r (c1 + ...). */
#define LEAST_X     (-87.0f)  /* below, 1 + e^-x is infinite or nearly so */
#define LEAST_T     (-126.0f) /* below, 2^t is no normal number */
#define MINUS_LOG2E (-1.44269504f)
#define C0          1.00000012f
#define C1          0.693146944f
#define C2          0.240221202f
#define C3          0.0555071309f
#define C4          0.00967554096f
#define C5          0.00132764713f

/* Adding this rounds to a whole number, which is then in the sum's lowest bits. */
#define ROUNDER 12582912.0f

enum vectors { NO_VECTORS, OF_8, OF_16 };

/* The vectors with which oneDNN computes, too. */
static enum vectors vectors(void)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core && __builtin_cpu_supports("avx512f"))
        return OF_16;
    bool avx2 = isa == dnnl_cpu_isa_avx2 || isa == dnnl_cpu_isa_avx2_vnni;
    return avx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? OF_8 : NO_VECTORS;
}

bool convoy_cpu_swish_suits(void)
{
    return vectors() != NO_VECTORS;
}

/* _mm256_max_ps() and _mm512_max_ps() keep NaN of their second operand. */
static inline AVX2 __m256 swish_of_8(__m256 x)
{
    const __m256 rounder = _mm256_set1_ps(ROUNDER);
    __m256 low = _mm256_max_ps(_mm256_set1_ps(LEAST_X), x);
    __m256 t = _mm256_mul_ps(low, _mm256_set1_ps(MINUS_LOG2E));
    t = _mm256_max_ps(_mm256_set1_ps(LEAST_T), t);
    __m256 rounded = _mm256_add_ps(t, rounder);
    __m256 r = _mm256_sub_ps(t, _mm256_sub_ps(rounded, rounder));
    __m256 power = _mm256_set1_ps(C5);
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(C4));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(C3));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(C2));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(C1));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(C0));
    __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(rounded), 23);
    power = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(power), exponent));
    return _mm256_div_ps(low, _mm256_add_ps(power, _mm256_set1_ps(1.0f)));
}

/* Where t is -infinity r is NaN, of which _mm512_scalef_ps() makes 0 then. */
static inline AVX512 __m512 swish_of_16(__m512 x)
{
    __m512 low = _mm512_max_ps(_mm512_set1_ps(LEAST_X), x);
    __m512 t = _mm512_mul_ps(low, _mm512_set1_ps(MINUS_LOG2E));
    __m512 whole = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_sub_ps(t, whole);
    __m512 power = _mm512_set1_ps(C5);
    power = _mm512_fmadd_ps(power, r, _mm512_set1_ps(C4));
    power = _mm512_fmadd_ps(power, r, _mm512_set1_ps(C3));
    power = _mm512_fmadd_ps(power, r, _mm512_set1_ps(C2));
    power = _mm512_fmadd_ps(power, r, _mm512_set1_ps(C1));
    power = _mm512_fmadd_ps(power, r, _mm512_set1_ps(C0));
    power = _mm512_scalef_ps(power, whole);
    return _mm512_div_ps(low, _mm512_add_ps(power, _mm512_set1_ps(1.0f)));
}

/* Two vectors at a time: one's division runs beside the other's polynomial. */
static AVX2 void loop_of_8(const float *x, int64_t count, float *y)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256 first = swish_of_8(_mm256_loadu_ps(x + i)), second = swish_of_8(_mm256_loadu_ps(x + i + 8));
        _mm256_storeu_ps(y + i, first);
        _mm256_storeu_ps(y + i + 8, second);
    }
    for (; i < count; i += 8) {
        float part[8] = {0};
        size_t bytes = (size_t)(count - i < 8 ? count - i : 8) * sizeof(*x);
        memcpy(part, x + i, bytes);
        _mm256_storeu_ps(part, swish_of_8(_mm256_loadu_ps(part)));
        memcpy(y + i, part, bytes);
    }
}

static AVX512 void loop_of_16(const float *x, int64_t count, float *y)
{
    int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m512 first = swish_of_16(_mm512_loadu_ps(x + i)), second = swish_of_16(_mm512_loadu_ps(x + i + 16));
        _mm512_storeu_ps(y + i, first);
        _mm512_storeu_ps(y + i + 16, second);
    }
    for (; i < count; i += 16) {
        __mmask16 there = (__mmask16)(count - i < 16 ? (1u << (count - i)) - 1 : 0xffff);
        _mm512_mask_storeu_ps(y + i, there, swish_of_16(_mm512_maskz_loadu_ps(there, x + i)));
    }
}

void convoy_cpu_swish(const float *x, int64_t count, float *y)
{
    if (vectors() == OF_16)
        loop_of_16(x, count, y);
    else
        loop_of_8(x, count, y);
}
#else
#include <math.h>

bool convoy_cpu_swish_suits(void)
{
    return false;
}

void convoy_cpu_swish(const float *x, int64_t count, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] / (1 + expf(-x[i]));
}
#endif
