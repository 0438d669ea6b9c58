/* Reports of sweeps as JSON and back, and their comparison; without a server. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/sweep.h"

/* A sweep of `count` points of that many connections; each of 100 answers of `ms` milliseconds times its
 * place. */
static void make(struct client_sweep *sweep, size_t count, double ms)
{
    *sweep = (struct client_sweep){.images = 7,
                                   .images_per_request = 3,
                                   .seconds = 10,
                                   .warm_up_s = 0.5,
                                   .planned = count + 1,
                                   .count = count,
                                   .date = "2026-01-02 03:04 +0000",
                                   .client = "9.8",
                                   .machine = "a machine",
                                   .url = "http://h:1",
                                   .server = "convoyd 9.7",
                                   .model = "net",
                                   .version = "3",
                                   .device = "cpu",
                                   .precision = "fp16",
                                   .ended = "the sweep was interrupted"};
    sweep->points = calloc(count, sizeof *sweep->points);
    cr_assert(sweep->points);
    for (size_t i = 0; i < count; i++) {
        struct client_sweep_point *point = &sweep->points[i];
        struct client_bench_result *result = &point->result;
        point->connections = 1L << (i % 20);
        for (int j = 0; j < 100; j++)
            client_bins_add(&result->latency, ms * 1000 * (double)(i + 1));
        result->statuses[200] = 100;
        result->images = 300;
        result->elapsed_s = 2;
    }
}

/* Every member has a value that no other has, as far as it can. */
static void make_full(struct client_sweep *sweep)
{
    make(sweep, 2, 4);
    struct client_sweep_point *point = &sweep->points[1];
    struct client_bench_result *result = &point->result;
    point->rate = 123.25;
    point->connections = 77;
    client_bins_add(&result->latency, 0.5);
    client_bins_add(&result->latency, 1e12);
    client_bins_add(&result->refusals, 11);
    client_bins_add(&result->lags, 17.5);
    client_bins_add(&result->lags, 19);
    result->statuses[200] = 102;
    result->statuses[503] = 1;
    result->statuses[404] = 5;
    result->statuses[0] = 6;
    result->unsent = 9;
    result->images = 306;
    result->elapsed_s = 2.75;
    strcpy(result->sample.message, "the connection </script> \"broke\"");
    struct convoy_timing timing = {8, 16, 24, 32, 40, 160, 2};
    result->stages =
        (struct client_bench_stages){.answers = 4, .client_us = 400, .timing = timing, .batch_size = 6};
}

static void same_text(const char *name, const char *one, const char *other)
{
    cr_expect_str_eq(one, other, "%s", name);
}

static void same_bins(const struct client_bins *one, const struct client_bins *other)
{
    for (size_t i = 0; i < CLIENT_BINS; i++)
        cr_expect_eq(one->counts[i], other->counts[i], "bin %zu", i);
    cr_expect(one->count == other->count && one->sum_us == other->sum_us && one->min_us == other->min_us &&
              one->max_us == other->max_us);
}

static void same_stages(const struct client_bench_stages *one, const struct client_bench_stages *other)
{
    const struct convoy_timing *a = &one->timing, *b = &other->timing;
    cr_expect(one->answers == other->answers && one->client_us == other->client_us &&
              one->batch_size == other->batch_size);
    cr_expect(a->wait_us == b->wait_us && a->decode_us == b->decode_us && a->queue_us == b->queue_us &&
              a->input_us == b->input_us && a->compute_us == b->compute_us && a->output_us == b->output_us &&
              a->total_us == b->total_us);
}

static void same_sweeps(const struct client_sweep *one, const struct client_sweep *other)
{
    same_text("date", one->date, other->date);
    same_text("client", one->client, other->client);
    same_text("machine", one->machine, other->machine);
    same_text("url", one->url, other->url);
    same_text("server", one->server, other->server);
    same_text("model", one->model, other->model);
    same_text("version", one->version, other->version);
    same_text("device", one->device, other->device);
    same_text("precision", one->precision, other->precision);
    same_text("ended", one->ended, other->ended);
    cr_expect(one->images == other->images && one->images_per_request == other->images_per_request &&
              one->seconds == other->seconds && one->warm_up_s == other->warm_up_s &&
              one->planned == other->planned);
    cr_assert_eq(one->count, other->count);
    for (size_t i = 0; i < one->count; i++) {
        const struct client_sweep_point *a = &one->points[i], *b = &other->points[i];
        cr_expect(a->rate == b->rate && a->connections == b->connections);
        same_bins(&a->result.latency, &b->result.latency);
        same_bins(&a->result.refusals, &b->result.refusals);
        same_bins(&a->result.lags, &b->result.lags);
        cr_expect_eq(memcmp(a->result.statuses, b->result.statuses, sizeof a->result.statuses), 0);
        cr_expect(a->result.images == b->result.images && a->result.unsent == b->result.unsent &&
                  a->result.elapsed_s == b->result.elapsed_s);
        same_text("example", a->result.sample.message, b->result.sample.message);
        same_stages(&a->result.stages, &b->result.stages);
    }
}

