/* `convoy bench --compare`: which loads two reports share, and which is better. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/sweep.h"
#include "client/term/terminal.h"

static const struct client_sweep_point *find(const struct client_sweep *sweep,
                                             const struct client_sweep_point *like)
{
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_sweep_point *point = &sweep->points[i];
        /* In open loop connections are only a limit. */
        if (point->rate == like->rate && (point->rate > 0 || point->connections == like->connections))
            return point;
    }
    return NULL;
}

void client_sweep_match(struct client_sweep_comparison *comparison)
{
    const struct client_sweep *first = comparison->first, *second = comparison->second;
    comparison->count = 0;
    for (size_t i = 0; i < first->count; i++)
        comparison->pairs[comparison->count++] =
            (struct client_sweep_pair){&first->points[i], find(second, &first->points[i])};
    for (size_t i = 0; i < second->count; i++) {
        if (!find(first, &second->points[i]))
            comparison->pairs[comparison->count++] = (struct client_sweep_pair){NULL, &second->points[i]};
    }
}

bool client_sweep_is_judged(const struct client_sweep_pair *pair)
{
    return pair->first && pair->second && !client_sweep_errors(pair->first) &&
           !client_sweep_errors(pair->second);
}

/* Returns whether enough answers are slower than the percentile. */
static bool tells(const struct client_sweep_point *point, double percent)
{
    return percent <= 0 ||
           (double)point->result.latency.count * (1 - percent / 100) >= CLIENT_SWEEP_SLOWER - 1e-6;
}

enum client_sweep_verdict client_sweep_judge(const struct client_sweep_pair *pair, double ratio,
                                             double percent)
{
    if (!client_sweep_is_judged(pair) || !isfinite(ratio) || ratio <= 0 || !tells(pair->first, percent) ||
        !tells(pair->second, percent))
        return CLIENT_SWEEP_UNKNOWN;
    if (ratio <= 1 + CLIENT_SWEEP_EQUAL && ratio >= 1 / (1 + CLIENT_SWEEP_EQUAL))
        return CLIENT_SWEEP_SAME;
    return (ratio > 1) == (percent <= 0) ? CLIENT_SWEEP_BETTER : CLIENT_SWEEP_WORSE;
}

const char *client_sweep_word(enum client_sweep_verdict verdict)
{
    static const char *const words[] = {"-", "equal", "better", "worse"};
    return words[verdict];
}

/* Appends a line when the two texts differ. */
static void compare_texts(char *text, size_t bytes, const char *what, const char *first, const char *second)
{
    size_t length = strlen(text);
    if (strcmp(first, second) != 0)
        snprintf(text + length, bytes - length, "%sThe %s differs: %s and %s.", length ? "\n" : "", what,
                 *first ? first : "unknown", *second ? second : "unknown");
}

static void compare_numbers(char *text, size_t bytes, const char *what, double first, double second)
{
    char one[32], other[32];
    snprintf(one, sizeof one, "%g", first);
    snprintf(other, sizeof other, "%g", second);
    compare_texts(text, bytes, what, one, other);
}

const char *client_sweep_differences(const struct client_sweep_comparison *comparison, char *text,
                                     size_t bytes)
{
    const struct client_sweep *first = comparison->first, *second = comparison->second;
    *text = '\0';
    compare_texts(text, bytes, "model", first->model, second->model);
    compare_texts(text, bytes, "model's version", first->version, second->version);
    compare_texts(text, bytes, "device", first->device, second->device);
    compare_texts(text, bytes, "precision", first->precision, second->precision);
    compare_texts(text, bytes, "client's machine", first->machine, second->machine);
    compare_texts(text, bytes, "client's version", first->client, second->client);
    compare_numbers(text, bytes, "number of images in a request", (double)first->images_per_request,
                    (double)second->images_per_request);
    compare_numbers(text, bytes, "number of different images", (double)first->images, (double)second->images);
    compare_numbers(text, bytes, "time of each load in seconds", first->seconds, second->seconds);
    return text;
}

static double throughput_ratio(const struct client_sweep_pair *pair)
{
    return client_sweep_throughput(pair->second) / client_sweep_throughput(pair->first);
}

static double latency_ratio(const struct client_sweep_pair *pair, double percent)
{
    return client_bins_percentile(&pair->second->result.latency, percent) /
           client_bins_percentile(&pair->first->result.latency, percent);
}

