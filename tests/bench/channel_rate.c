/* Images a second through the channel: 8-bit images in, probabilities out, no HTTP, no decoder, no batcher.
 *   bench_channel_rate BACKEND MODEL.onnx BATCH SLOTS STREAMS SECONDS [CACHE_DIR [DEVICES]]
 * This program plays the front to a convoy-worker that lies beside it. It loads the model for batches of up
 * to BATCH (pixels, normalisation and precision as models/NAME/config.json says), waits until the worker is
 * done with tuning, fills SLOTS slots with random pixels, and measures twice for SECONDS: one slot in flight
 * at a time: device times that nothing else stretches; all slots in flight, each handed back to the worker as
 * soon as it is finished: the rate. Prints one line of JSON; null where the backend knows no such time:
 *   images_per_s          through the channel, all slots in flight
 *   kernel_images_per_s   BATCH / compute_us: kernels one after another, copies for nothing
 *   of_kernels            images_per_s / kernel_images_per_s; over 1 where small kernels run side by side
 *   copy_gb_per_s         bytes of a slot's rows / input_us: pinned memory to the device
 *   copy_images_per_s     copy_gb_per_s / bytes of a row as it lies in the slot
 *   of_copies             images_per_s / copy_images_per_s
 *   compute_us, input_us, output_us    of a slot, medians, one in flight
 *   busy_compute_us       the same with all in flight: kernels of several streams share the device
 *   busy_kernel_images_per_s  BATCH / busy_compute_us
 * With DEVICES above 1 there are as many workers, each with a channel of its own, and all are busy at the
 * same time: images_per_s is then their sum, each_images_per_s what each had, and the rest is the first
 * one's. Where there are fewer devices it says so and ends with status 3. The environment variable TUNE=off
 * leaves tuning out. It fails when the worker fails, when it tunes while it is measured, or when a slot's
 * outputs differ between the two measurements: the same images in the same batch must give the same bits. */
#include "channel_rate.h"
#include "engine/base/clock.h"
#include "server/master/master.h"
#include "server/workers/slot_size.h"
#include "server/workers/worker_command.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_US  500000u /* of each measurement, not counted */
#define SILENT_S 60      /* heartbeats come every 0.1 s, and no slot takes this long */
#define QUIET    2       /* heartbeats that say "running" in a row before tuning is taken to be over */
#define TOO_FEW  3       /* the exit status: not so many devices */

__attribute__((format(printf, 2, 3))) static void fail(struct bench *bench, const char *format, ...)
{
    struct group *group = bench->group;
    va_list arguments;
    if (group->failed)
        return;
    group->failed = 1;
    fputs("bench_channel_rate: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    for (uint32_t i = 0; i < group->count; i++) {
        group->benches[i].stage = ENDED;
        convoy_worker_process_kill(&group->benches[i].process, "failed");
    }
}

static void keep(struct samples *samples, float value)
{
    if (samples->count < MOST)
        samples->values[samples->count++] = value;
}

/* xorshift64 (Marsaglia, 2003): rand() would take seconds for the slots of a large batch. */
static void fill(const struct bench *bench)
{
    uint64_t state = 88172645463325252u;
    for (uint32_t slot = 0; slot < bench->size.slots; slot++) {
        uint8_t *rows = convoy_channel_rows(&bench->process.channel, slot);
        for (uint64_t i = 0; i < bench->batch * bench->row_bytes; i += sizeof state) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            memcpy(rows + i, &state, sizeof state);
        }
    }
}

/* FNV-1a, a float at a time, over a slot's outputs; 0 when one of them is no number. */
static uint64_t hash_outputs(const struct bench *bench, uint32_t slot)
{
    const uint8_t *outputs = convoy_channel_outputs(&bench->process.channel, slot);
    uint64_t hash = 14695981039346656037u;
    for (uint32_t row = 0; row < bench->batch; row++) {
        for (uint32_t i = 0; i < bench->shape.outputs_per_row; i++) {
            uint32_t bits;
            float value;
            memcpy(&bits, outputs + row * bench->output_bytes + i * sizeof bits, sizeof bits);
            memcpy(&value, &bits, sizeof value);
            if (!isfinite(value))
                return 0;
            hash = (hash ^ bits) * 1099511628211u;
        }
    }
    return hash;
}

static void submit(struct bench *bench, uint32_t slot)
{
    struct convoy_channel *channel = &bench->process.channel;
    *convoy_channel_slot(channel, slot) = (struct convoy_slot){.model = bench->model.number,
                                                               .layout = CONVOY_LAYOUT_U8_HWC,
                                                               .rows = bench->batch,
                                                               .generation = ++bench->generation[slot],
                                                               .input_stride = bench->row_bytes,
                                                               .output_stride = bench->output_bytes};
    bench->in_flight++;
    convoy_channel_submit(channel, slot);
    convoy_channel_ring(channel);
}

