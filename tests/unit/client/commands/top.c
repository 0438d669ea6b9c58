/* What `convoy top` makes of two readings, and how it fits into a window. */
#include <criterion/criterion.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/commands/top.h"
#include "client/term/screen.h"

static struct convoy_failure failure;

static void read_snapshot(const char *text, struct client_exposition *exposition,
                          struct client_snapshot *snapshot)
{
    cr_assert_eq(client_exposition_read(text, strlen(text), exposition, &failure), 0, "%s", failure.message);
    cr_assert_eq(client_snapshot_read(exposition, snapshot, &failure), 0, "%s", failure.message);
}

static const char first[] =
    "convoyd_build_info{version=\"9.8\"} 1\n"
    "convoyd_requests_total{model=\"a\",route=\"/classify\",status=\"200\"} 10\n"
    "convoyd_requests_total{model=\"a\",route=\"/v2/models/{model}/infer\",status=\"503\"} 2\n"
    "convoyd_requests_total{model=\"\",route=\"/classify\",status=\"404\"} 1\n"
    "convoyd_requests_total{model=\"\",route=\"/metrics\",status=\"200\"} 77\n"
    "convoyd_worker_up{device=\"cuda:10\"} 1\nconvoyd_worker_up{device=\"cuda:9\"} 0\n"
    "convoyd_worker_restarts_total{device=\"cuda:9\",reason=\"signal\"} 3\n"
    "convoyd_worker_restarts_total{device=\"cuda:9\",reason=\"hang\"} 1\n"
    "convoyd_cuda_calls_total{device=\"cuda:9\",call=\"x\"} 500\n"
    "convoyd_device_memory_bytes{device=\"cuda:9\",kind=\"total\"} 1073741824\n"
    "convoyd_model_ready{model=\"b\",version=\"1\"} 0\nconvoyd_model_ready{model=\"a\",version=\"1\"} 1\n"
    "convoyd_slots_in_use 3\n"
    "convoyd_images_total{model=\"b\"} 0\nconvoyd_images_total{model=\"a\"} 40\n"
    "convoyd_queue_images{model=\"a\"} 5\n"
    "convoyd_batches_total{model=\"a\",device=\"cuda:9\"} "
    "4\nconvoyd_batches_total{model=\"a\",device=\"cuda:10\"} 6\n"
    "convoyd_request_seconds_bucket{model=\"a\",le=\"0.001\"} 10\n"
    "convoyd_request_seconds_bucket{model=\"a\",le=\"+Inf\"} 10\nconvoyd_request_seconds_sum{model=\"a\"} "
    "0.005\n";

Test(client_top, a_snapshot)
{
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    double requests, failed;
    read_snapshot(first, &exposition, &snapshot);
    client_snapshot_requests(&snapshot, &requests, &failed);
    cr_assert(requests == 13 && failed == 3, "%g %g", requests, failed);
    cr_assert_str_eq(snapshot.version, "9.8");
    cr_assert_eq(snapshot.slots, 3);
    cr_assert_eq(snapshot.model_count, 2);
    const struct client_snapshot_model *a = &snapshot.models[0];
    cr_assert_str_eq(a->name, "a");
    cr_assert(a->requests == 12 && a->failed == 2 && a->images == 40 && a->batches == 10 && a->queue == 5);
    cr_assert(a->versions.count == 1 && a->versions.entries[0].value == 1);
    cr_assert_eq(client_histogram_total(&a->stages[CLIENT_SNAPSHOT_REQUEST]), 10);
    cr_assert_eq(snapshot.models[1].versions.entries[0].value, 0);
    cr_assert_eq(snapshot.device_count, 2);
    const struct client_snapshot_device *nine = &snapshot.devices[0];
    cr_assert_str_eq(nine->name, "cuda:9");
    cr_assert(nine->known && !nine->up && nine->batches == 4 && nine->restarts.count == 2);
    cr_assert_eq(nine->memory.entries[0].value, 1073741824);
    cr_assert(snapshot.devices[1].up);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
}

