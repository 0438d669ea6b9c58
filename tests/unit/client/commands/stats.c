/* What `convoy stats` makes of a server's statistics: the means, the tables, the page it asks for, and
 * everything that is no statistics. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/commands/stats.h"
#include "client/lib/json.h"

/* Version 1 has run: 3 requests in 6 ms, 8 images in 4 batches, 2 ms on the device. */
#define BATCHES                                                                                              \
    "{\"batch_size\":1,\"compute_input\":{\"count\":3,\"ns\":3000},\"compute_infer\":{\"count\":3,"          \
    "\"ns\":600000},\"compute_output\":{\"count\":3,\"ns\":0}},"                                             \
    "{\"batch_size\":5,\"compute_input\":{\"count\":1,\"ns\":5000},\"compute_infer\":{\"count\":1,"          \
    "\"ns\":1400000},\"compute_output\":{\"count\":1,\"ns\":2000}}"
#define RAN                                                                                                  \
    "{\"name\":\"cat\",\"version\":\"1\",\"last_inference\":1700000000999,\"inference_count\":8,"            \
    "\"execution_count\":4,\"inference_stats\":{\"success\":{\"count\":2,\"ns\":5000000},\"fail\":"          \
    "{\"count\":1,\"ns\":1000000},\"queue\":{\"count\":8,\"ns\":100000},\"compute_input\":{\"count\":4,"     \
    "\"ns\":8000},\"compute_infer\":{\"count\":4,\"ns\":2000000},\"compute_output\":{\"count\":4,"           \
    "\"ns\":2000},\"cache_hit\":{\"count\":0,\"ns\":0}},\"batch_stats\":[" BATCHES "]}"
#define ZERO "{\"count\":0,\"ns\":0}"
#define OTHER_BATCHES                                                                                        \
    "{\"batch_size\":2,\"compute_input\":" ZERO ",\"compute_infer\":{\"count\":7,\"ns\":7000},"              \
    "\"compute_output\":" ZERO "}"
#define COUNTED(name, version, batches)                                                                      \
    "{\"name\":\"" name "\",\"version\":\"" version "\",\"last_inference\":0,\"inference_count\":0,"         \
    "\"execution_count\":0,\"inference_stats\":{\"success\":" ZERO ",\"fail\":" ZERO ",\"queue\":" ZERO      \
    ",\"compute_input\":" ZERO ",\"compute_infer\":" ZERO ",\"compute_output\":" ZERO                        \
    "},\"batch_stats\":[" batches "]}"
#define IDLE(name, version) COUNTED(name, version, "")
#define NO_IMAGES                                                                                            \
    "{\"batch_size\":0,\"compute_input\":" ZERO ",\"compute_infer\":" ZERO ",\"compute_output\":" ZERO "}"
#define STATS(versions) "{\"model_stats\":[" versions "]}\n"

static struct convoy_failure failure;

static int read_text(const char *text, int http_status, struct client_server_stats **stats)
{
    struct client_response response = {text, strlen(text), http_status, 7, "an-id"};
    memset(&failure, 0, sizeof failure);
    return client_server_stats_read(&response, stats, &failure);
}

static struct client_server_stats *good(const char *text)
{
    struct client_server_stats *stats;
    cr_assert_eq(read_text(text, 200, &stats), 0, "%s", failure.message);
    return stats;
}

static bool near(double value, double wanted)
{
    return fabs(value - wanted) <= 1e-12 * fabs(wanted);
}

Test(client_stats, what_the_server_counted)
{
    struct client_server_stats *stats = good(STATS(RAN));
    cr_assert_eq(stats->count, 1);
    const struct client_version_stats *version = &stats->versions[0];
    cr_assert_str_eq(version->name, "cat");
    cr_assert_str_eq(version->version, "1");
    cr_assert_eq(version->last_inference_ms, 1700000000999);
    cr_assert(version->images == 8 && version->batches == 4);
    cr_assert(version->success.count == 2 && version->success.ns == 5e6);
    cr_assert(version->fail.count == 1 && version->fail.ns == 1e6);
    cr_assert(version->queue.count == 8 && version->queue.ns == 1e5);
    cr_assert(version->input.count == 4 && version->input.ns == 8e3);
    cr_assert(version->compute.count == 4 && version->compute.ns == 2e6);
    cr_assert(version->output.count == 4 && version->output.ns == 2e3);
    cr_assert_eq(version->size_count, 2);
    const struct client_batch_stats *batch = &version->sizes[1];
    cr_assert(batch->size == 5 && batch->compute.count == 1 && batch->compute.ns == 1.4e6);
    cr_assert(batch->input.ns == 5e3 && batch->output.ns == 2e3);
    client_server_stats_free(stats);
    client_server_stats_free(NULL);
}

