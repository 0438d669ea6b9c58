/* What the worker puts into the environment for libgomp. */
#include "engine/worker/openmp.h"
#include "engine/base/clock.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static void forget(void)
{
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
}

TestSuite(openmp, .init = forget);

#if defined(__x86_64__)
static double microseconds_of(long pauses)
{
    uint64_t least = UINT64_MAX;
    for (int trial = 0; trial < 20; trial++) {
        uint64_t begun = convoy_now_ns();
        for (long i = 0; i < pauses; i++)
            __builtin_ia32_pause();
        uint64_t passed = convoy_now_ns() - begun;
        least = passed < least ? passed : least;
    }
    return (double)least / 1e3;
}

/* Microseconds, not milliseconds: between batches the cores are the front's. */
Test(openmp, threads_spin_for_some_microseconds_and_sleep)
{
    convoy_worker_prepare_openmp();
    cr_assert_str_eq(getenv("OMP_WAIT_POLICY"), "passive");
    cr_assert_not_null(getenv("GOMP_SPINCOUNT"));
    double us = microseconds_of(strtol(getenv("GOMP_SPINCOUNT"), NULL, 10));
    cr_assert(us > 1 && us < 40, "%s pauses are %f us", getenv("GOMP_SPINCOUNT"), us);
}
#endif

Test(openmp, the_environments_policy_stays)
{
    setenv("OMP_WAIT_POLICY", "active", 1);
    convoy_worker_prepare_openmp();
    cr_assert_str_eq(getenv("OMP_WAIT_POLICY"), "active");
    cr_assert_null(getenv("GOMP_SPINCOUNT"), "it would count more than the policy");
}

Test(openmp, the_environments_count_stays)
{
    setenv("GOMP_SPINCOUNT", "12", 1);
    convoy_worker_prepare_openmp();
    cr_assert_str_eq(getenv("GOMP_SPINCOUNT"), "12");
    cr_assert_null(getenv("OMP_WAIT_POLICY"));
}
