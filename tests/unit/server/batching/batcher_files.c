/* JPEG files in slots: how they are packed, what becomes of those that a device does not decode, and what
 * faults do to them. A "file" here is bytes that all have the number of its item. */
#include "tests/unit/server/batching/batcher_two_workers.h"

#include <errno.h>
#include <stdlib.h>

#define SLOT_BYTES (48u * 1024) /* 32 KiB at most a file */

static uint8_t bodies[ITEMS][32 * 1024];

static void write_file(const struct convoy_item *item, uint8_t *target)
{
    struct convoy_jpeg_row header = {.length = (uint32_t)item->source_bytes,
                                     .offset = item->file_offset,
                                     .width = 8,
                                     .height = 8,
                                     .orientation = 1,
                                     .components = 1};
    memcpy(target, &header, sizeof header);
    memcpy(target + item->file_offset, item->source, item->source_bytes);
}

static void fill_item(int index, size_t bytes, uint64_t pixels)
{
    memset(bodies[index], index, bytes);
    p.items[index] = (struct convoy_item){.model = &p.models[0],
                                          .layout = CONVOY_LAYOUT_JPEG,
                                          .group = group_at(index, UINT64_MAX),
                                          .outputs = p.outputs[index],
                                          .source = bodies[index],
                                          .source_bytes = bytes,
                                          .write = write_file,
                                          .source_stays = true,
                                          .pixels = pixels,
                                          .done = on_done};
}

static void submit_sized(int index, size_t bytes, uint64_t pixels)
{
    fill_item(index, bytes, pixels);
    cr_assert_eq(admit(0, 1), 0);
    convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[index]}, 1);
}

static void submit_file(int index, size_t bytes)
{
    submit_sized(index, bytes, 64);
}

static void begin_files(uint32_t slots, uint32_t streams)
{
    slot_bytes = SLOT_BYTES;
    begin(slots, streams, 1000000);
    convoy_batcher_model_files(p.batcher, &p.models[0], true);
}

/* Each row answers with its file's bytes, all of which must be there; undecoded: which rows of the range are
 * told to be that. */
static void decode_from(struct convoy_channel *worker, uint32_t slot, uint64_t undecoded)
{
    struct convoy_slot header = *convoy_channel_slot(worker, slot);
    cr_assert_eq(header.layout, CONVOY_LAYOUT_JPEG);
    cr_assert_eq(header.input_stride, CONVOY_JPEG_ROW_BYTES);
    for (uint32_t row = header.first; row < header.first + header.rows; row++) {
        const struct convoy_jpeg_row *at =
            (const void *)(convoy_channel_rows(worker, slot) + row * header.input_stride);
        const uint8_t *file = (const uint8_t *)at + at->offset;
        cr_assert(convoy_jpeg_row_valid(at, worker->size.input_bytes - row * header.input_stride));
        for (uint32_t i = 0; i < at->length; i++)
            cr_assert_eq(file[i], file[0], "byte %u of row %u is another file's", i, row);
        float *output = (float *)(void *)(convoy_channel_outputs(worker, slot) + row * header.output_stride);
        output[0] = output[1] = file[0];
    }
    *convoy_channel_report(worker, slot) = (struct convoy_slot_report){.undecoded = {undecoded}};
    convoy_channel_finish(worker, &(struct convoy_done){slot, header.generation, 0});
}

static void decode(uint32_t slot, uint64_t undecoded)
{
    decode_from(&p.worker, slot, undecoded);
    collect();
}

static void end_files(void)
{
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(p.worker_slots->used, 0);
    cr_assert_eq(atomic_load(&p.batcher->queues[0].admission.running), 0);
    cr_assert_eq(atomic_load(&p.batcher->queues[0].admission.queued), 0);
    cr_assert_eq(p.batcher->queues[0].waiting, 0);
    end();
}

Test(batcher_files, files_of_all_sizes_travel_together)
{
    static const size_t sizes[] = {1000, 1, 64, 20000, 63, 65, 9000};
    uint32_t slot, rows, total = 0, most = 0;
    begin_files(4, 1);
    for (int i = 0; i < 7; i++)
        submit_file(i, sizes[i]);
    while ((rows = take(&slot)) > 0) {
        total += rows;
        most = rows > most ? rows : most;
        decode(slot, 0);
    }
    cr_assert_eq(total, 7);
    cr_assert_eq(most, 4, "a full batch");
    assert_answered(0, 7);
    end_files();
}