static const char healthy[] =
    "convoyd_worker_up{device=\"cuda:0\"} 1\n"
    "convoyd_gpu_utilization_ratio{device=\"cuda:0\",engine=\"kernels\"} 0.93\n"
    "convoyd_gpu_utilization_ratio{device=\"cuda:0\",engine=\"jpeg\"} 0.4\n"
    "convoyd_gpu_memory_bytes{device=\"cuda:0\",kind=\"used\"} 1073741824\n"
    "convoyd_gpu_memory_bytes{device=\"cuda:0\",kind=\"total\"} 85899345920\n"
    "convoyd_gpu_temperature_celsius{device=\"cuda:0\"} 52\n"
    "convoyd_gpu_power_watts{device=\"cuda:0\"} 312.4\nconvoyd_gpu_power_limit_watts{device=\"cuda:0\"} 700\n"
    "convoyd_gpu_ecc_uncorrected_errors_total{device=\"cuda:0\",lifetime=\"volatile\"} 2\n"
    "convoyd_gpu_ecc_uncorrected_errors_total{device=\"cuda:0\",lifetime=\"aggregate\"} 7\n"
    "convoyd_gpu_xid_errors_total{device=\"cuda:0\"} 3\nconvoyd_gpu_last_xid{device=\"cuda:0\"} 31\n"
    "convoyd_gpu_throttled{device=\"cuda:0\",reason=\"power_cap\"} 1\n"
    "convoyd_gpu_throttled{device=\"cuda:0\",reason=\"hw_thermal\"} 0\n"
    "convoyd_gpu_throttled{device=\"cuda:0\",reason=\"sw_thermal\"} 1\n"
    "convoyd_worker_up{device=\"cpu\"} 1\n";

Test(client_top, rates_are_differences)
{
    struct client_exposition before, after;
    struct client_snapshot then, now;
    read_snapshot(first, &before, &then);
    read_snapshot("convoyd_requests_total{model=\"a\",route=\"/classify\",status=\"200\"} 15\n"
                  "convoyd_requests_total{model=\"a\",route=\"/v2/models/{model}/infer\",status=\"503\"} 2\n"
                  "convoyd_requests_total{model=\"\",route=\"/classify\",status=\"404\"} 2\n"
                  "convoyd_images_total{model=\"b\"} 3\nconvoyd_images_total{model=\"a\"} 60\n"
                  "convoyd_queue_images{model=\"a\"} 1\n"
                  "convoyd_cuda_calls_total{device=\"cuda:9\",call=\"x\"} 1\n"
                  "convoyd_batches_total{model=\"a\",device=\"cuda:9\"} 5\n"
                  "convoyd_batches_total{model=\"a\",device=\"cuda:10\"} 6\n"
                  "convoyd_request_seconds_bucket{model=\"a\",le=\"0.001\"} 14\n"
                  "convoyd_request_seconds_bucket{model=\"a\",le=\"+Inf\"} 15\n",
                  &after, &now);
    cr_assert_not(client_snapshot_restarted(&then, &now), "a worker that counts from 0 is no new daemon");
    client_snapshot_subtract(&then, &now);
    cr_assert(now.statuses[200] == 5 && now.statuses[503] == 0 && now.statuses[404] == 1);
    cr_assert(now.models[0].images == 20 && now.models[0].queue == 1 && now.models[0].batches == 1);
    cr_assert(now.models[0].requests == 5 && now.models[0].failed == 0 && now.models[1].images == 3);
    cr_assert_eq(client_histogram_total(&now.models[0].stages[CLIENT_SNAPSHOT_REQUEST]), 5);
    cr_assert_eq(client_snapshot_images(&now), 23);
    cr_assert(now.devices[0].batches == 1 && now.devices[1].batches == 0);
    client_snapshot_clear(&then);
    client_snapshot_clear(&now);
    client_exposition_clear(&before);
    client_exposition_clear(&after);
}

