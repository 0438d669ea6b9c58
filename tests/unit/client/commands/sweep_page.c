/* The pages of sweeps and their comparison, without a server: all kinds of numbers, and texts that want to
 * break out. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/chart/page.h"
#include "client/commands/sweep.h"
#include "tests/unit/client/commands/balanced.h"
#include "tests/unit/client/commands/page_text.h"

static struct client_sweep sweep;
static char *page;

static void make(size_t count)
{
    sweep = (struct client_sweep){.images = 7,
                                  .images_per_request = 2,
                                  .seconds = 10,
                                  .warm_up_s = 1,
                                  .planned = count,
                                  .count = count,
                                  .date = "2026-01-02 03:04 +0000",
                                  .client = "9.8",
                                  .machine = "a machine",
                                  .url = "http://h:1",
                                  .server = "convoyd 9.7",
                                  .model = "net",
                                  .version = "3",
                                  .device = "cpu",
                                  .precision = "fp16"};
    sweep.points = calloc(count + 1, sizeof *sweep.points);
    cr_assert(sweep.points);
    for (size_t i = 0; i < count; i++) {
        struct client_bench_result *result = &sweep.points[i].result;
        sweep.points[i].connections = 1L << (i % 20);
        for (int j = 0; j < 100; j++)
            client_bins_add(&result->latency, 4000 * (double)(i + 1));
        result->statuses[200] = 100;
        result->images = 200;
        result->elapsed_s = 2;
        result->stages = (struct client_bench_stages){.answers = 2, .client_us = 400, .batch_size = 6};
        result->stages.timing.total_us = result->stages.timing.compute_us = 200;
    }
}

static void render(int (*write)(FILE *, const void *), const void *context, const char *id)
{
    size_t size, found;
    FILE *out = open_memstream(&page, &size);
    cr_assert_eq(write(out, context), 0);
    fclose(out);
    cr_assert_eq(strncmp(page, "<!DOCTYPE html>\n", 16), 0);
    is_balanced(page + 16);
    const char *json = client_page_find_data(page, size, id, &found);
    cr_assert_not_null(json);
    cJSON *document = cJSON_ParseWithLength(json, found);
    cr_assert_not_null(document);
    cJSON_Delete(document);
    char *data = strstr(page, "<script");
    cr_expect_null(strstr(data + 1, "<script"));
    /* What is no number is written nowhere. */
    *data = '\0';
    cr_expect(!strstr(page, "nan") && !strstr(page, "inf ") && !strstr(page, "inf<"), "%.3000s", page);
    *data = '<';
}

static void render_sweep(void)
{
    render(client_sweep_page_write, &sweep, "sweep");
}

static void render_comparison(const struct client_sweep *first, const struct client_sweep *second)
{
    struct client_sweep_comparison comparison = {
        .first = first, .second = second, .first_name = "a.html", .second_name = "<b>.html"};
    client_sweep_match(&comparison);
    render(client_sweep_compare_page_write, &comparison, "comparison");
}

static size_t count(const char *part)
{
    return count_in(page, part);
}

static void has(const char *part)
{
    has_in(page, part);
}

Test(client_sweep_page, numbers)
{
    make(3);
    render_sweep();
    has("<title>Load test of net version 3</title>");
    has("<td>convoyd 9.7</td>");
    has("<td>convoy 9.8</td>");
    has("<td>a machine</td>");
    has("<td>fp16</td>");
    has("<td>2 in a request, 7 different ones</td>");
    has("<td>10 s after 1 s of warm-up</td>");
    has("The most without an error: 50.0 requests per second (100.0 images), with 1 connection. Half of them "
        "took at most 4 ms, 99 % at most 4 ms.");
    has("<td class=\"load\">2 connections</td>\n<td class=\"text\">none</td>\n<td "
        "class=\"number\">50.0</td>\n<td "
        "class=\"number\">100.0</td>\n"
        "<td class=\"number\">8.000</td>\n<td class=\"number\">8.000</td>");
    has("Closed loop:");
    has("99.9 %: 12 ms at 50 requests/s, 4 connections");
    cr_expect_eq(count("<svg "), 1 + 1 + 1 + 3);
    cr_expect_eq(count("class=\"mark\""), 3 * 4 + 4); /* and the legend's */
    /* Answers of 200 us in the client, of which the server computed 100. */
    has("<td class=\"number\">0.100</td>");
    has("compute: 0.1 ms");
    cr_expect(count("class=\"warn") == 0 && count("hollow\"") == 0 && count("WITH ERRORS") == 0);
    free(page);
    client_sweep_clear(&sweep);
}

