/* The page of `convoy bench --compare --report`. */
#include <math.h>
#include <string.h>

#include "client/chart/page.h"
#include "client/commands/sweep.h"

static void write_fact(FILE *out, const char *name, const char *first, const char *second)
{
    fputs("<tr>", out);
    client_page_element(out, "th scope=\"row\"", name);
    client_page_element(out, "td", *first ? first : "unknown");
    client_page_element(out, "td", *second ? second : "unknown");
    fputs("</tr>\n", out);
}

static void write_facts(FILE *out, const struct client_sweep_comparison *comparison)
{
    const struct client_sweep *first = comparison->first, *second = comparison->second;
    char one[128], other[128];
    fputs(
        "<table id=\"facts\">\n<thead><tr><th></th><th>A: the first</th><th>B: the second</th></tr></thead>\n"
        "<tbody>\n",
        out);
    write_fact(out, "Report", comparison->first_name, comparison->second_name);
    write_fact(out, "Model", first->model, second->model);
    write_fact(out, "Version", first->version, second->version);
    write_fact(out, "Device", first->device, second->device);
    write_fact(out, "Precision", first->precision, second->precision);
    write_fact(out, "Server", first->server, second->server);
    write_fact(out, "URL", first->url, second->url);
    snprintf(one, sizeof one, "convoy %s", first->client);
    snprintf(other, sizeof other, "convoy %s", second->client);
    write_fact(out, "Client", one, other);
    write_fact(out, "Client's machine", first->machine, second->machine);
    snprintf(one, sizeof one, "%g s after %g s of warm-up", first->seconds, first->warm_up_s);
    snprintf(other, sizeof other, "%g s after %g s of warm-up", second->seconds, second->warm_up_s);
    write_fact(out, "Each load", one, other);
    write_fact(out, "Date", first->date, second->date);
    fputs("</tbody>\n</table>\n", out);
}

static void write_errors(FILE *out, const char *letter, const struct client_sweep *sweep)
{
    char name[64], problems[256];
    if (*sweep->ended)
        client_page_format(out, "p class=\"warn\"", "%s: %zu of %zu loads were measured: %s", letter,
                           sweep->count, sweep->planned, sweep->ended);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_sweep_point *point = &sweep->points[i];
        if (client_sweep_errors(point))
            client_page_format(out, "p class=\"warn error\"", "%s has errors with %s: %s of %zu requests.",
                               letter, client_sweep_name(point, name, sizeof name),
                               client_sweep_problems(point, problems, sizeof problems),
                               client_bench_requests(&point->result));
    }
}

static void write_warnings(FILE *out, const struct client_sweep_comparison *comparison)
{
    char text[4096], *rest = NULL;
    client_sweep_differences(comparison, text, sizeof text);
    if (*text)
        client_page_element(
            out, "p", "The reports differ in more than the server, and so do not compare servers alone:");
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        client_page_element(out, "p class=\"warn difference\"", line);
    write_errors(out, "A", comparison->first);
    write_errors(out, "B", comparison->second);
}

/* A, B, and their ratio with the verdict in words and colour. */
static void write_cell(FILE *out, const struct client_sweep_pair *pair, double first, double second,
                       double percent)
{
    enum client_sweep_verdict verdict = client_sweep_judge(pair, second / first, percent);
    if (!isfinite(second / first)) {
        client_page_element(out, "td class=\"number\"", "-");
        return;
    }
    fprintf(out, "<td class=\"number%s\">%.4g \xE2\x86\x92 %.4g<br />\xC3\x97%.3f %s</td>\n",
            verdict == CLIENT_SWEEP_BETTER  ? " better"
            : verdict == CLIENT_SWEEP_WORSE ? " worse"
                                            : "",
            first, second, second / first, client_sweep_word(verdict));
}

static void write_row(FILE *out, const struct client_sweep_pair *pair)
{
    const struct client_sweep_point *either = pair->first ? pair->first : pair->second;
    bool both = pair->first && pair->second;
    bool errors = (pair->first && client_sweep_errors(pair->first)) ||
                  (pair->second && client_sweep_errors(pair->second));
    char name[64];
    fputs(errors ? "<tr class=\"warn\">" : "<tr>", out);
    client_page_element(out, "td class=\"load\"", client_sweep_name(either, name, sizeof name));
    client_page_element(out, "td class=\"text\"", errors ? "yes: not judged" : "none");
    if (!both) {
        client_page_element(out, "td colspan=\"5\"", pair->first ? "only in A" : "only in B");
    } else {
        write_cell(out, pair, client_sweep_throughput(pair->first), client_sweep_throughput(pair->second), 0);
        for (size_t p = 0; p < CLIENT_BENCH_PERCENTS; p++)
            write_cell(out, pair,
                       client_bins_percentile(&pair->first->result.latency, client_bench_percents[p]) / 1000,
                       client_bins_percentile(&pair->second->result.latency, client_bench_percents[p]) / 1000,
                       client_bench_percents[p]);
    }
    fputs("</tr>\n", out);
}