Test(batcher_files, a_slot_takes_what_fits_its_bytes)
{
    uint32_t slot;
    begin_files(4, 1);
    submit_file(0, 100); /* is alone in flight */
    for (int i = 1; i < 4; i++)
        submit_file(i, 20000); /* two of them fit */
    cr_assert_eq(take(&slot), 1);
    uint32_t staged;
    cr_assert_eq(take(&staged), 2, "the slot that the third does not fit is full, and staged");
    decode(slot, 0);
    decode(staged, 0);
    cr_assert_eq(take(&slot), 1);
    decode(slot, 0);
    assert_answered(0, 4);
    end_files();
}

Test(batcher_files, a_run_is_split_by_bytes)
{
    struct convoy_item *items[6];
    uint32_t slot, rows, seen[3] = {0}, runs = 0;
    begin_files(4, 1);
    for (int i = 0; i < 6; i++) {
        fill_item(i, 15000, 64);
        p.items[i].group = p.items[0].group;
        items[i] = &p.items[i];
    }
    cr_assert_eq(admit(0, 6), 0);
    convoy_batcher_submit(p.batcher, items, 6);
    while ((rows = take(&slot)) > 0) {
        cr_assert_lt(runs, 3);
        seen[runs++] = rows;
        decode(slot, 0);
    }
    cr_assert_eq(seen[0] + seen[1] + seen[2], 6);
    cr_assert_leq(seen[0], 3, "three of 15,000 bytes fit");
    assert_answered(0, 6);
    end_files();
}

Test(batcher_files, a_slot_has_so_many_pixels_or_one_file)
{
    uint32_t slot;
    begin_files(4, 1);
    submit_sized(0, 100, 64);
    submit_sized(1, 100, CONVOY_JPEG_SLOT_PIXELS / 2);
    submit_sized(2, 100, CONVOY_JPEG_SLOT_PIXELS / 2);
    submit_sized(3, 100, 1);
    submit_sized(4, 100, CONVOY_JPEG_SLOT_PIXELS * 3);
    uint32_t expected[] = {1, 2, 1, 1};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(take(&slot), expected[i], "slot %d", i);
        decode(slot, 0);
    }
    assert_answered(0, 5);
    end_files();
}

Test(batcher_files, files_and_pixels_have_slots_of_their_own)
{
    uint32_t slot, rows, files = 0, pixels = 0;
    begin_files(4, 1);
    submit_file(0, 100);
    for (int i = 1; i < 9; i++)
        i % 2 == 0 ? submit_file(i, 100) : submit(i);
    while ((rows = take(&slot)) > 0) {
        if (convoy_channel_slot(&p.worker, slot)->layout == CONVOY_LAYOUT_JPEG) {
            files += rows;
            decode(slot, 0);
        } else {
            pixels += rows;
            answer(slot);
            collect();
        }
    }
    cr_assert_eq(files, 5);
    cr_assert_eq(pixels, 4);
    assert_answered(0, 9);
    end_files();
}

Test(batcher_files, undecoded_ones_come_back_and_their_neighbours_do_not)
{
    uint32_t slot;
    begin_files(4, 1);
    submit_file(0, 100);
    for (int i = 1; i < 5; i++)
        submit_file(i, 300);
    cr_assert_eq(take(&slot), 1);
    decode(slot, 0);
    cr_assert_eq(take(&slot), 4);
    decode(slot, 1u << 1 | 1u << 3);
    cr_assert_eq(p.items[2].status, -EBADMSG);
    cr_assert_eq(p.items[4].status, -EBADMSG);
    assert_answered(0, 2);
    assert_answered(3, 4);
    /* The caller decodes them. */
    for (int i = 2; i <= 4; i += 2) {
        p.done[i] = 0;
        convoy_batcher_readmit(p.batcher, &p.models[0], CONVOY_PRIORITY_NORMAL);
        uint8_t row[8];
        memset(row, i, sizeof row);
        p.items[i].layout = CONVOY_LAYOUT_U8_HWC;
        p.items[i].source = row;
        p.items[i].source_bytes = sizeof row;
        p.items[i].write = NULL;
        p.items[i].source_stays = false;
        convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[i]}, 1);
    }
    while (take(&slot) > 0) {
        answer(slot);
        collect();
    }
    assert_answered(2, 3);
    assert_answered(4, 5);
    end_files();
}

Test(batcher_files, bits_of_pixel_rows_say_nothing)
{
    uint32_t slot;
    begin_files(4, 1);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    convoy_channel_report(&p.worker, slot)->undecoded[0] = 1;
    answer(slot);
    collect();
    assert_answered(0, 1);
    end_files();
}

