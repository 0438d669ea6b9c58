/* `convoy bench`: reads the images, runs the load and reports. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/bench.h"
#include "client/data/paths.h"
#include "client/lib/failure.h"
#include "client/lib/file.h"
#include "client/stats/percentiles.h"

/* Limit of memory for all images; more variety would not change a measurement. */
#define IMAGES_BYTES_MAX ((size_t)1 << 30)

static const char help[] =
    "Usage: convoy bench [OPTION]... PATH...\n"
    "Loads a convoyd with the images at PATH (files, or folders with all below them)\n"
    "and says how it did. What is no JPEG, PNG, WebP, BMP or GIF is\n"
    "passed over.\n"
    "\n"
    "  --connections C  how many at once (default 8; open loop 128)\n"
    "  --rate R         open loop: R requests a second arrive by chance (Poisson), whatever the server "
    "does;\n"
    "                   latencies count from when a request was due. Without it the loop is closed: each\n"
    "                   connection sends its next request when it has the answer to the last.\n"
    "  --seconds S      how long (default 10)\n"
    "  --batch N        images a request (default 1)\n"
    "  --model NAME     which model (default: the server's)\n"
    "  --version V      which version of it (default: the highest)\n"
    "  --json           print one JSON document\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "A closed loop finds the most that a server can do; an open loop says what users feel at a given load.\n"
    "Latencies and rates are those of requests answered 200; all others are counted by status, none is\n"
    "sent again. A form is answered 200 when any of its images was classified: its images all count.\n"
    "\n"
    "Exit status: 0 all requests were answered 200, 1 some were not or an image cannot be read, 2 wrong\n"
    "command line, 3 no server, 4 none was answered 200.\n"
    "\n"
    "  convoy bench models/samples\n"
    "  convoy bench --connections 64 --batch 16 photos/\n"
    "  convoy bench --rate 500 --seconds 60 --json photos/ >run.json\n";

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_bench_arguments *arguments = context;
    switch (letter) {
    case 'c':
        return client_read_whole("connections", value, 1, 10000, &arguments->connections, failure);
    case 'r':
        return client_read_decimal("rate", value, 0.001, 1e6, &arguments->rate, failure);
    case 's':
        return client_read_decimal("seconds", value, 0.1, 1e6, &arguments->seconds, failure);
    default:
        return client_read_whole("batch", value, 1, 1024, &arguments->batch, failure);
    }
}

