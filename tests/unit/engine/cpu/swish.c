/* Swish as a loop of vectors: against the formula in double precision. */
#include "engine/cpu/swish.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 1e-35 /* what is nearer to 0 may be anything that is */

static double reference(float x)
{
    return (double)x / (1 + exp(-(double)x));
}

/* Limits oneDNN, and with it the loop, to these vectors. Each test is a process of its own. */
static void only(const char *vectors)
{
    bool wide = strcmp(vectors, "AVX512_CORE") == 0;
    if (wide ? !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
                   !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")
             : !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        cr_skip("this processor has no %s", vectors);
    setenv("ONEDNN_MAX_CPU_ISA", vectors, 1);
    cr_assert(convoy_cpu_swish_suits());
}

#define TEST_OF_EACH(name)                                                                                   \
    Test(swish, name##_avx2)                                                                                 \
    {                                                                                                        \
        only("AVX2");                                                                                        \
        name();                                                                                              \
    }                                                                                                        \
    Test(swish, name##_avx512)                                                                               \
    {                                                                                                        \
        only("AVX512_CORE");                                                                                 \
        name();                                                                                              \
    }

static void check(float x)
{
    float y = NAN;
    convoy_cpu_swish(&x, 1, &y);
    double wanted = reference(x), relative = 3e-7 + 9e-8 * fabs((double)x); /* as the header says */
    cr_assert(fabs((double)y - wanted) <= relative * fabs(wanted) + LEAST, "of %g: %.9g, not %.9g", (double)x,
              (double)y, wanted);
}

static void numbers(void)
{
    for (float x = -200; x <= 200; x += 0.0078125f)
        check(x * 1.0001f);
    for (float x = 1e-38f; x < 1e38f; x *= 3) {
        check(x);
        check(-x);
    }
    check(0);
}
TEST_OF_EACH(numbers)

static void what_is_no_number(void)
{
    float x[4] = {NAN, INFINITY, -INFINITY, -0.0f}, y[4];
    convoy_cpu_swish(x, 4, y);
    cr_assert(isnan(y[0]));
    cr_assert(y[1] == INFINITY);
    cr_assert(fabsf(y[2]) <= (float)LEAST, "%g", (double)y[2]); /* the limit */
    cr_assert(y[3] == 0 && signbit(y[3]));
}
TEST_OF_EACH(what_is_no_number)

/* Threads and batches cut tensors in different places. */
static void a_value_depends_on_no_place(void)
{
    float x[40], alone[40], y[41];
    for (int i = 0; i < 40; i++) {
        x[i] = (float)(i - 20) * 0.73f;
        convoy_cpu_swish(&x[i], 1, &alone[i]);
    }
    for (int64_t count = 0; count <= 40; count++) {
        memset(y, 0x55, sizeof(y));
        float behind = y[count];
        convoy_cpu_swish(x, count, y);
        cr_assert_arr_eq(y, alone, (size_t)count * sizeof(y[0]), "%ld values", (long)count);
        cr_assert_arr_eq(&y[count], &behind, sizeof(behind), "behind %ld values", (long)count);
    }
    convoy_cpu_swish(x, 40, x);
    cr_assert_arr_eq(x, alone, sizeof(x), "in place");
}
TEST_OF_EACH(a_value_depends_on_no_place)
