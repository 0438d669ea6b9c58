/* A network's kernels by themselves: what networks.py asks for our times and answers.
 *   bench_network_time BACKEND MODEL.onnx fp32|tf32|fp16 MAX_BATCH INPUT CACHE TUNE_SECONDS
 * INPUT holds MAX_BATCH rows or more, one after the other, as the network takes them: float32, C x H x W.
 * CACHE is the folder where kernel times are remembered ("": nowhere). For TUNE_SECONDS at most the backend
 * tunes (0: it does not). Then it says what it is, and for each line BATCH RUNS OUTPUT on standard input it
 * runs the first BATCH rows again and again: for a tenth of a second and five times at least to warm up (once
 * where a run takes a second), then RUNS times, whose times of computing alone are what it answers. Short
 * jobs run behind others: the device is meant to have all of a job before it begins, so that no launch is in
 * its time, as peer_torch.py means it for the peers; and its rows are there already. It writes the outputs of
 * the last of them to OUTPUT, float32. For a line BATCH layers it answers with each layer's kernel and time,
 * as a profile has them: the median of some runs, in which each layer waits for the one before. Every answer
 * is a line of JSON. It ends when standard input does. */
#include "engine/base/clock.h"
#include "engine/ipc/channel.h"
#include "tests/bench/alone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RUNS      10000
#define PROFILES       15
#define WARM_UP_US     100000
#define WARM_UP_MIN    5
#define WARM_UP_MAX_US 1000000
#define AHEAD          8    /* jobs before the one that is timed: meant to last until it is submitted */
#define SHORT_US       1000 /* of computing: what is longer does not notice a launch */

struct bench {
    struct convoy_worker_device device;
    struct convoy_worker_net net;
    size_t elements, input_stride, output_stride;
    char *rows; /* told to the device: all inputs, then all outputs */
    size_t input_bytes, bytes;
};

/* The tuner has chosen other kernels. */
static void changed(void *context, struct convoy_net *net, const struct convoy_net_info *info)
{
    struct bench *bench = context;
    (void)net;
    bench->net.info = *info;
}

static void log_line(void *context, const char *level, const char *text)
{
    (void)context;
    if (strcmp(level, "debug") != 0)
        fprintf(stderr, "bench_network_time: %s\n", text);
}

static float *outputs_of(const struct bench *bench, size_t row)
{
    return (float *)(void *)(bench->rows + bench->input_bytes + row * bench->output_stride);
}

/* Memory for max_batch rows and their outputs, told to the device, and the rows in it. */
static int read_rows(struct bench *bench, const char *path, struct convoy_error *error)
{
    const struct convoy_net_info *info = &bench->net.info;
    size_t rows = bench->net.max_batch;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return convoy_fail(error, -errno, "%s cannot be read: %s", path, strerror(errno));
    int code = 0;
    bench->elements = (size_t)info->channels * info->height * info->width;
    bench->input_stride = convoy_slot_round(bench->elements * sizeof(float));
    bench->output_stride = convoy_slot_round(info->outputs_per_row * sizeof(float));
    bench->input_bytes = rows * bench->input_stride;
    bench->bytes = (bench->input_bytes + rows * bench->output_stride + 4095) / 4096 * 4096;
    bench->rows = aligned_alloc(4096, bench->bytes);
    if (bench->rows == NULL)
        code = convoy_fail(error, -ENOMEM, "out of memory");
    for (size_t row = 0; row < rows && code == 0; row++)
        if (fread(bench->rows + row * bench->input_stride, sizeof(float), bench->elements, file) !=
            bench->elements)
            code = convoy_fail(error, -EINVAL, "%s holds %zu whole rows of %zu values, not %zu", path, row,
                               bench->elements, rows);
    fclose(file);
    return code != 0 ? code
                     : bench->device.backend->attach(bench->device.device, bench->rows, bench->bytes, error);
}

static int write_outputs(const struct bench *bench, uint32_t rows, const char *path,
                         struct convoy_error *error)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return convoy_fail(error, -errno, "%s cannot be written: %s", path, strerror(errno));
    size_t values = bench->net.info.outputs_per_row;
    bool whole = true;
    for (uint32_t row = 0; row < rows; row++)
        whole = fwrite(outputs_of(bench, row), sizeof(float), values, file) == values && whole;
    whole = fclose(file) == 0 && whole;
    return whole ? 0 : convoy_fail(error, -EIO, "%s cannot be written: %s", path, strerror(errno));
}

