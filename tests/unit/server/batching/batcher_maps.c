/* Images that ask for a class activation map: they travel alone, what the worker sends of a map is copied
 * within bounds, and what they take says nothing of other images. */
#include "tests/unit/server/batching/batcher_playground.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>

static void submit_map(int index, uint32_t map)
{
    uint8_t row[8];
    memset(row, index, sizeof row);
    p.items[index] = (struct convoy_item){.model = &p.models[0],
                                          .group = group_at(index, UINT64_MAX),
                                          .map = map,
                                          .outputs = p.outputs[index],
                                          .source = row,
                                          .source_bytes = sizeof row,
                                          .done = on_done};
    cr_assert_eq(admit(0, 1), 0);
    convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[index]}, 1);
}

/* The worker ends the slot with a map of this size, of values that count up, or with this status. */
static void answer_with(uint32_t slot, uint32_t height, uint32_t width, int status)
{
    struct convoy_slot_report *report = convoy_channel_report(&p.worker, slot);
    float *map = convoy_channel_class_map(&p.worker, slot);
    for (uint32_t i = 0; i < CONVOY_MAX_CLASS_MAP; i++)
        map[i] = (float)(slot * 10000 + i);
    report->map_class = 1;
    report->map_height = height;
    report->map_width = width;
    convoy_channel_finish(
        &p.worker, &(struct convoy_done){slot, convoy_channel_slot(&p.worker, slot)->generation, status});
    collect();
}

Test(batcher_maps, travel_alone)
{
    uint32_t running, slot;
    begin(6, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&running), 1);
    submit(1);
    submit_map(2, CONVOY_MAP_BEST);
    submit_map(3, CONVOY_MAP_CLASS + 1);
    submit(4);
    cr_assert_eq(take(&slot), 1); /* staged, since a slot of one image is full */
    cr_assert_eq(convoy_channel_slot(&p.worker, slot)->map, CONVOY_MAP_BEST);
    cr_assert_eq(convoy_channel_slot(&p.worker, slot)->profile, 0);
    answer(running);
    collect();
    answer_with(slot, 2, 3, 0);
    cr_assert(p.items[2].status == 0 && p.items[2].map_height == 2 && p.items[2].map_width == 3);
    cr_assert_eq(p.items[2].map_class, 1);
    for (uint32_t i = 0; i < 6; i++)
        cr_assert_eq(p.items[2].class_map[i], (float)(slot * 10000 + i));
    free(p.items[2].class_map);
    int maps = 0, others = 0;
    while (p.done_count < 5) {
        uint32_t rows = take(&slot);
        cr_assert_gt(rows, 0);
        bool mapped = convoy_channel_slot(&p.worker, slot)->map != CONVOY_MAP_NONE;
        cr_assert_eq(rows, mapped ? 1 : 2, "%u rows", rows);
        cr_assert(!mapped || convoy_channel_slot(&p.worker, slot)->map == CONVOY_MAP_CLASS + 1);
        maps += mapped;
        others += !mapped;
        answer(slot);
        collect();
    }
    cr_assert(maps == 1 && others == 1);
    end();
}

Test(batcher_maps, parked_ones_keep_apart)
{
    static const uint32_t maps[] = {CONVOY_MAP_NONE, CONVOY_MAP_NONE, CONVOY_MAP_CLASS, CONVOY_MAP_CLASS + 1,
                                    CONVOY_MAP_NONE};
    uint32_t slot;
    begin(1, 1, 1000000);
    for (int i = 0; i < 5; i++)
        submit_map(i, maps[i]);
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert_eq(take(&slot), 1);
        cr_assert_eq(convoy_channel_slot(&p.worker, slot)->map, maps[i]);
        answer(slot);
        collect();
    }
    end();
}

Test(batcher_maps, what_no_map_can_be_is_none)
{
    static const uint32_t sizes[][2] = {{0, 4}, {4, 0}, {64, 65}, {UINT32_MAX, UINT32_MAX}, {1u << 31, 2}};
    uint32_t slot;
    begin(2, 1, 1000000);
    for (int i = 0; i < 5; i++) {
        submit_map(i, CONVOY_MAP_BEST);
        cr_assert_eq(take(&slot), 1);
        answer_with(slot, sizes[i][0], sizes[i][1], 0);
        cr_assert(p.items[i].status == 0 && p.items[i].class_map == NULL, "%d", i);
    }
    submit_map(5, CONVOY_MAP_BEST);
    cr_assert_eq(take(&slot), 1);
    answer_with(slot, 64, 64, 0);
    cr_assert_eq(p.items[5].class_map[4095], (float)(slot * 10000 + 4095));
    free(p.items[5].class_map);
    submit(6); /* of others no map is looked at */
    cr_assert_eq(take(&slot), 1);
    answer_with(slot, 2, 2, 0);
    cr_assert_null(p.items[6].class_map);
    end();
}

