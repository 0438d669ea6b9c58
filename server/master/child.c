#include "server/master/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_FD    3  /* behind the standard streams */
#define ASIDE_FD    32 /* descriptors that are about to get their numbers are put here and above */
#define WORKER_FDS  8
#define NUMBER_SIZE 16

const char *const convoy_front_variables[] = {
    "NOTIFY_SOCKET", "WATCHDOG_USEC",  "WATCHDOG_PID",         "LISTEN_PID",
    "LISTEN_FDS",    "LISTEN_FDNAMES", CONVOY_MASTER_VARIABLE, NULL};

/* The master's own mask and dispositions are its own. */
static void reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* those that have no other are refused */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child. Returns a negative errno, or not at all. */
static int run_worker(char *const *arguments, const int *fds, uint32_t fd_count)
{
    int aside[WORKER_FDS];
    for (uint32_t i = 0; i < fd_count; i++)
        if ((aside[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, ASIDE_FD)) < 0)
            return -errno;
    for (uint32_t i = 0; i < fd_count; i++)
        if (dup2(aside[i], FIRST_FD + (int)i) < 0)
            return -errno;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return -errno;
    for (const char *const *name = convoy_front_variables; *name != NULL; name++)
        unsetenv(*name);
    /* A driver may open many files for each device. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    execv(arguments[0], arguments);
    return -errno;
}

static int keep_open(int fd)
{
    return fcntl(fd, F_SETFD, 0) == 0 ? 0 : -errno;
}

static void set_number(const char *name, long number)
{
    char text[NUMBER_SIZE];
    snprintf(text, sizeof text, "%ld", number);
    setenv(name, text, 1);
}

static int run_front(const char *program, char *const *arguments, int socket, uint32_t inherited)
{
    int code = keep_open(socket);
    for (uint32_t i = 0; i < inherited && code == 0; i++)
        code = keep_open(FIRST_FD + (int)i);
    if (code != 0)
        return code;
    /* They name the process that they are for. */
    if (inherited > 0)
        set_number("LISTEN_PID", getpid());
    if (getenv("WATCHDOG_PID") != NULL)
        set_number("WATCHDOG_PID", getpid());
    set_number(CONVOY_MASTER_VARIABLE, socket);
    execv(program, arguments);
    return -errno;
}

/* Waits until the child runs its program, or says why it does not. */
static int await_program(int pipe_end, pid_t pid)
{
    int code = 0;
    ssize_t got;
    do
        got = read(pipe_end, &code, sizeof code);
    while (got < 0 && errno == EINTR);
    if (got != sizeof code)
        return 0;
    waitpid(pid, NULL, 0);
    return code;
}

/* worker: NULL for a front. */
static pid_t start(const char *program, char *const *arguments, const int *worker, uint32_t fd_count,
                   int socket, struct convoy_error *error)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return convoy_fail(error, -errno, "cannot start %s: %s", program, strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        reset_signals();
        /* Its number must not be one that the descriptors get. */
        int report = fcntl(ends[1], F_DUPFD_CLOEXEC, ASIDE_FD);
        int code = worker != NULL ? run_worker(arguments, worker, fd_count)
                                  : run_front(program, arguments, socket, fd_count);
        ssize_t written = write(report, &code, sizeof code);
        (void)written;
        _exit(EXIT_FAILURE);
    }
    int code = pid < 0 ? -errno : 0;
    close(ends[1]);
    if (code == 0)
        code = await_program(ends[0], pid);
    close(ends[0]);
    return code == 0 ? pid : convoy_fail(error, code, "cannot start %s: %s", program, strerror(-code));
}

pid_t convoy_child_worker(char *const *arguments, const int *fds, uint32_t fd_count,
                          struct convoy_error *error)
{
    return fd_count <= WORKER_FDS ? start(arguments[0], arguments, fds, fd_count, -1, error) : -EINVAL;
}

pid_t convoy_child_front(const char *program, char *const *arguments, int socket, uint32_t inherited,
                         struct convoy_error *error)
{
    return start(program, arguments, NULL, inherited, socket, error);
}
