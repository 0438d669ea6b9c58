/* What a worker gone wild may do to the front: lines on the control socket, and completions on the channel.
 * The input is lines; each line is also taken as completions while slots are in flight. */
#include "engine/ipc/line_reader.h"
#include "server/batching/batcher.h"
#include "server/workers/worker_message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int answered;

static void on_done(struct convoy_item *item)
{
    (void)item;
    answered++;
}

static void complete(const uint8_t *data, size_t size)
{
    static struct convoy_metrics *metrics;
    struct convoy_error error;
    struct convoy_batcher *batcher;
    struct convoy_channel channel;
    struct convoy_worker_slots *slots;
    struct convoy_item items[3];
    struct convoy_item_group group = {.deadline_us = UINT64_MAX};
    float outputs[3][2];
    uint8_t row[8] = {0};
    if (metrics == NULL)
        metrics = convoy_metrics_new();
    struct convoy_model_record model = {.name = "m", .metrics = convoy_metrics_model(metrics, "m")};
    struct convoy_model_shape shape = {.channels = 1, .height = 8, .width = 1, .outputs_per_row = 2};
    struct convoy_channel_size small = {.slots = 2, .input_bytes = 256, .output_bytes = 256};
    if (convoy_batcher_new(1, 1, 0, metrics, &batcher, &error) != 0 ||
        convoy_channel_create(&channel, &error) != 0 || convoy_channel_lay_out(&channel, &small, &error) != 0)
        abort();
    convoy_batcher_set_limits(batcher, &model, &(struct convoy_batcher_limits){2, 0, 10});
    convoy_batcher_model_ready(batcher, &model, &shape);
    if (convoy_worker_slots_new(batcher, &channel, "cpu", &slots, &error) != 0)
        abort();
    uint64_t wait_us;
    struct convoy_layer_name *layers = calloc(1, sizeof *layers);
    convoy_worker_slots_model(slots, &model, true, layers, 1);
    convoy_worker_slots_up(slots, 2);
    answered = 0;
    for (int i = 0; i < 3; i++) {
        items[i] = (struct convoy_item){.model = &model,
                                        .profile = i == 0,
                                        .map = i == 1 ? CONVOY_MAP_BEST : CONVOY_MAP_NONE,
                                        .group = &group,
                                        .outputs = outputs[i],
                                        .source = row,
                                        .source_bytes = sizeof row,
                                        .done = on_done};
        if (convoy_batcher_admit(batcher, &model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us) != 0)
            abort();
        convoy_batcher_submit(batcher, (struct convoy_item *[]){&items[i]}, 1);
    }
    /* The worker may write anywhere in its mapping, headers and reports included. */
    for (size_t i = 0; i + 2 < size; i += 3)
        ((uint8_t *)channel.base)[((size_t)data[i] << 8 | data[i + 1]) % channel.bytes] = data[i + 2];
    for (size_t i = 0; i + sizeof(struct convoy_done) <= size; i += 4) {
        struct convoy_done done;
        memcpy(&done, data + i, sizeof done);
        done.slot %= 4;
        done.generation %= 4;
        convoy_channel_finish(&channel, &done);
        convoy_worker_slots_collect(slots);
    }
    convoy_worker_slots_down(slots, true);
    convoy_batcher_stop(batcher);
    if (answered != 3)
        abort(); /* each image is answered exactly once, whatever the worker says */
    for (int i = 0; i < 3; i++) {
        free(items[i].layers);
        free(items[i].class_map);
    }
    convoy_batcher_free(batcher);
    convoy_channel_destroy(&channel);
}

/* As the front receives: in pieces, into the reader's own room. */
static void read_lines(const uint8_t *data, size_t size)
{
    struct convoy_line_reader lines;
    struct convoy_error error;
    size_t taken = 0;
    int code = 0;
    convoy_line_reader_begin(&lines, 2000);
    while (taken < size && code == 0) {
        char *room;
        size_t bytes;
        cJSON *json;
        if (convoy_line_reader_room(&lines, &room, &bytes) != 0)
            break; /* a line without end */
        bytes = bytes < size - taken ? bytes : size - taken;
        bytes = bytes < 1u + data[taken] ? bytes : 1u + data[taken];
        memcpy(room, data + taken, bytes);
        convoy_line_reader_received(&lines, bytes);
        taken += bytes;
        while ((code = convoy_line_reader_next(&lines, &json, &error)) > 0) {
            struct convoy_worker_message message;
            if (convoy_worker_message_read(json, 3, &message, &error) == 0 &&
                (message.type == CONVOY_WORKER_LOADED || message.type == CONVOY_WORKER_FAILED) &&
                message.model >= 3)
                abort();
            convoy_worker_message_free(&message);
        }
    }
    convoy_line_reader_free(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    complete(data, size);
    read_lines(data, size);
    return 0;
}
