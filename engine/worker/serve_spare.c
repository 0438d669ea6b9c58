#include "engine/ipc/channel.h"
#include "engine/worker/serve_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Beside "convoy-worker" it tells people, and pgrep, what the process is. */
#define SPARE_NAME  "convoy-spare"
#define WORKER_NAME "convoy-worker"

void convoy_worker_begin_spare(void)
{
    /* Its socket may stay open where no front is: the service manager holds sockets over a restart. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NAME, SPARE_NAME, 0, 0, 0);
}

void convoy_worker_wait_as_spare(void)
{
    struct pollfd socket = {.fd = CONVOY_FD_CONTROL, .events = POLLIN};
    while (poll(&socket, 1, -1) < 0 && errno == EINTR)
        ;
    if ((socket.revents & POLLIN) == 0)
        _exit(0);
    prctl(PR_SET_NAME, WORKER_NAME, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0); /* a worker may outlive the master (worker.orphan_ms) */
}
