/* Several devices: where images go when one is lost. */
#include "tests/unit/server/batching/batcher_two_workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Waits for the timer and does what it is for. */
static void tick(int longest_ms)
{
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    cr_assert_eq(poll(&timer, 1, longest_ms), 1, "the timer never fired");
    convoy_batcher_tick(p.batcher);
}

Test(batcher_lost, what_waits_for_a_lost_device_goes_to_the_other)
{
    uint32_t slot;
    begin_two(8, 1);
    for (int i = 0; i < 40; i++)
        submit(i);
    cr_assert_gt(rows_of(0), 8);
    /* The first is alone in flight, a full slot is staged behind it. */
    cr_assert_gt(take(&slot), 0);
    uint32_t in_flight = worker_slots[0]->in_flight, again = go_down(0);
    cr_assert_eq(worker_slots[0]->used, in_flight, "what only waited stays");
    while (run_one(1) > 0)
        ;
    cr_assert_eq(p.done_count, 40 - (int)again);
    come_up(0, 1);
    run_all();
    assert_answered(0, 40);
    end_two();
}

Test(batcher_lost, moved_images_keep_their_order)
{
    begin_two(4, 1);
    for (int i = 0; i < 60; i++)
        submit(i);
    int before[ITEMS]; /* whether the other worker had it already */
    for (int i = 0; i < 60; i++)
        before[i] = !p.items[i].parked && p.items[i].worker == 1;
    go_down(0);
    uint32_t slot, rows, checked = 0;
    int last = -1;
    while ((rows = take_from(workers[1], &slot)) > 0) {
        const struct convoy_slot *header = convoy_channel_slot(workers[1], slot);
        for (uint32_t row = 0; row < rows; row++) {
            int item = convoy_channel_rows(workers[1], slot)[row * header->input_stride];
            if (before[item])
                continue;
            cr_assert_gt(item, last, "%d runs after %d", item, last);
            last = item;
            checked++;
        }
        answer_from(workers[1], slot);
        cr_assert_eq(convoy_worker_slots_collect(worker_slots[1]), 0);
        assert_load(0);
        assert_load(1);
    }
    cr_assert_gt(checked, 38, "those that had waited here, and those that were parked already");
    come_up(0, 1);
    run_all();
    assert_answered(0, 60);
    end_two();
}

Test(batcher_lost, a_worker_that_is_down_gets_nothing_while_another_serves)
{
    begin_two(4, 1);
    go_down(0);
    for (int i = 0; i < 40; i++)
        submit(i);
    cr_assert_eq(rows_of(0), 0);
    run_all();
    assert_answered(0, 40);
    end_two();
}

Test(batcher_lost, with_all_devices_gone_images_wait_for_the_first_that_is_back)
{
    begin_two(4, 1);
    go_down(0);
    go_down(1);
    for (int i = 0; i < 40; i++)
        submit(i);
    come_up(1, 1);
    cr_assert_eq(rows_of(0), 0, "rows are left where no worker is");
    run_all();
    assert_answered(0, 40);
    end_two();
}

/* Two images in flight, one on each; which worker has item 0. */
static int one_each(void)
{
    uint32_t slots[2];
    submit(0);
    int first = rows_of(0) == 1 ? 0 : 1;
    submit(1);
    cr_assert_eq(take_from(workers[0], &slots[0]), 1);
    cr_assert_eq(take_from(workers[1], &slots[1]), 1);
    answer_from(workers[!first], slots[!first]);
    cr_assert_eq(convoy_worker_slots_collect(worker_slots[!first]), 0);
    return first;
}

Test(batcher_lost, suspects_wait_for_their_own_worker_first)
{
    begin_two(4, 1);
    int lost = one_each();
    cr_assert_eq(go_down(lost), 1);
    cr_assert_eq(rows_of(lost), 1, "a suspect went to another device at once");
    come_up(lost, 1);
    cr_assert_eq(run_one(lost), 1);
    cr_assert_eq(run_one(!lost), 0);
    assert_answered(0, 2);
    cr_assert_eq(p.items[0].retries, 1);
    end_two();
}

