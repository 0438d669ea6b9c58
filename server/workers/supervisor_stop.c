/* The end: every worker is told to exit, and killed when it does not. */
#include "server/workers/supervisor_internal.h"

#include "server/workers/worker_command.h"

#define STOP_MS 2000u /* a worker that does not end by itself is killed after this */

void convoy_supervisor_check_stopped(struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (supervisor->workers[i]->process.running)
            return;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        uv_close((uv_handle_t *)&supervisor->workers[i]->restart, NULL);
    uv_close((uv_handle_t *)&supervisor->watch, NULL);
    uv_close((uv_handle_t *)&supervisor->batcher_timer, NULL);
    uv_close((uv_handle_t *)&supervisor->stop_timer, NULL);
    supervisor->stopped(supervisor->stopped_context);
}

static void on_stop_timeout(uv_timer_t *timer)
{
    struct convoy_supervisor *supervisor = timer->data;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        convoy_worker_process_kill(&supervisor->workers[i]->process, "stop");
}

void convoy_supervisor_stop(struct convoy_supervisor *supervisor, void (*stopped)(void *), void *context)
{
    supervisor->stopped = stopped;
    supervisor->stopped_context = context;
    uv_timer_init(supervisor->loop, &supervisor->stop_timer);
    supervisor->stop_timer.data = supervisor;
    uv_timer_start(&supervisor->stop_timer, on_stop_timeout, STOP_MS, 0);
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        uv_timer_stop(&supervisor->workers[i]->restart);
        /* A worker that does not get it is killed by the timer. */
        (void)convoy_worker_process_send(&supervisor->workers[i]->process, convoy_worker_command_exit());
    }
    convoy_supervisor_check_stopped(supervisor);
}
