/* The report of a sweep as JSON, and back. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/sweep.h"
#include "client/lib/failure.h"
#include "client/lib/json.h"

#define FORMAT         "convoy bench --sweep"
#define FORMAT_VERSION 1
#define COUNT_MAX      9007199254740992.0 /* 2^53: what a number in JSON holds exactly */
#define US_MAX         1e13

/* The members of struct convoy_timing under their names in answers. */
static const struct {
    const char *name;
    size_t offset;
} timings[] = {
    {"wait_us", offsetof(struct convoy_timing, wait_us)},
    {"decode_us", offsetof(struct convoy_timing, decode_us)},
    {"queue_us", offsetof(struct convoy_timing, queue_us)},
    {"input_us", offsetof(struct convoy_timing, input_us)},
    {"compute_us", offsetof(struct convoy_timing, compute_us)},
    {"output_us", offsetof(struct convoy_timing, output_us)},
    {"total_us", offsetof(struct convoy_timing, total_us)},
};
#define TIMINGS (sizeof timings / sizeof *timings)

static double *timing_of(struct convoy_timing *timing, size_t i)
{
    return (double *)((char *)timing + timings[i].offset);
}

static void add_bins(cJSON *point, const char *name, const struct client_bins *bins)
{
    char key[32];
    cJSON *object = cJSON_AddObjectToObject(point, name);
    cJSON_AddNumberToObject(object, "mean", client_bins_mean(bins) / 1000);
    for (size_t i = 0; i < CLIENT_BENCH_PERCENTS; i++) {
        snprintf(key, sizeof key, "p%g", client_bench_percents[i]);
        cJSON_AddNumberToObject(object, key, client_bins_percentile(bins, client_bench_percents[i]) / 1000);
    }
    cJSON_AddNumberToObject(object, "min_us", bins->min_us);
    cJSON_AddNumberToObject(object, "max_us", bins->max_us);
    cJSON_AddNumberToObject(object, "sum_us", bins->sum_us);
    cJSON *list = cJSON_AddArrayToObject(object, "bins");
    for (size_t i = 0; i < CLIENT_BINS; i++) {
        if (bins->counts[i] == 0)
            continue;
        cJSON *pair = cJSON_CreateArray();
        cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)i));
        cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)bins->counts[i]));
        cJSON_AddItemToArray(list, pair);
    }
}

static void add_stages(cJSON *point, const struct client_bench_stages *stages)
{
    cJSON *object = cJSON_AddObjectToObject(point, "timing");
    double answers = (double)stages->answers;
    struct convoy_timing timing = stages->timing;
    cJSON_AddNumberToObject(object, "answers", answers);
    if (stages->answers == 0)
        return;
    cJSON_AddNumberToObject(object, "batch_size", stages->batch_size / answers);
    cJSON_AddNumberToObject(object, "client_us", stages->client_us / answers);
    for (size_t i = 0; i < TIMINGS; i++)
        cJSON_AddNumberToObject(object, timings[i].name, *timing_of(&timing, i) / answers);
}

static cJSON *point_to_json(const struct client_sweep_point *point)
{
    const struct client_bench_result *result = &point->result;
    cJSON *object = cJSON_CreateObject();
    char name[16];
    cJSON_AddStringToObject(object, "loop", point->rate > 0 ? "open" : "closed");
    if (point->rate > 0)
        cJSON_AddNumberToObject(object, "rate", point->rate);
    cJSON_AddNumberToObject(object, "connections", (double)point->connections);
    cJSON_AddNumberToObject(object, "seconds", result->elapsed_s);
    cJSON_AddNumberToObject(object, "answered", (double)result->latency.count);
    cJSON_AddNumberToObject(object, "images", (double)result->images);
    cJSON_AddNumberToObject(object, "requests_per_second", client_sweep_throughput(point));
    cJSON_AddNumberToObject(object, "images_per_second",
                            result->elapsed_s > 0 ? (double)result->images / result->elapsed_s : 0);
    add_bins(object, "latency_ms", &result->latency);
    if (result->refusals.count)
        add_bins(object, "refusal_ms", &result->refusals);
    if (result->lags.count)
        add_bins(object, "send_lag_ms", &result->lags);
    cJSON *statuses = cJSON_AddObjectToObject(object, "statuses");
    for (int status = 1; status < CLIENT_BENCH_STATUSES; status++) {
        if (result->statuses[status]) {
            snprintf(name, sizeof name, "%d", status);
            cJSON_AddNumberToObject(statuses, name, (double)result->statuses[status]);
        }
    }
    cJSON_AddNumberToObject(object, "no_answer", (double)result->statuses[0]);
    if (*result->sample.message)
        cJSON_AddStringToObject(object, "no_answer_example", result->sample.message);
    cJSON_AddNumberToObject(object, "not_sent", (double)result->unsent);
    add_stages(object, &result->stages);
    return object;
}