Test(batcher_lost, suspects_move_when_no_worker_comes)
{
    begin_two(4, 1);
    int lost = one_each();
    uint64_t began = convoy_now_us();
    go_down(lost);
    while (rows_of(!lost) == 0)
        tick(5000);
    cr_assert_geq(convoy_now_us() - began, 900000, "it did not wait for its worker");
    cr_assert_eq(rows_of(lost), 0);
    cr_assert_eq(run_one(!lost), 1);
    assert_answered(0, 2);
    cr_assert_eq(p.items[0].retries, 1);
    cr_assert_str_eq(p.items[0].device, lost == 0 ? "other" : "cpu");
    end_two();
}

Test(batcher_lost, suspects_move_at_once_when_the_next_worker_cannot_be_started)
{
    begin_two(4, 1);
    int lost = one_each();
    go_down(lost);
    convoy_worker_slots_lost(worker_slots[lost]);
    cr_assert_eq(run_one(!lost), 1);
    assert_answered(0, 2);
    end_two();
}

Test(batcher_lost, a_suspect_that_moved_runs_alone_after_what_waited)
{
    uint32_t slot, none;
    begin_two(4, 2);
    int lost = one_each();
    go_down(lost);
    submit(2); /* with the other's worker */
    submit(3);
    cr_assert_eq(take_from(workers[!lost], &slot), 1);
    uint32_t second;
    cr_assert_eq(take_from(workers[!lost], &second), 1);
    convoy_worker_slots_lost(worker_slots[lost]);
    cr_assert_eq(take_from(workers[!lost], &none), 0, "a suspect runs beside others");
    answer_from(workers[!lost], slot);
    cr_assert_eq(convoy_worker_slots_collect(worker_slots[!lost]), 0);
    cr_assert_eq(take_from(workers[!lost], &none), 0, "a suspect runs beside others");
    answer_from(workers[!lost], second);
    cr_assert_eq(convoy_worker_slots_collect(worker_slots[!lost]), 0);
    submit(4);
    cr_assert_eq(take_from(workers[!lost], &slot), 1);
    cr_assert_eq(convoy_channel_rows(workers[!lost], slot)[0], 0);
    cr_assert_eq(take_from(workers[!lost], &none), 0, "something runs beside a suspect");
    answer_from(workers[!lost], slot);
    cr_assert_eq(convoy_worker_slots_collect(worker_slots[!lost]), 0);
    run_all();
    assert_answered(0, 5);
    end_two();
}

Test(batcher_lost, the_image_that_kills_is_found_wherever_it_goes)
{
    begin_two(4, 1);
    for (int i = 0; i < 10; i++)
        submit(i);
    /* Item 3 kills whichever worker has it, and none takes its place until the other is dead too. */
    int deaths = 0;
    while (p.done_count < 10 && deaths < 30) {
        for (int device = 0; device < 2; device++) {
            uint32_t slot, rows = take_from(workers[device], &slot);
            bool deadly = false;
            for (uint32_t row = 0; row < rows; row++) {
                const struct convoy_slot *header = convoy_channel_slot(workers[device], slot);
                deadly =
                    deadly || convoy_channel_rows(workers[device],
                                                  slot)[(header->first + row) * header->input_stride] == 3;
            }
            if (deadly) {
                go_down(device);
                if (!worker_slots[!device]->up)
                    come_up(!device, 1);
                convoy_worker_slots_lost(worker_slots[device]);
                deaths++;
            } else if (rows > 0) {
                answer_from(workers[device], slot);
                cr_assert_eq(convoy_worker_slots_collect(worker_slots[device]), 0);
            }
        }
    }
    cr_assert_leq(deaths, 3, "%d deaths", deaths);
    assert_answered(0, 3);
    assert_answered(4, 10);
    cr_assert_eq(p.items[3].status, -EIO);
    end_two();
}

Test(batcher_lost, a_suspect_finds_no_free_slot_and_waits_for_one)
{
    begin_two(2, 1);
    int lost = one_each();
    for (int i = 2; i < 30; i++)
        submit(i);
    uint32_t again = go_down(lost);
    cr_assert_gt(again, 0);
    convoy_worker_slots_lost(worker_slots[lost]);
    cr_assert_eq(worker_slots[!lost]->used, 2);
    while (run_one(!lost) > 0)
        ;
    assert_answered(0, 30);
    end_two();
}

