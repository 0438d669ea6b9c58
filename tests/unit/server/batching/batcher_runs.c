/* Images that are handed over together: they travel together, and wait together. */
#include "tests/unit/server/batching/batcher_two_workers.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

static int written[ITEMS];

static void write_index(const struct convoy_item *item, uint8_t *target)
{
    size_t index = (size_t)(item - p.items);
    written[index]++;
    memset(target, (int)index, 8);
}

/* count images from first on, whose rows are written where they go. */
static void submit_run(int first, uint32_t count, int model, bool source_stays)
{
    struct convoy_item *items[ITEMS];
    struct convoy_item_group *group = group_at(first, UINT64_MAX);
    for (uint32_t i = 0; i < count; i++) {
        items[i] = &p.items[first + (int)i];
        *items[i] = (struct convoy_item){.model = &p.models[model],
                                         .group = group,
                                         .outputs = p.outputs[first + (int)i],
                                         .write = write_index,
                                         .source_stays = source_stays,
                                         .done = on_done};
        written[first + (int)i] = 0;
    }
    cr_assert_eq(admit(model, count), 0);
    convoy_batcher_submit(p.batcher, items, count);
}

/* The worker runs what it is given, until there is nothing left; returns how many batches that were. */
static int run_one_worker(void)
{
    uint32_t slot;
    int batches = 0;
    while (take(&slot) > 0) {
        answer(slot);
        collect();
        batches++;
    }
    return batches;
}

Test(batcher_runs, leave_together_though_the_worker_is_idle)
{
    uint32_t slot;
    begin(4, 1, 1000000);
    submit_run(0, 3, 0, true);
    cr_assert_eq(take(&slot), 3, "the first image left alone");
    answer(slot);
    collect();
    assert_answered(0, 3);
    cr_assert_eq(p.items[2].batch_size, 3);
    end();
}

Test(batcher_runs, fill_what_gathers_and_go_on_in_the_next_slot)
{
    uint32_t slot;
    begin(4, 1, 1000000);
    submit(0); /* runs */
    submit(1); /* gathers */
    submit_run(2, 6, 0, true);
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(take(&slot), 4, "a full slot is staged");
    convoy_channel_finish(&p.worker,
                          &(struct convoy_done){0, convoy_channel_slot(&p.worker, 0)->generation, -EIO});
    collect();
    cr_assert_eq(p.items[0].status, -EIO);
    cr_assert_eq(p.done_count, 1);
    answer(slot);
    collect();
    cr_assert_eq(run_one_worker(), 1);
    assert_answered(1, 8);
    cr_assert_eq(p.items[7].batch_size, 3);
    end();
}

Test(batcher_runs, past_the_slots_they_wait_where_they_are_and_get_rows_together)
{
    begin(2, 1, 1000000);
    submit_run(0, 8, 0, true); /* both slots */
    submit_run(8, 7, 0, true);
    for (int i = 8; i < 15; i++)
        cr_assert_eq(written[i], 0, "image %d was copied though its source stays", i);
    cr_assert_eq(run_one_worker(), 4, "two slots, and two for what waited");
    assert_answered(0, 15);
    for (int i = 0; i < 15; i++)
        cr_assert_eq(written[i], 1, "image %d was written %d times", i, written[i]);
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    end();
}

Test(batcher_runs, a_source_that_does_not_stay_is_copied)
{
    begin(1, 1, 1000000);
    submit_run(0, 4, 0, true);
    submit_run(4, 3, 0, false);
    for (int i = 4; i < 7; i++) {
        cr_assert_eq(written[i], 1);
        p.items[i].write = NULL; /* what it would write now */
    }
    run_one_worker();
    assert_answered(0, 7);
    end();
}

static void let_a_microsecond_pass(void)
{
    uint64_t before = convoy_now_us();
    while (convoy_now_us() == before)
        ; /* images of one microsecond are equally old */
}

Test(batcher_runs, an_older_image_of_another_model_goes_before_the_rest)
{
    uint32_t slot, models[8], rows[8];
    int batches = 0;
    begin(1, 1, 1000000);
    submit_run(0, 4, 0, true);
    submit_run(4, 2, 0, true);
    let_a_microsecond_pass();
    submit_run(6, 2, 1, true);
    let_a_microsecond_pass();
    submit_run(8, 2, 0, true);
    while ((rows[batches] = take(&slot)) > 0) {
        models[batches++] = convoy_channel_slot(&p.worker, slot)->model;
        /* Neither has used the device more than the other: age decides. */
        p.batcher->queues[0].fair.used_us = p.batcher->queues[1].fair.used_us = 0;
        p.batcher->virtual_us = 0;
        p.worker_slots->slots[slot].charged_us = 0;
        *convoy_channel_report(&p.worker, slot) = (struct convoy_slot_report){0};
        answer(slot);
        collect();
    }
    assert_answered(0, 10);
    cr_assert_eq(batches, 4);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(models[i], i == 2, "batch %d is model %u's", i, models[i]);
    for (int i = 1; i < 4; i++)
        cr_assert_eq(rows[i], 2, "%u rows in batch %d", rows[i], i);
    end();
}