/* The job, behind some that compute the same, of which only it tells its times. Its rows lie on the device
 * already, as the peers' do: after a copy the device begins some microseconds later. */
static int run_behind(const struct bench *bench, const struct convoy_job *job, struct convoy_error *error)
{
    const struct convoy_backend *backend = bench->device.backend;
    struct convoy_job before = *job, timed = *job;
    uint64_t tag;
    int code = 0, left = 0;
    before.times = NULL;
    before.keep_input = before.keep_output = timed.keep_input = true;
    for (int i = 0; i < AHEAD && code == 0; i++, left++)
        code = backend->submit(bench->device.device, bench->net.net, &before, error);
    if (code == 0)
        code = bench_run(&bench->device, &bench->net, &timed, error); /* collects one of them */
    while (code == 0 && left > 0) {
        code = backend->collect(bench->device.device, 1000, &tag, error);
        left -= code > 0;
        code = code < 0 ? code : 0;
    }
    return code;
}

static int warm_up(const struct bench *bench, const struct convoy_job *job, struct convoy_error *error)
{
    uint64_t begun_us = convoy_now_us(), passed_us = 0;
    for (int run = 0; run == 0 || passed_us < WARM_UP_US || (run < WARM_UP_MIN && passed_us < WARM_UP_MAX_US);
         run++) {
        if (bench_run(&bench->device, &bench->net, job, error) != 0)
            return -1;
        passed_us = convoy_now_us() - begun_us;
    }
    return 0;
}

static void print_line(const cJSON *answer)
{
    char *text = cJSON_PrintUnformatted(answer);
    puts(text != NULL ? text : "{}");
    fflush(stdout);
    free(text);
}

static void print_times(float *us, int runs)
{
    float median = bench_median(us, (size_t)runs); /* sorts */
    printf("{\"median_us\": %.3f, \"least_us\": %.3f, \"greatest_us\": %.3f}\n", (double)median,
           (double)us[0], (double)us[runs - 1]);
    fflush(stdout);
}

static struct convoy_job job_of(const struct bench *bench, uint32_t rows, struct convoy_job_times *times)
{
    return (struct convoy_job){.layout = CONVOY_LAYOUT_F32_CHW,
                               .rows = rows,
                               .input = bench->rows,
                               .input_stride = bench->input_stride,
                               .output = outputs_of(bench, 0),
                               .output_stride = bench->output_stride,
                               .times = times};
}

