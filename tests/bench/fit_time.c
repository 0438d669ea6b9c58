/* The kernels behind a device's JPEG decoder by themselves: pictures of random samples in 4:2:0 become rows
 * of SIDE x SIDE x 3, after the shorter side was brought to RESIZE_TO. bench_fit_time WIDTH HEIGHT BATCH SIDE
 * RESIZE_TO Prints the median time of a batch on the device, in microseconds, of marking planes, checking
 * them, and fitting. */
#include "engine/base/clock.h"
#include "engine/cuda/decode/resampling.h"
#include "kernels/fit_images.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS   51
#define REPEAT 10 /* launches a run */

static cudaStream_t stream;
static cudaEvent_t begun, ended;

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "bench_fit_time: %s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

static void *on_device(const void *from, size_t bytes)
{
    void *memory = NULL;
    must(cudaMalloc(&memory, bytes), "cudaMalloc");
    must(cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    return memory;
}

static struct convoy_fit_axis axis_of(const struct convoy_axis *axis)
{
    size_t taps = convoy_resampling_taps(axis), bytes = (size_t)axis->out * (taps + 2) * sizeof(int32_t);
    int32_t *table = malloc(bytes);
    if (table == NULL || taps == 0)
        exit(1);
    convoy_resampling_fill(axis, taps, table);
    struct convoy_fit_axis result = {
        .table = on_device(table, bytes), .taps = (int32_t)taps, .out = axis->out};
    free(table);
    return result;
}

static int by_size(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static void report(const char *name, cudaError_t (*launch)(void *context), void *context)
{
    float us[RUNS];
    must(launch(context), name);
    for (int i = 0; i < RUNS; i++) {
        must(cudaEventRecord(begun, stream), "cudaEventRecord");
        for (int k = 0; k < REPEAT; k++)
            must(launch(context), name);
        must(cudaEventRecord(ended, stream), "cudaEventRecord");
        must(cudaEventSynchronize(ended), name);
        must(cudaEventElapsedTime(&us[i], begun, ended), "cudaEventElapsedTime");
        us[i] *= 1000.0f / REPEAT;
    }
    qsort(us, RUNS, sizeof us[0], by_size);
    printf("%-12s %8.1f us\n", name, (double)us[RUNS / 2]);
}

struct work {
    struct convoy_fit_job job;
    uint8_t *planes;
    size_t bytes;
    uint32_t *unwritten;
};

static cudaError_t mark(void *context)
{
    const struct work *work = context;
    return convoy_launch_mark_planes(work->planes, (int64_t)work->bytes, stream);
}

static cudaError_t check(void *context)
{
    const struct work *work = context;
    return convoy_launch_check_planes(work->job.pictures, work->job.rows, work->unwritten, stream);
}

static cudaError_t fit(void *context)
{
    const struct work *work = context;
    return convoy_launch_fit_images(&work->job, stream);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("usage: bench_fit_time WIDTH HEIGHT BATCH SIDE RESIZE_TO\n", stderr);
        return 2;
    }
    int numbers[5];
    for (int i = 0; i < 5; i++)
        if ((numbers[i] = (int)strtol(argv[i + 1], NULL, 10)) < 1 || numbers[i] > (int)CONVOY_JPEG_SIDE_MAX)
            return 2;
    int width = numbers[0], height = numbers[1], batch = numbers[2];
    uint32_t side = (uint32_t)numbers[3], cover = (uint32_t)numbers[4];
    const struct convoy_image_fitting fitting = {.kind = CONVOY_FITTING_CROP,
                                                 .width = side,
                                                 .height = side,
                                                 .channels = 3,
                                                 .cover_width = cover,
                                                 .cover_height = cover};
    struct convoy_resampling resampling;
    convoy_resampling_choose(&fitting, (uint32_t)width, (uint32_t)height, &resampling);
    size_t pitch = ((size_t)width + 127) / 128 * 128, half = ((size_t)(width + 1) / 2 + 127) / 128 * 128;
    size_t chroma = half * (size_t)((height + 1) / 2),
           each = (pitch * (size_t)height + 2 * chroma + 255) / 256 * 256;
    struct work work = {.bytes = each * (size_t)batch};
    uint8_t *samples = malloc(work.bytes);
    struct convoy_fit_picture *pictures = calloc((size_t)batch, sizeof *pictures);
    if (samples == NULL || pictures == NULL)
        return 1;
    for (size_t i = 0; i < work.bytes; i++)
        samples[i] = (uint8_t)rand();
    work.planes = on_device(samples, work.bytes);
    work.unwritten = on_device(samples, (size_t)batch * sizeof(uint32_t));
    struct convoy_fit_axis x = axis_of(&resampling.x), y = axis_of(&resampling.y);
    for (int i = 0; i < batch; i++) {
        uint8_t *planes = work.planes + (size_t)i * each;
        pictures[i] = (struct convoy_fit_picture){
            .form = CONVOY_FIT_YCC,
            .planes = {planes, planes + pitch * (size_t)height, planes + pitch * (size_t)height + chroma},
            .pitch = {(int)pitch, (int)half, (int)half},
            .width = width,
            .height = height,
            .chroma_width = (width + 1) / 2,
            .chroma_height = (height + 1) / 2,
            .half_x = 1,
            .half_y = 1,
            .orientation = 1,
            .rows_first = resampling.rows_first,
            .x = x,
            .y = y};
    }
    int64_t image_bytes = ((int64_t)side * side * 3 + 63) / 64 * 64;
    work.job = (struct convoy_fit_job){.pictures = on_device(pictures, (size_t)batch * sizeof *pictures),
                                       .rows = batch,
                                       .image_bytes = image_bytes,
                                       .width = (int)side,
                                       .height = (int)side,
                                       .channels = 3};
    void *images = NULL;
    must(cudaMalloc(&images, (size_t)image_bytes * (size_t)batch), "cudaMalloc");
    work.job.images = images;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    must(cudaEventCreateWithFlags(&begun, cudaEventDefault), "cudaEventCreateWithFlags");
    must(cudaEventCreateWithFlags(&ended, cudaEventDefault), "cudaEventCreateWithFlags");
    report("fit_images", fit, &work);
    report("check_planes", check, &work);
    report("mark_planes", mark, &work);
    free(samples);
    free(pictures);
    return 0;
}
