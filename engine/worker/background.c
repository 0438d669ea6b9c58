#include "engine/worker/background.h"

#include "engine/base/wake_fd.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

struct task {
    void (*work)(void *argument);
    void *argument;
    int done_fd;
    atomic_bool done;
};

int convoy_background_open(struct convoy_background *background, bool (*serve)(void *context), void *context,
                           struct convoy_channel *channel, struct convoy_error *error)
{
    int done_fd = convoy_wake_fd_new();
    if (done_fd < 0)
        return convoy_fail(error, done_fd, "cannot make an eventfd: %s", strerror(-done_fd));
    *background = (struct convoy_background){serve, context, channel, done_fd};
    return 0;
}

void convoy_background_close(struct convoy_background *background)
{
    close(background->done_fd);
}

static void *run_task(void *context)
{
    struct task *task = context;
    task->work(task->argument);
    int done_fd = task->done_fd;
    atomic_store(&task->done, true);
    convoy_wake_fd_ring(done_fd);
    return NULL;
}

void convoy_background_run(const struct convoy_background *background, void (*work)(void *argument),
                           void *argument)
{
    struct task task = {.work = work, .argument = argument, .done_fd = background->done_fd};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_task, &task) != 0) {
        work(argument);
        return;
    }
    struct pollfd wakers[] = {{.fd = background->done_fd, .events = POLLIN},
                              {.fd = background->channel->doorbell_fd, .events = POLLIN}};
    while (!atomic_load(&task.done)) {
        if (background->serve(background->context) || !convoy_channel_sleep(background->channel))
            continue;
        poll(wakers, 2, -1);
        convoy_channel_attend(background->channel, true);
        /* Before serve() looks again, so no ring is lost. A front that has gone rings no more. */
        if (wakers[1].revents != 0 && !convoy_channel_clear_doorbell(background->channel->doorbell_fd))
            wakers[1].fd = -1;
    }
    pthread_join(thread, NULL);
    convoy_wake_fd_clear(background->done_fd);
}