Test(client_stats, means_and_rates)
{
    struct client_server_stats *stats = good(STATS(RAN));
    const struct client_version_stats *version = &stats->versions[0];
    cr_assert(near(client_version_request_us(version), 2000)); /* 6 ms, 3 requests of either kind */
    cr_assert(near(client_version_batch_size(version), 2));
    cr_assert(near(client_duration_mean_us(&version->queue), 12.5));
    cr_assert(near(client_duration_mean_us(&version->compute), 500));
    cr_assert(near(client_batch_rate(&version->sizes[0]), 3 / 600e-6));
    cr_assert(near(client_batch_rate(&version->sizes[1]), 5 / 1400e-6));
    client_server_stats_free(stats);
}

Test(client_stats, nothing_counted_divides_nothing)
{
    struct client_server_stats *stats = good(STATS(IDLE("cat", "1")));
    const struct client_version_stats *version = &stats->versions[0];
    cr_assert(isnan(client_version_request_us(version)));
    cr_assert(isnan(client_version_batch_size(version)));
    cr_assert(isnan(client_duration_mean_us(&version->queue)));
    cr_assert_eq(version->size_count, 0);
    client_server_stats_free(stats);
    struct client_duration never = {.count = 0, .ns = 5};
    cr_assert(isnan(client_duration_mean_us(&never)));
    /* A backend that takes no time, as the null backend does. */
    struct client_batch_stats batch = {.size = 4, .compute = {.count = 9}};
    cr_assert(isnan(client_batch_rate(&batch)));
    cr_assert_eq(client_duration_mean_us(&batch.compute), 0);
    stats = good(STATS());
    cr_assert_eq(stats->count, 0);
    client_server_stats_free(stats);
}

Test(client_stats, versions_are_sorted_and_keep_their_batches)
{
    struct client_server_stats *stats = good(STATS(COUNTED("dog", "1", OTHER_BATCHES) "," RAN "," IDLE(
        "cat", "10") "," IDLE("cat", "9") "," IDLE("ant", "77")));
    static const char *const names[] = {"ant 77", "cat 1", "cat 9", "cat 10", "dog 1"};
    cr_assert_eq(stats->count, 5);
    for (size_t i = 0; i < stats->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s %s", stats->versions[i].name, stats->versions[i].version);
        cr_assert_str_eq(name, names[i]);
        cr_assert_eq(stats->versions[i].size_count, i == 1 ? 2 : i == 4 ? 1 : 0);
    }
    cr_assert_eq(stats->versions[1].sizes[0].compute.ns, 600000);
    cr_assert_eq(stats->versions[1].sizes[1].compute.ns, 1400000);
    cr_assert_eq(stats->versions[4].sizes[0].compute.ns, 7000);
    client_server_stats_free(stats);
}

Test(client_stats, an_error_is_the_servers_sentence)
{
    struct client_server_stats *stats;
    cr_assert_eq(read_text("{\"error\":\"there is no such model\"}", 404, &stats), -EREMOTEIO);
    cr_assert_null(stats);
    cr_assert_str_eq(failure.message, "there is no such model");
    cr_assert_eq(failure.status, 404);
    cr_assert_eq(failure.retry_after_s, 7);
    cr_assert_str_eq(failure.request_id, "an-id");
    cr_assert_eq(read_text(STATS(RAN), 503, &stats), -EPROTO);
    cr_assert_null(stats);
}

static void refused(const char *text)
{
    struct client_server_stats *stats;
    cr_assert_eq(read_text(text, 200, &stats), -EPROTO, "%s", text);
    cr_assert_null(stats);
    cr_assert(strlen(failure.message) > 10);
}

/* Puts everything that is wrong in the place of each member of object, a part of document, and takes the
 * member away: all of it must be refused. Afterwards all is as before. */
static void damage(const cJSON *document, cJSON *object)
{
    static const char *const wrong[] = {"null",  "true", "-1",   "0.5",  "1e300", "18446744073709555712",
                                        "\"1\"", "[1]",  "[{}]", "[[]]", "{}",    NULL};
    for (int left = cJSON_GetArraySize(object); left > 0; left--) {
        cJSON *member = cJSON_DetachItemViaPointer(object, object->child);
        bool read = strcmp(member->string, "cache_hit") != 0;
        for (size_t i = 0; read && i < sizeof wrong / sizeof *wrong; i++) {
            if (cJSON_IsString(member) && wrong[i] && *wrong[i] == '"')
                continue;
            if (wrong[i])
                cJSON_AddItemToObject(object, member->string, cJSON_Parse(wrong[i]));
            char *text = cJSON_PrintUnformatted(document);
            refused(text);
            cJSON_free(text);
            cJSON_DeleteItemFromObjectCaseSensitive(object, member->string);
        }
        /* To the end: after all of them the order is the old one. */
        cJSON_AddItemToObject(object, member->string, member);
        for (cJSON *inner = member->child; cJSON_IsArray(member) && inner; inner = inner->next)
            damage(document, inner);
        if (cJSON_IsObject(member) && read)
            damage(document, member);
    }
}