Test(client_top, a_count_that_falls_or_goes_is_another_daemons)
{
    static const char *const others[] = {
        "convoyd_images_total{model=\"a\"} 39\n",
        "convoyd_images_total{model=\"c\"} 1000\n",
        "convoyd_requests_total{model=\"a\",route=\"/classify\",status=\"200\"} 9\n",
        "convoyd_build_info{version=\"9.8\"} 1\n",
    };
    struct client_exposition before, after;
    struct client_snapshot then, now;
    read_snapshot(first, &before, &then);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        read_snapshot(others[i], &after, &now);
        cr_assert(client_snapshot_restarted(&then, &now), "%s", others[i]);
        /* Even where it went unseen, nothing falls below 0. */
        client_snapshot_subtract(&then, &now);
        double requests, failed;
        client_snapshot_requests(&now, &requests, &failed);
        cr_assert(requests >= 0 && failed >= 0 && client_snapshot_images(&now) >= 0);
        client_snapshot_clear(&now);
        client_exposition_clear(&after);
    }
    cr_assert_not(client_snapshot_restarted(&then, &then));
    client_snapshot_clear(&then);
    client_exposition_clear(&before);
}

Test(client_top, a_device_with_a_worker_for_each_model)
{
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    read_snapshot(
        "convoyd_worker_up{device=\"d\",model=\"a\"} 1\nconvoyd_worker_up{device=\"d\",model=\"b\"} 0\n"
        "convoyd_worker_up{device=\"e\",model=\"a\"} 0\n"
        "convoyd_worker_restarts_total{device=\"d\",model=\"a\",reason=\"hang\"} 1\n"
        "convoyd_worker_restarts_total{device=\"d\",model=\"b\",reason=\"hang\"} 2\n"
        "convoyd_device_memory_bytes{device=\"d\",model=\"a\",kind=\"weights\"} 100\n"
        "convoyd_device_memory_bytes{device=\"d\",model=\"b\",kind=\"weights\"} 20\n"
        "convoyd_device_memory_bytes{device=\"d\",model=\"a\",kind=\"total\"} 1000\n"
        "convoyd_device_memory_bytes{device=\"d\",model=\"b\",kind=\"total\"} 1000\n",
        &exposition, &snapshot);
    cr_assert_eq(snapshot.device_count, 2);
    const struct client_snapshot_device *d = &snapshot.devices[0];
    cr_assert(d->known && d->up && snapshot.devices[1].known && !snapshot.devices[1].up);
    cr_assert(d->restarts.count == 1 && d->restarts.entries[0].value == 3);
    cr_assert(d->memory.count == 2 && d->memory.entries[0].value == 120 &&
              d->memory.entries[1].value == 1000);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
}

Test(client_top, values_that_are_none)
{
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    read_snapshot(
        "convoyd_images_total{model=\"a\"} NaN\nconvoyd_images_total{model=\"b\"} -5\n"
        "convoyd_images_total{model=\"c\"} +Inf\nconvoyd_images_total 7\n"
        "convoyd_requests_total{model=\"a\",route=\"/classify\",status=\"-1\"} 3\n"
        "convoyd_requests_total{model=\"a\",route=\"/classify\",status=\"600\"} 3\n"
        "convoyd_requests_total{model=\"a\",route=\"/classify\",status=\"2e2\"} 3\n"
        "convoyd_request_seconds_bucket{model=\"a\",le=\"x\"} 5\n"
        "convoyd_request_seconds_bucket{model=\"a\"} 5\n"
        "convoyd_request_seconds_bucket{model=\"a\",le=\"1\"} 5\n"
        "convoyd_worker_up 1\nconvoyd_ 1\nconvoyd_bucket{model=\"a\"} 2\nconvoyd__sum{model=\"a\"} 2\n",
        &exposition, &snapshot);
    double requests, failed;
    client_snapshot_requests(&snapshot, &requests, &failed);
    cr_assert_eq(requests, 0);
    cr_assert_eq(client_snapshot_images(&snapshot), 0);
    cr_assert_eq(client_histogram_total(&snapshot.models[0].stages[CLIENT_SNAPSHOT_REQUEST]), 0);
    cr_assert_eq(snapshot.device_count, 0);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
    cr_assert_eq(client_exposition_read("go_threads 1\n", 13, &exposition, &failure), 0);
    cr_assert_eq(client_snapshot_read(&exposition, &snapshot, &failure), -EPROTO);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
}