Test(client_sweep, json_and_back)
{
    struct client_sweep sweep, again;
    struct convoy_failure failure;
    make_full(&sweep);
    cJSON *document = client_sweep_to_json(&sweep);
    char *text = cJSON_PrintUnformatted(document);
    cJSON_Delete(document);
    document = cJSON_Parse(text);
    cr_assert_eq(client_sweep_from_json(document, &again, &failure), 0, "%s", failure.message);
    same_sweeps(&sweep, &again);
    cJSON_Delete(document);
    /* What is read gives the same text. */
    document = client_sweep_to_json(&again);
    char *second = cJSON_PrintUnformatted(document);
    cr_assert_str_eq(text, second);
    cJSON_Delete(document);
    cJSON_free(text);
    cJSON_free(second);
    client_sweep_clear(&sweep);
    client_sweep_clear(&again);
}

Test(client_sweep, json_has_what_programs_want)
{
    struct client_sweep sweep;
    make_full(&sweep);
    cJSON *document = client_sweep_to_json(&sweep);
    const cJSON *point = cJSON_GetArrayItem(cJSON_GetObjectItem(document, "points"), 0);
    const cJSON *latency = cJSON_GetObjectItem(point, "latency_ms");
    cr_assert_eq(cJSON_GetObjectItem(point, "requests_per_second")->valuedouble, 50);
    cr_assert_eq(cJSON_GetObjectItem(point, "images_per_second")->valuedouble, 150);
    cr_assert_eq(cJSON_GetObjectItem(latency, "p50")->valuedouble, 4);
    cr_assert_eq(cJSON_GetObjectItem(latency, "p99.9")->valuedouble, 4);
    cr_assert_eq(cJSON_GetObjectItem(latency, "mean")->valuedouble, 4);
    cr_assert_str_eq(cJSON_GetObjectItem(point, "loop")->valuestring, "closed");
    point = cJSON_GetArrayItem(cJSON_GetObjectItem(document, "points"), 1);
    cr_assert_str_eq(cJSON_GetObjectItem(point, "loop")->valuestring, "open");
    cr_assert_eq(cJSON_GetObjectItem(cJSON_GetObjectItem(point, "timing"), "decode_us")->valuedouble, 2);
    cr_assert_eq(cJSON_GetObjectItem(cJSON_GetObjectItem(point, "timing"), "batch_size")->valuedouble, 1.5);
    cJSON_Delete(document);
    client_sweep_clear(&sweep);
}

/* Puts `with` in place of the first `what` and reads the report. Returns the status. */
static int read_with(const char *text, const char *what, const char *with, struct convoy_failure *failure)
{
    struct client_sweep sweep;
    char *changed;
    const char *at = strstr(text, what);
    cr_assert(at, "no %s", what);
    cr_assert_gt(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what)), 0);
    cJSON *document = cJSON_Parse(changed);
    cr_assert(document, "%s", changed);
    int status = client_sweep_from_json(document, &sweep, failure);
    client_sweep_clear(&sweep);
    cJSON_Delete(document);
    free(changed);
    return status;
}