Test(batcher_maps, a_worker_says_why_there_is_none)
{
    static const int said[] = {-EAGAIN, -ESTALE, -ENOMEM, -ENOENT, -EINVAL, -ENOTSUP, -ETIMEDOUT, 7};
    uint32_t slot;
    begin(2, 1, 1000000);
    for (int i = 0; i < 8; i++) {
        submit_map(i, CONVOY_MAP_BEST);
        cr_assert_eq(take(&slot), 1);
        answer_with(slot, 2, 2, said[i]);
        cr_assert_eq(p.items[i].status, i < 3 ? said[i] : -EIO);
        cr_assert_null(p.items[i].class_map);
    }
    submit(8);
    cr_assert_eq(take(&slot), 1);
    answer_with(slot, 2, 2, -EAGAIN);
    cr_assert_eq(p.items[8].status, -EIO);
    end();
}

/* What an image costs, of which the limit of a hang is made, stays unknown. */
Test(batcher_maps, teach_nothing_of_other_images)
{
    const uint64_t hang_us = 1000, unknown_us = 60000000;
    struct convoy_stall stall;
    uint32_t slot;
    begin(2, 1, 1000000);
    submit_map(0, CONVOY_MAP_BEST);
    cr_assert_eq(take(&slot), 1);
    answer_with(slot, 2, 2, 0);
    free(p.items[0].class_map);
    submit(1);
    cr_assert_eq(take(&slot), 1);
    convoy_worker_slots_stall(p.worker_slots, convoy_now_us(), hang_us, unknown_us, &stall);
    cr_assert_eq(stall.limit_us, unknown_us);
    answer(slot);
    collect();
    end();
}

/* A network may have to be loaded: no worker is killed for that before a minute. */
Test(batcher_maps, may_take_as_long_as_a_load)
{
    const uint64_t hang_us = 1000, unknown_us = 60000000;
    struct convoy_stall stall;
    uint32_t slot, next;
    begin(3, 2, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    submit(1);
    cr_assert_eq(take(&slot), 1);
    convoy_worker_slots_stall(p.worker_slots, convoy_now_us(), hang_us, unknown_us, &stall);
    cr_assert_lt(stall.limit_us, unknown_us);
    submit_map(2, CONVOY_MAP_BEST);
    cr_assert_eq(take(&next), 1);
    convoy_worker_slots_stall(p.worker_slots, convoy_now_us(), hang_us, unknown_us, &stall);
    cr_assert_eq(stall.limit_us, unknown_us);
    answer_with(next, 2, 2, 0);
    free(p.items[2].class_map);
    convoy_worker_slots_stall(p.worker_slots, convoy_now_us(), hang_us, unknown_us, &stall);
    cr_assert_lt(stall.limit_us, unknown_us);
    answer(slot);
    collect();
    end();
}

/* A slot whose network is loaded takes no stream from others. */
Test(batcher_maps, hold_up_no_others)
{
    uint32_t maps[3], slot, next, none;
    begin(8, 1, 1000000);
    for (int i = 0; i < 3; i++) {
        submit_map(i, CONVOY_MAP_BEST);
        cr_assert_eq(take(&maps[i]), 1);
    }
    submit(3);
    cr_assert_eq(take(&slot), 1, "it waits for the maps");
    submit(4);
    cr_assert_eq(take(&none), 0, "two run at once");
    answer_with(maps[0], 2, 2, -EAGAIN);
    answer_with(maps[1], 2, 2, -EAGAIN);
    cr_assert_eq(take(&none), 0, "two run at once");
    submit(5);
    answer(slot);
    collect();
    cr_assert_eq(take(&next), 2);
    answer_with(maps[2], 2, 2, -EAGAIN);
    answer(next);
    collect();
    submit(6);
    cr_assert_eq(take(&slot), 1);
    submit(7);
    cr_assert_eq(take(&none), 0, "the last map left a stream behind");
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    end();
}

/* The next worker has the streams that it says. */
Test(batcher_maps, leave_no_stream_behind_when_a_worker_dies)
{
    uint32_t slot, none;
    begin(4, 1, 1000000);
    submit_map(0, CONVOY_MAP_BEST);
    cr_assert_eq(take(&slot), 1);
    replace_worker();
    cr_assert_eq(take(&slot), 1);
    answer_with(slot, 2, 2, -EAGAIN);
    submit(1);
    cr_assert_eq(take(&slot), 1);
    submit(2);
    cr_assert_eq(take(&none), 0);
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    end();
}

/* With the worker that had it, an image keeps what it asked for. */
Test(batcher_maps, run_again_after_a_death)
{
    uint32_t slot;
    begin(3, 1, 1000000);
    submit_map(0, CONVOY_MAP_CLASS + 1);
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(replace_worker(), 1);
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(convoy_channel_slot(&p.worker, slot)->map, CONVOY_MAP_CLASS + 1);
    answer_with(slot, 2, 2, 0);
    cr_assert(p.items[0].status == 0 && p.items[0].retries == 1 && p.items[0].class_map != NULL);
    free(p.items[0].class_map);
    end();
}