Test(batcher_files, a_file_that_kills_workers_comes_back_to_its_caller)
{
    uint32_t slot;
    begin_files(4, 1);
    submit_file(0, 100);
    cr_assert_eq(take(&slot), 1);
    for (int i = 1; i < 5; i++)
        submit_file(i, 2000 + (size_t)i);
    decode(slot, 0);
    while (p.done[3] == 0) { /* the worker dies of number 3 */
        if (take(&slot) == 0)
            cr_assert_fail("nothing is in flight and number 3 is not done");
        struct convoy_slot header = *convoy_channel_slot(&p.worker, slot);
        bool kills = false;
        for (uint32_t row = header.first; row < header.first + header.rows; row++) {
            const struct convoy_jpeg_row *at =
                (const void *)(convoy_channel_rows(&p.worker, slot) + row * header.input_stride);
            kills = kills || ((const uint8_t *)at)[at->offset] == 3;
        }
        if (kills)
            replace_worker();
        else
            decode(slot, 0);
    }
    while (take(&slot) > 0)
        decode(slot, 0);
    cr_assert_eq(p.items[3].status, -EBADMSG, "its pixels may do no harm");
    assert_answered(0, 3);
    assert_answered(4, 5);
    end_files();
}

Test(batcher_files, a_divided_slot_tells_undecoded_rows_from_its_first_on)
{
    uint32_t slot;
    output_bytes = 16 * 64;
    begin_files(4, 1);
    set_limits(16, 1000000, 500);
    submit_file(0, 100);
    cr_assert_eq(take(&slot), 1);
    for (int i = 1; i < 17; i++)
        submit_file(i, 100);
    decode(slot, 0);
    cr_assert_eq(take(&slot), 16);
    replace_worker();
    cr_assert_eq(take(&slot), 16);
    replace_worker(); /* again, alone: divided */
    for (uint32_t part = 0; part < 8; part++) {
        cr_assert_eq(take(&slot), 2);
        cr_assert_eq(convoy_channel_slot(&p.worker, slot)->first, 2 * part);
        decode(slot, part == 1 ? 1u << 1 : 0);
    }
    assert_answered(0, 4);
    cr_assert_eq(p.items[4].status, -EBADMSG);
    assert_answered(5, 17);
    end_files();
}

Test(batcher_files, a_model_that_takes_none_gives_them_back)
{
    uint32_t slot;
    begin_files(2, 1);
    for (int i = 0; i < 20; i++)
        submit_file(i, 1000); /* in flight, in a slot, and parked */
    cr_assert_eq(take(&slot), 1);
    convoy_batcher_model_files(p.batcher, &p.models[0], false);
    for (int i = 5; i < 20; i++) {
        cr_assert_eq(p.done[i], 1, "item %d", i);
        cr_assert_eq(p.items[i].status, -EBADMSG);
    }
    for (int i = 0; i < 5; i++)
        cr_assert_eq(p.done[i], 0, "the worker has it, or it is staged there");
    decode(slot, 0);
    cr_assert_eq(take(&slot), 4);
    decode(slot, 0);
    assert_answered(0, 5);
    submit_file(20, 1000);
    cr_assert_eq(p.items[20].status, -EBADMSG, "at once");
    end_files();
}

Test(batcher_files, none_is_left_when_the_worker_that_had_them_dies)
{
    uint32_t slot;
    begin_files(4, 1);
    submit_file(0, 1000);
    cr_assert_eq(take(&slot), 1);
    convoy_batcher_model_files(p.batcher, &p.models[0], false);
    cr_assert_eq(p.done[0], 0);
    replace_worker();
    cr_assert_eq(p.done[0], 1);
    cr_assert_eq(p.items[0].status, -EBADMSG);
    end_files();
}

Test(batcher_files, one_that_is_too_large_comes_back)
{
    begin_files(2, 1);
    cr_assert_eq(convoy_batcher_file_bytes(p.batcher), SLOT_BYTES - 256 * 64);
    static uint8_t large[SLOT_BYTES];
    fill_item(0, 100, 64);
    p.items[0].source = large;
    p.items[0].source_bytes = SLOT_BYTES - 256 * 64 + 1;
    cr_assert_eq(admit(0, 1), 0);
    convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[0]}, 1);
    cr_assert_eq(p.items[0].status, -EBADMSG);
    submit_file(1, SLOT_BYTES - 256 * 64);
    uint32_t slot;
    cr_assert_eq(take(&slot), 1);
    decode(slot, 0);
    assert_answered(1, 2);
    end_files();
}