/* Outputs become NaN, so that those of the stage before cannot be taken for this one's. */
static void begin(struct bench *bench, enum stage stage)
{
    bench->stage = stage;
    bench->began_us = bench->moved_us = convoy_now_us();
    bench->counted_us = 0;
    bench->slots_done = bench->slots_counted = 0;
    for (uint32_t slot = 0; slot < bench->size.slots; slot++)
        memset(convoy_channel_outputs(&bench->process.channel, slot), 0xff,
               bench->batch * bench->output_bytes);
    for (uint32_t slot = 0; slot < (stage == ALONE ? 1 : bench->size.slots); slot++)
        submit(bench, slot);
}

/* Counting begins with a finished slot, and so it ends: the slot that begins it is not counted. Every slot is
 * counted once at least. True when the stage is over. */
static bool count(struct bench *bench)
{
    uint64_t now = convoy_now_us();
    bench->slots_done++;
    if (bench->counted_us == 0) {
        if (now > bench->began_us + WARM_US && bench->slots_done >= bench->size.slots)
            bench->counted_us = now;
        return false;
    }
    bench->slots_counted++;
    bench->ended_us = now;
    return (double)(now - bench->counted_us) >= bench->seconds * 1e6 &&
           bench->slots_counted >= bench->size.slots;
}

static void finish_alone(struct bench *bench, uint32_t slot, const struct convoy_slot_report *report)
{
    if (bench->counted_us != 0) {
        keep(&bench->input, report->input_us);
        keep(&bench->compute, report->compute_us);
        keep(&bench->output, report->output_us);
    }
    if (!count(bench)) {
        submit(bench, (slot + 1) % bench->size.slots);
        return;
    }
    for (uint32_t i = 0; i < bench->size.slots; i++)
        if ((bench->outputs[i] = hash_outputs(bench, i)) == 0)
            fail(bench, "an output of slot %u is no number", i);
    if (bench->group->failed)
        return;
    bench->stage = WAITING;
    struct group *group = bench->group;
    for (uint32_t i = 0; i < group->count; i++)
        if (group->benches[i].stage != WAITING)
            return;
    for (uint32_t i = 0; i < group->count; i++)
        begin(&group->benches[i], BUSY);
}

static void finish_busy(struct bench *bench, uint32_t slot, const struct convoy_slot_report *report)
{
    if (bench->counted_us != 0)
        keep(&bench->busy_compute, report->compute_us);
    struct group *group = bench->group;
    bool all = true;
    bench->measured = count(bench);
    for (uint32_t i = 0; i < group->count; i++)
        all = all && group->benches[i].measured;
    if (!all)
        submit(bench, slot);
    for (uint32_t i = 0; all && i < group->count; i++)
        group->benches[i].stage = LAST;
}

/* Nothing is in flight any more. */
static void end(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->size.slots; i++)
        if (hash_outputs(bench, i) != bench->outputs[i])
            fail(bench, "the outputs of slot %u differ from those it had with no other slot in flight", i);
    if (bench->group->failed)
        return;
    bench->stage = ENDED;
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "exit");
    convoy_worker_process_send(&bench->process, message);
}

static bool on_finished_slots(void *context, struct convoy_worker_process *process)
{
    struct bench *bench = context;
    struct convoy_done done;
    while (bench->stage != ENDED && convoy_channel_take_done(&process->channel, &done)) {
        if (done.slot >= bench->size.slots || done.generation != bench->generation[done.slot]) {
            fail(bench, "the worker finished slot %u, which it was not given", done.slot);
            return false;
        }
        if (done.status != 0) {
            fail(bench, "a slot failed: %s", strerror(-done.status));
            return false;
        }
        const struct convoy_slot_report *report = convoy_channel_report(&process->channel, done.slot);
        bench->in_flight--;
        bench->moved_us = convoy_now_us();
        if (bench->stage == ALONE)
            finish_alone(bench, done.slot, report);
        else if (bench->stage == BUSY)
            finish_busy(bench, done.slot, report);
        if (bench->stage == LAST && bench->in_flight == 0)
            end(bench);
    }
    return true;
}

