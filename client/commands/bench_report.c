/* The report of `convoy bench` on one load. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "client/commands/bench.h"

const double client_bench_percents[CLIENT_BENCH_PERCENTS] = {50, 90, 99, 99.9};

size_t client_bench_requests(const struct client_bench_result *result)
{
    size_t all = result->unsent;
    for (int status = 0; status < CLIENT_BENCH_STATUSES; status++)
        all += result->statuses[status];
    return all;
}

int client_bench_exit_status(const struct client_bench_result *result)
{
    if (result->latency.count == 0)
        return CLIENT_EXIT_SERVER;
    return result->latency.count == client_bench_requests(result) ? CLIENT_EXIT_OK : CLIENT_EXIT_IMAGE;
}

static double ms(const struct client_bins *bins, double percent)
{
    return client_bins_percentile(bins, percent) / 1000;
}

static void print_percentiles(const char *name, const struct client_bins *bins)
{
    printf("  %s  ", name);
    for (size_t i = 0; i < CLIENT_BENCH_PERCENTS; i++)
        printf(" %g %%: %.3f ms,", client_bench_percents[i], ms(bins, client_bench_percents[i]));
    printf(" longest: %.3f ms\n", ms(bins, 100));
}

void client_bench_print_text(const struct client_bench_load *load, const struct client_bench_result *result)
{
    double elapsed = result->elapsed_s > 0 ? result->elapsed_s : NAN;
    if (load->rate > 0)
        printf("open loop: %g requests/s due, up to %ld connections, ", load->rate, load->connections);
    else
        printf("closed loop: %ld connections, ", load->connections);
    printf("%zu image%s a request, %.1f s\n", load->images_per_request,
           load->images_per_request == 1 ? "" : "s", elapsed);
    printf("  answered  %" PRIu64 " requests, %.1f requests/s, %.1f images/s\n", result->latency.count,
           (double)result->latency.count / elapsed, (double)result->images / elapsed);
    if (result->latency.count)
        print_percentiles("latency", &result->latency);
    if (result->refusals.count)
        print_percentiles("503 came after", &result->refusals);
    if (result->lags.count)
        print_percentiles("sent late by", &result->lags);
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

static void add_percentiles(cJSON *document, const char *name, const struct client_bins *bins)
{
    char key[32];
    cJSON *latency = cJSON_AddObjectToObject(document, name);
    cJSON_AddNumberToObject(latency, "mean", client_bins_mean(bins) / 1000);
    for (size_t i = 0; i < CLIENT_BENCH_PERCENTS; i++) {
        snprintf(key, sizeof key, "p%g", client_bench_percents[i]);
        cJSON_AddNumberToObject(latency, key, ms(bins, client_bench_percents[i]));
    }
    cJSON_AddNumberToObject(latency, "max", ms(bins, 100));
}

void client_bench_print_json(const struct client_bench_load *load, const struct client_bench_result *result)
{
    cJSON *document = cJSON_CreateObject();
    double elapsed = result->elapsed_s > 0 ? result->elapsed_s : NAN;
    char name[32];
    cJSON_AddStringToObject(document, "loop", load->rate > 0 ? "open" : "closed");
    if (load->rate > 0)
        cJSON_AddNumberToObject(document, "rate", load->rate);
    cJSON_AddNumberToObject(document, "connections", (double)load->connections);
    cJSON_AddNumberToObject(document, "images_per_request", (double)load->images_per_request);
    cJSON_AddNumberToObject(document, "seconds", elapsed);
    cJSON_AddNumberToObject(document, "answered", (double)result->latency.count);
    cJSON_AddNumberToObject(document, "requests_per_second", (double)result->latency.count / elapsed);
    cJSON_AddNumberToObject(document, "images_per_second", (double)result->images / elapsed);
    add_percentiles(document, "latency_ms", &result->latency);
    if (result->refusals.count)
        add_percentiles(document, "refusal_ms", &result->refusals);
    if (result->lags.count)
        add_percentiles(document, "send_lag_ms", &result->lags);
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
