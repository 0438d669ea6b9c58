/* The page of `convoy bench --sweep --report`. */
#include <math.h>
#include <string.h>

#include "client/chart/page.h"
#include "client/commands/sweep.h"

#define LATE 0.2 /* the share of a latency from which being sent late is worth a warning */

static double ms(const struct client_sweep_point *point, double percent)
{
    return client_bins_percentile(&point->result.latency, percent) / 1000;
}

static void write_fact(FILE *out, const char *name, const char *text)
{
    fputs("<tr>", out);
    client_page_element(out, "th scope=\"row\"", name);
    client_page_element(out, "td", *text ? text : "unknown");
    fputs("</tr>\n", out);
}

static void write_facts(FILE *out, const struct client_sweep *sweep)
{
    char text[256];
    fputs("<table id=\"facts\">\n", out);
    write_fact(out, "Model", sweep->model);
    write_fact(out, "Version", sweep->version);
    write_fact(out, "Device", sweep->device);
    write_fact(out, "Precision", sweep->precision);
    write_fact(out, "Server", sweep->server);
    write_fact(out, "URL", sweep->url);
    snprintf(text, sizeof text, "convoy %s", sweep->client);
    write_fact(out, "Client", text);
    write_fact(out, "Client's machine", sweep->machine);
    snprintf(text, sizeof text, "%zu in a request, %zu different ones", sweep->images_per_request,
             sweep->images);
    write_fact(out, "Images", text);
    if (sweep->count && sweep->points[0].rate > 0)
        snprintf(text, sizeof text, "open loop: requests due at random, at most %ld connection%s",
                 sweep->points[0].connections, sweep->points[0].connections == 1 ? "" : "s");
    else
        snprintf(text, sizeof text, "closed loop: each connection waits for its answer");
    write_fact(out, "Load", text);
    snprintf(text, sizeof text, "%g s after %g s of warm-up", sweep->seconds, sweep->warm_up_s);
    write_fact(out, "Each load", text);
    write_fact(out, "Date", sweep->date);
    fputs("</table>\n", out);
}

/* Names the loads whose requests were sent late. */
static void write_late(FILE *out, const struct client_sweep *sweep)
{
    char name[64], list[800] = "";
    size_t length = 0;
    for (size_t i = 0; i < sweep->count && length < sizeof list; i++) {
        const struct client_sweep_point *point = &sweep->points[i];
        double lag = client_bins_percentile(&point->result.lags, 99) / 1000;
        if (lag > LATE * ms(point, 99))
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%.3g ms with %s",
                                       length ? ", " : "", lag, client_sweep_name(point, name, sizeof name));
    }
    if (length)
        client_page_format(
            out, "p class=\"warn\" id=\"late\"",
            "One request in 100 was sent late, for lack of a free connection or of time on the "
            "client's machine, by at least %s. Latencies include that.",
            list);
}

/* What a reader must know before the numbers. */
static void write_warnings(FILE *out, const struct client_sweep *sweep)
{
    char name[64], problems[256];
    if (*sweep->ended)
        client_page_format(out, "p class=\"warn\" id=\"ended\"", "%zu of %zu loads were measured: %s",
                           sweep->count, sweep->planned, sweep->ended);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_sweep_point *point = &sweep->points[i];
        if (client_sweep_errors(point))
            client_page_format(out, "p class=\"warn error\"", "Errors with %s: %s of %zu requests. %s",
                               client_sweep_name(point, name, sizeof name),
                               client_sweep_problems(point, problems, sizeof problems),
                               client_bench_requests(&point->result), point->result.sample.message);
    }
    write_late(out, sweep);
}

static void write_summary(FILE *out, const struct client_sweep *sweep)
{
    const struct client_sweep_point *fullest = client_sweep_fullest(sweep);
    char name[64];
    client_page_element(out, "h2", "Result");
    if (!fullest || fullest->result.latency.count == 0) {
        client_page_element(out, "p id=\"result\"", "No request was answered 200.");
        return;
    }
    client_page_format(out, "p id=\"result\"",
                       "The most %s: %.1f requests per second (%.1f images), with %s. Half of them took at "
                       "most %.3g ms, 99 %% at most %.3g ms.",
                       client_sweep_errors(fullest) ? "answered" : "without an error",
                       client_sweep_throughput(fullest),
                       client_sweep_throughput(fullest) * (double)sweep->images_per_request,
                       client_sweep_name(fullest, name, sizeof name), ms(fullest, 50), ms(fullest, 99));
    if (fullest->rate > 0)
        client_page_element(
            out, "p class=\"soft\"",
            "Open loop: requests became due at random (Poisson), whatever the server did. A latency counts "
            "from when its request was due, not from when it was sent, so that a stall shows in every "
            "request "
            "that it delayed (no coordinated omission).");
    else
        client_page_element(
            out, "p class=\"soft\"",
            "Closed loop: each connection sent its next request when it had the answer to the last, and a "
            "latency counts from there. That finds the most a server can do. A server that stalls gets fewer "
            "requests, which hides part of what users would feel: measure with --rate for that.");
    client_page_element(out, "p class=\"soft\"",
                        "Rates and latencies are those of requests answered 200. Percentiles are right to "
                        "within 0.5 %: latencies are counted in bins of 1 %.");
}

static void number_cell(FILE *out, double value)
{
    if (isfinite(value))
        client_page_format(out, "td class=\"number\"", value < 100 ? "%.3f" : "%.1f", value);
    else
        client_page_element(out, "td class=\"number\"", "-");
}

