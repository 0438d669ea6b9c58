/* Both ends of the channel in one process. */
#include "engine/ipc/channel.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const struct convoy_channel_size size = {.slots = 3, .input_bytes = 5000, .output_bytes = 700};

static void both_ends(struct convoy_channel *front, struct convoy_channel *worker)
{
    struct convoy_error error;
    cr_assert_eq(convoy_channel_create(front, &error), 0, "%s", error.message);
    cr_assert_eq(convoy_channel_lay_out(front, &size, &error), 0, "%s", error.message);
    cr_assert_eq(
        convoy_channel_attach(worker, dup(front->memory_fd), dup(front->worker_doorbell_fd), &size, &error),
        0, "%s", error.message);
}

static void close_both(struct convoy_channel *front, struct convoy_channel *worker)
{
    convoy_channel_destroy(front);
    convoy_channel_destroy(worker);
}

Test(channel, a_worker_of_other_models_sees_nothing_of_what_the_one_before_was_given)
{
    struct convoy_channel front, worker, next;
    struct convoy_error error;
    uint32_t slot;
    both_ends(&front, &worker);
    void *base = front.base;
    int memory_fd = front.memory_fd, doorbell_fd = front.doorbell_fd;
    memset(convoy_channel_rows(&front, 1), 77, size.input_bytes);
    convoy_channel_submit(&front, 1);

    cr_assert_eq(convoy_channel_renew_memory(&front, &error), 0, "%s", error.message);
    cr_assert(front.base == base && front.memory_fd == memory_fd && front.doorbell_fd == doorbell_fd);
    cr_assert_eq(
        convoy_channel_attach(&next, dup(front.memory_fd), dup(front.worker_doorbell_fd), &size, &error), 0,
        "%s", error.message);
    for (uint64_t byte = 0; byte < size.input_bytes; byte++)
        cr_assert_eq(convoy_channel_rows(&next, 1)[byte], 0);
    cr_assert_not(convoy_channel_take_submitted(&next, &slot));
    /* Nor does the one before see anything of what the next one is given. */
    memset(convoy_channel_rows(&front, 2), 88, size.input_bytes);
    cr_assert_eq(convoy_channel_rows(&next, 2)[0], 88);
    cr_assert_eq(convoy_channel_rows(&worker, 1)[0], 77);
    cr_assert_eq(convoy_channel_rows(&worker, 2)[0], 0);
    convoy_channel_submit(&front, 2);
    cr_assert(convoy_channel_take_submitted(&next, &slot) && slot == 2);
    cr_assert_neq(ftruncate(next.memory_fd, 1), 0, "it is not sealed");
    convoy_channel_destroy(&next);
    close_both(&front, &worker);

    /* Before it is laid out. */
    cr_assert_eq(convoy_channel_create(&front, &error), 0);
    cr_assert_eq(ftruncate(front.memory_fd, 100), 0);
    cr_assert_eq(convoy_channel_renew_memory(&front, &error), 0, "%s", error.message);
    cr_assert_eq(lseek(front.memory_fd, 0, SEEK_END), 0);
    cr_assert_eq(convoy_channel_lay_out(&front, &size, &error), 0, "%s", error.message);
    convoy_channel_destroy(&front);
}