Test(client_stats, a_damaged_member_is_refused)
{
    cJSON *document = cJSON_Parse(STATS(IDLE("cat", "9") "," RAN));
    char *before = cJSON_PrintUnformatted(document);
    client_server_stats_free(good(before));
    damage(document, document);
    char *after = cJSON_PrintUnformatted(document);
    cr_assert_str_eq(after, before);
    cJSON_free(before);
    cJSON_free(after);
    cJSON_Delete(document);
}

Test(client_stats, the_sentence_names_the_member)
{
    static const struct {
        const char *text, *named;
    } cases[] = {
        {STATS("{\"version\":\"1\"}"), "model_stats"},
        {STATS("{\"name\":\"a\",\"version\":\"1\",\"last_inference\":-1}"), "last_inference"},
        {STATS("{\"name\":\"a\",\"version\":\"1\",\"last_inference\":0,\"inference_count\":1,"
               "\"execution_count\":1,\"inference_stats\":{\"success\":{\"count\":1}}}"),
         "success.ns"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refused(cases[i].text);
        cr_assert_not_null(strstr(failure.message, cases[i].named), "%s", failure.message);
    }
}

Test(client_stats, hostile_ones_are_refused)
{
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "<html>404</html>",
                                        "{\"model_stats\":{}}",
                                        "{\"model_stats\":7}",
                                        "{\"model_stats\":[7]}",
                                        "{\"model_stats\":[[]]}",
                                        "{\"model_stats\":[null]}",
                                        STATS("{\"last_inference\":1e999}"),
                                        STATS(COUNTED("a", "1", NO_IMAGES)),
                                        STATS(RAN) "x",
                                        "{\"models\":[]}"};
    char deep[4001];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refused(texts[i]);
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    refused(deep);
    /* Cut off anywhere before its end it is none, and is never read past its end. */
    const char *whole = STATS(RAN);
    for (size_t length = 0; length + 1 < strlen(whole); length++) {
        char *part = strndup(whole, length);
        refused(part);
        free(part);
    }
}

/* What is printed; the next call overwrites it. */
static const char *print(const char *text, bool colour, bool batches)
{
    static char printed[4096];
    struct client_server_stats *stats = good(text);
    struct client_terminal terminal = {.terminal = colour, .colour = colour};
    FILE *stream = fmemopen(printed, sizeof printed, "w");
    setenv("TZ", "UTC+01", 1); /* an hour west */
    tzset();
    client_stats_print_text(stream, &terminal, stats, batches);
    cr_assert(ftell(stream) < (long)sizeof printed - 1);
    fclose(stream);
    client_server_stats_free(stats);
    return printed;
}

static void prints(const char *text, bool batches, const char *wanted)
{
    const char *printed = print(text, false, batches);
    cr_assert_str_eq(printed, wanted, "%s", printed);
}

Test(client_stats, the_tables)
{
    prints(STATS(IDLE("a-long-name", "12") "," RAN), true,
           "model        version  success  fail  images  batches  batch  request us  queue us  input us  "
           "compute us  output us  last inference\n"
           "a-long-name  12             0     0       0        0      -           -         -         -  "
           "         -          -  never\n"
           "cat          1              2     1       8        4  2.000        2000     12.50     2.000  "
           "     500.0      0.500  2023-11-14T21:13:20\n"
           "\n"
           "model  version  batch  batches  input us  compute us  output us  images/s\n"
           "cat    1            1        3     1.000       200.0      0.000      5000\n"
           "cat    1            5        1     5.000        1400      2.000      3571\n");
    prints(STATS(), true, "No model is READY, and there are no statistics of others.\n");
}

Test(client_stats, colours_for_the_headings_alone)
{
    const char *printed = print(STATS(RAN), true, false);
    cr_assert_eq(strncmp(printed, "\033[1mmodel ", 10), 0, "%s", printed);
    cr_assert_not_null(strstr(printed, "inference\033[0m\ncat "), "%s", printed);
    bool plain = strrchr(printed, '\033') == strstr(printed, "\033[0m");
    cr_assert(plain, "%s", printed);
}

