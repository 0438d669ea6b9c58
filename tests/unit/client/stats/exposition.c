/* The reading of /metrics, well-formed and hostile. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/stats/exposition.h"
#include "server/metrics/metrics.h"

static struct client_exposition exposition;
static struct convoy_failure failure;

static void read_bytes(const char *text, size_t size)
{
    /* A copy of just that size: the address sanitizer sees every byte too many. */
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    int status = client_exposition_read(copy, size, &exposition, &failure);
    free(copy);
    cr_assert_eq(status, 0, "%s", failure.message);
}

static void read_text(const char *text)
{
    read_bytes(text, strlen(text));
}

Test(client_exposition, the_formats_own_forms)
{
    read_text("# HELP a_total What it counts.\n# TYPE a_total counter\n"
              "a_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
              "a_total{method=\"post\",code=\"400\",}    3 -1395066363000\n"
              "\n"
              "path{file=\"C:\\\\DIR\\\\x\",error=\"cannot\\nfind \\\"it\\\"\"} 1.458255915e9\n"
              "plain 12.47\r\n"
              "infinite +Inf -3982045\n"
              "least -Inf\n"
              "none NaN\n"
              " \tspaced { le = \"0.05\" , x = \"\" } 2.4e-3 \n"
              "empty{} 1\n");
    cr_assert_eq(exposition.skipped, 0);
    cr_assert_eq(exposition.count, 9);
    const struct client_sample *sample = exposition.samples;
    cr_assert_str_eq(sample[0].name, "a_total");
    cr_assert_eq(sample[0].value, 1027);
    cr_assert_str_eq(client_sample_label(&sample[0], "method"), "post");
    cr_assert_str_eq(client_sample_label(&sample[1], "code"), "400");
    cr_assert_str_eq(client_sample_label(&sample[1], "absent"), "");
    cr_assert_str_eq(client_sample_label(&sample[2], "file"), "C:\\DIR\\x");
    cr_assert_str_eq(client_sample_label(&sample[2], "error"), "cannot\nfind \"it\"");
    cr_assert_eq(sample[2].value, 1458255915);
    cr_assert(sample[3].value == 12.47 && sample[3].label_count == 0);
    cr_assert(sample[4].value == INFINITY && sample[5].value == -INFINITY && isnan(sample[6].value));
    cr_assert_str_eq(sample[7].name, "spaced");
    cr_assert_str_eq(client_sample_label(&sample[7], "le"), "0.05");
    cr_assert_eq(sample[7].value, 0.0024);
    cr_assert_eq(sample[8].label_count, 0);
    client_exposition_clear(&exposition);
}

Test(client_exposition, lines_that_are_none_are_counted_and_the_rest_stays)
{
    static const char *const wrong[] = {
        "a",
        "a ",
        "a{",
        "a{}",
        "a{b",
        "a{b=",
        "a{b=\"",
        "a{b=\"c",
        "a{b=\"c\"",
        "a{b=\"c\"}",
        "a{b=\"c\"} ",
        "a{b=\"c\\",
        "a{b=\"c\\\"} 1",
        "a{b=\"\\q\"} 1",
        "a{b=c} 1",
        "a{=\"c\"} 1",
        "a{b=\"c\" d=\"e\"} 1",
        "a{,} 1",
        "a{b=\"c\"}}1",
        "a 1x",
        "a 1 2x",
        "a 1 2 3",
        "a x",
        "1a 2",
        "-a 2",
        "{b=\"c\"} 1",
        "a-b 1",
        "\xff 1",
        "a{b\xff=\"c\"} 1",
        "a 1 x",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[200];
        snprintf(text, sizeof text, "before{x=\"1\"} 1\n%s\nafter{y=\"2\"} 2\n", wrong[i]);
        read_text(text);
        cr_assert_eq(exposition.count, 2, "'%s' is taken for a sample", wrong[i]);
        cr_assert_eq(exposition.skipped, 1, "'%s' is not counted", wrong[i]);
        cr_assert_str_eq(client_sample_label(&exposition.samples[0], "x"), "1");
        cr_assert_str_eq(client_sample_label(&exposition.samples[1], "y"), "2", "after '%s'", wrong[i]);
        client_exposition_clear(&exposition);
    }
}

Test(client_exposition, a_text_that_is_cut_off_anywhere_gives_whole_lines_only)
{
    static const char text[] = "a{b=\"c\\\"\\\\\\n\"} 123\nlonger_name{one=\"1\",two=\"2\"} 4567 89\nc 1\n";
    for (size_t size = 0; size < sizeof text; size++) {
        size_t lines = 0;
        read_bytes(text, size);
        for (size_t i = 0; i < size; i++)
            lines += text[i] == '\n';
        cr_assert_eq(exposition.count, lines, "cut at %zu", size);
        if (lines > 1)
            cr_assert_eq(exposition.samples[1].value, 4567);
        client_exposition_clear(&exposition);
    }
}

