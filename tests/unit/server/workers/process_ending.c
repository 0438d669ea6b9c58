/* Whether a process has begun to end. */
#include "server/workers/process_ending.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_US     20000000u
#define NO_NAMESPACE 77 /* status of a child that may make none */

static int said[2]; /* a pipe on which children say that they are prepared */

static void *sleep_on(void *nothing)
{
    (void)!write(said[1], "", 1);
    for (;;)
        pause();
    return nothing;
}

static void *end_at_once(void *nothing)
{
    return nothing;
}

/* The child's: so many threads that sleep. */
static void start_threads(uint32_t count)
{
    pthread_t thread;
    for (uint32_t i = 0; i < count; i++)
        if (pthread_create(&thread, NULL, sleep_on, NULL) != 0)
            _exit(1);
}

static void sleeps_with_threads(void)
{
    start_threads(7);
    sleep_on(NULL);
}

/* The first thread ends, and stays listed; others live on. */
static void goes_on_without_its_first_thread(void)
{
    start_threads(2);
    pthread_exit(NULL);
}

static void sleeps_under_a_name_like_a_stat(void)
{
    prctl(PR_SET_NAME, ") Z 1 1 1 1 1 4");
    sleep_on(NULL);
}

/* At any time one thread of these has just started another, and ends. */
static void *relay(void *nothing)
{
    pthread_t next;
    while (pthread_create(&next, NULL, relay, NULL) != 0)
        ;
    pthread_detach(next);
    return nothing;
}

static void hands_on_from_thread_to_thread(void)
{
    pthread_t first;
    if (pthread_create(&first, NULL, relay, NULL) != 0)
        _exit(1);
    (void)!write(said[1], "", 1);
    pthread_exit(NULL);
}

/* Starts a child and waits until so many of its threads have said that they are there. */
static pid_t start(void (*lives)(void), uint32_t threads)
{
    char byte;
    cr_assert_eq(pipe(said), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lives();
        _exit(0);
    }
    for (uint32_t i = 0; i < threads; i++)
        cr_assert_eq(read(said[0], &byte, 1), 1);
    close(said[0]);
    close(said[1]);
    return child;
}

/* Ends, and is not waited for: it stays a zombie. */
static void kill_only(pid_t child)
{
    siginfo_t info;
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
}

static void reap(pid_t child)
{
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(process_ending, all_threads_count)
{
    pid_t child = start(sleeps_with_threads, 8);
    cr_assert_eq(convoy_process_ending(child), CONVOY_PROCESS_RUNS);
    kill_only(child);
    cr_assert_eq(convoy_process_ending(child), CONVOY_PROCESS_ENDS);
    reap(child);
    cr_assert_eq(convoy_process_ending(child), CONVOY_PROCESS_NOT_VISIBLE, "it is gone");
}

static bool first_thread_ended(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)pid);
    FILE *file = fopen(path, "r");
    size_t got = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[got] = '\0';
    return strstr(text, ") Z ") != NULL;
}

Test(process_ending, the_end_of_the_first_thread_is_not_that_of_the_process)
{
    pid_t child = start(goes_on_without_its_first_thread, 2);
    uint64_t until_us = convoy_now_us() + LIMIT_US;
    while (!first_thread_ended(child))
        cr_assert_lt(convoy_now_us(), until_us);
    cr_assert_eq(convoy_process_ending(child), CONVOY_PROCESS_RUNS);
    reap(child);
}

Test(process_ending, a_thread_cannot_pretend_by_its_name)
{
    pid_t child = start(sleeps_under_a_name_like_a_stat, 1);
    cr_assert_eq(convoy_process_ending(child), CONVOY_PROCESS_RUNS);
    kill_only(child);
    cr_assert_eq(convoy_process_ending(child), CONVOY_PROCESS_ENDS);
    reap(child);
}

Test(process_ending, what_a_stat_says)
{
    cr_assert(!convoy_thread_stat_ends("7 (a) S 1 2 3 0 -1 4194304 0 0"));
    cr_assert(convoy_thread_stat_ends("7 (a) S 1 2 3 0 -1 4194308 0 0"));
    cr_assert(convoy_thread_stat_ends("7 (a) Z 1 2 3 0 -1 4194316 0 0"));
    cr_assert(!convoy_thread_stat_ends("7 (a) Z 4 4 4 4 4 0 4 4"), "another field is taken for the flags");
    cr_assert(!convoy_thread_stat_ends("7 (a) S 1 2"), "it is cut");
    cr_assert(!convoy_thread_stat_ends("7 a"));
    cr_assert(!convoy_thread_stat_ends(""));
}

Test(process_ending, threads_that_start_each_other_are_seen)
{
    pid_t child = start(hands_on_from_thread_to_thread, 1);
    for (int i = 0; i < 20000; i++)
        cr_assert_neq(convoy_process_ending(child), CONVOY_PROCESS_ENDS, "in look %d", i);
    kill_only(child);
    cr_assert_eq(convoy_process_ending(child), CONVOY_PROCESS_ENDS);
    reap(child);
}

static void is_first_of_its_namespace(void)
{
    pthread_t thread;
    start_threads(3);
    pthread_create(&thread, NULL, end_at_once, NULL);
    sleep_on(NULL);
}

/* Makes a namespace, starts two processes in it and writes their numbers to `pids`; reaps them when `go` is
 * closed. A process of its own: in a namespace whose first process is dead nothing can be started, as a
 * sanitizer wants to when a test ends. */
static void keep_a_namespace(int pids, int go)
{
    char nothing;
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        _exit(NO_NAMESPACE);
    pid_t both[2] = {start(is_first_of_its_namespace, 4), start(sleeps_with_threads, 8)};
    (void)!write(pids, both, sizeof both);
    (void)!read(go, &nothing, 1);
    waitpid(both[1], NULL, 0);
    waitpid(both[0], NULL, 0);
    _exit(0);
}

/* The kernel ends the first process of a namespace only when the parents of all others there have waited for
 * those. So its threads end and it is not dead, as where a driver takes down what it had opened. */
Test(process_ending, a_process_that_is_not_dead_yet)
{
    pid_t both[2] = {0, 0};
    int pids[2], go[2];
    cr_assert(pipe2(pids, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
    pid_t keeper = fork();
    cr_assert_geq(keeper, 0);
    if (keeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        keep_a_namespace(pids[1], go[0]);
    }
    close(pids[1]);
    close(go[0]);
    if (read(pids[0], both, sizeof both) != sizeof both) {
        int status = 0;
        cr_assert_eq(waitpid(keeper, &status, 0), keeper);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == NO_NAMESPACE, "its status is %d", status);
        cr_skip_test("no namespace can be made");
    }
    close(pids[0]);
    struct pollfd death = {.fd = (int)syscall(SYS_pidfd_open, both[0], 0), .events = POLLIN};
    cr_assert_geq(death.fd, 0);
    cr_assert_eq(convoy_process_ending(both[0]), CONVOY_PROCESS_RUNS);
    cr_assert_eq(kill(both[0], SIGKILL), 0);
    uint64_t until_us = convoy_now_us() + LIMIT_US;
    while (convoy_process_ending(both[0]) != CONVOY_PROCESS_ENDS)
        cr_assert_lt(convoy_now_us(), until_us);
    cr_assert_eq(poll(&death, 1, 0), 0, "it is dead");
    close(go[1]);
    cr_assert_eq(waitpid(keeper, NULL, 0), keeper);
    cr_assert(poll(&death, 1, 0) == 1 && (death.revents & POLLIN) != 0, "nothing holds its end any more");
    close(death.fd);
}
