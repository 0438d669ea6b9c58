#include "server/workers/worker_doorbell.h"

#include "engine/base/brief_wait.h"
#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/pause.h"

#define LOOKS 64u /* at the channel in a turn of the loop that waits briefly: some 2 us */

static void take_finished(struct convoy_worker_doorbell *doorbell)
{
    uint64_t before_us = doorbell->finished_us;
    convoy_channel_attend(doorbell->channel, true);
    doorbell->attends = doorbell->finished(doorbell->context);
    if (!doorbell->attends)
        convoy_channel_attend(doorbell->channel, false);
    doorbell->finished_us = convoy_now_us();
    doorbell->waits_briefly = convoy_brief_wait(doorbell->finished_us - before_us, doorbell->cores);
}

static bool look_briefly(const struct convoy_worker_doorbell *doorbell)
{
    if (!doorbell->waits_briefly || convoy_now_us() > doorbell->finished_us + CONVOY_BRIEF_WAIT_US)
        return false;
    for (uint32_t look = 0; look < LOOKS && !convoy_channel_pending(doorbell->channel); look++)
        convoy_pause();
    return true;
}

static void on_stay(uv_idle_t *idle)
{
    (void)idle;
}

/* Takes what was finished once a turn of the loop: a worker that has always finished something does not keep
 * the loop from other work. */
static void on_before_sleep(uv_prepare_t *prepare)
{
    struct convoy_worker_doorbell *doorbell = prepare->data;
    if (doorbell->attends && convoy_channel_pending(doorbell->channel))
        take_finished(doorbell);
    else if (doorbell->attends)
        doorbell->attends = look_briefly(doorbell) || !convoy_channel_sleep(doorbell->channel);
    if (doorbell->attends)
        uv_idle_start(&doorbell->stays_awake, on_stay);
    else
        uv_idle_stop(&doorbell->stays_awake);
}

static void on_ring(uv_poll_t *poll, int status, int events)
{
    struct convoy_worker_doorbell *doorbell = poll->data;
    (void)status, (void)events;
    /* A worker that lives on and answers no more is found as one that hangs. */
    if (!convoy_channel_clear_doorbell(doorbell->channel->doorbell_fd))
        uv_poll_stop(poll);
    take_finished(doorbell);
}

void convoy_worker_doorbell_listen(struct convoy_worker_doorbell *doorbell, uv_loop_t *loop,
                                   struct convoy_channel *channel, bool (*finished)(void *context),
                                   void *context)
{
    *doorbell = (struct convoy_worker_doorbell){
        .channel = channel, .finished = finished, .context = context, .cores = convoy_cores()};
    uv_poll_init(loop, &doorbell->rings, channel->doorbell_fd);
    uv_prepare_init(loop, &doorbell->before_sleep);
    uv_idle_init(loop, &doorbell->stays_awake);
    doorbell->rings.data = doorbell->before_sleep.data = doorbell->stays_awake.data = doorbell;
    uv_poll_start(&doorbell->rings, UV_READABLE, on_ring);
    uv_prepare_start(&doorbell->before_sleep, on_before_sleep);
}

void convoy_worker_doorbell_close(struct convoy_worker_doorbell *doorbell, uv_close_cb closed)
{
    doorbell->rings.data = doorbell->before_sleep.data = doorbell->stays_awake.data = doorbell->context;
    uv_close((uv_handle_t *)&doorbell->rings, closed);
    uv_close((uv_handle_t *)&doorbell->before_sleep, closed);
    uv_close((uv_handle_t *)&doorbell->stays_awake, closed);
}