static void write_table(FILE *out, const struct client_sweep_comparison *comparison)
{
    client_page_element(out, "h2", "Numbers");
    client_page_format(
        out, "p class=\"soft\"",
        "A \xE2\x86\x92 B, and B as a multiple of A; latencies are in milliseconds. What differs by less "
        "than %g %% is called equal: two runs of one server differ, too. A percentile that fewer "
        "than %d answers exceed is not judged.",
        CLIENT_SWEEP_EQUAL * 100, CLIENT_SWEEP_SLOWER);
    fputs("<div class=\"wide\">\n<table id=\"ratios\">\n<thead><tr><th>load</th><th>errors</th>"
          "<th class=\"number\">requests/s</th><th class=\"number\">50 %</th><th class=\"number\">90 %</th>"
          "<th class=\"number\">99 %</th><th class=\"number\">99.9 "
          "%</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < comparison->count; i++)
        write_row(out, &comparison->pairs[i]);
    fputs("</tbody>\n</table>\n</div>\n", out);
}

/* Says how many of the loads that both have are better. */
static void write_summary(FILE *out, const struct client_sweep_comparison *comparison)
{
    size_t throughput[4] = {0}, latency[4] = {0}, judged = 0, shared = 0;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct client_sweep_pair *pair = &comparison->pairs[i];
        shared += pair->first && pair->second;
        if (!client_sweep_is_judged(pair))
            continue;
        judged++;
        throughput[client_sweep_judge(
            pair, client_sweep_throughput(pair->second) / client_sweep_throughput(pair->first), 0)]++;
        latency[client_sweep_judge(pair,
                                   client_bins_percentile(&pair->second->result.latency, 99) /
                                       client_bins_percentile(&pair->first->result.latency, 99),
                                   99)]++;
    }
    client_page_element(out, "h2", "Result");
    if (shared == 0)
        client_page_element(out, "p id=\"result\"", "No load is in both reports: only the curves compare.");
    else
        client_page_format(
            out, "p id=\"result\"",
            "Loads in both reports, without errors: %zu. B's throughput is better in %zu, equal "
            "in %zu and worse in %zu; its 99 %% latency is better in %zu, equal in %zu, worse in %zu "
            "and not judged in %zu.",
            judged, throughput[CLIENT_SWEEP_BETTER], throughput[CLIENT_SWEEP_SAME],
            throughput[CLIENT_SWEEP_WORSE], latency[CLIENT_SWEEP_BETTER], latency[CLIENT_SWEEP_SAME],
            latency[CLIENT_SWEEP_WORSE], latency[CLIENT_SWEEP_UNKNOWN]);
    if (judged < shared)
        client_page_format(
            out, "p",
            "Loads with errors, %zu, are not judged: a server that refuses requests answers the "
            "rest faster.",
            shared - judged);
}

/* The distribution at the shared load with the most answers in A. */
static void write_histogram(FILE *out, const struct client_sweep_comparison *comparison)
{
    const struct client_sweep_pair *fullest = NULL;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct client_sweep_pair *pair = &comparison->pairs[i];
        if (!pair->first || !pair->second)
            continue;
        bool better = !fullest ||
                      (client_sweep_errors(fullest->first) && !client_sweep_errors(pair->first)) ||
                      client_sweep_throughput(pair->first) > client_sweep_throughput(fullest->first);
        if (better && !(fullest && client_sweep_errors(pair->first) && !client_sweep_errors(fullest->first)))
            fullest = pair;
    }
    client_page_element(out, "h2", "Distribution");
    if (!fullest)
        client_page_element(out, "p", "No load is in both reports.");
    else
        client_sweep_draw_histogram(out, "histogram", fullest->second, fullest->first,
                                    (const char *const[]){"B", "A"}, 0, 0);
}

int client_sweep_compare_page_write(FILE *out, const void *context)
{
    const struct client_sweep_comparison *comparison = context;
    client_page_open(out, "Two load tests compared");
    write_facts(out, comparison);
    write_warnings(out, comparison);
    write_summary(out, comparison);
    client_sweep_draw_latency(out,
                              (const struct client_sweep *const[]){comparison->first, comparison->second},
                              (const char *const[]){"A", "B"}, 2);
    write_table(out, comparison);
    client_page_element(out, "h2", "Stages");
    client_page_element(out, "p class=\"soft\"", "A is pale, B below it.");
    client_sweep_draw_parts(out, comparison->pairs, comparison->count, true);
    write_histogram(out, comparison);
    cJSON *document = client_sweep_compare_json(comparison);
    char *json = document ? cJSON_PrintUnformatted(document) : NULL;
    int status = client_page_end(out, "comparison", json);
    cJSON_free(json);
    cJSON_Delete(document);
    return status;
}