Test(batcher_files, suspects_move_with_their_files)
{
    uint32_t slot;
    slot_bytes = SLOT_BYTES;
    begin_two(4, 1);
    convoy_batcher_model_files(p.batcher, &p.models[0], true);
    for (int i = 0; i < 30; i++)
        submit_file(i, 3000 + (size_t)i * 10);
    cr_assert_gt(take_from(workers[0], &slot), 0);
    go_down(0);
    convoy_worker_slots_lost(worker_slots[0]);
    for (int turns = 0; p.done_count < 30; turns++) {
        cr_assert_lt(turns, 100);
        while (take_from(workers[1], &slot) > 0) {
            decode_from(workers[1], slot, 0);
            cr_assert_eq(convoy_worker_slots_collect(worker_slots[1]), 0);
        }
    }
    assert_answered(0, 30);
    end_two();
}

Test(batcher_files, pixels_do_not_wait_behind_files)
{
    uint32_t slot, files[3];
    begin_files(8, 1);
    submit_file(0, 100);
    for (int i = 1; i < 9; i++)
        submit_file(i, 100);
    cr_assert_eq(take(&files[0]), 1);
    cr_assert_eq(take(&files[1]), 4, "one is staged");
    cr_assert_eq(take(&files[2]), 0, "and no more");
    submit(9);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(9, 10);
    decode(files[0], 0);
    decode(files[1], 0);
    cr_assert_eq(take(&slot), 4);
    decode(slot, 0);
    assert_answered(0, 9);
    end_files();
}

Test(batcher_files, some_are_staged_for_a_device_that_decodes_ahead)
{
    uint32_t slots[4];
    begin_files(8, 1);
    convoy_worker_slots_ahead(p.worker_slots, 2);
    submit_file(0, 100);
    for (int i = 1; i < 18; i++)
        submit_file(i, 100);
    cr_assert_eq(take(&slots[0]), 1);
    for (int i = 1; i < 4; i++)
        cr_assert_eq(take(&slots[i]), 4, "a full slot, number %d", i);
    uint32_t slot;
    cr_assert_eq(take(&slot), 0, "one and two are staged");
    for (int i = 0; i < 4; i++)
        decode(slots[i], 0);
    for (int i = 13; p.done_count < 18; i += 4) {
        cr_assert_gt(take(&slot), 0);
        decode(slot, 0);
    }
    assert_answered(0, 18);
    end_files();
}

Test(batcher_files, a_slot_that_gathers_is_not_staged_ahead_before_its_time)
{
    uint32_t slots[2], slot;
    begin_files(8, 1);
    convoy_worker_slots_ahead(p.worker_slots, 2);
    submit_file(0, 100);
    submit_file(1, 100);
    cr_assert_eq(take(&slots[0]), 1);
    cr_assert_eq(take(&slots[1]), 0, "it waits for company");
    decode(slots[0], 0);
    cr_assert_eq(take(&slot), 1);
    decode(slot, 0);
    assert_answered(0, 2);
    end_files();
}

Test(batcher_files, as_many_are_staged_as_leave_slots_to_gather_in)
{
    begin_files(8, 3);
    convoy_worker_slots_ahead(p.worker_slots, 60);
    cr_assert_eq(atomic_load(&p.worker_slots->ahead), 2);
    convoy_worker_slots_ahead(p.worker_slots, 1);
    cr_assert_eq(atomic_load(&p.worker_slots->ahead), 1);
    end_files();
    begin_files(4, 3);
    convoy_worker_slots_ahead(p.worker_slots, 60);
    cr_assert_eq(atomic_load(&p.worker_slots->ahead), 0);
    end_files();
}

Test(batcher_files, of_pixels_none_is_staged_ahead)
{
    uint32_t slot;
    begin_files(8, 1);
    convoy_worker_slots_ahead(p.worker_slots, 2);
    for (int i = 0; i < 13; i++)
        submit(i);
    cr_assert_eq(take(&slot), 1);
    uint32_t staged, more;
    cr_assert_eq(take(&staged), 4);
    cr_assert_eq(take(&more), 0, "they need no decoding");
    answer(slot);
    answer(staged);
    collect();
    while (take(&slot) > 0) {
        answer(slot);
        collect();
    }
    assert_answered(0, 13);
    end_files();
}
