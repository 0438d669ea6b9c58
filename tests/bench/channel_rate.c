/* Images a second through the channel: 8-bit images in, probabilities out, no HTTP, no decoder, no batcher.
 *   bench_channel_rate BACKEND MODEL.onnx BATCH SLOTS STREAMS SECONDS [CACHE_DIR]
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
 * It fails when the worker fails, when it tunes while it is measured, or when a slot's outputs differ between
 * the two measurements: the same images in the same batch must give the same bits. */
#include "engine/base/clock.h"
#include "engine/channel.h"
#include "server/slot_size.h"
#include "server/worker.h"
#include "server/worker_order.h"

#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_US  500000u /* of each measurement, not counted */
#define MOST     1000000 /* slots whose times are kept; later ones are not looked at */
#define SILENT_S 60      /* heartbeats come every 0.1 s, and no slot takes this long */
#define QUIET    2       /* heartbeats that say "running" in a row before tuning is taken to be over */

enum stage { STARTING, TUNING, ALONE, BUSY, LAST, ENDED };

struct samples {
    size_t count;
    float values[MOST];
};

struct bench {
    uv_loop_t loop;
    uv_timer_t watch;
    struct convoy_worker worker;
    struct convoy_model model;
    struct convoy_channel_size size;
    struct convoy_model_shape shape;
    uint64_t row_bytes, output_bytes; /* of a row, as they lie in a slot */
    uint32_t batch, streams;          /* streams: as the worker says */
    double seconds;
    char device[32];

