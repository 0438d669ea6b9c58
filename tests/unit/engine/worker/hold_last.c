/* Of which descriptor the other end is told first when a process ends. */
#include "engine/worker/hold_last.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 20000
#define OTHERS   8

TestSuite(hold_last, .timeout = 60);

static void make_pair(int pair[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

/* The child's: all descriptors but `held` have larger numbers than it. */
static void hold_and_wait(int held, int ready)
{
    convoy_worker_hold_last(held);
    (void)!write(ready, "", 1);
    for (;;)
        pause();
}

static int first_that_ends(int epoll)
{
    struct epoll_event event; /* the kernel lists them in the order in which they came */
    int count;
    do
        count = epoll_wait(epoll, &event, 1, LIMIT_MS);
    while (count < 0 && errno == EINTR);
    cr_assert_eq(count, 1, "no end is told");
    return (int)event.data.u32;
}

Test(hold_last, its_end_is_told_before_that_of_later_descriptors)
{
    int held[2], others[OTHERS][2], ready[2];
    make_pair(held);
    for (int i = 0; i < OTHERS; i++)
        make_pair(others[i]);
    make_pair(ready);
    pid_t child = fork();
    if (child == 0)
        hold_and_wait(held[1], ready[1]);
    cr_assert(child > 0);
    close(held[1]);
    char byte;
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLRDHUP, .data.u32 = OTHERS};
    for (int i = 0; i < OTHERS; i++) {
        struct epoll_event of_other = {.events = EPOLLRDHUP, .data.u32 = (uint32_t)i};
        close(others[i][1]);
        cr_assert_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, others[i][0], &of_other), 0);
    }
    cr_assert_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, held[0], &event), 0);
    kill(child, SIGKILL);
    cr_expect_eq(first_that_ends(epoll), OTHERS);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}
