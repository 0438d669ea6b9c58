/* The master as its front sees it: a master in a process of its own, with the test in the front's place. */
#include "server/master/master.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 20000

static struct convoy_link *to_master;
static struct convoy_error error;
static int ended, status; /* of a worker */

static void begin(void)
{
    ended = 0;
    cr_assert_eq(convoy_master_fork(&to_master, &error), 0, "%s", error.message);
}

static void end(void)
{
    convoy_link_free(to_master);
    wait(NULL);
}
TestSuite(master, .init = begin, .fini = end);

static void on_exit_of(void *context, int how)
{
    ended++;
    *(int *)context = how;
}

static void until_ended(int count)
{
    struct pollfd readable = {.fd = convoy_link_fd(to_master), .events = POLLIN};
    while (ended < count) {
        if (!convoy_link_waiting(to_master))
            cr_assert_eq(poll(&readable, 1, LIMIT_MS), 1, "the worker's end is not told");
        cr_assert(convoy_link_dispatch(to_master));
    }
}

/* Starts a program with five descriptors, of which it gets pair[1] as descriptor 3. */
static int start(char *const *arguments, int pair[2], uint32_t *number, pid_t *pid)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const int fds[] = {pair[1], pair[1], pair[1], pair[0], pair[0]};
    int code =
        convoy_link_start(to_master, "label", arguments, fds, on_exit_of, &status, number, pid, &error);
    close(pair[1]);
    return code;
}

Test(master, starts_a_worker_and_tells_how_it_ended)
{
    char *arguments[] = {"/bin/sh", "-c", "echo $0 $#>&3; read line <&4; exit 7", "a word", "", "b c", NULL};
    char line[64] = "";
    uint32_t number;
    pid_t pid;
    int pair[2];
    cr_assert_eq(start(arguments, pair, &number, &pid), 0, "%s", error.message);
    cr_assert_gt(pid, 0);
    cr_assert_gt(read(pair[0], line, sizeof line - 1), 0);
    cr_assert_str_eq(line, "a word 2\n", "arguments arrive as they are");
    cr_assert_eq(write(pair[0], "\n", 1), 1);
    until_ended(1);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 7);
    close(pair[0]);
}

Test(master, kills_a_worker)
{
    char *arguments[] = {"/bin/sleep", "1000", NULL};
    uint32_t number;
    pid_t pid;
    int pair[2];
    cr_assert_eq(start(arguments, pair, &number, &pid), 0, "%s", error.message);
    convoy_link_kill(to_master, number + 1); /* there is none */
    convoy_link_kill(to_master, number);
    until_ended(1);
    cr_assert(WIFSIGNALED(status));
    close(pair[0]);
}

Test(master, says_why_a_worker_is_not_started)
{
    char *arguments[] = {"/nowhere/worker", NULL};
    uint32_t number;
    pid_t pid;
    int pair[2];
    cr_assert_eq(start(arguments, pair, &number, &pid), -ENOENT);
    cr_assert_not_null(strstr(error.message, "/nowhere/worker"), "%s", error.message);
    close(pair[0]);
}

Test(master, a_worker_has_no_variable_of_the_front)
{
    char *arguments[] = {"/bin/sh", "-c", "echo \"<$LISTEN_FDS$NOTIFY_SOCKET>\" >&3", NULL};
    char line[64] = "";
    uint32_t number;
    pid_t pid;
    int pair[2];
    convoy_link_free(to_master);
    wait(NULL);
    setenv("NOTIFY_SOCKET", "/nowhere", 1);
    setenv("LISTEN_FDS", "1", 1);
    cr_assert_eq(convoy_master_fork(&to_master, &error), 0);
    cr_assert_eq(start(arguments, pair, &number, &pid), 0, "%s", error.message);
    cr_assert_gt(read(pair[0], line, sizeof line - 1), 0);
    cr_assert_str_eq(line, "<>\n", "%s", line);
    until_ended(1);
    close(pair[0]);
}

Test(master, drops_what_it_holds_before_it_says_so)
{
    int pair[2];
    char byte;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    convoy_link_hold(to_master, "a key", pair[1]);
    convoy_link_drop(to_master, "another key");
    close(pair[1]);
    cr_assert_eq(read(pair[0], &byte, 1), -1, "it is not held");
    cr_assert_eq(errno, EAGAIN);
    convoy_link_drop(to_master, "a key");
    cr_assert_eq(read(pair[0], &byte, 1), 0, "it is held still");
    close(pair[0]);
}