Test(client_top, more_models_and_devices_than_are_kept)
{
    size_t capacity = 1 << 20, size = 0;
    char *text = malloc(capacity);
    for (int i = 0; i < CLIENT_SNAPSHOT_MODELS + 10; i++)
        size += (size_t)snprintf(text + size, capacity - size, "convoyd_images_total{model=\"m%d\"} 1\n", i);
    for (int i = 0; i < CLIENT_SNAPSHOT_DEVICES + 10; i++)
        size += (size_t)snprintf(text + size, capacity - size, "convoyd_worker_up{device=\"d%d\"} 1\n", i);
    for (int i = 0; i < CLIENT_SNAPSHOT_VERSIONS + 10; i++)
        size += (size_t)snprintf(text + size, capacity - size,
                                 "convoyd_model_ready{model=\"m0\",version=\"%d\"} 1\n", i);
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    read_snapshot(text, &exposition, &snapshot);
    cr_assert_eq(snapshot.model_count, CLIENT_SNAPSHOT_MODELS);
    cr_assert_eq(snapshot.device_count, CLIENT_SNAPSHOT_DEVICES);
    cr_assert_eq(snapshot.models[0].versions.count, CLIENT_SNAPSHOT_VERSIONS);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
    free(text);
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The most that is read, its names in the worst order: putting it together must cost about what reading it
 * costs, on any machine and with any sanitizer. Going through the names for each sample costs far more than
 * ten times that.
 */
static void is_cheap(const char *format, unsigned names)
{
    size_t capacity = CLIENT_EXPOSITION_SAMPLES * (size_t)100, size = 0;
    char *text = malloc(capacity);
    for (unsigned i = 0; i < CLIENT_EXPOSITION_SAMPLES; i++)
        size += (size_t)snprintf(text + size, capacity - size, format, i % names);
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    double start = cpu_seconds();
    cr_assert_eq(client_exposition_read(text, size, &exposition, &failure), 0, "%s", failure.message);
    double middle = cpu_seconds();
    cr_assert_eq(client_snapshot_read(&exposition, &snapshot, &failure), 0, "%s", failure.message);
    double end = cpu_seconds();
    cr_log_info("read in %.3f s, put together in %.3f s", middle - start, end - middle);
    cr_assert_eq(exposition.count, CLIENT_EXPOSITION_SAMPLES);
    cr_assert_lt(end - middle, 8 * (middle - start), "read in %.3f s, put together in %.3f s", middle - start,
                 end - middle);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
    free(text);
}

Test(client_top, a_hostile_text_costs_little)
{
    is_cheap("convoyd_images_total{model=\"m%06u\"} 1\n", 3 * CLIENT_SNAPSHOT_MODELS);
    is_cheap("convoyd_images_total{model=\"m%06u\"} 1\n", CLIENT_SNAPSHOT_MODELS);
    is_cheap("convoyd_worker_up{device=\"d%06u\"} 1\n", 3 * CLIENT_SNAPSHOT_DEVICES);
}

Test(client_top, names_in_any_order)
{
    /* 37 and 100 have no common divisor: every name comes twice, from all over the place. */
    char text[8192];
    size_t size = 0;
    for (int i = 0; i < 200; i++)
        size +=
            (size_t)snprintf(text + size, sizeof text - size, "convoyd_images_total{model=\"m%02d\"} %d\n",
                             i * 37 % 100, i * 37 % 100 + 1);
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    read_snapshot(text, &exposition, &snapshot);
    cr_assert_eq(snapshot.model_count, 100);
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "m%02d", i);
        cr_assert_str_eq(snapshot.models[i].name, text);
        cr_assert_eq(snapshot.models[i].images, 2 * (i + 1));
    }
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
}