Test(client_sweep, documents_that_are_not_as_they_should_be)
{
    static const struct {
        const char *what, *with, *message;
    } cases[] = {
        {"\"format\":\"convoy bench --sweep\"", "\"format\":\"other\"", "no report"},
        {"\"format\":\"convoy bench --sweep\"", "\"format\":7", "no report"},
        {"\"format\":", "\"form\":", "no report"},
        {"\"format_version\":1", "\"format_version\":2", "does not know"},
        {"\"format_version\":1", "\"format_version\":\"1\"", "does not know"},
        {"\"bin_ratio\":1.01", "\"bin_ratio\":1.02", "'bin_ratio'"},
        {"\"model\":\"net\"", "\"model\":{}", "'model' is no text"},
        {"\"seconds\":10", "\"seconds\":-1", "'seconds'"},
        {"\"seconds\":10", "\"seconds\":1e999", "'seconds'"},
        {"\"seconds\":10", "\"seconds\":null", "'seconds'"},
        {"\"images_per_request\":3", "\"images_per_request\":0", "out of range"},
        {"\"images_per_request\":3", "\"images_per_request\":2.5", "no whole number"},
        {"\"planned\":3", "\"planned\":65", "'planned'"},
        {"\"points\":[", "\"points\":7,\"other\":[", "'points'"},
        {"\"points\":[", "\"points\":[],\"other\":[", "'points'"},
        {"\"points\":[", "\"points\":[null,", "point 1's 'connections'"},
        {"\"points\":[", "\"points\":[[],", "point 1's 'connections'"},
        {"\"connections\":1", "\"connections\":0", "point 1's 'connections'"},
        {"\"connections\":1", "\"connections\":1e300", "point 1's 'connections'"},
        {"\"rate\":123.25", "\"rate\":0", "point 2's 'rate'"},
        {"\"bins\":[[", "\"bins\":{},\"other\":[[", "without a list"},
        {"\"bins\":[[", "\"bins\":[7,[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[{\"a\":1,\"b\":1},[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[2100,1],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[-1,1],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[1.5,1],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[1e300,1],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[1,0],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[1,1e300],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[1,9007199254740992],[", "not [place, count]"},
        {"\"bins\":[[", "\"bins\":[[1,1],[", "as have the status 200"},
        {"\"max_us\":4000", "\"max_us\":1", "'max_us'"},
        {"\"sum_us\":", "\"sum\":", "'sum_us'"},
        {"\"statuses\":{", "\"statuses\":7,\"other\":{", "'statuses' is no object"},
        {"\"statuses\":{", "\"statuses\":[1],\"other\":{", "'statuses' is no object"},
        {"\"statuses\":{", "\"statuses\":{\"600\":1,", "no HTTP status"},
        {"\"statuses\":{", "\"statuses\":{\"0\":1,", "no HTTP status"},
        {"\"statuses\":{", "\"statuses\":{\"-200\":1,", "no HTTP status"},
        {"\"statuses\":{", "\"statuses\":{\"x\":1,", "no HTTP status"},
        {"\"statuses\":{", "\"statuses\":{\"\":1,", "no HTTP status"},
        {"\"statuses\":{", "\"statuses\":{\"404\":[],", "'404'"},
        {"\"no_answer\":6", "\"no_answer\":true", "point 2's 'no_answer'"},
        {"\"not_sent\":9", "\"not_sent\":0.5", "point 2's 'not_sent'"},
        {"\"answers\":4", "\"answers\":-4", "point 2's 'answers'"},
        {"\"compute_us\":", "\"computed\":", "point 2's 'compute_us'"},
    };
    struct client_sweep sweep;
    struct convoy_failure failure;
    make_full(&sweep);
    cJSON *document = client_sweep_to_json(&sweep);
    char *text = cJSON_PrintUnformatted(document);
    cJSON_Delete(document);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = read_with(text, cases[i].what, cases[i].with, &failure);
        cr_expect_eq(status, -EBADMSG, "%s gives %d", cases[i].with, status);
        cr_expect_not_null(strstr(failure.message, cases[i].message), "%s: '%s'", cases[i].with,
                           failure.message);
    }
    cr_expect_eq(read_with(text, "\"model\":\"net\",", "", &failure), 0, "a text may be absent");
    cr_expect_eq(read_with(text, "\"model\":", "\"new\":{},\"model\":", &failure), 0, "unknown members");
    cJSON_free(text);
    client_sweep_clear(&sweep);
}

Test(client_sweep, more_points_than_there_may_be)
{
    struct client_sweep sweep, again;
    struct convoy_failure failure;
    make(&sweep, CLIENT_BENCH_POINTS + 1, 0.1);
    sweep.planned = 2;
    for (size_t i = 0; i < sweep.count; i++)
        sweep.points[i].connections = 1;
    cJSON *document = client_sweep_to_json(&sweep);
    cr_assert_eq(client_sweep_from_json(document, &again, &failure), -EBADMSG);
    cJSON_Delete(document);
    sweep.count--;
    document = client_sweep_to_json(&sweep);
    cr_assert_eq(client_sweep_from_json(document, &again, &failure), 0, "%s", failure.message);
    cJSON_Delete(document);
    client_sweep_clear(&again);
    client_sweep_clear(&sweep);
}