Test(channel, what_the_front_writes_the_worker_reads_and_back)
{
    struct convoy_channel front, worker;
    uint32_t slot;
    struct convoy_done done;
    both_ends(&front, &worker);
    for (uint32_t i = 0; i < size.slots; i++) {
        memset(convoy_channel_rows(&front, i), 10 + (int)i, size.input_bytes);
        *convoy_channel_slot(&front, i) = (struct convoy_slot){.model = i, .rows = 7, .generation = 100 + i};
        convoy_channel_submit(&front, i);
    }
    for (uint32_t i = 0; i < size.slots; i++) {
        cr_assert(convoy_channel_take_submitted(&worker, &slot));
        cr_assert_eq(slot, i);
        cr_assert_eq(convoy_channel_slot(&worker, slot)->model, i);
        for (size_t byte = 0; byte < size.input_bytes; byte++)
            cr_assert_eq(convoy_channel_rows(&worker, slot)[byte], 10 + i);
        memset(convoy_channel_outputs(&worker, slot), 50 + (int)i, size.output_bytes);
        convoy_channel_report(&worker, slot)->layer_us[CONVOY_MAX_LAYERS - 1] = (float)i;
        for (int k = 0; k < CONVOY_MAX_CLASS_MAP; k++)
            convoy_channel_class_map(&worker, slot)[k] = (float)(10000 * (int)i + k);
        convoy_channel_finish(&worker, &(struct convoy_done){slot, 100 + i, 0});
    }
    cr_assert_not(convoy_channel_take_submitted(&worker, &slot));
    for (uint32_t i = 0; i < size.slots; i++) {
        cr_assert(convoy_channel_take_done(&front, &done));
        cr_assert_eq(done.slot, i);
        cr_assert_eq(done.generation, 100 + i);
        /* neither the outputs of one slot, nor its report and map, reach into the rows of the next */
        cr_assert_eq(convoy_channel_outputs(&front, i)[size.output_bytes - 1], 50 + i);
        cr_assert_eq(convoy_channel_rows(&front, i)[size.input_bytes - 1], 10 + i);
        cr_assert_eq(convoy_channel_report(&front, i)->layer_us[CONVOY_MAX_LAYERS - 1], (float)i);
        for (int k = 0; k < CONVOY_MAX_CLASS_MAP; k++)
            cr_assert_eq(convoy_channel_class_map(&front, i)[k], (float)(10000 * (int)i + k));
    }
    cr_assert_not(convoy_channel_take_done(&front, &done));
    close_both(&front, &worker);
}

Test(channel, doorbells_ring_once_and_fall_quiet)
{
    struct convoy_channel front, worker;
    both_ends(&front, &worker);
    struct pollfd bell = {.fd = worker.doorbell_fd, .events = POLLIN};
    cr_assert_eq(poll(&bell, 1, 0), 0);
    convoy_channel_submit(&front, 0);
    convoy_channel_submit(&front, 1);
    cr_assert_eq(poll(&bell, 1, 0), 0); /* a submission alone makes no system call */
    convoy_channel_ring(&front);
    cr_assert_eq(poll(&bell, 1, 0), 1);
    cr_assert(convoy_channel_clear_doorbell(worker.doorbell_fd));
    cr_assert_eq(poll(&bell, 1, 0), 0);
    cr_assert_not(convoy_channel_clear_doorbell(worker.doorbell_fd)); /* a quiet bell does not block */
    close_both(&front, &worker);
}

static int rings_at(const struct convoy_channel *channel)
{
    int bytes = -1;
    cr_assert_eq(ioctl(channel->doorbell_fd, FIONREAD, &bytes), 0);
    (void)convoy_channel_clear_doorbell(channel->doorbell_fd);
    return bytes;
}

Test(channel, an_end_that_attends_is_not_rung_and_one_that_sleeps_is_rung_once)
{
    struct convoy_channel front, worker;
    struct convoy_done done = {.slot = 1};
    uint32_t slot;
    both_ends(&front, &worker);

    cr_assert(convoy_channel_sleep(&worker));
    for (uint32_t i = 0; i < 3; i++) {
        convoy_channel_submit(&front, i);
        convoy_channel_ring(&front);
    }
    cr_assert_eq(rings_at(&worker), 1);
    cr_assert_not(convoy_channel_sleep(&worker), "three slots wait");
    cr_assert(convoy_channel_pending(&worker));
    while (convoy_channel_take_submitted(&worker, &slot))
        ;
    cr_assert_not(convoy_channel_pending(&worker));
    convoy_channel_submit(&front, 1);
    convoy_channel_ring(&front);
    cr_assert_eq(rings_at(&worker), 0, "it attended");
    cr_assert_not(convoy_channel_sleep(&worker), "one that was not rung for");
    cr_assert(convoy_channel_take_submitted(&worker, &slot));
    cr_assert(convoy_channel_sleep(&worker));
    convoy_channel_submit(&front, 1);
    convoy_channel_ring(&front);
    cr_assert_eq(rings_at(&worker), 1);

    /* The same the other way, and of an end that stops to attend. */
    convoy_channel_attend(&front, true);
    convoy_channel_finish(&worker, &done);
    cr_assert_eq(rings_at(&front), 0);
    cr_assert(convoy_channel_pending(&front) && !convoy_channel_sleep(&front));
    cr_assert(convoy_channel_take_done(&front, &done) && convoy_channel_sleep(&front));
    convoy_channel_finish(&worker, &done);
    convoy_channel_finish(&worker, &done);
    cr_assert_eq(rings_at(&front), 1);
    convoy_channel_attend(&front, false);
    convoy_channel_finish(&worker, &done);
    convoy_channel_finish(&worker, &done);
    cr_assert_eq(rings_at(&front), 2);
    close_both(&front, &worker);
}