Test(batcher_lost, what_waits_for_a_lost_device_still_has_its_deadline)
{
    begin_two(4, 1);
    go_down(0);
    go_down(1);
    for (int i = 0; i < 6; i++)
        submit_for(i, 0, convoy_now_us() + 50000, false);
    while (p.done_count < 6)
        tick(5000);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(p.items[i].status, -ETIMEDOUT);
    end_two();
}

Test(batcher_lost, a_profiled_image_moves_too)
{
    begin_two(4, 1);
    go_down(1);
    go_down(0);
    submit_for(0, 0, UINT64_MAX, true);
    submit(1);
    int empty = rows_of(0) == 0 ? 0 : 1;
    come_up(empty, 1);
    cr_assert_eq(rows_of(!empty), 0);
    while (run_one(empty) > 0)
        ;
    assert_answered(0, 2);
    cr_assert_eq(p.items[0].batch_size, 1);
    end_two();
}

/* A page that holds up the thread that reads it: the fault is told through one pipe and ends with the other.
 */
static uint8_t *slow_page;
static int reached[2], go_on[2];

static void on_fault(int signal)
{
    char byte = 0;
    (void)signal;
    if (write(reached[1], &byte, 1) != 1 || read(go_on[0], &byte, 1) != 1 ||
        mprotect(slow_page, 4096, PROT_READ) != 0)
        _exit(99);
}

static void *submit_slowly(void *context)
{
    (void)context;
    p.items[7] = (struct convoy_item){.model = &p.models[0],
                                      .group = group_at(7, UINT64_MAX),
                                      .outputs = p.outputs[7],
                                      .done = on_done,
                                      .source = slow_page,
                                      .source_bytes = 8};
    cr_assert_eq(admit(0, 1), 0);
    convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[7]}, 1);
    return NULL;
}

Test(batcher_lost, a_row_that_is_still_copied_when_its_worker_dies_moves_when_it_is_there)
{
    pthread_t thread;
    char byte = 0;
    begin_two(4, 1);
    cr_assert_eq(pipe(reached) + pipe(go_on), 0);
    slow_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(slow_page, MAP_FAILED);
    memset(slow_page, 7, 4096);
    mprotect(slow_page, 4096, PROT_NONE);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = on_fault}, NULL);
    pthread_create(&thread, NULL, submit_slowly, NULL);
    cr_assert_eq(read(reached[0], &byte, 1), 1);
    int lost = rows_of(0) == 1 ? 0 : 1;
    go_down(lost);
    cr_assert_eq(rows_of(lost), 1, "a row moved before it was there");
    cr_assert_eq(write(go_on[1], &byte, 1), 1);
    pthread_join(thread, NULL);
    tick(5000);
    cr_assert_eq(run_one(!lost), 1);
    assert_answered(7, 8);
    end_two();
}

Test(batcher_lost, a_worker_that_does_not_serve_the_model_may_get_no_row_of_it)
{
    begin(4, 1, 1000000);
    convoy_batcher_rows_only_where_served(p.batcher);
    convoy_worker_slots_down(p.worker_slots, true);
    /* A worker for another model comes up while the one for this is away, and serves that one. */
    add_worker(&second_channel, &second_worker, 4, "other", &worker_slots[1]);
    submit(0);
    cr_assert_eq(worker_slots[1]->used, 0, "before it is up");
    convoy_worker_slots_up(worker_slots[1], 1);
    convoy_worker_slots_model(worker_slots[1], &p.models[1], true, NULL, 0);
    for (int i = 1; i < 16; i++)
        submit(i);
    cr_assert_eq(worker_slots[1]->used, 0);
    cr_assert_eq(p.worker_slots->used, 4, "they wait where the model was served");
    convoy_channel_reset(&p.channel);
    p.worker.submit_head = 0;
    convoy_worker_slots_up(p.worker_slots, 1);
    convoy_worker_slots_model(p.worker_slots, &p.models[0], true, NULL, 0);
    /* Another model under the number. */
    cr_assert_eq(worker_slots[1]->models[1], WORKER_SERVES);
    convoy_batcher_model_new(p.batcher, &p.models[1]);
    cr_assert_eq(worker_slots[1]->models[1], WORKER_REFUSES);
    uint32_t slot;
    while (take(&slot) > 0) {
        answer(slot);
        cr_assert_eq(convoy_worker_slots_collect(p.worker_slots), 0);
    }
    assert_answered(0, 16);
    end();
    convoy_channel_destroy(&second_channel);
}