Test(client_sweep, what_errors_are)
{
    struct client_sweep sweep;
    char text[256];
    make_full(&sweep);
    cr_assert_eq(client_sweep_errors(&sweep.points[0]), 0);
    cr_assert_str_eq(client_sweep_problems(&sweep.points[0], text, sizeof text), "");
    cr_assert_eq(client_sweep_errors(&sweep.points[1]), 1 + 5 + 6 + 9);
    cr_assert_str_eq(client_sweep_problems(&sweep.points[1], text, sizeof text),
                     "5 answered 404, 1 answered 503, 6 without an answer, 9 not sent");
    cr_assert_str_eq(client_sweep_problems(&sweep.points[1], text, 20), "5 answered 404, 1 a");
    cr_assert_str_eq(client_sweep_name(&sweep.points[0], text, sizeof text), "1 connection");
    cr_assert_str_eq(client_sweep_name(&sweep.points[1], text, sizeof text), "123.25 requests/s due");
    client_sweep_clear(&sweep);
}

Test(client_sweep, parts_add_up_to_the_latency)
{
    struct client_sweep sweep;
    double parts[CLIENT_SWEEP_PARTS], sum = 0;
    make_full(&sweep);
    client_sweep_parts(&sweep.points[1], parts);
    cr_expect_float_eq(parts[CLIENT_SWEEP_OUTSIDE], (60 + 18.25) / 1000, 1e-9); /* and late by 18.25 us */
    cr_expect_float_eq(parts[CLIENT_SWEEP_DECODE], 2.5 / 1000, 1e-9);
    cr_expect_float_eq(parts[CLIENT_SWEEP_QUEUE], 4.0 / 1000, 1e-9);
    cr_expect_float_eq(parts[CLIENT_SWEEP_COPY], 16.0 / 1000, 1e-9);
    cr_expect_float_eq(parts[CLIENT_SWEEP_COMPUTE], 8.0 / 1000, 1e-9);
    cr_expect_float_eq(parts[CLIENT_SWEEP_OTHER], 9.5 / 1000, 1e-9);
    for (size_t i = 0; i < CLIENT_SWEEP_PARTS; i++)
        sum += parts[i];
    cr_expect_float_eq(sum, (100 + 18.25) / 1000, 1e-9);
    client_sweep_parts(&sweep.points[0], parts);
    for (size_t i = 0; i < CLIENT_SWEEP_PARTS; i++)
        cr_expect_eq(parts[i], 0);
    client_sweep_clear(&sweep);
}

Test(client_sweep, the_fullest_is_without_errors)
{
    struct client_sweep sweep;
    make(&sweep, 3, 1);
    sweep.points[0].result.elapsed_s = 3;
    sweep.points[1].result.elapsed_s = 0.1;
    cr_expect_eq(client_sweep_fullest(&sweep), &sweep.points[1]);
    sweep.points[1].result.unsent = 1;
    cr_expect_eq(client_sweep_fullest(&sweep), &sweep.points[2]);
    sweep.points[2].result.statuses[0] = 1;
    cr_expect_eq(client_sweep_fullest(&sweep), &sweep.points[0]);
    sweep.points[0].result.statuses[500] = 1;
    cr_expect_eq(client_sweep_fullest(&sweep), &sweep.points[1]);
    sweep.count = 0;
    cr_expect_null(client_sweep_fullest(&sweep));
    sweep.count = 3;
    client_sweep_clear(&sweep);
}