Test(client_sweep_page, errors_are_marked)
{
    make(3);
    sweep.points[1].result.statuses[503] = 8;
    sweep.points[1].result.statuses[0] = 1;
    strcpy(sweep.points[1].result.sample.message, "it <broke>");
    sweep.planned = 9;
    strcpy(sweep.ended, "the sweep was interrupted");
    render_sweep();
    has("Errors with 2 connections: 8 answered 503, 1 without an answer of 109 requests. it &lt;broke&gt;");
    has("3 of 9 loads were measured: the sweep was interrupted");
    cr_expect_eq(count("class=\"mark hollow\""), 4);
    cr_expect_eq(count("2 connections, WITH ERRORS"), 4);
    cr_expect_eq(count("<tr class=\"warn\">"), 1);
    has("Latencies with 2 connections (WITH ERRORS: those answered 200)");
    has("<td class=\"text\">8 answered 503, 1 without an answer</td>");
    free(page);
    client_sweep_clear(&sweep);
}

Test(client_sweep_page, an_open_loop)
{
    make(2);
    for (size_t i = 0; i < 2; i++) {
        sweep.points[i].rate = 100 * (double)(i + 1);
        for (int j = 0; j < 100; j++)
            client_bins_add(&sweep.points[i].result.lags, i ? 3000 : 10);
    }
    render_sweep();
    has("no coordinated omission");
    has("open loop: requests due at random, at most 1 connection<");
    has("by at least 3 ms with 200 requests/s due. Latencies include that.");
    cr_expect_eq(count("with 100 requests/s due. Latencies"), 0);
    free(page);
    client_sweep_clear(&sweep);
}

Test(client_sweep_page, nothing_was_answered)
{
    make(2);
    for (size_t i = 0; i < 2; i++) {
        sweep.points[i].result = (struct client_bench_result){0};
        sweep.points[i].result.statuses[404] = 3;
    }
    *sweep.model = *sweep.version = *sweep.device = '\0';
    render_sweep();
    has("No request was answered 200.");
    has("Load test of an unknown model");
    has("nothing was measured");
    free(page);
    render_comparison(&sweep, &sweep);
    free(page);
    client_sweep_clear(&sweep);
}

/* The largest report is readable as what it is, and not too large to be read. */
Test(client_sweep_page, as_many_points_as_there_may_be)
{
    size_t size;
    make(CLIENT_BENCH_POINTS);
    for (size_t i = 0; i < CLIENT_BENCH_POINTS; i++) {
        struct client_bench_result *result = &sweep.points[i].result;
        for (size_t bin = 0; bin < CLIENT_BINS; bin++) {
            client_bins_add(&result->latency, client_bins_bound(bin) * 1.005);
            client_bins_add(&result->refusals, client_bins_bound(bin) * 1.005);
            client_bins_add(&result->lags, client_bins_bound(bin) * 1.005);
        }
        result->statuses[200] += CLIENT_BINS;
        result->statuses[503] += CLIENT_BINS;
    }
    render_sweep();
    size = strlen(page);
    cr_expect_lt(size, CLIENT_SWEEP_FILE_BYTES);
    free(page);
    render_comparison(&sweep, &sweep);
    cr_expect_eq(count("class=\"row\""), 2 * CLIENT_BENCH_POINTS);
    free(page);
    client_sweep_clear(&sweep);
}

