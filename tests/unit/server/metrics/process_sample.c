/* What is read of /proc, beside what the C library says. */
#include "server/metrics/process_sample.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct convoy_process_sample read_own(void)
{
    struct convoy_process_sample sample;
    cr_assert(convoy_process_sample(getpid(), &sample));
    return sample;
}

Test(process_sample, time_memory_and_descriptors_of_this_process)
{
    struct convoy_process_sample before = read_own(), after;
    struct rlimit limit;
    struct rusage used;
    const size_t size = 64u << 20;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_assert_eq(before.max_fds, limit.rlim_cur);
    int fds[2];
    cr_assert_eq(pipe(fds), 0);
    cr_assert_eq(read_own().open_fds, before.open_fds + 2);
    close(fds[0]);
    char *memory = malloc(size);
    cr_assert_not_null(memory);
    memset(memory, 1, size);
    clock_t begun = clock();
    while (clock() - begun < CLOCKS_PER_SEC / 10)
        ;
    after = read_own();
    cr_assert_gt(after.resident_bytes, before.resident_bytes + size / 2);
    cr_assert_geq(after.virtual_bytes, before.virtual_bytes + size / 2);
    cr_assert_geq(after.virtual_bytes, after.resident_bytes);
    cr_assert_eq(getrusage(RUSAGE_SELF, &used), 0);
    double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    cr_assert_float_eq(after.cpu_seconds, seconds, 0.05, "%g s instead of %g", after.cpu_seconds, seconds);
    cr_assert_float_eq(after.start_seconds, (double)time(NULL), 60);
    free(memory);
}

Test(process_sample, a_name_with_parentheses_and_blanks_hides_nothing)
{
    struct convoy_process_sample named;
    cr_assert_eq(prctl(PR_SET_NAME, ") S 1 ("), 0);
    named = read_own();
    cr_assert_gt(named.resident_bytes, 100000);
    cr_assert_float_eq(named.start_seconds, (double)time(NULL), 60);
}

/* It ended, and nothing waited for it yet. */
Test(process_sample, a_process_that_ended_has_no_descriptors)
{
    struct convoy_process_sample sample;
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    cr_assert(convoy_process_sample(pid, &sample));
    cr_expect_eq(sample.open_fds, 0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(process_sample, a_process_that_is_gone)
{
    struct convoy_process_sample sample;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    cr_assert_not(convoy_process_sample(pid, &sample));
}