Test(client_sweep, verdicts)
{
    static const struct {
        double ratio;
        enum client_sweep_verdict large, small;
    } cases[] = {{1, CLIENT_SWEEP_SAME, CLIENT_SWEEP_SAME},
                 {1.05, CLIENT_SWEEP_SAME, CLIENT_SWEEP_SAME},
                 {1 / 1.05, CLIENT_SWEEP_SAME, CLIENT_SWEEP_SAME},
                 {1.06, CLIENT_SWEEP_BETTER, CLIENT_SWEEP_WORSE},
                 {0.94, CLIENT_SWEEP_WORSE, CLIENT_SWEEP_BETTER},
                 {0, CLIENT_SWEEP_UNKNOWN, CLIENT_SWEEP_UNKNOWN},
                 {INFINITY, CLIENT_SWEEP_UNKNOWN, CLIENT_SWEEP_UNKNOWN},
                 {NAN, CLIENT_SWEEP_UNKNOWN, CLIENT_SWEEP_UNKNOWN}};
    struct client_sweep sweep;
    make(&sweep, 2, 1);
    const struct client_sweep_pair pair = {&sweep.points[0], &sweep.points[1]};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(client_sweep_judge(&pair, cases[i].ratio, 0), cases[i].large, "%g", cases[i].ratio);
        cr_expect_eq(client_sweep_judge(&pair, cases[i].ratio, 90), cases[i].small, "%g", cases[i].ratio);
    }
    cr_expect_str_eq(client_sweep_word(CLIENT_SWEEP_WORSE), "worse");
    for (size_t i = 0; i < 2; i++) {
        sweep.points[i].result.statuses[503] = 1;
        cr_expect_eq(client_sweep_judge(&pair, 2, 0), CLIENT_SWEEP_UNKNOWN);
        sweep.points[i].result.statuses[503] = 0;
    }
    cr_expect_eq(client_sweep_judge(&pair, 2, 0), CLIENT_SWEEP_BETTER);
    /* Of 100 answers 10 are slower than the 90th percentile, and 9 than the 91st. */
    cr_expect_eq(client_sweep_judge(&pair, 2, 90), CLIENT_SWEEP_WORSE);
    cr_expect_eq(client_sweep_judge(&pair, 2, 91), CLIENT_SWEEP_UNKNOWN);
    for (int i = 0; i < 100; i++)
        client_bins_add(&sweep.points[0].result.latency, 1);
    sweep.points[0].result.statuses[200] += 100;
    const struct client_sweep_pair swapped = {pair.second, pair.first};
    cr_expect_eq(client_sweep_judge(&pair, 2, 91), CLIENT_SWEEP_UNKNOWN);
    cr_expect_eq(client_sweep_judge(&swapped, 2, 91), CLIENT_SWEEP_UNKNOWN);
    for (int i = 0; i < 100; i++)
        client_bins_add(&sweep.points[1].result.latency, 1);
    sweep.points[1].result.statuses[200] += 100;
    cr_expect_eq(client_sweep_judge(&pair, 2, 91), CLIENT_SWEEP_WORSE);
    client_sweep_clear(&sweep);
}

Test(client_sweep, a_comparison)
{
    struct client_sweep first, second;
    struct client_sweep_comparison comparison = {.first = &first, .second = &second};
    char text[4096];
    make(&first, 3, 2);
    make(&second, 4, 1);
    second.points[0].connections = 99;
    client_sweep_match(&comparison);
    cr_assert_eq(comparison.count, 5);
    cr_assert(comparison.pairs[0].first == &first.points[0] && !comparison.pairs[0].second);
    cr_assert(comparison.pairs[1].first == &first.points[1] &&
              comparison.pairs[1].second == &second.points[1]);
    cr_assert(!comparison.pairs[3].first && comparison.pairs[3].second == &second.points[0]);
    cr_assert(!comparison.pairs[4].first && comparison.pairs[4].second == &second.points[3]);
    cr_assert_str_eq(client_sweep_differences(&comparison, text, sizeof text), "");
    cJSON *document = client_sweep_compare_json(&comparison);
    const cJSON *loads = cJSON_GetObjectItem(document, "loads");
    cr_assert_str_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(loads, 0), "in")->valuestring, "first");
    cr_assert_str_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(loads, 4), "in")->valuestring, "second");
    const cJSON *p50 = cJSON_GetObjectItem(cJSON_GetArrayItem(loads, 1), "p50");
    cr_assert_eq(cJSON_GetObjectItem(p50, "ratio")->valuedouble, 0.5);
    cr_assert_str_eq(cJSON_GetObjectItem(p50, "verdict")->valuestring, "better");
    cJSON_Delete(document);
    /* A rate is another load than connections; connections of an open loop are only a limit. */
    second.points[1].rate = 2;
    client_sweep_match(&comparison);
    cr_assert(!comparison.pairs[1].second);
    first.points[1].rate = 2;
    first.points[1].connections = 1000;
    client_sweep_match(&comparison);
    cr_assert(comparison.pairs[1].second == &second.points[1]);
    strcpy(second.model, "other");
    *second.machine = '\0';
    strcpy(second.precision, "fp32");
    second.seconds = 5;
    client_sweep_differences(&comparison, text, sizeof text);
    cr_assert_str_eq(text, "The model differs: net and other.\nThe precision differs: fp16 and fp32.\nThe "
                           "client's machine differs: a machine and "
                           "unknown.\nThe time of each load in seconds differs: 10 and 5.");
    client_sweep_clear(&first);
    client_sweep_clear(&second);
}