Test(channel, who_comes_after_one_that_attended_is_rung)
{
    struct convoy_channel front, worker, next;
    struct convoy_error error;
    struct convoy_done done = {.slot = 1};
    both_ends(&front, &worker);
    convoy_channel_attend(&front, true);
    convoy_channel_attend(&worker, true);

    /* Another front. */
    cr_assert_eq(
        convoy_channel_take_over(&next, dup(front.memory_fd), dup(front.doorbell_fd), &size, 1, &error), 0,
        "%s", error.message);
    convoy_channel_finish(&worker, &done);
    cr_assert_eq(rings_at(&next), 1);

    /* Another worker. */
    convoy_channel_reset(&next);
    convoy_channel_submit(&next, 1);
    convoy_channel_ring(&next);
    cr_assert_eq(rings_at(&worker), 1);

    /* Another front, of a build that knows nothing of this: the worker hears of it. */
    convoy_channel_attend(&next, true);
    convoy_channel_pass_by(&worker);
    convoy_channel_finish(&worker, &done);
    cr_assert_eq(rings_at(&next), 1);

    /* A worker that comes after one of this build, under such a front. */
    struct convoy_channel later;
    convoy_channel_attend(&worker, true);
    cr_assert_eq(
        convoy_channel_attach(&later, dup(front.memory_fd), dup(front.worker_doorbell_fd), &size, &error), 0,
        "%s", error.message);
    convoy_channel_submit(&next, 1);
    convoy_channel_ring(&next);
    cr_assert_eq(rings_at(&later), 1);
    convoy_channel_destroy(&later);
    convoy_channel_destroy(&next);
    close_both(&front, &worker);
}

/* Without memory there is nothing to look at. */
Test(channel, an_end_without_memory_may_sleep)
{
    struct convoy_channel front;
    struct convoy_error error;
    cr_assert_eq(convoy_channel_create(&front, &error), 0);
    convoy_channel_attend(&front, true);
    cr_assert(convoy_channel_sleep(&front) && !convoy_channel_pending(&front));
    convoy_channel_destroy(&front);
}

/* As a hostile worker can: what it sets on its own end, and how full it leaves it, is not to make the front's
 * calls wait. A call that would wait does so for a second here. */
