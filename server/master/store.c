#include "server/master/store.h"

#include "engine/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef CONVOY_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#define FIRST_FD    3
#define MOST_FDS    4096 /* that a service manager hands over */
#define NAME_BYTES  64
#define STATE_BYTES (2 * PATH_MAX + 64)
#define BARRIER_US  2000000u

/* A worker's descriptors in the store: NAME-PART each. */
enum part { MEMORY, CONTROL, DOORBELL, PROCESS, STATE, PARTS };
static const char *const parts[PARTS] = {"memory", "control", "doorbell", "process", "state"};

struct stored {
    uint32_t number;
    int fds[PARTS];
};

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void make_name(char name[NAME_BYTES], uint32_t number, enum part part)
{
    snprintf(name, NAME_BYTES, "convoy-worker-%" PRIu32 "-%s", number, parts[part]);
}

static bool read_name(const char *name, uint32_t *number, enum part *part)
{
    char own[NAME_BYTES];
    if (sscanf(name, "convoy-worker-%" SCNu32, number) != 1 || *number == 0)
        return false;
    for (*part = MEMORY; *part < PARTS; (*part)++) {
        make_name(own, *number, *part);
        if (strcmp(own, name) == 0)
            return true;
    }
    return false;
}

bool convoy_store_exists(void)
{
#ifdef CONVOY_SYSTEMD
    const char *address = getenv("NOTIFY_SOCKET");
    return address != NULL && address[0] != '\0';
#else
    return false;
#endif
}

static void tell(const char *what, const char *name, const int *fd)
{
#ifdef CONVOY_SYSTEMD
    char message[NAME_BYTES + 64];
    snprintf(message, sizeof message, "%s=1\nFDNAME=%s", what, name);
    (void)sd_pid_notify_with_fds(0, 0, message, fd, fd != NULL ? 1 : 0);
#else
    (void)what;
    (void)name;
    (void)fd;
#endif
}

/* ---- Putting ---- */

/* What cannot be seen from the descriptors, as a file in memory. Negative when it cannot be made. */
static int write_state(const struct convoy_held_worker *worker, uint32_t fronts)
{
    char text[STATE_BYTES];
    int length = snprintf(text, sizeof text, "%d %" PRIu32 " %s", worker->pid, fronts, worker->label);
    int fd = memfd_create("convoy-worker-state", MFD_CLOEXEC);
    if (fd >= 0 && (length >= (int)sizeof text || write(fd, text, (size_t)length) != length)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A descriptor that stands for this process, whatever process gets its number later. */
static int open_process(const struct convoy_held_worker *worker)
{
    int fd = worker->pidfd >= 0 ? fcntl(worker->pidfd, F_DUPFD_CLOEXEC, 0)
                                : (int)syscall(SYS_pidfd_open, worker->pid, 0);
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

uint32_t convoy_store_put(const struct convoy_hold *hold, uint32_t fronts)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++) {
        const struct convoy_held_worker *worker = &hold->workers[i];
        if (worker->number == 0 || worker->exited)
            continue;
        int state = write_state(worker, fronts), process = open_process(worker);
        const int fds[PARTS] = {worker->memory, worker->control, worker->doorbell, process, state};
        for (enum part part = MEMORY; part < PARTS; part++) {
            char name[NAME_BYTES];
            make_name(name, worker->number, part);
            if (process >= 0 && state >= 0)
                tell("FDSTORE", name, &fds[part]);
        }
        count += process >= 0 && state >= 0;
        close_if_open(process);
        close_if_open(state);
    }
#ifdef CONVOY_SYSTEMD
    /* It knows whose message it is only while this process exists. */
    if (count > 0)
        (void)sd_notify_barrier(0, BARRIER_US);
#endif
    return count;
}

/* ---- Taking ---- */

static struct stored *find_or_add(struct stored *list, uint32_t *count, uint32_t number)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i].number == number)
            return &list[i];
    if (*count == CONVOY_HOLD_WORKERS)
        return NULL;
    list[*count] = (struct stored){number, {-1, -1, -1, -1, -1}};
    return &list[(*count)++];
}