static void on_loaded(struct bench *bench, const struct convoy_worker_message *message)
{
    struct convoy_channel_size wanted;
    struct convoy_error error;
    struct convoy_config config = {.worker = {.slots = bench->size.slots}};
    bench->shape = message->loaded.shape;
    bench->row_bytes =
        convoy_slot_round((uint64_t)bench->shape.channels * bench->shape.height * bench->shape.width);
    bench->output_bytes = convoy_slot_round(bench->shape.outputs_per_row * sizeof(float));
    convoy_slot_size_begin(&bench->size);
    convoy_slot_size_add(&bench->size, &bench->shape, bench->batch);
    wanted = bench->size;
    convoy_slot_size_end(&bench->size, &config);
    if (wanted.input_bytes > bench->size.input_bytes || wanted.output_bytes > bench->size.output_bytes) {
        fail(bench,
             "%u rows of %" PRIu64 " bytes and outputs of %" PRIu64
             " do not fit a slot of %u bytes: at most %" PRIu64 " do",
             bench->batch, bench->row_bytes, bench->output_bytes, CONVOY_SLOT_MAX_BYTES,
             CONVOY_SLOT_MAX_BYTES /
                 (bench->row_bytes > bench->output_bytes ? bench->row_bytes : bench->output_bytes));
        return;
    }
    if (convoy_channel_lay_out(&bench->process.channel, &bench->size, &error) != 0) {
        fail(bench, "%s", error.message);
        return;
    }
    fill(bench);
    convoy_worker_process_send(&bench->process, convoy_worker_command_channel(&bench->size, 0));
}

/* The worker tunes when it has nothing to do and says "tuning" before it begins. A heartbeat that was on its
 * way when it attached the slots may still say "running"; a second one, 0.1 s later, does not. */
static void on_heartbeat(struct bench *bench, const char *phase)
{
    bool running = strcmp(phase, "running") == 0;
    if (bench->stage == TUNING) {
        bench->quiet = running ? bench->quiet + 1 : 0;
        if (bench->quiet == QUIET)
            begin(bench, ALONE);
    } else if (bench->stage > TUNING && bench->stage < ENDED && !running) {
        fail(bench, "the worker is %s while it is measured", phase);
    }
}

static void on_message(void *context, struct convoy_worker_process *process,
                       const struct convoy_worker_message *message)
{
    struct bench *bench = context;
    switch (message->type) {
    case CONVOY_WORKER_HELLO:
        bench->streams = message->hello.streams;
        snprintf(bench->device, sizeof bench->device, "%s", message->hello.device);
        if (message->hello.device_count < bench->group->count) {
            fail(bench, "%u devices are asked for, but this machine has %u only (%s)", bench->group->count,
                 message->hello.device_count, message->hello.backend);
            bench->group->failed = TOO_FEW;
            break;
        }
        convoy_worker_process_send(process,
                                   convoy_worker_command_load(&bench->model, false, CONVOY_LOAD_NO_FILES));
        break;
    case CONVOY_WORKER_LOADED:
        on_loaded(bench, message);
        break;
    case CONVOY_WORKER_FAILED:
        fail(bench, "%s", message->text);
        break;
    case CONVOY_WORKER_ATTACHED:
        bench->stage = TUNING;
        break;
    case CONVOY_WORKER_HEARTBEAT:
        on_heartbeat(bench, message->text);
        break;
    case CONVOY_WORKER_LOG:
        fprintf(stderr, "%s\n", message->text);
        break;
    default:
        break;
    }
}

static void on_gone(void *context, struct convoy_worker_process *process, const char *reason,
                    const char *text)
{
    struct bench *bench = context;
    (void)reason, (void)process;
    if (bench->stage != ENDED)
        fail(bench, "the worker is gone: %s", text);
    uv_close((uv_handle_t *)&bench->watch, NULL);
}

static void on_watch(uv_timer_t *timer)
{
    struct bench *bench = timer->data;
    uint64_t now = convoy_now_us(), limit = SILENT_S * (uint64_t)1000000;
    bool measures = bench->stage == ALONE || bench->stage == BUSY || bench->stage == LAST;
    /* Loading and tuning may take long; then its heartbeats come. */
    if (now - bench->process.heard_us > limit || (measures && now - bench->moved_us > limit))
        fail(bench, "nothing came from the worker for %d s", SILENT_S);
}

/* A whole number from least to most, or 0. */
static uint32_t whole(const char *text, long least, long most)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *text != '\0' && *end == '\0' && value >= least && value <= most ? (uint32_t)value : 0;
}

/* The model's configuration lies two folders above the file: models/NAME/VERSION/model.onnx. */
static int read_model(struct bench *bench, char *path, struct convoy_error *error)
{
    static char folder[4096];
    struct convoy_batching batching = {.max_batch = bench->batch};
    snprintf(folder, sizeof folder, "%s", path);
    char *name = dirname(dirname(folder));
    int code = convoy_model_config_load(name, &batching, &bench->model.config, error);
    if (code != 0)
        return code;
    bench->model.config->batching.max_batch = bench->batch; /* not what the file says */
    bench->model.path = path;
    bench->model.name = bench->model.version = basename(name);
    return 0;
}

