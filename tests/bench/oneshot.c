/* One process for one run, as people classify without a daemon: it opens the device, loads a network,
 * classifies all images of a file, lets everything go and ends. tests/bench/oneshot.py drives it, beside a
 * daemon that is up. bench_oneshot BACKEND LOAD IMAGES STREAMS ANSWERS LOAD is what the front would tell a
 * worker: a JSON object with path, name, precision, max_batch, multiply and add. IMAGES holds the 8-bit rows
 * of all images, one after the other. ANSWERS gets the first class of each, a line each. Prints one JSON
 * object: how long each phase took, how long the device worked, how often each class came first.
 * ONESHOT_BEGUN_US in the environment says when (CLOCK_MONOTONIC) the process was asked for. */
#include "engine/base/clock.h"
#include "engine/ipc/channel.h"
#include "engine/worker/nets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_FLIGHT    8 /* jobs: enough that the device never waits for the host */
#define MOST_CLASSES 1000

struct run {
    struct convoy_worker_device device;
    struct convoy_worker_net net;
    size_t images, row_bytes, input_stride, output_stride;
    char *rows; /* pinned: all inputs, then all outputs */
    size_t bytes;
    struct convoy_job_times times[IN_FLIGHT];
    double input_us, compute_us, output_us; /* of all jobs, on the device */
    unsigned long counts[MOST_CLASSES];
};

static float *outputs_of(const struct run *run, size_t image)
{
    return (float *)(void *)(run->rows + run->images * run->input_stride + image * run->output_stride);
}

