/* What a backend prepares while its networks serve: the JPEG decoder of a GPU. It begins when all that the
 * front asked for is loaded, so that it holds up neither a load nor the first request, and the front is told
 * before: when this process dies of it, neither a model nor a slot is to blame
 * (server/workers/supervisor_heartbeat.c).
 */
#include "engine/base/clock.h"
#include "engine/base/wake_fd.h"
#include "engine/worker/serve_internal.h"

#define QUIET_US                                                                                             \
    100000u               /* without work before it begins: the first request often comes when all is loaded \
                           */
#define LATEST_US 200000u /* after the last command it begins by then, however much there is to compute */

void convoy_worker_run_behind(void *context, void (*work)(void *argument),
                              int (*done)(void *argument, struct convoy_error *error), void *argument)
{
    struct convoy_worker *worker = context;
    struct convoy_worker_behind *behind = &worker->behind;
    behind->work = work;
    behind->done = done;
    behind->argument = argument;
    behind->begin_us = behind->latest_us = 0;
    behind->begun = behind->inside = false;
    atomic_store(&behind->ended, false);
}

static void *run(void *context)
{
    struct convoy_worker *worker = context;
    worker->behind.work(worker->behind.argument);
    atomic_store(&worker->behind.ended, true);
    convoy_wake_fd_ring(worker->wake_fd);
    return NULL;
}

static void begin(struct convoy_worker *worker)
{
    struct convoy_worker_behind *behind = &worker->behind;
    behind->begun = true;
    atomic_store(&behind->runs, true);
    convoy_worker_send_heartbeat(worker); /* it may be the last that the front hears */
    behind->inside = pthread_create(&behind->thread, NULL, run, worker) != 0;
    if (behind->inside)
        run(worker);
}

static void end(struct convoy_worker *worker)
{
    struct convoy_worker_behind *behind = &worker->behind;
    struct convoy_error error;
    if (!behind->inside)
        pthread_join(behind->thread, NULL);
    behind->work = NULL;
    if (behind->done(behind->argument, &error) != 0)
        convoy_worker_lose_device(worker, &error);
    atomic_store(&behind->runs, false);
    convoy_worker_send_heartbeat(worker);
    convoy_worker_send_memory(worker);
    worker->idle_left = true; /* the tuner has waited */
}

void convoy_worker_behind_turn(struct convoy_worker *worker, bool busy, bool commanded)
{
    struct convoy_worker_behind *behind = &worker->behind;
    if (behind->work == NULL || !worker->attached || worker->renumbering)
        return;
    if (behind->begun) {
        if (atomic_load(&behind->ended))
            end(worker);
        return;
    }
    uint64_t now = convoy_now_us();
    if (commanded || behind->latest_us == 0)
        behind->latest_us = now + LATEST_US;
    if (commanded || busy || behind->begin_us == 0)
        behind->begin_us = now + QUIET_US;
    if (now >= behind->begin_us || now >= behind->latest_us)
        begin(worker);
}

int convoy_worker_behind_wait_ms(const struct convoy_worker *worker)
{
    const struct convoy_worker_behind *behind = &worker->behind;
    if (behind->work == NULL || behind->begun || !worker->attached || worker->renumbering)
        return -1;
    uint64_t now = convoy_now_us();
    return now < behind->begin_us ? (int)((behind->begin_us - now) / 1000 + 1) : 0;
}
