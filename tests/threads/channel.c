/* Both ends of a channel, each on a thread of its own, for the thread sanitizer: slots go to the worker and
 * back while either end sleeps or attends as it happens to, and no ring is lost. */
#include "engine/ipc/channel.h"
#include "tests/threads/check.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define ROUNDS  100000u
#define SLOTS   3u
#define LOST_MS 10000 /* far more than a ring takes */

struct end {
    struct convoy_channel channel;
    uint32_t sleeps, random;
};

/* So both ends come upon each other at different places. */
static void dawdle(struct end *end)
{
    end->random = end->random * 1664525u + 1013904223u;
    for (volatile uint32_t i = end->random >> 26; i > 0; i--)
        ;
}

static void wait_for_more(struct end *end)
{
    struct pollfd doorbell = {.fd = end->channel.doorbell_fd, .events = POLLIN};
    dawdle(end);
    if (!convoy_channel_sleep(&end->channel))
        return;
    end->sleeps++;
    CHECK(poll(&doorbell, 1, LOST_MS) == 1);
    CHECK(convoy_channel_clear_doorbell(end->channel.doorbell_fd));
    convoy_channel_attend(&end->channel, true);
}

static void *work(void *context)
{
    struct end *end = context;
    uint32_t slot;
    for (uint32_t done = 0; done < ROUNDS;) {
        if (!convoy_channel_take_submitted(&end->channel, &slot)) {
            wait_for_more(end);
            continue;
        }
        dawdle(end);
        convoy_channel_finish(&end->channel, &(struct convoy_done){.slot = slot});
        done++;
    }
    return NULL;
}

int main(void)
{
    const struct convoy_channel_size size = {.slots = SLOTS, .input_bytes = 64, .output_bytes = 64};
    struct end front = {.random = 1}, worker = {.random = 2};
    struct convoy_error error;
    struct convoy_done done;
    pthread_t thread;
    CHECK(convoy_channel_create(&front.channel, &error) == 0);
    CHECK(convoy_channel_lay_out(&front.channel, &size, &error) == 0);
    CHECK(convoy_channel_attach(&worker.channel, dup(front.channel.memory_fd),
                                dup(front.channel.worker_doorbell_fd), &size, &error) == 0);
    CHECK(pthread_create(&thread, NULL, work, &worker) == 0);
    for (uint32_t submitted = 0, taken = 0; taken < ROUNDS;) {
        if (submitted < ROUNDS && submitted - taken < 1 + submitted % SLOTS) {
            convoy_channel_submit(&front.channel, submitted++ % SLOTS);
            convoy_channel_ring(&front.channel);
        } else if (convoy_channel_take_done(&front.channel, &done)) {
            CHECK(done.slot == taken++ % SLOTS);
        } else {
            wait_for_more(&front);
        }
    }
    pthread_join(thread, NULL);
    printf("%u slots, the worker slept %u times and the front %u\n", ROUNDS, worker.sleeps, front.sleeps);
    convoy_channel_destroy(&worker.channel);
    convoy_channel_destroy(&front.channel);
    return 0;
}