Test(batcher_runs, cost_their_device_as_much_as_one_by_one)
{
    begin_two(4, 1);
    set_cost(0, 0, 100000);
    set_cost(1, 0, 100000);
    submit_run(0, 3, 0, true);
    int device = rows_of(1) > 0;
    cr_assert_eq(rows_of(device), 3);
    cr_assert_float_eq(worker_slots[device]->load.backlog_us, 300000, 3000, "%g us",
                       worker_slots[device]->load.backlog_us);
    run_all();
    assert_answered(0, 3);
    end_two();
}

Test(batcher_runs, are_counted_one_by_one)
{
    size_t length;
    begin(4, 1, 1000000);
    submit_run(0, 7, 0, true);
    run_one_worker();
    char *text = convoy_metrics_render(p.metrics, &length);
    cr_assert_not_null(strstr(text, "convoyd_queue_seconds_count{model=\"a\"} 7\n"), "%s", text);
    free(text);
    end();
}

Test(batcher_runs, a_run_whose_model_is_gone_is_answered_whole)
{
    begin(1, 1, 1000000);
    submit_run(0, 4, 0, true);
    submit_run(4, 3, 0, true);
    convoy_batcher_model_gone(p.batcher, &p.models[0]);
    cr_assert_eq(p.done_count, 7);
    p.done_count = 0;
    struct convoy_item *items[3];
    struct convoy_item_group *group = group_at(10, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        items[i] = &p.items[10 + i];
        *items[i] = (struct convoy_item){
            .model = &p.models[0], .group = group, .write = write_index, .done = on_done};
    }
    /* Admitted before, handed over after. */
    convoy_batcher_model_ready(p.batcher, &p.models[0],
                               &(struct convoy_model_shape){1, 8, 1, .outputs_per_row = 2});
    cr_assert_eq(admit(0, 3), 0);
    convoy_batcher_model_gone(p.batcher, &p.models[0]);
    convoy_batcher_submit(p.batcher, items, 3);
    cr_assert_eq(p.done_count, 3);
    for (int i = 10; i < 13; i++)
        cr_assert_eq(p.items[i].status, -ENODEV);
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    uint32_t slot;
    while (take(&slot) > 0) {
        answer(slot);
        collect();
    }
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]), "something of the run is still counted");
    end();
}

/* The deadline passes while the row is written, and another request finds no slot free. */
static void write_late(const struct convoy_item *item, uint8_t *target)
{
    write_index(item, target);
    if (item != &p.items[0])
        return;
    while (convoy_now_us() <= item->group->deadline_us)
        ;
    convoy_batcher_tick(p.batcher);
    submit_for(5, 1, UINT64_MAX, false);
}

Test(batcher_runs, a_slot_whose_images_end_while_they_are_written_goes_to_who_waits)
{
    uint32_t slot;
    struct convoy_item *items[2];
    begin(1, 1, 1000000);
    struct convoy_item_group *group = group_at(0, convoy_now_us() + 2000);
    for (int i = 0; i < 2; i++) {
        items[i] = &p.items[i];
        *items[i] = (struct convoy_item){.model = &p.models[0],
                                         .group = group,
                                         .outputs = p.outputs[i],
                                         .write = write_late,
                                         .source_stays = true,
                                         .done = on_done};
    }
    cr_assert_eq(admit(0, 2), 0);
    convoy_batcher_submit(p.batcher, items, 2);
    cr_assert(p.items[0].status == -ETIMEDOUT && p.items[1].status == -ETIMEDOUT);
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    cr_assert_eq(poll(&timer, 1, 5000), 1, "no timer looks after the slot");
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(take(&slot), 1, "who waits does not get it");
    answer(slot);
    collect();
    assert_answered(5, 6);
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    end();
}

Test(batcher_runs, stopping_answers_a_run_that_comes_late)
{
    begin(2, 1, 1000000);
    struct convoy_item *items[3];
    cr_assert_eq(admit(0, 3), 0);
    convoy_batcher_stop(p.batcher);
    struct convoy_item_group *group = group_at(0, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        items[i] = &p.items[i];
        *items[i] = (struct convoy_item){
            .model = &p.models[0], .group = group, .write = write_index, .done = on_done};
    }
    convoy_batcher_submit(p.batcher, items, 3);
    cr_assert_eq(p.done_count, 3);
    cr_assert_eq(p.items[2].status, -ECANCELED);
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    end();
}
