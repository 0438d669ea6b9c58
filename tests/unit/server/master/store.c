/* Workers that are put into a service manager's store, with the test in the manager's place, and taken from
 * it. */
#include "server/master/store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASIDE_FD 200
#define LIMIT_S  20
#define PARTS    5
#define NUMBER   7u
#define FRONTS   5u

static char folder[] = "/tmp/convoy-store-XXXXXX";
static int notify_fd = -1;
static pid_t worker = 0;

/* What the manager keeps. */
static struct {
    char name[64];
    int fd;
} kept[PARTS];
static int count;
static uint32_t left = 1; /* descriptors that are no worker's */

static void begin(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!convoy_store_exists() && setenv("NOTIFY_SOCKET", "x", 1) == 0 && !convoy_store_exists())
        cr_skip_test("this build has no libsystemd (libsystemd-dev)");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", folder);
    notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(notify_fd, (struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    alarm(LIMIT_S); /* whatever waits in vain here */
    if ((worker = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
            pause();
    }
}

static void end(void)
{
    if (worker > 0) {
        kill(worker, SIGKILL);
        waitpid(worker, NULL, 0);
    }
    if (notify_fd >= 0) {
        unlink(getenv("NOTIFY_SOCKET"));
        rmdir(folder);
    }
}
TestSuite(store, .init = begin, .fini = end);

/* One message; its descriptor or -1. */
static int receive(char *text, size_t capacity)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec bytes = {text, capacity - 1};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t length = recvmsg(notify_fd, &message, MSG_CMSG_CLOEXEC);
    cr_assert_gt(length, 0);
    text[length] = '\0';
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int fd = -1;
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* Has another process put a worker, one that has ended beside it, and keeps what comes. */
static void put(void)
{
    int pair[2], memory = memfd_create("memory", MFD_CLOEXEC);
    char text[256];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t master = fork();
    if (master == 0) {
        static struct convoy_hold hold;
        hold.workers[0] = (struct convoy_held_worker){.number = 6, .exited = true, .label = "ended"};
        hold.workers[1] = (struct convoy_held_worker){.number = NUMBER,
                                                      .pid = worker,
                                                      .pidfd = -1,
                                                      .memory = memory,
                                                      .control = pair[0],
                                                      .doorbell = pair[1],
                                                      .label = "a label: with %s, all sorts"};
        _exit(convoy_store_put(&hold, FRONTS) == 1 ? 0 : 1);
    }
    for (;;) {
        int fd = receive(text, sizeof text);
        if (strstr(text, "BARRIER=1") != NULL) {
            close(fd);
            break;
        }
        cr_assert(count < PARTS && fd >= 0, "%s", text);
        cr_assert_eq(sscanf(text, "FDSTORE=1\nFDNAME=%63s", kept[count].name), 1, "%s", text);
        kept[count++].fd = fd;
    }
    int status;
    cr_assert_eq(waitpid(master, &status, 0), master);
    cr_assert_eq(status, 0);
    cr_assert_eq(count, PARTS);
    close(memory);
    close(pair[0]);
    close(pair[1]);
}

/* The next master: gets what is kept in reverse order, with a socket of another kind in its middle. Exits
 * with what check() returns. */
static int taken(int (*check)(uint32_t inherited, const struct convoy_hold *hold, uint32_t fronts))
{
    pid_t master = fork();
    if (master == 0) {
        static struct convoy_hold hold;
        int fds[PARTS + 1], used = 0;
        char names[PARTS * 80] = "", pid[16];
        uint32_t fronts = 1;
        for (int i = PARTS; i-- > 0;) {
            if (used == 2) {
                fds[used++] = open("/dev/null", O_RDONLY);
                strcat(names, ":http");
            }
            fds[used++] = kept[i].fd;
            sprintf(names + strlen(names), "%s%s", names[0] != '\0' ? ":" : "", kept[i].name);
        }
        for (int i = 0; i < used; i++)
            fds[i] = fcntl(fds[i], F_DUPFD, ASIDE_FD);
        close_range(3, ASIDE_FD - 1, 0);
        for (int i = 0; i < used; i++)
            dup2(fds[i], 3 + i);
        snprintf(pid, sizeof pid, "%d", getpid());
        setenv("LISTEN_PID", pid, 1);
        setenv("LISTEN_FDS", "6", 1);
        setenv("LISTEN_FDNAMES", names, 1);
        uint32_t inherited = convoy_store_take(&hold, &fronts);
        _exit(check(inherited, &hold, fronts));
    }
    int status;
    char text[256];
    for (int i = 0; i < PARTS; i++) {
        cr_assert_eq(receive(text, sizeof text), -1);
        cr_assert_eq(strncmp(text, "FDSTOREREMOVE=1\nFDNAME=convoy-worker-7-", 39), 0, "%s", text);
    }
    cr_assert_eq(waitpid(master, &status, 0), master);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int is_there(uint32_t inherited, const struct convoy_hold *hold, uint32_t fronts)
{
    const struct convoy_held_worker *it = &hold->workers[0];
    char byte = 'x', got = 0;
    if (inherited != 1 || strcmp(getenv("LISTEN_FDS"), "1") != 0 ||
        strcmp(getenv("LISTEN_FDNAMES"), "http") != 0 || fcntl(3, F_GETFD) != FD_CLOEXEC)
        return 2;
    if (it->number != NUMBER || it->pid != worker || it->exited || it->pidfd < 0 || fronts != FRONTS ||
        strcmp(it->label, "a label: with %s, all sorts") != 0 || convoy_hold_living(hold) != 1)
        return 3;
    /* The two sockets are the ends of one pair, and in their places. */
    if (write(it->control, &byte, 1) != 1 || read(it->doorbell, &got, 1) != 1 || got != 'x' ||
        lseek(it->memory, 0, SEEK_END) != 0 || fcntl(it->memory, F_GETFD) != FD_CLOEXEC)
        return 4;
    int open_fds = 0;
    for (int fd = 3; fd < ASIDE_FD; fd++)
        open_fds += fcntl(fd, F_GETFD) >= 0;
    if (open_fds != 1 + 4)
        return 5;
    convoy_hold_kill(it);
    return 0;
}

static int is_none(uint32_t inherited, const struct convoy_hold *hold, uint32_t fronts)
{
    for (int fd = 3 + (int)left; fd < ASIDE_FD; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return 5;
    return inherited == left && convoy_hold_living(hold) == 0 && fronts == 1 ? 0 : 2;
}

Test(store, a_worker_is_found_again_and_can_be_killed)
{
    int status;
    put();
    cr_assert_eq(taken(is_there), 0);
    cr_assert_eq(waitpid(worker, &status, 0), worker);
    cr_assert(WIFSIGNALED(status));
    worker = 0;
}

Test(store, a_worker_that_has_ended_is_forgotten)
{
    put();
    kill(worker, SIGKILL);
    waitpid(worker, NULL, 0);
    worker = 0;
    cr_assert_eq(taken(is_none), 0);
}

Test(store, a_worker_of_which_a_part_is_missing_is_forgotten)
{
    put();
    strcpy(kept[1].name, "convoy-worker-7-others");
    left = 2;
    cr_assert_eq(taken(is_none), 0);
}

Test(store, descriptors_for_another_process_are_not_touched)
{
    static struct convoy_hold hold;
    uint32_t fronts = 3;
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", "convoy-worker-1-memory:convoy-worker-1-state", 1);
    cr_assert_eq(convoy_store_take(&hold, &fronts), 0);
    cr_assert_eq(fronts, 3);
    cr_assert_str_eq(getenv("LISTEN_FDS"), "2");
}