cJSON *client_sweep_to_json(const struct client_sweep *sweep)
{
    cJSON *document = cJSON_CreateObject();
    cJSON_AddStringToObject(document, "format", FORMAT);
    cJSON_AddNumberToObject(document, "format_version", FORMAT_VERSION);
    cJSON_AddStringToObject(document, "date", sweep->date);
    cJSON_AddStringToObject(document, "client", sweep->client);
    cJSON_AddStringToObject(document, "machine", sweep->machine);
    cJSON_AddStringToObject(document, "url", sweep->url);
    cJSON_AddStringToObject(document, "server", sweep->server);
    cJSON_AddStringToObject(document, "model", sweep->model);
    cJSON_AddStringToObject(document, "version", sweep->version);
    cJSON_AddStringToObject(document, "device", sweep->device);
    cJSON_AddStringToObject(document, "precision", sweep->precision);
    cJSON_AddNumberToObject(document, "images", (double)sweep->images);
    cJSON_AddNumberToObject(document, "images_per_request", (double)sweep->images_per_request);
    cJSON_AddNumberToObject(document, "seconds", sweep->seconds);
    cJSON_AddNumberToObject(document, "warm_up_seconds", sweep->warm_up_s);
    cJSON_AddNumberToObject(document, "planned", (double)sweep->planned);
    cJSON_AddStringToObject(document, "ended", sweep->ended);
    cJSON_AddNumberToObject(document, "bin_ratio", CLIENT_BINS_RATIO);
    cJSON *points = cJSON_AddArrayToObject(document, "points");
    for (size_t i = 0; i < sweep->count; i++) {
        if (!cJSON_AddItemToArray(points, point_to_json(&sweep->points[i]))) {
            cJSON_Delete(document);
            return NULL;
        }
    }
    return document;
}

/* Where a document is read, and what was wrong first. */
struct report_reader {
    struct convoy_failure *failure;
    const char *part; /* of the document, for messages */
    int status;
};

static void wrong(struct report_reader *reader, const char *name, const char *what)
{
    if (reader->status == 0)
        reader->status =
            client_fail_with(reader->failure, -EBADMSG, "%s's '%s' is %s", reader->part, name, what);
}

/* Reads a number from least to most; 0 after an error. */
static double number(struct report_reader *reader, const cJSON *object, const char *name, double least,
                     double most)
{
    double value;
    if (!client_json_number(object, name, &value)) {
        wrong(reader, name, "not there, or no number of at least 0");
        return 0;
    }
    if (value < least || value > most) {
        wrong(reader, name, "out of range");
        return 0;
    }
    return value;
}

static size_t whole(struct report_reader *reader, const cJSON *object, const char *name, double least,
                    double most)
{
    double value = number(reader, object, name, least, most);
    if (value != floor(value))
        wrong(reader, name, "no whole number");
    return (size_t)value;
}

/* A text may be absent; a long one is cut. */
static void text_of(struct report_reader *reader, const cJSON *object, const char *name, char *text,
                    size_t bytes)
{
    const char *value = client_json_text(object, name);
    if (!value && cJSON_HasObjectItem(object, name))
        wrong(reader, name, "no text");
    snprintf(text, bytes, "%s", value ? value : "");
}

static void read_bins(struct report_reader *reader, const cJSON *point, const char *name,
                      struct client_bins *bins)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(point, name);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "bins"), *pair;
    if (!object)
        return;
    if (!cJSON_IsArray(list)) {
        wrong(reader, name, "without a list of bins");
        return;
    }
    cJSON_ArrayForEach(pair, list)
    {
        const cJSON *place = cJSON_GetArrayItem(pair, 0), *count = cJSON_GetArrayItem(pair, 1);
        if (!cJSON_IsArray(pair) || !cJSON_IsNumber(place) || !cJSON_IsNumber(count) ||
            !(place->valuedouble >= 0 && place->valuedouble < CLIENT_BINS) ||
            place->valuedouble != floor(place->valuedouble) ||
            !(count->valuedouble >= 1 && count->valuedouble + (double)bins->count <= COUNT_MAX) ||
            count->valuedouble != floor(count->valuedouble)) {
            wrong(reader, name, "a list of bins that are not [place, count]");
            return;
        }
        bins->counts[(size_t)place->valuedouble] += (uint64_t)count->valuedouble;
        bins->count += (uint64_t)count->valuedouble;
    }
    bins->min_us = number(reader, object, "min_us", 0, US_MAX);
    bins->max_us = number(reader, object, "max_us", bins->min_us, US_MAX);
    bins->sum_us = number(reader, object, "sum_us", 0, US_MAX * COUNT_MAX);
}

static void read_statuses(struct report_reader *reader, const cJSON *point,
                          struct client_bench_result *result)
{
    const cJSON *statuses = cJSON_GetObjectItemCaseSensitive(point, "statuses"), *item;
    /* The items of a list have no names. */
    if (!cJSON_IsObject(statuses)) {
        wrong(reader, "statuses", "no object");
        return;
    }
    cJSON_ArrayForEach(item, statuses)
    {
        char *end;
        long status = strtol(item->string, &end, 10);
        if (*end || status < 1 || status >= CLIENT_BENCH_STATUSES) {
            wrong(reader, "statuses", "a list of what is no HTTP status");
            return;
        }
        result->statuses[status] = whole(reader, statuses, item->string, 0, COUNT_MAX);
    }
    result->statuses[0] = whole(reader, point, "no_answer", 0, COUNT_MAX);
    result->unsent = whole(reader, point, "not_sent", 0, COUNT_MAX);
}