/* The most that 64 bits count, everywhere. */
#define MOST   "18446744073709551615"
#define MUCH   "{\"count\":" MOST ",\"ns\":" MOST "}"
#define LITTLE "{\"count\":" MOST ",\"ns\":1}"
#define HUGE_STATS                                                                                           \
    STATS("{\"name\":\"\\u001b[31m\\n\",\"version\":\"1\",\"last_inference\":" MOST                          \
          ",\"inference_count\":" MOST ",\"execution_count\":" MOST                                          \
          ",\"inference_stats\":{\"success\":" MUCH ",\"fail\":" MUCH ",\"queue\":" MUCH                     \
          ",\"compute_input\":" MUCH ",\"compute_infer\":" MUCH ",\"compute_output\":" MUCH                  \
          "},\"batch_stats\":[{\"batch_size\":" MOST ",\"compute_input\":" LITTLE                            \
          ",\"compute_infer\":" LITTLE ",\"compute_output\":" LITTLE "}]}")

Test(client_stats, huge_numbers_and_hostile_names)
{
    struct client_server_stats *stats = good(HUGE_STATS);
    cr_assert(near(client_version_request_us(&stats->versions[0]), 0.001));
    cr_assert(near(client_version_batch_size(&stats->versions[0]), 1));
    cr_assert(near(client_batch_rate(&stats->versions[0].sizes[0]), 0x1p128 * 1e9));
    client_server_stats_free(stats);
    const char *printed = print(HUGE_STATS, false, true);
    cr_assert_null(strchr(printed, '\033'), "%s", printed);
    /* All digits of 2^64, and a line for each row: the name's own line feed is none. */
    cr_assert_not_null(strstr(printed, "?[31m?  1 "), "%s", printed);
    cr_assert_not_null(strstr(printed, "  18446744073709551616  "), "%s", printed);
    size_t lines = 0;
    for (const char *at = printed; (at = strchr(at, '\n')); at++)
        lines++;
    cr_assert_eq(lines, 5);
    const char *rate = strrchr(printed, ' ') + 1;
    cr_assert_eq(strlen(rate), 48 + 1);
    cr_assert(near(strtod(rate, NULL), 0x1p128 * 1e9), "%s", rate);
}

/* The page that a command line asks for, to be freed; NULL with a sentence in failure. */
static char *path_of(const char *line, struct client_stats_arguments *arguments)
{
    char text[200], *words[16], *rest = NULL;
    int count = 0;
    snprintf(text, sizeof text, "stats|%s", line);
    for (char *at = text; at && count < 15; at = rest) {
        rest = strchr(at, '|');
        if (rest)
            *rest++ = '\0';
        words[count++] = at;
    }
    words[count] = NULL;
    if (*line == '\0')
        words[--count] = NULL;
    memset(&failure, 0, sizeof failure);
    int status = client_stats_arguments(count, words, arguments, &failure);
    cr_assert(status == 0 || status == -EINVAL);
    return status ? NULL : client_stats_path(arguments);
}

Test(client_stats, the_page_that_is_asked_for)
{
    static const struct {
        const char *line, *path;
    } cases[] = {
        {"", "/v2/models/stats"},
        {"--json|--batches", "/v2/models/stats"},
        {"cat", "/v2/models/cat/stats"},
        {"--batches|cat|--version|2", "/v2/models/cat/stats?version=2"},
        {"--model=cat", "/v2/models/cat/stats"},
        {"stats", "/v2/models/stats/stats"},
        {"a/../b?c#d%41 e|--version|1&top=1",
         "/v2/models/a%2F..%2Fb%3Fc%23d%2541%20e/stats?version=1%26top%3D1"},
    };
    struct client_stats_arguments arguments;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = path_of(cases[i].line, &arguments);
        cr_assert_not_null(path, "%s: %s", cases[i].line, failure.message);
        cr_assert_str_eq(path, cases[i].path);
        cr_assert_eq(arguments.batches, strstr(cases[i].line, "--batches") != NULL);
        free(path);
    }
}

Test(client_stats, command_lines_that_are_wrong)
{
    static const struct {
        const char *line, *named;
    } cases[] = {
        {"cat|dog", "'dog'"},
        {"cat|--model|dog", "'cat'"},
        {"--version|1", "--version"},
        {"--model=", "empty"},
        {"..", "'..'"},
        {".", "'.'"},
        {"cat|--version=", "empty"},
        {"--top|3", "--top"},
    };
    struct client_stats_arguments arguments;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = path_of(cases[i].line, &arguments);
        cr_assert_null(path, "%s: %s", cases[i].line, path);
        cr_assert_not_null(strstr(failure.message, cases[i].named), "%s", failure.message);
    }
}
