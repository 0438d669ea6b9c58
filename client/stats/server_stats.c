#include "client/stats/server_stats.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/json.h"

/* The server counts in 64 bits. */
#define COUNT_MAX 0x1p64

struct own_stats {
    struct client_server_stats
        stats;       /* first member: the caller's pointer is converted back to this struct */
    cJSON *document; /* owns the names */
    struct client_version_stats *versions;
    struct client_batch_stats *sizes;
};

/* Reads members up to the first that is wrong. */
struct stats_reader {
    char problem[128]; /* the error, "" without one */
};

static void wrong(struct stats_reader *reader, const char *what, const char *name, const char *problem)
{
    if (!*reader->problem)
        snprintf(reader->problem, sizeof reader->problem, "its %s%s %s", what, name, problem);
}

static double read_count(struct stats_reader *reader, const cJSON *object, const char *what, const char *name)
{
    double count = 0;
    if (!client_json_number(object, name, &count) || count > COUNT_MAX || count != floor(count))
        wrong(reader, what, name, "is not a count");
    return count;
}

static struct client_duration read_duration(struct stats_reader *reader, const cJSON *object,
                                            const char *name)
{
    char what[32];
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    struct client_duration duration;
    snprintf(what, sizeof what, "%s.", name);
    duration.count = read_count(reader, item, what, "count");
    duration.ns = read_count(reader, item, what, "ns");
    return duration;
}

static void read_batch(struct stats_reader *reader, const cJSON *item, struct client_batch_stats *batch)
{
    batch->size = read_count(reader, item, "", "batch_size");
    if (batch->size < 1)
        wrong(reader, "", "batch_size", "is 0");
    batch->input = read_duration(reader, item, "compute_input");
    batch->compute = read_duration(reader, item, "compute_infer");
    batch->output = read_duration(reader, item, "compute_output");
}

/* Its batch sizes go to sizes, where there is room for them. */
static void read_version(struct stats_reader *reader, const cJSON *item, struct client_version_stats *version,
                         struct client_batch_stats *sizes)
{
    const cJSON *inference = cJSON_GetObjectItemCaseSensitive(item, "inference_stats");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "batch_stats"), *batch;
    version->name = client_json_text(item, "name");
    version->version = client_json_text(item, "version");
    if (!version->name || !version->version)
        wrong(reader, "", "model_stats", "lack a name or version");
    version->last_inference_ms = read_count(reader, item, "", "last_inference");
    version->images = read_count(reader, item, "", "inference_count");
    version->batches = read_count(reader, item, "", "execution_count");
    version->success = read_duration(reader, inference, "success");
    version->fail = read_duration(reader, inference, "fail");
    version->queue = read_duration(reader, inference, "queue");
    version->input = read_duration(reader, inference, "compute_input");
    version->compute = read_duration(reader, inference, "compute_infer");
    version->output = read_duration(reader, inference, "compute_output");
    version->sizes = sizes;
    if (!cJSON_IsArray(list))
        wrong(reader, "", "batch_stats", "is not a list");
    else
        cJSON_ArrayForEach(batch, list) read_batch(reader, batch, &sizes[version->size_count++]);
}

/* Returns the number of batch sizes of all versions. */
static size_t count_sizes(const cJSON *versions)
{
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, versions)
    {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "batch_stats");
        if (cJSON_IsArray(list))
            count += (size_t)cJSON_GetArraySize(list);
    }
    return count;
}

static int by_name_and_version(const void *left, const void *right)
{
    const struct client_version_stats *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : strverscmp(a->version, b->version);
}

static void read_versions(struct stats_reader *reader, const cJSON *list, struct own_stats *own)
{
    size_t taken = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        struct client_version_stats *version = &own->versions[own->stats.count++];
        read_version(reader, item, version, &own->sizes[taken]);
        taken += version->size_count;
    }
    if (*reader->problem)
        return;
    qsort(own->versions, own->stats.count, sizeof *own->versions, by_name_and_version);
    own->stats.versions = own->versions;
}

int client_server_stats_read(const struct client_response *response, struct client_server_stats **stats,
                             struct convoy_failure *failure)
{
    struct stats_reader reader = {0};
    cJSON *document;
    *stats = NULL;
    int status = client_json_parse_ok(response, &document, failure);
    if (status)
        return status;
    struct own_stats *own = calloc(1, sizeof *own);
    if (!own) {
        cJSON_Delete(document);
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    own->document = document;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(document, "model_stats");
    if (!cJSON_IsArray(list)) {
        status = client_json_unexpected(response, "it has no list of statistics", failure);
        goto out;
    }
    own->versions = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *own->versions);
    own->sizes = calloc(count_sizes(list) + 1, sizeof *own->sizes);
    if (!own->versions || !own->sizes) {
        status = client_fail_with(failure, -ENOMEM, "memory is out");
        goto out;
    }
    read_versions(&reader, list, own);
    if (*reader.problem) {
        status = client_json_unexpected(response, reader.problem, failure);
        goto out;
    }
    *stats = &own->stats;
    return 0;
out:
    client_server_stats_free(&own->stats);
    return status;
}

void client_server_stats_free(struct client_server_stats *stats)
{
    struct own_stats *own = (struct own_stats *)stats;
    if (!own)
        return;
    cJSON_Delete(own->document);
    free(own->versions);
    free(own->sizes);
    free(own);
}

double client_duration_mean_us(const struct client_duration *duration)
{
    return duration->count > 0 ? duration->ns / duration->count / 1e3 : NAN;
}

double client_version_request_us(const struct client_version_stats *version)
{
    struct client_duration both = {version->success.count + version->fail.count,
                                   version->success.ns + version->fail.ns};
    return client_duration_mean_us(&both);
}

double client_version_batch_size(const struct client_version_stats *version)
{
    return version->batches > 0 ? version->images / version->batches : NAN;
}

double client_batch_rate(const struct client_batch_stats *batch)
{
    return batch->compute.ns > 0 ? batch->size * batch->compute.count / (batch->compute.ns / 1e9) : NAN;
}