static void read_stages(struct report_reader *reader, const cJSON *point, struct client_bench_stages *stages)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(point, "timing");
    if (!object)
        return;
    stages->answers = whole(reader, object, "answers", 0, COUNT_MAX);
    if (stages->answers == 0)
        return;
    double answers = (double)stages->answers;
    stages->batch_size = number(reader, object, "batch_size", 0, 1e9) * answers;
    stages->client_us = number(reader, object, "client_us", 0, US_MAX) * answers;
    for (size_t i = 0; i < TIMINGS; i++)
        *timing_of(&stages->timing, i) = number(reader, object, timings[i].name, 0, US_MAX) * answers;
}

static void read_point(struct report_reader *reader, const cJSON *object, struct client_sweep_point *point)
{
    struct client_bench_result *result = &point->result;
    if (cJSON_HasObjectItem(object, "rate"))
        point->rate = number(reader, object, "rate", 1e-6, 1e9);
    point->connections = (long)whole(reader, object, "connections", 1, 1e6);
    result->elapsed_s = number(reader, object, "seconds", 0, 1e9);
    result->images = whole(reader, object, "images", 0, COUNT_MAX);
    read_bins(reader, object, "latency_ms", &result->latency);
    read_bins(reader, object, "refusal_ms", &result->refusals);
    read_bins(reader, object, "send_lag_ms", &result->lags);
    read_statuses(reader, object, result);
    if (result->statuses[200] != result->latency.count)
        wrong(reader, "latency_ms", "not of as many answers as have the status 200");
    text_of(reader, object, "no_answer_example", result->sample.message, sizeof result->sample.message);
    read_stages(reader, object, &result->stages);
}

static void read_head(struct report_reader *reader, const cJSON *document, struct client_sweep *sweep)
{
    text_of(reader, document, "date", sweep->date, sizeof sweep->date);
    text_of(reader, document, "client", sweep->client, sizeof sweep->client);
    text_of(reader, document, "machine", sweep->machine, sizeof sweep->machine);
    text_of(reader, document, "url", sweep->url, sizeof sweep->url);
    text_of(reader, document, "server", sweep->server, sizeof sweep->server);
    text_of(reader, document, "model", sweep->model, sizeof sweep->model);
    text_of(reader, document, "version", sweep->version, sizeof sweep->version);
    text_of(reader, document, "device", sweep->device, sizeof sweep->device);
    text_of(reader, document, "precision", sweep->precision, sizeof sweep->precision);
    text_of(reader, document, "ended", sweep->ended, sizeof sweep->ended);
    sweep->images = whole(reader, document, "images", 0, COUNT_MAX);
    sweep->images_per_request = whole(reader, document, "images_per_request", 1, 1e9);
    sweep->seconds = number(reader, document, "seconds", 0, 1e9);
    sweep->warm_up_s = number(reader, document, "warm_up_seconds", 0, 1e9);
    sweep->planned = whole(reader, document, "planned", 1, CLIENT_BENCH_POINTS);
}

int client_sweep_from_json(const cJSON *document, struct client_sweep *sweep, struct convoy_failure *failure)
{
    struct report_reader reader = {failure, "the report", 0};
    const char *format = client_json_text(document, "format");
    char part[32];
    *sweep = (struct client_sweep){0};
    if (!format || strcmp(format, FORMAT) != 0)
        return client_fail_with(failure, -EBADMSG, "it is no report of `convoy bench --sweep`");
    if (number(&reader, document, "format_version", 0, 1e9) != FORMAT_VERSION)
        return client_fail_with(failure, -EBADMSG,
                                "it is a report of a format that this convoy (%s) does not know; that of the "
                                "report's author does",
                                CONVOY_VERSION);
    if (number(&reader, document, "bin_ratio", 0, 1e9) != CLIENT_BINS_RATIO)
        wrong(&reader, "bin_ratio", "another than 1.01");
    read_head(&reader, document, sweep);
    const cJSON *points = cJSON_GetObjectItemCaseSensitive(document, "points"), *object;
    int count = cJSON_IsArray(points) ? cJSON_GetArraySize(points) : 0;
    if (count < 1 || count > CLIENT_BENCH_POINTS) {
        wrong(&reader, "points", "no list of 1 to 64 points");
        return reader.status;
    }
    if (reader.status)
        return reader.status;
    sweep->points = calloc((size_t)count, sizeof *sweep->points);
    if (!sweep->points)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    cJSON_ArrayForEach(object, points)
    {
        snprintf(part, sizeof part, "point %zu", sweep->count + 1);
        reader.part = part;
        read_point(&reader, object, &sweep->points[sweep->count++]);
    }
    return reader.status;
}