Test(client_exposition, bytes_that_are_no_text)
{
    static const char text[] = "a 1\nb\0c 2\n\0\n\0 3\nd 4\n";
    read_bytes(text, sizeof text - 1);
    cr_assert_eq(exposition.count, 2);
    cr_assert_eq(exposition.skipped, 3);
    cr_assert_str_eq(exposition.samples[1].name, "d");
    client_exposition_clear(&exposition);
    read_bytes("", 0);
    cr_assert_eq(exposition.count, 0);
    client_exposition_clear(&exposition);
}

Test(client_exposition, noise_is_survived)
{
    static const char letters[] = "ab1_{}=\",\\\n #\0.eE+-\xc3";
    uint32_t state = 1;
    char noise[300];
    for (int round = 0; round < 20000; round++) {
        size_t size = round % sizeof noise;
        for (size_t i = 0; i < size; i++) {
            state = state * 1664525 + 1013904223;
            noise[i] = letters[(state >> 16) % (sizeof letters - 1)];
        }
        read_bytes(noise, size);
        for (size_t i = 0; i < exposition.count; i++)
            for (size_t label = 0; label < exposition.samples[i].label_count; label++)
                cr_assert(strlen(exposition.samples[i].labels[label].name) < sizeof noise &&
                          strlen(exposition.samples[i].labels[label].value) < sizeof noise);
        client_exposition_clear(&exposition);
    }
}

static char *repeat(const char *line, size_t times, size_t *size)
{
    size_t length = strlen(line);
    char *text = malloc(length * times);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * length, line, length);
    *size = length * times;
    return text;
}

Test(client_exposition, what_is_huge)
{
    size_t size;
    char *text = repeat("a 1\n", CLIENT_EXPOSITION_SAMPLES + 1, &size);
    cr_assert_eq(client_exposition_read(text, size, &exposition, &failure), -EPROTO);
    client_exposition_clear(&exposition);
    read_bytes(text, size - 4);
    cr_assert_eq(exposition.count, CLIENT_EXPOSITION_SAMPLES);
    client_exposition_clear(&exposition);
    free(text);
    text = calloc(1, CLIENT_EXPOSITION_BYTES + 1);
    cr_assert_eq(client_exposition_read(text, CLIENT_EXPOSITION_BYTES + 1, &exposition, &failure), -EPROTO);
    client_exposition_clear(&exposition);
    free(text);
    /* One sample of a hundred thousand labels, and one name of a megabyte. */
    char *labels = repeat("l=\"v\",", 100000, &size);
    char *line = malloc(size + 8);
    snprintf(line, size + 8, "a{%.*s} 5\n", (int)size, labels);
    read_text(line);
    cr_assert_eq(exposition.count, 1);
    cr_assert_eq(exposition.samples[0].label_count, 100000);
    cr_assert_str_eq(exposition.samples[0].labels[99999].value, "v");
    client_exposition_clear(&exposition);
    free(labels);
    free(line);
    char *name = repeat("n", 1000000, &size);
    line = malloc(size + 16);
    snprintf(line, size + 16, "%.*s 1e999999\n", (int)size, name);
    read_text(line);
    cr_assert_eq(strlen(exposition.samples[0].name), 1000000);
    cr_assert_eq(exposition.samples[0].value, INFINITY);
    client_exposition_clear(&exposition);
    free(name);
    free(line);
}

Test(client_exposition, what_the_daemon_writes_is_read_whole)
{
    struct convoy_metrics *metrics = convoy_metrics_new();
    static const char name[] = "we\"ird\\model\n\xC3\xA4";
    struct convoy_model_metrics *model = convoy_metrics_model(metrics, name);
    convoy_metrics_observe(model, CONVOY_STAGE_COMPUTE, 75);
    convoy_metrics_batch(model, convoy_metrics_device(metrics, "cpu"), 3);
    convoy_metrics_request(metrics, name, "/classify", 200);
    size_t length;
    char *text = convoy_metrics_render(metrics, &length);
    read_bytes(text, length);
    cr_assert_eq(exposition.skipped, 0);
    size_t found = 0;
    for (size_t i = 0; i < exposition.count; i++)
        found += strcmp(client_sample_label(&exposition.samples[i], "model"), name) == 0;
    cr_assert_gt(found, 100);
    client_exposition_clear(&exposition);
    free(text);
    convoy_metrics_free(metrics);
}