static char *fitted(const char *text, int rows, int columns)
{
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    client_screen_fit(stream, text, rows, columns);
    fclose(stream);
    return out;
}

static void fits(const char *text, int rows, int columns, const char *wanted)
{
    char *out = fitted(text, rows, columns);
    cr_assert_str_eq(out, wanted, "'%s'", out);
    free(out);
}

Test(client_top, lines_are_cut_to_the_window)
{
    fits("ab\ncd\n", 3, 10, "\033[H\033[Kab\n\033[Kcd\n\033[J");
    fits("ab\ncd\n", 2, 10, "\033[H\033[Kab\n\033[Kcd");
    fits("abcdef\n", 2, 3, "\033[H\033[Kabc\n\033[J");
    fits("\033[1mabc\033[0md\n", 1, 2, "\033[H\033[K\033[1mab\033[0m");
    fits("", 2, 3, "\033[H\033[J");
    fits("1\n2\n3\n4\n", 3, 80, "\033[H\033[K1\n\033[K2\n\033[K(2 more lines: the window is too low)");
    fits("1\n2\n", 1, 5, "\033[H\033[K(2 mo");
    fits("\033[", 1, 5, "\033[H\033[K\033[");
    fits("a\xff\n", 1, 5, "\033[H\033[Ka?");
}

Test(client_top, characters_of_several_bytes_and_cells)
{
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        cr_skip("there is no C.UTF-8 locale");
    fits("\xC3\xA4\xC3\xB6\xC3\xBC\n", 1, 2, "\033[H\033[K\xC3\xA4\xC3\xB6");
    /* A character two cells wide does not fit into one. */
    fits("a\xE7\x8C\xAB"
         "b\n",
         1, 2, "\033[H\033[Ka");
    fits("a\xE7\x8C\xAB"
         "b\n",
         1, 3, "\033[H\033[Ka\xE7\x8C\xAB");
    fits("a\xE7\x8C\n", 1, 9, "\033[H\033[Ka??");
}

Test(client_top, the_text_says_what_is_known)
{
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    struct client_terminal plain = {0};
    char *out = NULL;
    size_t size;
    read_snapshot(first, &exposition, &snapshot);
    struct client_top_view view = {.url = "http://x\033[31m", .between = &snapshot, .seconds = 2};
    FILE *stream = open_memstream(&out, &size);
    client_top_print_text(stream, &plain, &view, 80);
    fclose(stream);
    cr_assert(
        strstr(out,
               "requests 6.5/s  images 20.0/s  not 200: 1.5/s  slots 3  models 1/2 ready  workers 1/2 up"),
        "%s", out);
    cr_assert(strstr(out, "4 restarts (signal 3, hang 1), total 1.0 GiB"), "%s", out);
    cr_assert(strstr(out, "answers  200: 5.0/s  404: 0.5/s  503: 1.0/s"), "%s", out);
    cr_assert_null(strchr(out, '\033'));
    free(out);
    /* The first reading has nothing to compare with. */
    view.seconds = 0;
    stream = open_memstream(&out, &size);
    client_top_print_text(stream, &plain, &view, 80);
    fclose(stream);
    cr_assert(strstr(out, "requests -/s  images -/s"), "%s", out);
    free(out);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
}