Test(channel, the_other_end_cannot_make_a_call_wait)
{
    struct convoy_channel front, worker;
    struct timeval second = {.tv_sec = 1};
    both_ends(&front, &worker);
    setsockopt(front.doorbell_fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    setsockopt(front.doorbell_fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    fcntl(worker.doorbell_fd, F_SETFL, fcntl(worker.doorbell_fd, F_GETFL) & ~O_NONBLOCK);
    ioctl(worker.doorbell_fd, FIONBIO, &(int){0});
    for (int ring = 0; ring < 5000; ring++) { /* none is taken */
        uint64_t before = convoy_now_us();
        convoy_channel_ring(&front);
        cr_assert_lt(convoy_now_us() - before, 900000u, "ring %d waits", ring);
    }
    while (send(worker.doorbell_fd, "", 1, MSG_DONTWAIT) == 1)
        ;
    int taken = 0;
    uint64_t before = convoy_now_us();
    while (convoy_channel_clear_doorbell(front.doorbell_fd))
        taken++;
    cr_assert_lt(convoy_now_us() - before, 900000u, "taking what rang waits");
    cr_assert(taken > 0 && taken < 1000, "%d", taken);
    close_both(&front, &worker);
}

Test(channel, a_doorbell_ends_with_the_worker_and_the_next_has_its_own)
{
    struct convoy_channel front;
    struct convoy_error error;
    cr_assert_eq(convoy_channel_create(&front, &error), 0);
    int child = dup(front.worker_doorbell_fd), number = front.doorbell_fd;
    convoy_channel_handed_over(&front);
    cr_assert_eq(convoy_channel_renew_doorbell(&front, &error), 0);
    cr_assert_eq(front.doorbell_fd, number);
    struct pollfd bell = {.fd = front.doorbell_fd, .events = POLLIN};
    ssize_t sent = send(child, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    cr_assert(sent != 1 && poll(&bell, 1, 0) == 0, "what a dead worker left behind rings for the next one");
    convoy_channel_handed_over(&front);
    cr_assert_eq(poll(&bell, 1, 0), 1);
    cr_assert_not(convoy_channel_clear_doorbell(front.doorbell_fd)); /* its end */
    convoy_channel_ring(&front);                                     /* raises no SIGPIPE */
    close(child);
    convoy_channel_destroy(&front);
}

Test(channel, many_rounds_wrap_the_rings)
{
    struct convoy_channel front, worker;
    struct convoy_done done;
    uint32_t slot;
    both_ends(&front, &worker);
    for (uint32_t round = 0; round < 10000; round++) {
        convoy_channel_submit(&front, round % size.slots);
        cr_assert(convoy_channel_take_submitted(&worker, &slot));
        cr_assert_eq(slot, round % size.slots);
        convoy_channel_finish(&worker, &(struct convoy_done){slot, round, -5});
        cr_assert(convoy_channel_take_done(&front, &done));
        cr_assert_eq(done.generation, round);
        cr_assert_eq(done.status, -5);
    }
    close_both(&front, &worker);
}

Test(channel, a_reset_forgets_the_dead_worker)
{
    struct convoy_channel front, worker, next;
    struct convoy_error error;
    struct convoy_done done;
    uint32_t slot;
    both_ends(&front, &worker);
    convoy_channel_submit(&front, 0);
    convoy_channel_submit(&front, 1);
    convoy_channel_take_submitted(&worker, &slot);
    convoy_channel_finish(&worker, &(struct convoy_done){slot, 1, 0});
    convoy_channel_reset(&front);
    cr_assert_not(convoy_channel_take_done(&front, &done));
    cr_assert_eq(
        convoy_channel_attach(&next, dup(front.memory_fd), dup(front.worker_doorbell_fd), &size, &error), 0);
    cr_assert_not(convoy_channel_take_submitted(&next, &slot));
    convoy_channel_submit(&front, 2);
    cr_assert(convoy_channel_take_submitted(&next, &slot));
    cr_assert_eq(slot, 2);
    convoy_channel_destroy(&next);
    close_both(&front, &worker);
}

Test(channel, what_is_written_late_for_the_dead_worker_reaches_no_answer)
{
    struct convoy_channel front, worker, next;
    struct convoy_error error;
    both_ends(&front, &worker);
    convoy_channel_reset(&front);
    convoy_channel_exchange_outputs(&front);
    cr_assert_eq(front.turn, 1);
    cr_assert_eq(
        convoy_channel_attach(&next, dup(front.memory_fd), dup(front.worker_doorbell_fd), &size, &error), 0);
    next.turn = front.turn; /* as it is told */
    for (uint32_t i = 0; i < size.slots; i++)
        memset(convoy_channel_rows(&front, i), 10 + (int)i, size.input_bytes);
    for (uint32_t i = 0; i < size.slots; i++)
        memset(convoy_channel_outputs(&next, i), 50 + (int)i, size.output_bytes);
    for (uint32_t i = 0; i < size.slots; i++)
        memset(convoy_channel_outputs(&worker, i), 0xff, size.output_bytes);
    for (uint32_t i = 0; i < size.slots; i++) {
        for (size_t byte = 0; byte < size.output_bytes; byte++)
            cr_assert_eq(convoy_channel_outputs(&front, i)[byte], 50 + i);
        for (size_t byte = 0; byte < size.input_bytes; byte++)
            cr_assert_eq(convoy_channel_rows(&next, i)[byte], 10 + i);
    }
    /* And back, when the first worker is gone and the second one dies. */
    convoy_channel_exchange_outputs(&front);
    cr_assert_eq(convoy_channel_outputs(&front, 0)[0], 0xff);
    convoy_channel_destroy(&next);
    close_both(&front, &worker);
}

Test(channel, a_worker_cannot_shrink_the_memory)
{
    struct convoy_channel front, worker;
    both_ends(&front, &worker);
    cr_assert_neq(ftruncate(worker.memory_fd, 0), 0);
    close_both(&front, &worker);
}

Test(channel, completions_that_ran_away_are_bounded)
{
    struct convoy_channel front, worker;
    struct convoy_done done;
    uint32_t taken = 0;
    both_ends(&front, &worker);
    for (uint32_t i = 0; i < 100000; i++)
        convoy_channel_finish(&worker, &(struct convoy_done){i, i, 0});
    while (convoy_channel_take_done(&front, &done))
        taken++;
    cr_assert_leq(taken, 2u * CONVOY_MAX_SLOTS);
    cr_assert_eq(done.slot, 99999);
    close_both(&front, &worker);
}

Test(channel, sizes_that_do_not_fit_are_refused)
{
    struct convoy_channel front, worker;
    struct convoy_error error;
    struct convoy_channel_size wrong = size;
    both_ends(&front, &worker);
    wrong.slots = 4;
    cr_assert_neq(convoy_channel_attach(&worker, front.memory_fd, front.worker_doorbell_fd, &wrong, &error),
                  0);
    wrong.slots = CONVOY_MAX_SLOTS + 1;
    cr_assert_neq(convoy_channel_attach(&worker, front.memory_fd, front.worker_doorbell_fd, &wrong, &error),
                  0);
    wrong = size;
    wrong.input_bytes = (uint64_t)CONVOY_SLOT_MAX_BYTES + 1;
    cr_assert_neq(convoy_channel_attach(&worker, front.memory_fd, front.worker_doorbell_fd, &wrong, &error),
                  0);
    cr_assert(strstr(error.message, "67108864") != NULL);
    convoy_channel_destroy(&front);
}

Test(channel, a_front_that_comes_later_sees_nothing_of_the_one_before)
{
    struct convoy_channel dead, worker, front;
    struct convoy_error error;
    struct convoy_done done;
    uint32_t slot;
    both_ends(&dead, &worker);
    for (uint32_t i = 0; i < size.slots; i++)
        convoy_channel_submit(&dead, i);
    cr_assert(convoy_channel_take_submitted(&worker, &slot));
    convoy_channel_finish(&worker, &(struct convoy_done){slot, 1, 0}); /* it was under way */
    convoy_channel_pass_by(&worker);
    cr_assert_not(convoy_channel_take_submitted(&worker, &slot));
    cr_assert_eq(
        convoy_channel_take_over(&front, dup(dead.memory_fd), dup(dead.doorbell_fd), &size, 2, &error), 0,
        "%s", error.message);
    convoy_channel_destroy(&dead);
    cr_assert_not(convoy_channel_take_done(&front, &done));
    cr_assert_gt(front.first_generation, 1);
    convoy_channel_submit(&front, 2);
    cr_assert(convoy_channel_take_submitted(&worker, &slot));
    cr_assert_eq(slot, 2);
    cr_assert_not(convoy_channel_take_submitted(&worker, &slot));
    convoy_channel_finish(&worker, &(struct convoy_done){2, 7, 0});
    cr_assert(convoy_channel_take_done(&front, &done));
    cr_assert_eq(done.generation, 7);
    close_both(&front, &worker);
}

Test(channel, only_what_a_front_laid_out_is_taken_over)
{
    struct convoy_channel dead, worker, front;
    struct convoy_error error;
    const struct convoy_channel_size other = {.slots = 2, .input_bytes = 5000, .output_bytes = 700};
    both_ends(&dead, &worker);
    cr_assert_neq(
        convoy_channel_take_over(&front, dup(dead.memory_fd), dup(dead.doorbell_fd), &other, 2, &error), 0);
    convoy_channel_destroy(&front);
    close_both(&dead, &worker);
    cr_assert_eq(convoy_channel_create(&dead, &error), 0);
    cr_assert_eq(ftruncate(dead.memory_fd, 1 << 20), 0);
    cr_assert_neq(
        convoy_channel_take_over(&front, dup(dead.memory_fd), dup(dead.doorbell_fd), &size, 2, &error), 0,
        "it can be resized");
    convoy_channel_destroy(&front);
    convoy_channel_destroy(&dead);
}
