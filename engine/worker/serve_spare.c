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

void convoy_worker_begin_spare(struct convoy_worker *worker)
{
    worker->is_spare = true;
    /* Its socket may stay open where no front is: the service manager holds sockets over a restart. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_NAME, SPARE_NAME, 0, 0, 0);
}

/* A front looks at it before it takes a spare, and a front that does not know it passes it by. */
static void say_opened(struct convoy_worker *worker, const struct convoy_device_memory *memory)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "opened");
    cJSON_AddNumberToObject(message, "free", (double)memory->free);
    cJSON_AddNumberToObject(message, "total", (double)memory->total);
    convoy_control_send(&worker->control, message);
}

void convoy_worker_wait_as_spare(void *context, const struct convoy_device_memory *memory)
{
    struct convoy_worker *worker = context;
    if (!worker->is_spare)
        return;
    worker->is_spare = false;
    if (memory != NULL)
        say_opened(worker, memory);
    struct pollfd socket = {.fd = CONVOY_FD_CONTROL, .events = POLLIN};
    while (poll(&socket, 1, -1) < 0 && errno == EINTR)
        ;
    if ((socket.revents & POLLIN) == 0)
        _exit(0);
    prctl(PR_SET_NAME, WORKER_NAME, 0, 0, 0);
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0); /* a worker may outlive the master (worker.orphan_ms) */
}