Test(client_top, the_health_of_a_gpu)
{
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    struct client_terminal plain = {0};
    char *out = NULL;
    size_t size;
    read_snapshot(healthy, &exposition, &snapshot);
    struct client_top_view view = {.url = "http://x", .between = &snapshot, .seconds = 2};
    FILE *stream = open_memstream(&out, &size);
    client_top_print_text(stream, &plain, &view, 80);
    fclose(stream);
    cr_assert(strstr(out, " GPU  kernels 93 %  jpeg 40 %  1.0 GiB of 80.0 GiB  52 C  312 W of 700 W"
                          "  throttled: power_cap, sw_thermal  ECC errors 2  Xids 3 (last 31)\n"),
              "%s", out);
    cr_assert_null(strstr(strstr(out, " GPU ") + 1, " GPU "), "the CPU has none: %s", out);
    free(out);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
}

/* The line of JSON of a reading, compared with nothing before it. */
static char *json_of(const char *text)
{
    struct client_exposition exposition;
    struct client_snapshot snapshot;
    char *out = NULL;
    size_t size;
    read_snapshot(text, &exposition, &snapshot);
    struct client_top_view view = {.url = "http://x", .between = &snapshot, .seconds = 2};
    FILE *stream = open_memstream(&out, &size);
    client_top_print_json(stream, &view);
    fclose(stream);
    client_snapshot_clear(&snapshot);
    client_exposition_clear(&exposition);
    return out;
}

Test(client_top, a_percentile_beyond_the_last_bound_is_null_in_json)
{
    char *out = json_of("convoyd_request_seconds_bucket{model=\"a\",le=\"10\"} 95\n"
                        "convoyd_request_seconds_bucket{model=\"a\",le=\"+Inf\"} 100\n"
                        "convoyd_request_seconds_sum{model=\"a\"} 200\n");
    cr_assert(strstr(out, "\"request\":{\"mean\":2000,\"p50\":5263.15"), "%s", out);
    cr_assert(strstr(out, ",\"p99\":null},\"decode\":{\"mean\":null,\"p50\":null,"), "%s", out);
    free(out);
}

Test(client_top, the_health_of_a_gpu_in_json)
{
    char *out = json_of(healthy);
    cr_assert(strstr(out,
                     "\"gpu\":{\"utilization\":{\"kernels\":0.93,\"jpeg\":0.4},"
                     "\"memory_bytes\":{\"used\":1073741824,\"total\":85899345920},"
                     "\"ecc_uncorrected_errors\":{\"volatile\":2,\"aggregate\":7},"
                     "\"throttled\":[\"power_cap\",\"sw_thermal\"],\"temperature_celsius\":52,"
                     "\"power_watts\":312.4,\"power_limit_watts\":700,\"xid_errors\":3,\"last_xid\":31}"),
              "%s", out);
    cr_assert_null(strstr(strstr(out, "\"gpu\"") + 1, "\"gpu\""), "the CPU has none: %s", out);
    free(out);
}

Test(client_top, arguments)
{
    struct client_top_arguments arguments;
    char *plain[] = {"top", NULL}, *all[] = {"top", "--interval", "0.5", "--count=3", "--json", NULL};
    cr_assert_eq(client_top_arguments(1, plain, &arguments, &failure), 0);
    cr_assert(arguments.interval == 1 && arguments.count == 0 && !arguments.common.json);
    cr_assert_eq(client_top_arguments(5, all, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.interval == 0.5 && arguments.count == 3 && arguments.common.json);
    static const char *const wrong[][2] = {
        {"--interval", "0"}, {"--interval", "1s"}, {"--count", "0"}, {"--model", "x"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *argv[] = {"top", (char *)wrong[i][0], (char *)wrong[i][1], NULL};
        cr_assert_eq(client_top_arguments(3, argv, &arguments, &failure), -EINVAL, "%s", wrong[i][0]);
    }
    char *operand[] = {"top", "x", NULL};
    cr_assert_eq(client_top_arguments(2, operand, &arguments, &failure), -EINVAL);
}
