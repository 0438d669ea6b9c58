/* What HTTP threads wait for: never for a system call on another connection's socket. recv() and getsockopt()
 * are replaced by ones that stay in the call until the test lets them go on. */
#include "engine/base/clock.h"
#include "server/http/connection_watch.h"
#include "server/http/linger.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool stay; /* the next call is stopped */
static sem_t within, go_on;

/* In a call: tells the test, and waits for it. */
static void stop_here(void)
{
    if (!atomic_exchange(&stay, false))
        return;
    sem_post(&within);
    sem_wait(&go_on);
}

ssize_t recv(int fd, void *bytes, size_t length, int flags);
__attribute__((visibility("default"))) ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
    stop_here();
    return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length);
__attribute__((visibility("default"))) int getsockopt(int fd, int level, int name, void *value,
                                                      socklen_t *length)
{
    stop_here();
    return (int)syscall(SYS_getsockopt, fd, level, name, value, length);
}

static void init(void)
{
    sem_init(&within, 0, 0);
    sem_init(&go_on, 0, 0);
    atomic_store(&stay, true);
}

static void make_pair(int pair[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

/* A call that takes the lock would hang here, and the test would end by its timeout. */
Test(locks, a_connection_lingers_while_another_one_is_read, .init = init, .timeout = 30)
{
    struct convoy_linger *linger;
    struct convoy_error error;
    int first[2], second[2];

    make_pair(first);
    make_pair(second);
    cr_assert_eq(convoy_linger_start(&linger, &error), 0, "%s", error.message);
    convoy_linger_take(linger, first[0]);
    sem_wait(&within);
    convoy_linger_take(linger, second[0]);
    sem_post(&go_on);
    convoy_linger_free(linger);
}

static struct convoy_connection_watch *start_watch(void)
{
    struct convoy_connection_watch *watch;
    struct convoy_error error;

    cr_assert_eq(convoy_connection_watch_start(1000, &watch, &error), 0, "%s", error.message);
    return watch;
}

Test(locks, connections_come_and_go_while_another_one_is_examined, .init = init, .timeout = 30)
{
    struct convoy_connection_watch *watch = start_watch();
    int first[2], second[2];

    make_pair(first);
    make_pair(second);
    struct convoy_connection *examined = convoy_connection_watch_add(watch, first[0]);
    sem_wait(&within);
    struct convoy_connection *other = convoy_connection_watch_add(watch, second[0]);
    cr_assert_not_null(other);
    convoy_connection_watch_remove(watch, other);
    sem_post(&go_on);
    convoy_connection_watch_remove(watch, examined);
    convoy_connection_watch_free(watch);
}

struct removal {
    struct convoy_connection_watch *watch;
    struct convoy_connection *connection;
    _Atomic pid_t thread;
    atomic_bool returned;
};

static void *remove_it(void *context)
{
    struct removal *removal = context;

    atomic_store(&removal->thread, (pid_t)syscall(SYS_gettid));
    convoy_connection_watch_remove(removal->watch, removal->connection);
    atomic_store(&removal->returned, true);
    return NULL;
}

/* The thread waits in the kernel, as /proc tells. */
static bool sleeps(pid_t thread)
{
    char path[64], state = '?';

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    int read = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return read == 1 && state == 'S';
}

Test(locks, the_connection_that_is_examined_is_removed_after_that, .init = init, .timeout = 30)
{
    struct convoy_connection_watch *watch = start_watch();
    struct removal removal = {.watch = watch};
    pthread_t thread;
    int pair[2];

    make_pair(pair);
    removal.connection = convoy_connection_watch_add(watch, pair[0]);
    sem_wait(&within);
    cr_assert_eq(pthread_create(&thread, NULL, remove_it, &removal), 0);
    while (!atomic_load(&removal.returned) &&
           (atomic_load(&removal.thread) == 0 || !sleeps(atomic_load(&removal.thread))))
        sched_yield();
    cr_assert_not(atomic_load(&removal.returned), "the descriptor may be closed while it is examined");
    sem_post(&go_on);
    pthread_join(thread, NULL);
    convoy_connection_watch_free(watch);
}
