/* JPEG files through a backend, without HTTP, channel or front: decoded, resized and computed.
 *   bench_jpeg_rate BACKEND MODEL.onnx BATCH SECONDS fp32|tf32|fp16 RESIZE_TO FILE.jpg...
 * RESIZE_TO: the shorter side before the centre is cut out; 0: stretched. The backend tunes first, for 30 s
 * at most. Then prints, a line each: pictures a second with as many jobs in flight as the worker would have,
 * and with one; the median times of a job of the latter: to decode and copy, to compute, and from end to end;
 * and of jobs of one picture. Rows lie in memory that the backend was told of, as in the channel. Exit status
 * 1 if a file could not be decoded. */
#include "engine/base/clock.h"
#include "engine/ipc/channel.h"
#include "tests/bench/alone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <jpeglib.h>

#define MOST_FLIGHT 64
#define MOST_JOBS   100000
#define TUNE_S      30

struct bench {
    struct convoy_worker_device device;
    struct convoy_worker_net net;
    struct convoy_job jobs[MOST_FLIGHT];
    struct convoy_job_times times[MOST_FLIGHT];
    int flight;
    uint64_t undecoded;
    char *memory;
    size_t bytes;
};

static void log_line(void *context, const char *level, const char *text)
{
    (void)context;
    if (strcmp(level, "debug") == 0 && strstr(text, "JPEG") == NULL)
        return;
    fprintf(stderr, "bench_jpeg_rate: %s: %s\n", level, text);
}

static int read_file(const char *path, uint8_t **bytes, size_t *length, struct convoy_jpeg_row *row)
{
    FILE *file = fopen(path, "re");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        return -1;
    *length = (size_t)ftell(file);
    rewind(file);
    *bytes = malloc(*length + 1);
    if (*bytes == NULL || fread(*bytes, 1, *length, file) != *length)
        return -1;
    fclose(file);
    struct jpeg_decompress_struct decoder;
    struct jpeg_error_mgr errors;
    decoder.err = jpeg_std_error(&errors); /* ends the program when the file is none */
    jpeg_create_decompress(&decoder);
    jpeg_mem_src(&decoder, *bytes, *length);
    jpeg_read_header(&decoder, TRUE);
    *row = (struct convoy_jpeg_row){.length = (uint32_t)*length,
                                    .width = (uint16_t)decoder.image_width,
                                    .height = (uint16_t)decoder.image_height,
                                    .orientation = 1,
                                    .components = (uint8_t)decoder.num_components};
    jpeg_destroy_decompress(&decoder);
    return 0;
}

/* Every job has the files in turn. */
static int lay_out(struct bench *bench, uint32_t batch, char **paths, int count)
{
    uint8_t **bytes = calloc((size_t)count, sizeof *bytes);
    size_t *lengths = calloc((size_t)count, sizeof *lengths);
    struct convoy_jpeg_row *rows = calloc((size_t)count, sizeof *rows);
    if (bytes == NULL || lengths == NULL || rows == NULL)
        return -1;
    size_t output_stride = convoy_slot_round(bench->net.info.outputs_per_row * sizeof(float));
    size_t input_bytes = batch * CONVOY_JPEG_ROW_BYTES;
    for (int i = 0; i < count; i++)
        if (read_file(paths[i], &bytes[i], &lengths[i], &rows[i]) != 0)
            return -1;
    for (uint32_t i = 0; i < batch; i++)
        input_bytes += convoy_slot_round(lengths[i % (uint32_t)count]);
    size_t job_bytes = input_bytes + batch * output_stride;
    bench->bytes = ((size_t)bench->flight * job_bytes + 4095) / 4096 * 4096;
    bench->memory = aligned_alloc(4096, bench->bytes);
    if (bench->memory == NULL)
        return -1;
    for (int k = 0; k < bench->flight; k++) {
        char *input = bench->memory + (size_t)k * job_bytes;
        size_t at = batch * CONVOY_JPEG_ROW_BYTES;
        for (uint32_t i = 0; i < batch; i++) {
            uint32_t file = i % (uint32_t)count;
            struct convoy_jpeg_row *row = (struct convoy_jpeg_row *)(void *)input + i;
            *row = rows[file];
            row->offset = (uint32_t)(at - i * CONVOY_JPEG_ROW_BYTES);
            memcpy(input + at, bytes[file], lengths[file]);
            at += convoy_slot_round(lengths[file]);
        }
        bench->jobs[k] = (struct convoy_job){.tag = (uint64_t)k,
                                             .layout = CONVOY_LAYOUT_JPEG,
                                             .rows = batch,
                                             .input = input,
                                             .input_stride = CONVOY_JPEG_ROW_BYTES,
                                             .input_bytes = input_bytes,
                                             .output = (float *)(void *)(input + input_bytes),
                                             .output_stride = output_stride,
                                             .times = &bench->times[k]};
    }
    for (int i = 0; i < count; i++)
        free(bytes[i]);
    free(bytes);
    free(lengths);
    free(rows);
    return 0;
}

