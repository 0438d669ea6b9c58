/* What a worker reports of a batch. */
#include "tests/unit/server/batching/batcher_playground.h"

#include <stdio.h>
#include <stdlib.h>

Test(batcher_collect, the_times_that_the_worker_reports_are_those_of_each_image)
{
    uint32_t slot, next;
    begin(3, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    submit(1);
    submit(2);
    struct convoy_slot_report *report = convoy_channel_report(&p.worker, slot);
    report->input_us = 1;
    report->compute_us = 20;
    report->output_us = 300;
    report->layers = 1; /* nothing was asked of them */
    answer(slot);
    collect();
    cr_assert_eq(take(&next), 2);
    *convoy_channel_report(&p.worker, next) =
        (struct convoy_slot_report){.input_us = -1, .compute_us = 40, .output_us = 2e9f};
    answer(next);
    collect();
    cr_assert_float_eq(p.items[0].input_us, 1, 0);
    cr_assert_float_eq(p.items[0].compute_us, 20, 0);
    cr_assert_float_eq(p.items[0].output_us, 300, 0);
    cr_assert_null(p.items[0].layers);
    for (int i = 1; i < 3; i++) {
        cr_assert_float_eq(p.items[i].input_us, 0, 0, "no time is negative");
        cr_assert_float_eq(p.items[i].compute_us, 40, 0);
        cr_assert_float_eq(p.items[i].output_us, 0, 0, "no batch takes half an hour");
    }
    end();
}

Test(batcher_collect, a_profiled_image_gets_the_times_of_its_layers)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    struct convoy_layer_name *names = calloc(2, sizeof *names);
    snprintf(names[0].name, sizeof names[0].name, "conv");
    snprintf(names[1].kernel, sizeof names[1].kernel, "tensor");
    convoy_worker_slots_model(p.worker_slots, &p.models[0], true, names, 2);
    submit_for(0, 0, UINT64_MAX, true);
    cr_assert_eq(take(&slot), 1);
    struct convoy_slot_report *report = convoy_channel_report(&p.worker, slot);
    report->layers = 3; /* more than it has */
    report->layer_us[0] = 5;
    report->layer_us[1] = 6;
    answer(slot);
    collect();
    cr_assert_eq(p.items[0].layer_count, 2);
    cr_assert_str_eq(p.items[0].layers[0].name, "conv");
    cr_assert_str_eq(p.items[0].layers[1].kernel, "tensor");
    cr_assert_float_eq(p.items[0].layers[0].us, 5, 0);
    cr_assert_float_eq(p.items[0].layers[1].us, 6, 0);
    free(p.items[0].layers);
    end();
}

Test(batcher_collect, a_completion_that_comes_twice_at_once_counts_once)
{
    uint32_t slot, next;
    begin(3, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    submit(1);
    answer(slot);
    answer(slot);
    cr_assert_eq(convoy_worker_slots_collect(p.worker_slots), 1);
    cr_assert_eq(p.done_count, 1);
    cr_assert_eq(take(&next), 1);
    answer(next);
    collect();
    assert_answered(0, 2);
    end();
}
