#include "engine/base/wake_fd.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int convoy_wake_fd_new(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd >= 0 ? fd : -errno;
}

void convoy_wake_fd_ring(int wake_fd)
{
    /* Fails only when 2^64 - 2 rings were never cleared; the other thread is awake then anyway. */
    ssize_t written = write(wake_fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written;
}

void convoy_wake_fd_clear(int wake_fd)
{
    uint64_t rings;
    ssize_t got = read(wake_fd, &rings, sizeof rings);
    (void)got;
}