int client_bench_arguments(int argc, char **argv, struct client_bench_arguments *arguments,
                           struct convoy_failure *failure)
{
    static const struct option options[] = {CLIENT_COMMON_OPTIONS,
                                            CLIENT_MODEL_OPTIONS,
                                            {"connections", required_argument, NULL, 'c'},
                                            {"rate", required_argument, NULL, 'r'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {0}};
    *arguments = (struct client_bench_arguments){.seconds = 10, .batch = 1};
    int first = client_arguments(argc, argv, options, &arguments->common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    if (first == argc)
        return client_fail_with(failure, -EINVAL, "name a folder or files with images to send");
    if (arguments->connections == 0)
        arguments->connections = arguments->rate > 0 ? 128 : 8;
    arguments->paths = argv + first;
    arguments->path_count = (size_t)(argc - first);
    return 0;
}

/* Folders may contain other files. */
static bool is_image(const void *bytes, size_t size)
{
    const char *begins = bytes;
    return (size >= 3 && memcmp(begins, "\xFF\xD8\xFF", 3) == 0) ||
           (size >= 4 && (memcmp(begins, "\x89PNG", 4) == 0 || memcmp(begins, "GIF8", 4) == 0)) ||
           (size >= 12 && memcmp(begins, "RIFF", 4) == 0 && memcmp(begins + 8, "WEBP", 4) == 0) ||
           (size >= 14 && memcmp(begins, "BM", 2) == 0 && memcmp(begins + 6, "\0\0\0\0", 4) == 0);
}

static int load_images(const struct client_bench_arguments *arguments, struct convoy_image **images,
                       size_t *count, struct convoy_failure *failure)
{
    struct client_paths paths = {0};
    size_t total = 0;
    int status = 0;
    for (size_t i = 0; status == 0 && i < arguments->path_count; i++)
        status = client_paths_add(&paths, arguments->paths[i], failure);
    if (status == 0 && paths.count == 0)
        status = client_fail_with(failure, -ENOENT, "there are no files in '%s'", arguments->paths[0]);
    if (status)
        goto out;
    *images = calloc(paths.count + 1, sizeof **images);
    if (!*images) {
        status = client_fail_with(failure, -ENOMEM, "memory is out");
        goto out;
    }
    for (size_t i = 0; status == 0 && i < paths.count && total < IMAGES_BYTES_MAX; i++) {
        void *bytes = NULL;
        size_t size = 0;
        status = client_file_read(paths.paths[i], &bytes, &size, failure);
        if (status)
            break;
        if (!is_image(bytes, size)) {
            free(bytes);
            continue;
        }
        (*images)[(*count)++] = (struct convoy_image){bytes, size};
        total += size;
    }
    if (status == 0 && *count == 0)
        status = client_fail_with(failure, -ENOENT, "no file in '%s' is a JPEG, PNG, WebP, BMP or GIF image",
                                  arguments->paths[0]);
out:
    client_paths_clear(&paths);
    return status;
}

/* Builds requests of `batch` images until every image is in one; the last continues with the first images.
 */
static int build_requests(const struct client_bench_arguments *arguments, const struct convoy_image *images,
                          size_t image_count, struct client_request **requests, size_t *count,
                          struct convoy_failure *failure)
{
    struct convoy_options options = {.model = arguments->common.model, .version = arguments->common.version};
    size_t batch = (size_t)arguments->batch, wanted = (image_count + batch - 1) / batch, next = 0;
    int status = 0;
    if (image_count == 0)
        return client_fail_with(failure, -EINVAL, "there is no image to send");
    struct convoy_image *part = calloc(batch, sizeof *part);
    *requests = calloc(wanted, sizeof **requests);
    if (!part || !*requests) {
        free(part);
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    while (status == 0 && *count < wanted) {
        for (size_t i = 0; i < batch; i++)
            part[i] = images[next++ % image_count];
        status = client_request_build(part, batch, &options, &(*requests)[(*count)++], failure);
    }
    free(part);
    return status;
}

static const double percents[] = {50, 90, 99, 99.9};
#define PERCENTS (sizeof percents / sizeof *percents)

static void print_percentiles(const char *name, const double *sorted, size_t count)
{
    printf("  %s  ", name);
    for (size_t i = 0; i < PERCENTS; i++)
        printf(" %g %%: %.3f ms,", percents[i], client_percentile(sorted, count, percents[i]));
    printf(" longest: %.3f ms\n", sorted[count - 1]);
}

static void print_text(const struct client_bench_arguments *arguments,
                       const struct client_bench_result *result)
{
    double elapsed = result->elapsed_s > 0 ? result->elapsed_s : NAN;
    if (arguments->rate > 0)
        printf("open loop: %g requests/s due, up to %ld connections, ", arguments->rate,
               arguments->connections);
    else
        printf("closed loop: %ld connections, ", arguments->connections);
    printf("%ld image%s a request, %.1f s\n", arguments->batch, arguments->batch == 1 ? "" : "s", elapsed);
    printf("  answered  %zu requests, %.1f requests/s, %.1f images/s\n", result->answered,
           (double)result->answered / elapsed, (double)result->images / elapsed);
    if (result->answered)
        print_percentiles("latency", result->latencies_ms, result->answered);
    if (result->refused)
        print_percentiles("503 came after", result->refusals_ms, result->refused);
    if (result->sent)
        print_percentiles("sent late by", result->lags_ms, result->sent);
    for (int status = 1; status < CLIENT_BENCH_STATUSES; status++) {
        if (status != 200 && result->statuses[status])
            printf("  status %d  %zu requests\n", status, result->statuses[status]);
    }
    if (result->statuses[0])
        printf("  no answer  %zu requests, for example: %s\n", result->statuses[0], result->sample.message);
    if (result->unsent)
        printf("  not sent  %zu requests were due before the end, but every connection was waiting\n",
               result->unsent);
}

static void add_percentiles(cJSON *document, const char *name, const double *sorted, size_t count)
{
    char key[32];
    cJSON *latency = cJSON_AddObjectToObject(document, name);
    cJSON_AddNumberToObject(latency, "mean", client_mean(sorted, count));
    for (size_t i = 0; i < PERCENTS; i++) {
        snprintf(key, sizeof key, "p%g", percents[i]);
        cJSON_AddNumberToObject(latency, key, client_percentile(sorted, count, percents[i]));
    }
    cJSON_AddNumberToObject(latency, "max", client_percentile(sorted, count, 100));
}

static void print_json(const struct client_bench_arguments *arguments,
                       const struct client_bench_result *result)
{
    cJSON *document = cJSON_CreateObject();
    double elapsed = result->elapsed_s > 0 ? result->elapsed_s : NAN;
    char name[32];
    cJSON_AddStringToObject(document, "loop", arguments->rate > 0 ? "open" : "closed");
    if (arguments->rate > 0)
        cJSON_AddNumberToObject(document, "rate", arguments->rate);
    cJSON_AddNumberToObject(document, "connections", (double)arguments->connections);
    cJSON_AddNumberToObject(document, "images_per_request", (double)arguments->batch);
    cJSON_AddNumberToObject(document, "seconds", elapsed);
    cJSON_AddNumberToObject(document, "answered", (double)result->answered);
    cJSON_AddNumberToObject(document, "requests_per_second", (double)result->answered / elapsed);
    cJSON_AddNumberToObject(document, "images_per_second", (double)result->images / elapsed);
    add_percentiles(document, "latency_ms", result->latencies_ms, result->answered);
    if (result->refused)
        add_percentiles(document, "refusal_ms", result->refusals_ms, result->refused);
    if (result->sent)
        add_percentiles(document, "send_lag_ms", result->lags_ms, result->sent);
    cJSON *statuses = cJSON_AddObjectToObject(document, "statuses");
    for (int status = 1; status < CLIENT_BENCH_STATUSES; status++) {
        if (result->statuses[status]) {
            snprintf(name, sizeof name, "%d", status);
            cJSON_AddNumberToObject(statuses, name, (double)result->statuses[status]);
        }
    }
    cJSON_AddNumberToObject(document, "no_answer", (double)result->statuses[0]);
    cJSON_AddNumberToObject(document, "not_sent", (double)result->unsent);
    char *text = cJSON_Print(document);
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(document);
}

static int exit_status_of(const struct client_bench_result *result)
{
    size_t all = result->unsent;
    for (int status = 0; status < CLIENT_BENCH_STATUSES; status++)
        all += result->statuses[status];
    if (result->answered == 0)
        return CLIENT_EXIT_SERVER;
    return result->answered == all ? CLIENT_EXIT_OK : CLIENT_EXIT_IMAGE;
}

int client_bench_command(int argc, char **argv)
{
    struct client_bench_arguments arguments;
    struct client_bench_result result = {0};
    struct convoy_failure failure;
    struct convoy_image *images = NULL;
    struct client_request *requests = NULL;
    size_t image_count = 0, request_count = 0;
    int exit_status;
    int status = client_bench_arguments(argc, argv, &arguments, &failure);
    if (status == 0 && arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    if (status == 0)
        status = load_images(&arguments, &images, &image_count, &failure);
    if (status == 0)
        status = build_requests(&arguments, images, image_count, &requests, &request_count, &failure);
    if (status == 0)
        status =
            client_bench_run(arguments.common.url, requests, request_count, arguments.connections,
                             arguments.rate, arguments.seconds, (size_t)arguments.batch, &result, &failure);
    if (status) {
        exit_status = client_report("bench", status, &failure);
    } else {
        if (arguments.common.json)
            print_json(&arguments, &result);
        else
            print_text(&arguments, &result);
        exit_status = exit_status_of(&result);
    }
    for (size_t i = 0; i < request_count; i++)
        client_request_clear(&requests[i]);
    for (size_t i = 0; i < image_count; i++)
        free((void *)images[i].bytes);
    free(requests);
    free(images);
    client_bench_clear(&result);
    return exit_status;
}
