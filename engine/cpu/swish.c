#include "engine/cpu/swish.h"

#include <dnnl.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2,fma")))
#define VALUES 8

/* Adding this rounds to a whole number, which is then in the sum's lowest bits. */
#define ROUNDER 12582912.0f

bool convoy_cpu_swish_suits(void)
{
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    return (isa == dnnl_cpu_isa_avx2 || isa == dnnl_cpu_isa_avx2_vnni) && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma");
}

/* e^-x is 2^t with t = -x log2(e): the whole part of t goes into the exponent, the rest r (-0.5 to 0.5)
 * through a polynomial that is nearest to 2^r, relatively, within 8e-8. _mm256_max_ps() keeps NaN of its
 * second operand. */
static inline AVX2 __m256 swish(__m256 x)
{
    const __m256 rounder = _mm256_set1_ps(ROUNDER);
    __m256 low = _mm256_max_ps(_mm256_set1_ps(-87.0f), x); /* below, 1 + e^-x is infinite or nearly so */
    __m256 t = _mm256_mul_ps(low, _mm256_set1_ps(-1.44269504f));
    t = _mm256_max_ps(_mm256_set1_ps(-126.0f), t);
    __m256 rounded = _mm256_add_ps(t, rounder);
    __m256 r = _mm256_sub_ps(t, _mm256_sub_ps(rounded, rounder));
    __m256 power = _mm256_set1_ps(0.00132764713f);
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(0.00967554096f));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(0.0555071309f));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(0.240221202f));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(0.693146944f));
    power = _mm256_fmadd_ps(power, r, _mm256_set1_ps(1.00000012f));
    __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(rounded), 23);
    power = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(power), exponent));
    return _mm256_div_ps(low, _mm256_add_ps(power, _mm256_set1_ps(1.0f)));
}

/* Two vectors at a time: one's division runs beside the other's polynomial. */
AVX2 void convoy_cpu_swish(const float *x, int64_t count, float *y)
{
    int64_t i = 0;
    for (; i + 2 * VALUES <= count; i += 2 * VALUES) {
        __m256 first = swish(_mm256_loadu_ps(x + i)), second = swish(_mm256_loadu_ps(x + i + VALUES));
        _mm256_storeu_ps(y + i, first);
        _mm256_storeu_ps(y + i + VALUES, second);
    }
    for (; i < count; i += VALUES) {
        float part[VALUES] = {0};
        size_t bytes = (size_t)(count - i < VALUES ? count - i : VALUES) * sizeof(*x);
        memcpy(part, x + i, bytes);
        _mm256_storeu_ps(part, swish(_mm256_loadu_ps(part)));
        memcpy(y + i, part, bytes);
    }
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