    enum stage stage;
    uint32_t quiet; /* heartbeats */
    uint32_t in_flight;
    uint32_t generation[CONVOY_MAX_SLOTS];             /* of the slot's last submission */
    uint64_t outputs[CONVOY_MAX_SLOTS];                /* hash, from the first measurement */
    uint64_t began_us, counted_us, ended_us, moved_us; /* of the stage; counting from; until; last slot */
    uint64_t slots_done, slots_counted;                /* in this stage */
    struct samples input, compute, output, busy_compute;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void fail(struct bench *bench, const char *format, ...)
{
    va_list arguments;
    if (bench->failed)
        return;
    bench->failed = true;
    fputs("bench_channel_rate: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    bench->stage = ENDED;
    convoy_worker_kill(&bench->worker, "failed");
}

static void keep(struct samples *samples, float value)
{
    if (samples->count < MOST)
        samples->values[samples->count++] = value;
}

static int by_size(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static double median(struct samples *samples)
{
    if (samples->count == 0)
        return 0;
    qsort(samples->values, samples->count, sizeof samples->values[0], by_size);
    return (double)samples->values[samples->count / 2];
}

/* xorshift64 (Marsaglia, 2003): rand() would take seconds for the slots of a large batch. */
static void fill(const struct bench *bench)
{
    uint64_t state = 88172645463325252u;
    for (uint32_t slot = 0; slot < bench->size.slots; slot++) {
        uint8_t *rows = convoy_channel_rows(&bench->worker.channel, slot);
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
    const uint8_t *outputs = convoy_channel_outputs(&bench->worker.channel, slot);
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
    struct convoy_channel *channel = &bench->worker.channel;
    *convoy_channel_slot(channel, slot) = (struct convoy_slot){.model = bench->model.number,
                                                               .form = CONVOY_SLOT_U8_HWC,
                                                               .rows = bench->batch,
                                                               .generation = ++bench->generation[slot],
                                                               .input_stride = bench->row_bytes,
                                                               .output_stride = bench->output_bytes};
    bench->in_flight++;
    convoy_channel_submit(channel, slot);
}

/* Outputs become NaN, so that those of the stage before cannot be taken for this one's. */
static void begin(struct bench *bench, enum stage stage)
{
    bench->stage = stage;
    bench->began_us = bench->moved_us = convoy_now_us();
    bench->counted_us = 0;
    bench->slots_done = bench->slots_counted = 0;
    for (uint32_t slot = 0; slot < bench->size.slots; slot++)
        memset(convoy_channel_outputs(&bench->worker.channel, slot), 0xff,
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
    if (!bench->failed)
        begin(bench, BUSY);
}

static void finish_busy(struct bench *bench, uint32_t slot, const struct convoy_slot_report *report)
{
    if (bench->counted_us != 0)
        keep(&bench->busy_compute, report->compute_us);
    if (count(bench))
        bench->stage = LAST;
    else
        submit(bench, slot);
}

/* Nothing is in flight any more. */
static void end(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->size.slots; i++)
        if (hash_outputs(bench, i) != bench->outputs[i])
            fail(bench, "the outputs of slot %u differ from those it had with no other slot in flight", i);
    if (bench->failed)
        return;
    bench->stage = ENDED;
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "exit");
    convoy_worker_tell(&bench->worker, message);
}

static void on_finished_slots(void *context, struct convoy_worker *worker)
{
    struct bench *bench = context;
    struct convoy_done done;
    while (bench->stage != ENDED && convoy_channel_take_done(&worker->channel, &done)) {
        if (done.slot >= bench->size.slots || done.generation != bench->generation[done.slot]) {
            fail(bench, "the worker finished slot %u, which it was not given", done.slot);
            return;
        }
        if (done.status != 0) {
            fail(bench, "a slot failed: %s", strerror(-done.status));
            return;
        }
        const struct convoy_slot_report *report = convoy_channel_report(&worker->channel, done.slot);
        bench->in_flight--;
        bench->moved_us = convoy_now_us();
        if (bench->stage == ALONE)
            finish_alone(bench, done.slot, report);
        else if (bench->stage == BUSY)
            finish_busy(bench, done.slot, report);
        if (bench->stage == LAST && bench->in_flight == 0)
            end(bench);
    }
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
    if (convoy_channel_lay_out(&bench->worker.channel, &bench->size, &error) != 0) {
        fail(bench, "%s", error.message);
        return;
    }
    fill(bench);
    convoy_worker_tell(&bench->worker, convoy_worker_order_channel(&bench->size));
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

static void on_message(void *context, struct convoy_worker *worker,
                       const struct convoy_worker_message *message)
{
    struct bench *bench = context;
    switch (message->says) {
    case CONVOY_SAYS_HELLO:
        bench->streams = message->hello.streams;
        snprintf(bench->device, sizeof bench->device, "%s", message->hello.device);
        convoy_worker_tell(worker, convoy_worker_order_load(&bench->model, false));
        break;
    case CONVOY_SAYS_LOADED:
        on_loaded(bench, message);
        break;
    case CONVOY_SAYS_FAILED:
        fail(bench, "%s", message->text);
        break;
    case CONVOY_SAYS_ATTACHED:
        bench->stage = TUNING;
        break;
    case CONVOY_SAYS_HEARTBEAT:
        on_heartbeat(bench, message->text);
        break;
    case CONVOY_SAYS_LOG:
        fprintf(stderr, "%s\n", message->text);
        break;
    default:
        break;
    }
}

static void on_gone(void *context, struct convoy_worker *worker, const char *reason, const char *text)
{
    struct bench *bench = context;
    (void)reason;
    if (bench->stage != ENDED)
        fail(bench, "the worker is gone: %s", text);
    convoy_worker_retire(worker);
    uv_close((uv_handle_t *)&bench->watch, NULL);
}

static void on_watch(uv_timer_t *timer)
{
    struct bench *bench = timer->data;
    uint64_t now = convoy_now_us(), limit = SILENT_S * (uint64_t)1000000;
    bool measures = bench->stage > TUNING && bench->stage < ENDED;
    /* Loading and tuning may take long; then its heartbeats come. */
    if (now - bench->worker.heard_us > limit || (measures && now - bench->moved_us > limit))
        fail(bench, "nothing came from the worker for %d s", SILENT_S);
}

/* To three decimals, more would be noise. */
static void number(cJSON *object, const char *name, double value)
{
    if (isfinite(value) && value > 0)
        cJSON_AddNumberToObject(object, name, round(value * 1000) / 1000);
    else
        cJSON_AddNullToObject(object, name);
}

static void report(struct bench *bench)
{
    double rate =
        (double)(bench->slots_counted * bench->batch) / ((double)(bench->ended_us - bench->counted_us) / 1e6);
    double input = median(&bench->input), compute = median(&bench->compute),
           busy = median(&bench->busy_compute), bytes = (double)(bench->batch * bench->row_bytes);
    double kernels = compute > 0 ? bench->batch / compute * 1e6 : 0;
    double copies = input > 0 ? bench->batch / input * 1e6 : 0;
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "device", bench->device);
    cJSON_AddNumberToObject(line, "batch", bench->batch);
    cJSON_AddNumberToObject(line, "slots", bench->size.slots);
    cJSON_AddNumberToObject(line, "streams", bench->streams);
    cJSON_AddStringToObject(line, "precision", bench->shape.precision);
    number(line, "images_per_s", rate);
    number(line, "kernel_images_per_s", kernels);
    number(line, "of_kernels", rate / kernels);
    number(line, "copy_gb_per_s", input > 0 ? bytes / input / 1e3 : 0);
    number(line, "copy_images_per_s", copies);
    number(line, "of_copies", rate / copies);
    number(line, "compute_us", compute);
    number(line, "input_us", input);
    number(line, "output_us", median(&bench->output));
    number(line, "busy_compute_us", busy);
    number(line, "busy_kernel_images_per_s", busy > 0 ? bench->batch / busy * 1e6 : 0);
    char *text = cJSON_PrintUnformatted(line);
    puts(text != NULL ? text : "out of memory");
    cJSON_free(text);
    cJSON_Delete(line);
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
    "usage: bench_channel_rate BACKEND MODEL.onnx BATCH SLOTS STREAMS SECONDS [CACHE_DIR]\n"
    "BACKEND cuda, cpu or null; BATCH 1 to 65535, SLOTS 1 to 64, STREAMS 1 to 64\n";

int main(int argc, char **argv)
{
    static struct bench bench; /* samples make it large */
    static const struct convoy_worker_events events = {on_message, on_finished_slots, on_gone};
    struct convoy_error error;
    if (argc == 7 || argc == 8) {
        bench.batch = whole(argv[3], 1, CONVOY_ROWS_MAX);
        bench.size.slots = whole(argv[4], 1, CONVOY_MAX_SLOTS);
        bench.streams = whole(argv[5], 1, CONVOY_MAX_SLOTS);
        bench.seconds = strtod(argv[6], NULL);
    }
    if (bench.batch == 0 || bench.size.slots == 0 || bench.streams == 0 || !(bench.seconds > 0)) {
        fputs(usage, stderr);
        return 2;
    }
    uv_loop_init(&bench.loop);
    if (read_model(&bench, argv[2], &error) != 0 ||
        convoy_worker_prepare(&bench.worker, &bench.loop, 0, 1, bench.streams, argc == 8 ? argv[7] : NULL,
                              &events, &bench, &error) != 0 ||
        convoy_worker_start(&bench.worker, argv[1], "on", &error) != 0) {
        fprintf(stderr, "bench_channel_rate: %s\n", error.message);
        return 1;
    }
    uv_timer_init(&bench.loop, &bench.watch);
    bench.watch.data = &bench;
    uv_timer_start(&bench.watch, on_watch, 1000, 1000);
    uv_run(&bench.loop, UV_RUN_DEFAULT);
    if (!bench.failed)
        report(&bench);
    convoy_worker_free(&bench.worker);
    convoy_model_config_free(bench.model.config);
    uv_loop_close(&bench.loop);
    return bench.failed ? 1 : 0;
}