static int measure_layers(const struct bench *bench, uint32_t rows, struct convoy_error *error)
{
    uint32_t count = bench->net.info.layer_count;
    float *us = malloc((size_t)count * PROFILES * sizeof(float));
    if (us == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory");
    struct convoy_job_times times = {0};
    struct convoy_job job = job_of(bench, rows, &times);
    int code = warm_up(bench, &job, error);
    job.profile = true;
    for (uint32_t run = 0; run < PROFILES && code == 0; run++) {
        times.layer_us = us + (size_t)run * count;
        code = bench_run(&bench->device, &bench->net, &job, error);
    }
    cJSON *answer = cJSON_CreateObject(), *layers = cJSON_AddArrayToObject(answer, "layers");
    for (uint32_t i = 0; i < count && code == 0; i++) {
        float runs[PROFILES];
        for (uint32_t run = 0; run < PROFILES; run++)
            runs[run] = us[(size_t)run * count + i];
        cJSON *layer = cJSON_CreateObject();
        cJSON_AddStringToObject(layer, "name", bench->net.info.layers[i].name);
        cJSON_AddStringToObject(layer, "kernel", bench->net.info.layers[i].kernel);
        cJSON_AddNumberToObject(layer, "us", (double)bench_median(runs, PROFILES));
        cJSON_AddItemToArray(layers, layer);
    }
    if (code == 0)
        print_line(answer);
    cJSON_Delete(answer);
    free(us);
    return code;
}

static int measure(const struct bench *bench, uint32_t rows, int runs, const char *path,
                   struct convoy_error *error)
{
    static float us[MOST_RUNS];
    struct convoy_job_times times = {0};
    struct convoy_job job = job_of(bench, rows, &times);
    if (warm_up(bench, &job, error) != 0)
        return -1;
    for (int run = 0; run < runs; run++) {
        if (run == runs - 1) /* what this one does not write is seen */
            memset(outputs_of(bench, 0), 0xff, rows * bench->output_stride);
        int code = times.compute_us < SHORT_US ? run_behind(bench, &job, error)
                                               : bench_run(&bench->device, &bench->net, &job, error);
        if (code != 0)
            return -1;
        us[run] = times.compute_us;
    }
    if (write_outputs(bench, rows, path, error) != 0)
        return -1;
    print_times(us, runs);
    return 0;
}

static void introduce(const struct bench *bench, cJSON *described, bool tuned, double tune_s)
{
    cJSON_AddStringToObject(described, "device", bench->device.info.name);
    cJSON_AddStringToObject(described, "description", bench->device.info.description);
    cJSON_AddBoolToObject(described, "tuned", tuned);
    cJSON_AddNumberToObject(described, "tune_s", tune_s);
    /* Of 8-bit rows, and from before tuning. */
    cJSON_DeleteItemFromObject(described, "layers");
    cJSON_DeleteItemFromObject(described, "precision");
    print_line(described);
}

/* Does what standard input asks for. */
static int serve(const struct bench *bench, struct convoy_error *error)
{
    char *line = NULL;
    size_t room = 0;
    int code = 0;
    while (code == 0 && getline(&line, &room, stdin) > 0) {
        char *rest = NULL;
        long rows = strtol(line, &rest, 10), runs = strtol(rest, &rest, 10);
        rest += strspn(rest, " ");
        rest[strcspn(rest, "\n")] = '\0';
        if (rows >= 1 && rows <= (long)bench->net.max_batch && strcmp(rest, "layers") == 0)
            code = measure_layers(bench, (uint32_t)rows, error);
        else if (rows < 1 || rows > (long)bench->net.max_batch || runs < 1 || runs > MOST_RUNS ||
                 rest[0] == '\0')
            code = convoy_fail(error, -EINVAL,
                               "'%s': expected a batch of 1 to %u, 1 to %d runs and a file, in a line", line,
                               bench->net.max_batch, MOST_RUNS);
        else
            code = measure(bench, (uint32_t)rows, (int)runs, rest, error);
    }
    free(line);
    return code;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct convoy_error error = {0};
    if (argc != 8) {
        fputs("usage: bench_network_time BACKEND MODEL.onnx fp32|tf32|fp16 MAX_BATCH INPUT CACHE "
              "TUNE_SECONDS\n",
              stderr);
        return 2;
    }
    double most_s = strtod(argv[7], NULL);
    struct convoy_open_options options = {.streams = 1,
                                          .cache_dir = argv[6][0] != '\0' ? argv[6] : NULL,
                                          .tune = most_s > 0 ? CONVOY_TUNING_ON : CONVOY_TUNING_OFF,
                                          .context = &bench,
                                          .log = log_line,
                                          .changed = changed};
    cJSON *message = bench_load_message(argv[2], strtol(argv[4], NULL, 10), argv[3]), *described = NULL;
    int code = convoy_worker_open_device(argv[1], 0, &options, NULL, &bench.device, NULL, &error);
    if (code == 0)
        code = convoy_worker_load(&bench.device, message, NULL, &bench.net, &described, &error);
    if (code == 0)
        code = read_rows(&bench, argv[5], &error);
    uint64_t begun_us = convoy_now_us();
    if (code == 0)
        code = most_s > 0 ? bench_tune(&bench.device, most_s, &error) : 0;
    if (code >= 0 && described != NULL) {
        introduce(&bench, described, code == 0 && most_s > 0, (double)(convoy_now_us() - begun_us) / 1e6);
        code = serve(&bench, &error);
    }
    if (code != 0)
        fprintf(stderr, "bench_network_time: %s\n", error.message);
    if (bench.device.device != NULL) {
        convoy_worker_unload(&bench.device, &bench.net);
        convoy_worker_close_device(&bench.device); /* lets go of rows */
    }
    free(bench.rows);
    cJSON_Delete(message);
    cJSON_Delete(described);
    return code == 0 ? 0 : 1;
}