/* Runs for so long with `flight` jobs beside each other. */
static int measure(struct bench *bench, int flight, uint32_t rows, double seconds, struct convoy_error *error)
{
    static float input_us[MOST_JOBS], compute_us[MOST_JOBS], whole_us[MOST_JOBS];
    static uint64_t begun_us[MOST_FLIGHT];
    const struct convoy_backend *backend = bench->device.backend;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    size_t jobs = 0;
    uint64_t pictures = 0, start_us = convoy_now_us(), end_us = start_us + (uint64_t)(seconds * 1e6);
    int running = 0;
    for (int k = 0; k < flight; k++, running++) {
        bench->jobs[k].rows = rows;
        begun_us[k] = convoy_now_us();
        if (backend->submit(bench->device.device, bench->net.net, &bench->jobs[k], error) != 0)
            return -1;
    }
    while (running > 0) {
        uint64_t tag;
        int got = backend->collect(bench->device.device, 1000, &tag, error);
        if (got < 0)
            return -1;
        if (got == 0)
            continue;
        uint64_t now_us = convoy_now_us();
        pictures += rows;
        for (uint32_t i = 0; i < CONVOY_JPEG_ROWS_MAX / 64; i++)
            bench->undecoded += (uint64_t)__builtin_popcountll(bench->times[tag].undecoded[i]);
        if (jobs < MOST_JOBS) {
            input_us[jobs] = bench->times[tag].input_us;
            compute_us[jobs] = bench->times[tag].compute_us;
            whole_us[jobs++] = (float)(now_us - begun_us[tag]);
        }
        begun_us[tag] = now_us;
        if (now_us >= end_us)
            running--;
        else if (backend->submit(bench->device.device, bench->net.net, &bench->jobs[tag], error) != 0)
            return -1;
    }
    getrusage(RUSAGE_SELF, &after);
    double own_us = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                             before.ru_stime.tv_sec) *
                        1e6 +
                    (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
                             before.ru_stime.tv_usec);
    printf("%3u pictures a job, %2d jobs at once: %7.0f pictures/s, %4.0f us of processor time each; a job "
           "decodes for %.0f us, computes for "
           "%.0f "
           "us, takes %.0f us\n",
           rows, flight, (double)pictures / ((double)(convoy_now_us() - start_us) / 1e6),
           own_us / (double)pictures, (double)bench_median(input_us, jobs),
           (double)bench_median(compute_us, jobs), (double)bench_median(whole_us, jobs));
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    if (argc < 8) {
        fputs(
            "usage: bench_jpeg_rate BACKEND MODEL.onnx BATCH SECONDS fp32|tf32|fp16 RESIZE_TO FILE.jpg...\n",
            stderr);
        return 2;
    }
    uint32_t batch = (uint32_t)strtoul(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    struct convoy_open_options options = {.streams = 3, .tune = CONVOY_TUNING_ON, .log = log_line};
    struct convoy_error error = {0};
    cJSON *message = bench_load_message(argv[2], batch, argv[5]);
    cJSON *fitting = cJSON_AddObjectToObject(message, "fitting");
    double resize_to = strtod(argv[6], NULL);
    cJSON_AddNumberToObject(fitting, "kind", resize_to > 0 ? CONVOY_FITTING_CROP : CONVOY_FITTING_STRETCH);
    cJSON_AddNumberToObject(fitting, "resize_to", resize_to);
    int code = batch < 1 || batch > CONVOY_JPEG_ROWS_MAX
                   ? convoy_fail(&error, -EINVAL, "the batch is 1 to %u", CONVOY_JPEG_ROWS_MAX)
                   : convoy_worker_open_device(argv[1], 0, &options, NULL, &bench.device, NULL, &error);
    if (code == 0)
        code = convoy_worker_load(&bench.device, message, NULL, &bench.net, NULL, &error);
    if (code == 0 && !bench.net.info.takes_jpeg)
        code = convoy_fail(&error, -ENOTSUP, "the device decodes no JPEG files");
    bench.flight = (int)(bench.device.info.streams + bench.device.info.jpeg_jobs);
    if (code == 0)
        code = bench_tune(&bench.device, TUNE_S, &error) < 0 ? -1 : 0;
    if (code == 0 && lay_out(&bench, batch, argv + 7, argc - 7) != 0)
        code = convoy_fail(&error, -EINVAL, "a file cannot be read");
    if (code == 0)
        code = bench.device.backend->attach(bench.device.device, bench.memory, bench.bytes, &error);
    if (code == 0)
        code = measure(&bench, bench.flight, batch, seconds / 4, &error); /* warms up */
    if (code == 0)
        code = measure(&bench, bench.flight, batch, seconds, &error);
    if (code == 0)
        code = measure(&bench, 1, batch, seconds, &error);
    if (code == 0)
        code = measure(&bench, 1, 1, seconds, &error);
    if (code == 0 && bench.undecoded > 0)
        code =
            convoy_fail(&error, -EBADMSG, "%llu files were not decoded", (unsigned long long)bench.undecoded);
    if (code != 0)
        fprintf(stderr, "bench_jpeg_rate: %s\n", error.message);
    cJSON_Delete(message);
    return code == 0 ? 0 : 1;
}