static const char usage[] =
    "usage: bench_channel_rate BACKEND MODEL.onnx BATCH SLOTS STREAMS SECONDS [CACHE_DIR [DEVICES]]\n"
    "BACKEND cuda, cpu or null; BATCH 1 to 65535, SLOTS 1 to 64, STREAMS 1 to 64, DEVICES 1 to 16\n";

/* Starts a device's worker; bench says what to measure. */
static int start(struct group *group, uint32_t device, const struct bench *wanted, const char *backend,
                 const char *cache_dir, struct convoy_error *error)
{
    static const struct convoy_worker_process_events events = {on_message, on_finished_slots, on_gone};
    struct bench *bench = &group->benches[device];
    const char *tune = getenv("TUNE");
    bench->group = group;
    bench->model = wanted->model;
    bench->size = wanted->size;
    bench->batch = wanted->batch;
    bench->streams = wanted->streams;
    bench->seconds = wanted->seconds;
    if (tune == NULL)
        tune = "on";
    const struct convoy_worker_settings settings = {.device_index = device,
                                                    .streams = bench->streams,
                                                    .cache_dir = cache_dir,
                                                    .sandbox = {&convoy_worker_config_default, ".", false},
                                                    .of = CONVOY_OF_ALL,
                                                    .tune = tune};
    int code =
        convoy_worker_process_prepare(&bench->process, &group->loop, &settings, 1, &events, bench, error);
    bench->process.link = group->link;
    if (code == 0)
        code = convoy_worker_process_start(&bench->process, backend, tune, error);
    if (code != 0)
        return code;
    uv_timer_init(&group->loop, &bench->watch);
    bench->watch.data = bench;
    return uv_timer_start(&bench->watch, on_watch, 1000, 1000);
}

static void on_master(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    convoy_link_dispatch(poll->data);
}

static void on_turn(uv_prepare_t *turn)
{
    if (convoy_link_waiting(turn->data))
        convoy_link_dispatch(turn->data);
}

int main(int argc, char **argv)
{
    struct group group = {.count = 1};
    struct convoy_error error;
    struct bench *wanted = calloc(1, sizeof *wanted);
    if (wanted != NULL && argc >= 7 && argc <= 9) {
        wanted->batch = whole(argv[3], 1, CONVOY_ROWS_MAX);
        wanted->size.slots = whole(argv[4], 1, CONVOY_MAX_SLOTS);
        wanted->streams = whole(argv[5], 1, CONVOY_MAX_SLOTS);
        wanted->seconds = strtod(argv[6], NULL);
        group.count = argc == 9 ? whole(argv[8], 1, CONVOY_MAX_DEVICES) : 1;
    }
    if (wanted == NULL || wanted->batch == 0 || wanted->size.slots == 0 || wanted->streams == 0 ||
        !(wanted->seconds > 0) || group.count == 0) {
        fputs(usage, stderr);
        free(wanted);
        return 2;
    }
    if (convoy_master_fork(&group.link, &error) != 0) {
        fprintf(stderr, "bench_channel_rate: %s\n", error.message);
        return 1;
    }
    uv_loop_init(&group.loop);
    uv_poll_init(&group.loop, &group.master, convoy_link_fd(group.link));
    group.master.data = group.link;
    uv_poll_start(&group.master, UV_READABLE, on_master);
    uv_prepare_init(&group.loop, &group.turn);
    group.turn.data = group.link;
    uv_prepare_start(&group.turn, on_turn);
    uv_unref((uv_handle_t *)&group.master);
    uv_unref((uv_handle_t *)&group.turn);
    group.benches = calloc(group.count, sizeof *group.benches); /* samples make them large */
    int code = group.benches == NULL ? convoy_fail(&error, -ENOMEM, "out of memory")
                                     : read_model(wanted, argv[2], &error);
    for (uint32_t i = 0; code == 0 && i < group.count; i++)
        code = start(&group, i, wanted, argv[1], argc >= 8 ? argv[7] : NULL, &error);
    if (code != 0) {
        fprintf(stderr, "bench_channel_rate: %s\n", error.message);
        return 1;
    }
    uv_run(&group.loop, UV_RUN_DEFAULT);
    if (!group.failed)
        bench_report(&group);
    for (uint32_t i = 0; i < group.count; i++)
        convoy_worker_process_free(&group.benches[i].process);
    convoy_model_config_free(wanted->model.config);
    uv_close((uv_handle_t *)&group.master, NULL);
    uv_close((uv_handle_t *)&group.turn, NULL);
    uv_run(&group.loop, UV_RUN_DEFAULT);
    uv_loop_close(&group.loop);
    convoy_link_free(group.link);
    free(group.benches);
    free(wanted);
    return group.failed;
}
