/* A backend by itself: images a second of one model at one batch size, without HTTP, channel or front.
 *   bench_backend_rate BACKEND MODEL.onnx BATCH SECONDS u8|f32 [fp32|tf32|fp16]
 * Prints one line: images a second, counted over SECONDS after a second of warming up, on a backend that
 * tunes when it is idle after that; and the median time of computing alone, in microseconds. Rows lie in
 * memory that the backend was told of, as in the channel. The images are random; a backend that skipped work
 * for zeros would look faster than it is. */
#include "engine/base/clock.h"
#include "engine/ipc/channel.h"
#include "tests/bench/alone.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_JOBS 100000

static int measure(const struct convoy_worker_device *device, const struct convoy_worker_net *net,
                   const struct convoy_job *job, double seconds, struct convoy_error *error)
{
    uint64_t warm_us = convoy_now_us() + 1000000;
    while (convoy_now_us() < warm_us)
        if (bench_run(device, net, job, error) != 0)
            return -1;
    static float compute_us[MOST_JOBS];
    size_t jobs = 0;
    uint64_t images = 0, begun_us = convoy_now_us(), now_us = begun_us;
    while ((double)(now_us - begun_us) < seconds * 1e6) {
        if (bench_run(device, net, job, error) != 0)
            return -1;
        images += job->rows;
        if (jobs < MOST_JOBS)
            compute_us[jobs++] = job->times->compute_us;
        now_us = convoy_now_us();
    }
    printf("%.0f %.1f\n", (double)images / ((double)(now_us - begun_us) / 1e6),
           jobs > 0 ? (double)bench_median(compute_us, jobs) : 0);
    return 0;
}

static void fill(const struct convoy_job *job, size_t elements)
{
    srand(1);
    for (uint32_t row = 0; row < job->rows; row++) {
        uint8_t *bytes = (uint8_t *)(uintptr_t)job->input + row * job->input_stride;
        for (size_t i = 0; i < elements; i++) {
            float value = (float)rand() / (float)RAND_MAX * 2 - 1;
            if (job->layout == CONVOY_LAYOUT_F32_CHW)
                memcpy(bytes + i * sizeof value, &value, sizeof value);
            else
                bytes[i] = (uint8_t)rand();
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc > 7 || (strcmp(argv[5], "u8") != 0 && strcmp(argv[5], "f32") != 0)) {
        fputs("usage: bench_backend_rate BACKEND MODEL.onnx BATCH SECONDS u8|f32 [fp32|tf32|fp16]\n", stderr);
        return 2;
    }
    long batch = strtol(argv[3], NULL, 10);
    struct convoy_worker_device device;
    struct convoy_worker_net net = {0};
    struct convoy_open_options options = {.streams = 1, .tune = CONVOY_TUNING_ON};
    struct convoy_job_times times = {0};
    struct convoy_error error;
    cJSON *message = bench_load_message(argv[2], batch, argc > 6 ? argv[6] : "fp32");
    if (batch < 1 || convoy_worker_open_device(argv[1], 0, &options, NULL, &device, NULL, &error) != 0 ||
        convoy_worker_load(&device, message, NULL, &net, NULL, &error) != 0 ||
        bench_tune(&device, HUGE_VAL, &error) != 0) {
        fprintf(stderr, "bench_backend_rate: %s\n", batch < 1 ? "the batch is 1 at least" : error.message);
        return 1;
    }
    size_t elements = (size_t)net.info.channels * net.info.height * net.info.width;
    bool u8 = strcmp(argv[5], "u8") == 0;
    struct convoy_job job = {.layout = u8 ? CONVOY_LAYOUT_U8_HWC : CONVOY_LAYOUT_F32_CHW,
                             .rows = (uint32_t)batch,
                             .input_stride = convoy_slot_round(elements * (u8 ? 1 : sizeof(float))),
                             .output_stride = convoy_slot_round(net.info.outputs_per_row * sizeof(float)),
                             .times = &times};
    size_t input_bytes = job.rows * job.input_stride, bytes = input_bytes + job.rows * job.output_stride;
    char *rows = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    int code = rows == NULL ? convoy_fail(&error, -1, "out of memory")
                            : device.backend->attach(device.device, rows, bytes, &error);
    if (code == 0) {
        job.input = rows;
        job.output = (float *)(void *)(rows + input_bytes);
        fill(&job, elements);
        code = measure(&device, &net, &job, strtod(argv[4], NULL), &error);
    }
    if (code != 0)
        fprintf(stderr, "bench_backend_rate: %s\n", error.message);
    cJSON_Delete(message);
    convoy_worker_unload(&device, &net);
    convoy_worker_close_device(&device); /* lets go of rows */
    free(rows);
    return code == 0 ? 0 : 1;
}