/* Memory for all images and answers, told to the device, and the images in it. */
static int read_images(struct run *run, const char *path, struct convoy_error *error)
{
    const struct convoy_net_info *info = &run->net.info;
    struct stat status = {0};
    char *file = MAP_FAILED;
    int code = 0, descriptor = open(path, O_RDONLY | O_CLOEXEC);
    run->row_bytes = (size_t)info->channels * info->height * info->width;
    run->input_stride = convoy_slot_round(run->row_bytes);
    run->output_stride = convoy_slot_round(info->outputs_per_row * sizeof(float));
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        code = convoy_fail(error, -errno, "%s cannot be read: %s", path, strerror(errno));
    else if (status.st_size == 0 || (size_t)status.st_size % run->row_bytes != 0)
        code = convoy_fail(error, -EINVAL, "%s holds no whole images of %zu bytes", path, run->row_bytes);
    else
        file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (code == 0 && file == MAP_FAILED)
        code = convoy_fail(error, -errno, "%s cannot be mapped: %s", path, strerror(errno));
    if (code != 0)
        goto out;
    run->images = (size_t)status.st_size / run->row_bytes;
    run->bytes = (run->images * (run->input_stride + run->output_stride) + 4095) / 4096 * 4096;
    run->rows = aligned_alloc(4096, run->bytes);
    if (run->rows == NULL) {
        code = convoy_fail(error, -ENOMEM, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < run->images; i++)
        memcpy(run->rows + i * run->input_stride, file + i * run->row_bytes, run->row_bytes);
    code = run->device.backend->attach(run->device.device, run->rows, run->bytes, error);
out:
    if (file != MAP_FAILED)
        munmap(file, (size_t)status.st_size);
    if (descriptor >= 0)
        close(descriptor);
    return code;
}

/* Waits for the jobs until at most `left` are in flight. Tags are numbers of run->times. */
static int collect(struct run *run, unsigned *in_flight, unsigned left, bool *busy,
                   struct convoy_error *error)
{
    while (*in_flight > left) {
        uint64_t tag;
        int code = run->device.backend->collect(run->device.device, 1000, &tag, error);
        if (code < 0)
            return code;
        if (code == 0)
            continue;
        run->input_us += run->times[tag].input_us;
        run->compute_us += run->times[tag].compute_us;
        run->output_us += run->times[tag].output_us;
        busy[tag] = false;
        --*in_flight;
    }
    return 0;
}

static int classify(struct run *run, struct convoy_error *error)
{
    bool busy[IN_FLIGHT] = {false};
    unsigned in_flight = 0;
    int code = 0;
    for (size_t first = 0; first < run->images && code == 0; first += run->net.max_batch) {
        code = collect(run, &in_flight, IN_FLIGHT - 1, busy, error);
        if (code != 0)
            break;
        uint64_t tag = 0;
        while (busy[tag])
            tag++;
        size_t rows = run->images - first;
        struct convoy_job job = {.tag = tag,
                                 .layout = CONVOY_LAYOUT_U8_HWC,
                                 .rows = rows < run->net.max_batch ? (uint32_t)rows : run->net.max_batch,
                                 .input = run->rows + first * run->input_stride,
                                 .input_stride = run->input_stride,
                                 .output = outputs_of(run, first),
                                 .output_stride = run->output_stride,
                                 .times = &run->times[tag]};
        code = run->device.backend->submit(run->device.device, run->net.net, &job, error);
        busy[tag] = true;
        in_flight++;
    }
    return code != 0 ? code : collect(run, &in_flight, 0, busy, error);
}

static int write_answers(struct run *run, const char *path, struct convoy_error *error)
{
    FILE *file = fopen(path, "we");
    uint32_t classes = run->net.info.output_elements[0];
    if (file == NULL)
        return convoy_fail(error, -errno, "%s cannot be written: %s", path, strerror(errno));
    for (size_t i = 0; i < run->images; i++) {
        const float *scores = outputs_of(run, i);
        uint32_t best = 0;
        for (uint32_t k = 1; k < classes; k++)
            best = scores[k] > scores[best] ? k : best;
        run->counts[best < MOST_CLASSES ? best : MOST_CLASSES - 1]++;
        fprintf(file, "%u\n", best);
    }
    if (fclose(file) != 0)
        return convoy_fail(error, -errno, "%s cannot be written: %s", path, strerror(errno));
    return 0;
}

enum { BEGUN, STARTED, OPENED, LOADED, READ, CLASSIFIED, WRITTEN, CLOSED, MARKS };

static void print_report(const struct run *run, const uint64_t *marks, uint32_t classes)
{
    static const char *const names[] = {"start", "open", "load", "images", "classify", "answers", "close"};
    printf("{\"images\": %zu, \"phases_ms\": {", run->images);
    for (int i = 0; i + 1 < MARKS; i++)
        printf("%s\"%s\": %.3f", i > 0 ? ", " : "", names[i], (double)(marks[i + 1] - marks[i]) / 1e3);
    printf("}, \"device_ms\": {\"input\": %.3f, \"compute\": %.3f, \"output\": %.3f}, \"classes\": [",
           run->input_us / 1e3, run->compute_us / 1e3, run->output_us / 1e3);
    for (uint32_t k = 0; k < classes && k < MOST_CLASSES; k++)
        printf("%s%lu", k > 0 ? ", " : "", run->counts[k]);
    puts("]}");
}

int main(int argc, char **argv)
{
    static struct run run;
    uint64_t marks[MARKS] = {[STARTED] = convoy_now_us()};
    struct convoy_error error = {0};
    if (argc != 6) {
        fputs("usage: bench_oneshot BACKEND LOAD IMAGES STREAMS ANSWERS\n", stderr);
        return 2;
    }
    const char *begun = getenv("ONESHOT_BEGUN_US");
    marks[BEGUN] = begun != NULL ? strtoull(begun, NULL, 10) : marks[STARTED];
    struct convoy_open_options options = {.streams = (uint32_t)strtoul(argv[4], NULL, 10),
                                          .tune = CONVOY_TUNING_OFF};
    cJSON *message = cJSON_Parse(argv[2]);
    uint32_t classes = 0;
    int code = convoy_worker_open_device(argv[1], 0, &options, NULL, &run.device, NULL, &error);
    marks[OPENED] = convoy_now_us();
    if (code == 0)
        code = convoy_worker_load(&run.device, message, NULL, &run.net, NULL, &error);
    marks[LOADED] = convoy_now_us();
    if (code == 0) {
        classes = run.net.info.output_elements[0];
        code = read_images(&run, argv[3], &error);
    }
    marks[READ] = convoy_now_us();
    if (code == 0)
        code = classify(&run, &error);
    marks[CLASSIFIED] = convoy_now_us();
    if (code == 0)
        code = write_answers(&run, argv[5], &error);
    marks[WRITTEN] = convoy_now_us();
    if (run.device.device != NULL) {
        convoy_worker_unload(&run.device, &run.net);
        convoy_worker_close_device(&run.device); /* lets go of rows */
    }
    free(run.rows);
    cJSON_Delete(message);
    marks[CLOSED] = convoy_now_us();
    if (code != 0) {
        fprintf(stderr, "bench_oneshot: %s\n", error.message);
        return 1;
    }
    print_report(&run, marks, classes);
    return 0;
}