Test(client_sweep_page, a_comparison)
{
    struct client_sweep first;
    make(3);
    first = sweep;
    make(3);
    for (size_t i = 0; i < 3; i++) {
        struct client_bins *latency = &sweep.points[i].result.latency;
        *latency = (struct client_bins){0};
        for (int j = 0; j < 100; j++)
            client_bins_add(latency, 2000 * (double)(i + 1));
    }
    sweep.points[0].result.elapsed_s = 4;
    sweep.points[0].result.stages.timing.compute_us = 160;
    sweep.points[2].connections = 64;
    sweep.points[1].result.statuses[500] = 2;
    strcpy(sweep.model, "other");
    render_comparison(&first, &sweep);
    has("<td>a.html</td>\n<td>&lt;b&gt;.html</td>");
    has("Loads in both reports, without errors: 1. B&#39;s throughput is better in 0, equal in 0 and worse "
        "in 1; "
        "its 99 % latency is better in 0, equal in 0, worse in 0 and not judged in 1.");
    has("Loads with errors, 1, are not judged");
    has("<td class=\"number worse\">50 \xE2\x86\x92 25<br />\xC3\x97"
        "0.500 worse</td>");
    has("<td class=\"number better\">4 \xE2\x86\x92 2<br />\xC3\x97"
        "0.500 better</td>");
    has("<td class=\"number\">50 \xE2\x86\x92 50<br />\xC3\x97"
        "1.000 -</td>");
    has("<td class=\"load\">4 connections</td>\n<td class=\"text\">none</td>\n<td colspan=\"5\">only in "
        "A</td>");
    has("<td class=\"load\">64 connections</td>\n<td class=\"text\">none</td>\n<td colspan=\"5\">only in "
        "B</td>");
    has("The model differs: net and other.");
    has("B has errors with 2 connections: 2 answered 500 of 102 requests.");
    cr_expect_eq(count("<svg "), 3);
    cr_expect_eq(count("<title>compute: 0.1 ms</title>"), 5);
    cr_expect_eq(count("<title>compute: 0.08 ms</title>"), 1);
    cr_expect_eq(count("A, 50 %: "), 3);
    cr_expect_eq(count("B, 99 %: "), 3);
    cr_expect_eq(count("class=\"mark hollow\""), 2);
    free(page);
    client_sweep_clear(&sweep);
    client_sweep_clear(&first);
}

#define EVIL "\"'></td><script>alert(1)</script><img src=x onerror=y>\xFF\x1B&"

Test(client_sweep_page, hostile_texts)
{
    make(2);
    char *const texts[] = {
        sweep.date,  sweep.client, sweep.machine, sweep.url,     sweep.server,
        sweep.model, sweep.ended,  sweep.device,  sweep.version, sweep.points[0].result.sample.message};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        strncpy(texts[i], EVIL, 63);
    sweep.points[0].result.statuses[0] = 1;
    render_sweep();
    cr_expect(count("<img") == 0 && count("<script") == 1 && count("</script") == 1);
    cr_expect(!strchr(page, '\x1B') && !strchr(page, '\xFF'));
    has("&lt;script&gt;alert(1)&lt;/script&gt;");
    free(page);
    struct client_sweep other = sweep;
    strcpy(other.model, "x" EVIL);
    render_comparison(&sweep, &other);
    cr_expect(count("<img") == 0 && count("<script") == 1 && count("</script") == 1);
    cr_expect(!strchr(page, '\x1B') && !strchr(page, '\xFF'));
    free(page);
    client_sweep_clear(&sweep);
}

Test(client_sweep_page, an_open_and_a_closed_loop_compared)
{
    struct client_sweep first;
    make(1);
    first = sweep;
    make(1);
    sweep.points[0].rate = 5;
    render_comparison(&first, &sweep);
    has("numbers above points: connections, or requests/s due");
    has("No load is in both reports");
    free(page);
    render_comparison(&sweep, &sweep);
    has("numbers above points: requests/s due");
    free(page);
    client_sweep_clear(&sweep);
    client_sweep_clear(&first);
}