static void add_ratio(cJSON *object, const struct client_sweep_pair *pair, const char *name, double ratio,
                      double percent)
{
    cJSON *item = cJSON_AddObjectToObject(object, name);
    cJSON_AddNumberToObject(item, "ratio", ratio);
    cJSON_AddStringToObject(item, "verdict", client_sweep_word(client_sweep_judge(pair, ratio, percent)));
}

cJSON *client_sweep_compare_json(const struct client_sweep_comparison *comparison)
{
    char text[4096], key[32];
    cJSON *document = cJSON_CreateObject();
    cJSON *differences = cJSON_AddArrayToObject(document, "differences");
    client_sweep_differences(comparison, text, sizeof text);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        cJSON_AddItemToArray(differences, cJSON_CreateString(line));
    cJSON *loads = cJSON_AddArrayToObject(document, "loads");
    for (size_t i = 0; i < comparison->count; i++) {
        const struct client_sweep_pair *pair = &comparison->pairs[i];
        const struct client_sweep_point *either = pair->first ? pair->first : pair->second;
        cJSON *load = cJSON_CreateObject();
        if (either->rate > 0)
            cJSON_AddNumberToObject(load, "rate", either->rate);
        else
            cJSON_AddNumberToObject(load, "connections", (double)either->connections);
        cJSON_AddStringToObject(load, "in", !pair->second ? "first" : !pair->first ? "second" : "both");
        if (pair->first)
            cJSON_AddNumberToObject(load, "first_errors", (double)client_sweep_errors(pair->first));
        if (pair->second)
            cJSON_AddNumberToObject(load, "second_errors", (double)client_sweep_errors(pair->second));
        if (pair->first && pair->second) {
            add_ratio(load, pair, "requests_per_second", throughput_ratio(pair), 0);
            for (size_t p = 0; p < CLIENT_BENCH_PERCENTS; p++) {
                snprintf(key, sizeof key, "p%g", client_bench_percents[p]);
                add_ratio(load, pair, key, latency_ratio(pair, client_bench_percents[p]),
                          client_bench_percents[p]);
            }
        }
        cJSON_AddItemToArray(loads, load);
    }
    cJSON_AddItemToObject(document, "first", client_sweep_to_json(comparison->first));
    cJSON_AddItemToObject(document, "second", client_sweep_to_json(comparison->second));
    return document;
}

static void print_ratio(const struct client_sweep_pair *pair, double ratio, double percent)
{
    if (isfinite(ratio))
        printf("  %7.3f %-6s", ratio, client_sweep_word(client_sweep_judge(pair, ratio, percent)));
    else
        printf("  %14s", "-");
}

void client_sweep_compare_print(const struct client_sweep_comparison *comparison)
{
    char text[4096], name[64];
    fputs("the second as a ratio of the first: ", stdout);
    client_print_safely(stdout, comparison->second_name);
    fputs(" / ", stdout);
    client_print_safely(stdout, comparison->first_name);
    printf("\n%-22s  %14s  %14s  %14s  %14s  %14s\n", "load", "requests/s", "50 %", "90 %", "99 %", "99.9 %");
    for (size_t i = 0; i < comparison->count; i++) {
        const struct client_sweep_pair *pair = &comparison->pairs[i];
        const struct client_sweep_point *either = pair->first ? pair->first : pair->second;
        printf("%-22s", client_sweep_name(either, name, sizeof name));
        if (!pair->first || !pair->second) {
            printf("  only in the %s report\n", pair->first ? "first" : "second");
            continue;
        }
        print_ratio(pair, throughput_ratio(pair), 0);
        for (size_t p = 0; p < CLIENT_BENCH_PERCENTS; p++)
            print_ratio(pair, latency_ratio(pair, client_bench_percents[p]), client_bench_percents[p]);
        if (client_sweep_errors(pair->first) || client_sweep_errors(pair->second))
            printf("  ERRORS: %zu, %zu", client_sweep_errors(pair->first), client_sweep_errors(pair->second));
        putchar('\n');
    }
    client_sweep_differences(comparison, text, sizeof text);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        fputs("warning: ", stdout);
        client_print_safely(stdout, line);
        putchar('\n');
    }
}