static void forget(const struct stored *stored)
{
    for (enum part part = MEMORY; part < PARTS; part++) {
        char name[NAME_BYTES];
        make_name(name, stored->number, part);
        tell("FDSTOREREMOVE", name, NULL);
    }
}

/* Reads the state. False when it is none, or the process has ended. */
static bool identify(const struct stored *stored, struct convoy_held_worker *worker, uint32_t *fronts)
{
    char text[STATE_BYTES], *label;
    int pid = 0, at = 0;
    for (enum part part = MEMORY; part < PARTS; part++)
        if (stored->fds[part] < 0)
            return false;
    struct pollfd ended = {.fd = stored->fds[PROCESS], .events = POLLIN};
    ssize_t length = pread(stored->fds[STATE], text, sizeof text - 1, 0);
    if (length <= 0 || poll(&ended, 1, 0) != 0)
        return false;
    text[length] = '\0';
    if (sscanf(text, "%d %" SCNu32 " %n", &pid, fronts, &at) != 2 || pid <= 0 ||
        (label = strdup(text + at)) == NULL)
        return false;
    *worker = (struct convoy_held_worker){.number = stored->number,
                                          .pid = pid,
                                          .pidfd = stored->fds[PROCESS],
                                          .memory = stored->fds[MEMORY],
                                          .control = stored->fds[CONTROL],
                                          .doorbell = stored->fds[DOORBELL],
                                          .label = label};
    return true;
}

static void take(struct convoy_hold *hold, struct stored *stored, uint32_t *fronts)
{
    struct convoy_held_worker worker;
    uint32_t served = 0;
    forget(stored);
    bool lives = identify(stored, &worker, &served);
    if (lives && !convoy_hold_stored(hold, &worker)) {
        free(worker.label);
        lives = false;
    }
    if (lives && served > *fronts)
        *fronts = served;
    for (enum part part = MEMORY; part < PARTS; part++)
        if (!lives || part == STATE)
            close_if_open(stored->fds[part]);
}

/* LISTEN_FDS, when they are for this process. */
static uint32_t count_inherited(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != getpid())
        return 0;
    long sockets = strtol(count, NULL, 10);
    return sockets > 0 && sockets <= MOST_FDS ? (uint32_t)sockets : 0;
}

static void set_inherited(uint32_t count, const char *names)
{
    char text[16];
    snprintf(text, sizeof text, "%" PRIu32, count);
    setenv("LISTEN_FDS", text, 1);
    setenv("LISTEN_FDNAMES", names, 1);
}

uint32_t convoy_store_take(struct convoy_hold *hold, uint32_t *fronts)
{
    static struct stored list[CONVOY_HOLD_WORKERS];
    const uint32_t count = count_inherited();
    const char *given = getenv("LISTEN_FDNAMES");
    char *names = strdup(given != NULL ? given : ""), *rest = names, *left = calloc(strlen(names) + 2, 1);
    uint32_t kept = 0, workers = 0;
    for (uint32_t i = 0; i < count && left != NULL; i++) {
        const char *name = rest != NULL ? strsep(&rest, ":") : "";
        int fd = FIRST_FD + (int)i;
        uint32_t number;
        enum part part;
        struct stored *stored = read_name(name, &number, &part) ? find_or_add(list, &workers, number) : NULL;
        if (stored != NULL) {
            if (stored->fds[part] < 0)
                stored->fds[part] = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD + (int)count);
            close(fd);
            continue;
        }
        if (kept != i) {
            dup2(fd, FIRST_FD + (int)kept);
            close(fd);
        }
        fcntl(FIRST_FD + (int)kept, F_SETFD, FD_CLOEXEC);
        sprintf(left + strlen(left), "%s%s", kept++ > 0 ? ":" : "", name);
    }
    if (workers > 0)
        set_inherited(kept, left);
    for (uint32_t i = 0; i < workers; i++)
        take(hold, &list[i], fronts);
    if (workers > 0)
        convoy_log(CONVOY_LOG_INFO, "workers were kept over the restart", CONVOY_UINT("workers", workers),
                   CONVOY_UINT("living", convoy_hold_living(hold)));
    free(names);
    free(left);
    return kept;
}