static void write_table(FILE *out, const struct client_sweep *sweep)
{
    char text[256];
    client_page_element(out, "h2", "Numbers");
    client_page_element(
        out, "p class=\"soft\"",
        "Latencies are in milliseconds. Late is how much later than due a request was sent (open loop).");
    fputs("<div class=\"wide\">\n<table id=\"points\">\n<thead><tr><th>load</th><th>errors</th>"
          "<th class=\"number\">requests/s</th><th class=\"number\">images/s</th>"
          "<th class=\"number\">mean</th><th class=\"number\">50 %</th><th class=\"number\">90 %</th>"
          "<th class=\"number\">99 %</th><th class=\"number\">99.9 %</th><th class=\"number\">longest</th>"
          "<th class=\"number\">late, 99 %</th><th class=\"number\">answered "
          "200</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_sweep_point *point = &sweep->points[i];
        const struct client_bench_result *result = &point->result;
        fputs(client_sweep_errors(point) ? "<tr class=\"warn\">" : "<tr>", out);
        client_page_element(out, "td class=\"load\"", client_sweep_name(point, text, sizeof text));
        client_page_element(out, "td class=\"text\"",
                            client_sweep_errors(point) ? client_sweep_problems(point, text, sizeof text)
                                                       : "none");
        client_page_format(out, "td class=\"number\"", "%.1f", client_sweep_throughput(point));
        client_page_format(out, "td class=\"number\"", "%.1f",
                           result->elapsed_s > 0 ? (double)result->images / result->elapsed_s : 0);
        number_cell(out, client_bins_mean(&result->latency) / 1000);
        for (size_t p = 0; p < CLIENT_BENCH_PERCENTS; p++)
            number_cell(out, ms(point, client_bench_percents[p]));
        number_cell(out, ms(point, 100));
        number_cell(out, client_bins_percentile(&result->lags, 99) / 1000);
        client_page_format(out, "td class=\"number\"", "%zu", (size_t)result->latency.count);
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n", out);
}

static void write_stage_table(FILE *out, const struct client_sweep *sweep)
{
    char text[64];
    fputs("<details><summary>As a table</summary>\n<div class=\"wide\">\n<table "
          "id=\"stage-table\">\n<thead><tr><th>load</th>",
          out);
    for (size_t part = 0; part < CLIENT_SWEEP_PARTS; part++)
        client_page_element(out, "th class=\"number\"", client_sweep_part_names[part]);
    fputs("<th class=\"number\">images in a batch</th><th class=\"number\">answers "
          "read</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_bench_stages *stages = &sweep->points[i].result.stages;
        double parts[CLIENT_SWEEP_PARTS];
        client_sweep_parts(&sweep->points[i], parts);
        fputs("<tr>", out);
        client_page_element(out, "td class=\"load\"",
                            client_sweep_name(&sweep->points[i], text, sizeof text));
        for (size_t part = 0; part < CLIENT_SWEEP_PARTS; part++)
            number_cell(out, stages->answers ? parts[part] : NAN);
        number_cell(out, stages->answers ? stages->batch_size / (double)stages->answers : NAN);
        client_page_format(out, "td class=\"number\"", "%zu", stages->answers);
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n</details>\n", out);
}

static void write_stages(FILE *out, const struct client_sweep *sweep)
{
    struct client_sweep_pair pairs[CLIENT_BENCH_POINTS];
    for (size_t i = 0; i < sweep->count; i++)
        pairs[i] = (struct client_sweep_pair){&sweep->points[i], NULL};
    client_page_element(out, "h2", "Stages");
    client_page_element(out, "p class=\"soft\"",
                        "What the server's answers say of their time, and what is outside of the server: "
                        "sending late, the network, HTTP. Decode and queue include waiting; copy is to the "
                        "device and back.");
    client_sweep_draw_parts(out, pairs, sweep->count, false);
    write_stage_table(out, sweep);
}

static void write_histograms(FILE *out, const struct client_sweep *sweep)
{
    const struct client_sweep_point *fullest = client_sweep_fullest(sweep);
    double low = INFINITY, high = 0;
    char id[32];
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_bins *latency = &sweep->points[i].result.latency;
        if (latency->count == 0)
            continue;
        low = fmin(low, latency->min_us / 1000);
        high = fmax(high, latency->max_us / 1000);
    }
    client_page_element(out, "h2", "Distribution");
    if (fullest)
        client_sweep_draw_histogram(out, "histogram", fullest, NULL, NULL, 0, 0);
    if (sweep->count < 2)
        return;
    fputs("<details><summary>Every load, on one axis</summary>\n", out);
    for (size_t i = 0; i < sweep->count; i++) {
        snprintf(id, sizeof id, "histogram-%zu", i + 1);
        client_sweep_draw_histogram(out, id, &sweep->points[i], NULL, NULL, low > 0 ? low : 0, high);
    }
    fputs("</details>\n", out);
}

int client_sweep_page_write(FILE *out, const void *context)
{
    const struct client_sweep *sweep = context;
    char title[256];
    snprintf(title, sizeof title, "Load test of %s%s%s", *sweep->model ? sweep->model : "an unknown model",
             *sweep->version ? " version " : "", sweep->version);
    client_page_open(out, title);
    write_facts(out, sweep);
    write_warnings(out, sweep);
    write_summary(out, sweep);
    client_sweep_draw_latency(out, (const struct client_sweep *const[]){sweep}, (const char *const[]){""}, 1);
    write_table(out, sweep);
    write_stages(out, sweep);
    write_histograms(out, sweep);
    cJSON *document = client_sweep_to_json(sweep);
    char *json = document ? cJSON_PrintUnformatted(document) : NULL;
    int status = client_page_end(out, "sweep", json);
    cJSON_free(json);
    cJSON_Delete(document);
    return status;
}
