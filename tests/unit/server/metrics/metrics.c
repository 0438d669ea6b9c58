#include "server/metrics/metrics.h"
#include "server/metrics/metrics_internal.h"
#include "server/metrics/metrics_totals.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct convoy_metrics *metrics;
static char *text;

static void open_metrics(void)
{
    metrics = convoy_metrics_new();
    cr_assert_not_null(metrics);
}

static void close_metrics(void)
{
    free(text);
    convoy_metrics_free(metrics);
}

TestSuite(metrics, .init = open_metrics, .fini = close_metrics);

static const char *render(void)
{
    size_t length = 0;
    free(text);
    text = convoy_metrics_render(metrics, &length);
    cr_assert_not_null(text);
    cr_assert_eq(length, strlen(text));
    cr_assert_eq(text[length - 1], '\n');
    return text;
}

/* The line stands in the text, whole. */
static bool has_line(const char *line)
{
    size_t length = strlen(line);
    for (const char *at = strstr(text, line); at != NULL; at = strstr(at + 1, line)) {
        if ((at == text || at[-1] == '\n') && at[length] == '\n')
            return true;
    }
    return false;
}

#define assert_line(line) cr_assert(has_line(line), "the line %s is missing in:\n%s", (line), text)

/* Sets every metric there is. */
static void fill(void)
{
    struct convoy_model_metrics *model = convoy_metrics_model(metrics, "cifar10");
    struct convoy_device_metrics *device = convoy_metrics_device(metrics, "cuda:0");
    for (int stage = 0; stage < CONVOY_STAGES; stage++)
        convoy_metrics_observe(model, (enum convoy_stage)stage, 1234u * (unsigned)(stage + 1));
    convoy_metrics_batch(model, device, 8);
    convoy_metrics_retried(model, 3);
    convoy_metrics_key(metrics, "camera-7", "passed");
    convoy_metrics_front_restarts(metrics, "signal", 2);
    convoy_metrics_spared(model, 4);
    convoy_metrics_decoded(model, 11, 22);
    convoy_metrics_decoded(model, 1, 0);
    convoy_metrics_undecoded(model, 6);
    convoy_metrics_queue_add(model, 7);
    convoy_metrics_queue_add(model, -2);
    convoy_metrics_slots_in_use(metrics, 2);
    struct convoy_cache_metrics *cache = convoy_metrics_cache(metrics);
    convoy_metrics_cache_inserted(cache, 3000);
    convoy_metrics_cache_inserted(cache, 200);
    convoy_metrics_cache_inserted(cache, 10);
    convoy_metrics_cache_evicted(cache, 200);
    convoy_metrics_cache_lookup(model, true);
    for (int i = 0; i < 4; i++)
        convoy_metrics_cache_lookup(model, false);
    convoy_metrics_request(metrics, "cifar10", "/classify", 200);
    convoy_metrics_request(metrics, "", "/v2/models/{model}/classify", 404);
    convoy_metrics_connections_add(metrics, 1);
    convoy_metrics_connections_add(metrics, 1);
    convoy_metrics_connections_add(metrics, -1);
    convoy_metrics_connection_refused(metrics);
    convoy_metrics_tls_handshake(metrics, false);
    convoy_metrics_tls_handshake(metrics, true);
    convoy_metrics_tls_handshake(metrics, true);
    convoy_metrics_tls_failure(metrics, "version", 0);
    convoy_metrics_tls_failure(metrics, "version", 1);
    convoy_metrics_tls_failure(metrics, "closed", 0);
    convoy_metrics_traces(metrics, "dropped", 0);
    convoy_metrics_traces(metrics, "exported", 256);
    convoy_metrics_tls_expiry(metrics, 1795660358);
    convoy_metrics_received(metrics, 1000);
    convoy_metrics_sent(metrics, 20);
    convoy_metrics_worker_process(device, getpid());
    convoy_metrics_worker_up(device, true);
    convoy_metrics_worker_restart(device, "signal");
    convoy_metrics_device_check(device, "weights", true);
    convoy_metrics_device_check(device, "canary", false);
    convoy_metrics_cuda_calls(device, "cudaGraphLaunch", 77);
    convoy_metrics_device_memory(device, "free", 150000000000);
    static const struct convoy_device_health health = {.number = 1}; /* every value is known */
    convoy_metrics_device_health(device, &health);
    convoy_metrics_device_xids(device, 1);
    convoy_metrics_weight_bytes(metrics, "cifar10", "1", "cuda:0", 52000);
    convoy_metrics_model_ready(metrics, "cifar10", "1", true);
}

/* Every family of the interface with its type and its labels ("le" apart), sorted by name; it is what
 * dashboards and alerts rely on. */
static const char *const families[][3] = {
    {"convoyd_batch_size", "histogram", "model"},
    {"convoyd_batches_total", "counter", "model,device"},
    {"convoyd_build_info", "gauge", "version"},
    {"convoyd_cache_bytes", "gauge", ""},
    {"convoyd_cache_entries", "gauge", ""},
    {"convoyd_cache_evictions_total", "counter", ""},
    {"convoyd_cache_hits_total", "counter", "model"},
    {"convoyd_cache_misses_total", "counter", "model"},
    {"convoyd_compute_seconds", "histogram", "model"},
    {"convoyd_connections", "gauge", ""},
    {"convoyd_cuda_calls_total", "counter", "device,call"},
    {"convoyd_decode_seconds", "histogram", "model"},
    {"convoyd_wait_seconds", "histogram", "model"},
    {"convoyd_device_memory_bytes", "gauge", "device,kind"},
    {"convoyd_front_restarts_total", "counter", "reason"},
    {"convoyd_gpu_ecc_uncorrected_errors_total", "counter", "device,lifetime"},
    {"convoyd_gpu_last_xid", "gauge", "device"},
    {"convoyd_gpu_memory_bytes", "gauge", "device,kind"},
    {"convoyd_gpu_power_limit_watts", "gauge", "device"},
    {"convoyd_gpu_power_watts", "gauge", "device"},
    {"convoyd_gpu_temperature_celsius", "gauge", "device"},
    {"convoyd_gpu_throttled", "gauge", "device,reason"},
    {"convoyd_gpu_utilization_ratio", "gauge", "device,engine"},
    {"convoyd_gpu_xid_errors_total", "counter", "device"},
    {"convoyd_images_total", "counter", "model"},
    {"convoyd_input_seconds", "histogram", "model"},
    {"convoyd_model_ready", "gauge", "model,version"},
    {"convoyd_output_seconds", "histogram", "model"},
    {"convoyd_queue_images", "gauge", "model"},
    {"convoyd_queue_seconds", "histogram", "model"},
    {"convoyd_received_bytes_total", "counter", ""},
    {"convoyd_refused_connections_total", "counter", ""},
    {"convoyd_request_seconds", "histogram", "model"},
    {"convoyd_requests_total", "counter", "model,route,status"},
    {"convoyd_key_requests_total", "counter", "key,outcome"},
    {"convoyd_retried_images_total", "counter", "model"},
    {"convoyd_sent_bytes_total", "counter", ""},
    {"convoyd_tls_handshakes_total", "counter", "kind"},
    {"convoyd_tls_handshake_failures_total", "counter", "reason"},
    {"convoyd_tls_certificate_expiry_timestamp_seconds", "gauge", ""},
    {"convoyd_traces_total", "counter", "outcome"},
    {"convoyd_spared_images_total", "counter", "model"},
    {"convoyd_decoded_images_total", "counter", "model,decoder"},
    {"convoyd_undecoded_images_total", "counter", "model"},
    {"convoyd_slots_in_use", "gauge", ""},
    {"convoyd_weight_bytes", "gauge", "model,version,device"},
    {"convoyd_device_checks_total", "counter", "device,check,result"},
    {"convoyd_worker_cpu_seconds_total", "counter", "device"},
    {"convoyd_worker_max_fds", "gauge", "device"},
    {"convoyd_worker_open_fds", "gauge", "device"},
    {"convoyd_worker_resident_memory_bytes", "gauge", "device"},
    {"convoyd_worker_restarts_total", "counter", "device,reason"},
    {"convoyd_worker_start_time_seconds", "gauge", "device"},
    {"convoyd_worker_up", "gauge", "device"},
    {"convoyd_worker_virtual_memory_bytes", "gauge", "device"},
    {"process_cpu_seconds_total", "counter", ""},
    {"process_max_fds", "gauge", ""},
    {"process_open_fds", "gauge", ""},
    {"process_resident_memory_bytes", "gauge", ""},
    {"process_start_time_seconds", "gauge", ""},
    {"process_virtual_memory_bytes", "gauge", ""},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* "a,b" of {a="1",b="2",le="3"}; values hold no '=' or ',' here. */
static void label_names(const char *line, char *names, size_t capacity)
{
    names[0] = '\0';
    const char *at = strchr(line, '{');
    const char *end = strchr(line, '\n');
    while (at != NULL && at < end && *at != '}' && *at != '\0') {
        const char *equals = strchr(at, '=');
        size_t length = (size_t)(equals - at - 1);
        if (strncmp(at + 1, "le", length) != 0)
            snprintf(names + strlen(names), capacity - strlen(names), "%s%.*s", names[0] ? "," : "",
                     (int)length, at + 1);
        at = strchr(equals + 2, '"') + 1;
    }
}

/* Lines that begin with start. */
static unsigned count_of(const char *start)
{
    unsigned count = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1)
        count += strncmp(line, start, strlen(start)) == 0;
    return count;
}

Test(metrics, the_names_types_and_labels_are_those_of_the_interface)
{
    fill();
    render();
    cr_assert_eq(count_of("# TYPE "), FAMILIES);
    cr_assert_eq(count_of("# HELP "), FAMILIES);
    for (int i = 0; i < FAMILIES; i++) {
        char type[120], names[120];
        snprintf(type, sizeof type, "# TYPE %s %s\n", families[i][0], families[i][1]);
        const char *at = strstr(text, type);
        cr_assert_not_null(at, "%s", type);
        at += strlen(type); /* the first sample */
        cr_assert_eq(strncmp(at, families[i][0], strlen(families[i][0])), 0);
        label_names(at, names, sizeof names);
        cr_assert_str_eq(names, families[i][2], "%s", families[i][0]);
    }
    /* Every sample belongs to a family above. */
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (*line == '#')
            continue;
        bool known = false;
        for (int i = 0; i < FAMILIES && !known; i++) {
            size_t length = strlen(families[i][0]);
            bool histogram = families[i][1][0] == 'h';
            const char *rest = line + length;
            known = strncmp(line, families[i][0], length) == 0 &&
                    (histogram ? strncmp(rest, "_bucket{", 8) == 0 || strncmp(rest, "_sum{", 5) == 0 ||
                                     strncmp(rest, "_count{", 7) == 0
                               : *rest == '{' || *rest == ' ');
        }
        cr_assert(known, "%.60s", line);
    }
}

Test(metrics, values)
{
    fill();
    render();
    assert_line("convoyd_build_info{version=\"" CONVOY_VERSION "\"} 1");
    assert_line("convoyd_images_total{model=\"cifar10\"} 8");
    assert_line("convoyd_batches_total{model=\"cifar10\",device=\"cuda:0\"} 1");
    assert_line("convoyd_batch_size_bucket{model=\"cifar10\",le=\"4\"} 0");
    assert_line("convoyd_batch_size_bucket{model=\"cifar10\",le=\"8\"} 1");
    assert_line("convoyd_batch_size_sum{model=\"cifar10\"} 8");
    assert_line("convoyd_batch_size_count{model=\"cifar10\"} 1");
    assert_line("convoyd_retried_images_total{model=\"cifar10\"} 3");
    assert_line("convoyd_spared_images_total{model=\"cifar10\"} 4");
    assert_line("convoyd_decoded_images_total{model=\"cifar10\",decoder=\"cpu\"} 12");
    assert_line("convoyd_decoded_images_total{model=\"cifar10\",decoder=\"gpu\"} 22");
    assert_line("convoyd_undecoded_images_total{model=\"cifar10\"} 6");
    assert_line("convoyd_queue_images{model=\"cifar10\"} 5");
    assert_line("convoyd_slots_in_use 2");
    assert_line("convoyd_connections 1");
    assert_line("convoyd_refused_connections_total 1");
    assert_line("convoyd_traces_total{outcome=\"dropped\"} 0");
    assert_line("convoyd_traces_total{outcome=\"exported\"} 256");
    assert_line("convoyd_tls_handshakes_total{kind=\"full\"} 1");
    assert_line("convoyd_tls_handshakes_total{kind=\"resumed\"} 2");
    assert_line("convoyd_tls_handshake_failures_total{reason=\"version\"} 1");
    assert_line("convoyd_tls_handshake_failures_total{reason=\"closed\"} 0");
    assert_line("convoyd_tls_certificate_expiry_timestamp_seconds 1795660358");
    assert_line("convoyd_received_bytes_total 1000");
    assert_line("convoyd_sent_bytes_total 20");
    assert_line("convoyd_requests_total{model=\"cifar10\",route=\"/classify\",status=\"200\"} 1");
    assert_line("convoyd_requests_total{model=\"\",route=\"/v2/models/{model}/classify\",status=\"404\"} 1");
    assert_line("convoyd_key_requests_total{key=\"camera-7\",outcome=\"passed\"} 1");
    assert_line("convoyd_front_restarts_total{reason=\"signal\"} 2");
    assert_line("convoyd_worker_up{device=\"cuda:0\"} 1");
    assert_line("convoyd_worker_restarts_total{device=\"cuda:0\",reason=\"signal\"} 1");
    assert_line("convoyd_device_checks_total{device=\"cuda:0\",check=\"weights\",result=\"same\"} 1");
    assert_line("convoyd_device_checks_total{device=\"cuda:0\",check=\"canary\",result=\"differs\"} 1");
    assert_line("convoyd_cuda_calls_total{device=\"cuda:0\",call=\"cudaGraphLaunch\"} 77");
    assert_line("convoyd_device_memory_bytes{device=\"cuda:0\",kind=\"free\"} 150000000000");
    assert_line("convoyd_weight_bytes{model=\"cifar10\",version=\"1\",device=\"cuda:0\"} 52000");
    assert_line("convoyd_model_ready{model=\"cifar10\",version=\"1\"} 1");
    static const char *const stages[] = {"decode", "wait", "queue", "input", "compute", "output", "request"};
    static const char *const sums[] = {"0.001234", "0.002468", "0.003702", "0.004936",
                                       "0.00617",  "0.007404", "0.008638"};
    for (int i = 0; i < CONVOY_STAGES; i++) {
        char line[120];
        snprintf(line, sizeof line, "convoyd_%s_seconds_sum{model=\"cifar10\"} %s", stages[i], sums[i]);
        assert_line(line);
    }
    fill(); /* what is counted adds up, gauges are replaced */
    convoy_metrics_worker_up(convoy_metrics_device(metrics, "cuda:0"), false);
    render();
    assert_line("convoyd_images_total{model=\"cifar10\"} 16");
    assert_line("convoyd_requests_total{model=\"cifar10\",route=\"/classify\",status=\"200\"} 2");
    assert_line("convoyd_worker_restarts_total{device=\"cuda:0\",reason=\"signal\"} 2");
    assert_line("convoyd_cuda_calls_total{device=\"cuda:0\",call=\"cudaGraphLaunch\"} 77");
    assert_line("convoyd_queue_images{model=\"cifar10\"} 10");
    assert_line("convoyd_worker_up{device=\"cuda:0\"} 0");
}

Test(metrics, a_worker_of_one_model_has_series_of_its_own)
{
    struct convoy_device_metrics *a = convoy_metrics_worker(metrics, "cuda:0", "a");
    struct convoy_device_metrics *b = convoy_metrics_worker(metrics, "cuda:0", "b");
    struct convoy_device_metrics *device = convoy_metrics_device(metrics, "cuda:0");
    cr_assert(a != b && a != device && device != NULL);
    cr_assert_eq(convoy_metrics_worker(metrics, "cuda:0", "a"), a);
    cr_assert_eq(convoy_metrics_worker(metrics, "cuda:0", ""), device);
    convoy_metrics_batch(convoy_metrics_model(metrics, "a"), device, 1);
    convoy_metrics_worker_up(a, false);
    convoy_metrics_worker_up(b, true);
    for (char name[2] = "c"; name[0] <= 'z'; name[0]++) /* the device is up when one is, in whatever order */
        convoy_metrics_worker_up(convoy_metrics_worker(metrics, "cuda:0", name), false);
    convoy_metrics_worker_process(a, getpid());
    convoy_metrics_worker_restart(a, "signal");
    convoy_metrics_device_memory(a, "total", 5);
    convoy_metrics_device_check(b, "canary", true);
    render();
    assert_line("convoyd_worker_up{device=\"cuda:0\",model=\"a\"} 0");
    assert_line("convoyd_worker_up{device=\"cuda:0\",model=\"b\"} 1");
    assert_line("convoyd_worker_restarts_total{device=\"cuda:0\",model=\"a\",reason=\"signal\"} 1");
    assert_line(
        "convoyd_device_checks_total{device=\"cuda:0\",model=\"b\",check=\"canary\",result=\"same\"} 1");
    assert_line("convoyd_device_memory_bytes{device=\"cuda:0\",model=\"a\",kind=\"total\"} 5");
    assert_line("convoyd_batches_total{model=\"a\",device=\"cuda:0\"} 1");
    cr_assert_not_null(strstr(text, "convoyd_worker_resident_memory_bytes{device=\"cuda:0\",model=\"a\"} "));
    cr_assert_null(strstr(text, "convoyd_worker_resident_memory_bytes{device=\"cuda:0\",model=\"b\"} "));

    struct convoy_json_writer json = {0};
    convoy_json_write_begin_object(&json);
    convoy_metrics_totals_write(metrics, (const char *const[]){NULL}, &json);
    convoy_json_write_end_object(&json);
    char *totals = strndup(json.bytes, json.length);
    convoy_json_writer_free(&json);
    cr_assert_not_null(
        strstr(totals,
               "\"devices\":[{\"device\":\"cuda:0\",\"up\":true,\"restarts\":1,\"batches\":1,\"gpu\":{}}]"),
        "%s", totals);
    free(totals);

    /* Its model is not served any more: no series says that a worker is down. Counters stay. */
    convoy_metrics_worker_gone(a);
    convoy_metrics_worker_gone(NULL);
    render();
    cr_assert_null(strstr(text, "convoyd_worker_up{device=\"cuda:0\",model=\"a\"}"));
    cr_assert_null(strstr(text, "convoyd_device_memory_bytes{device=\"cuda:0\",model=\"a\""));
    assert_line("convoyd_worker_up{device=\"cuda:0\",model=\"b\"} 1");
    assert_line("convoyd_worker_restarts_total{device=\"cuda:0\",model=\"a\",reason=\"signal\"} 1");
    convoy_metrics_worker_up(a, true);
    render();
    assert_line("convoyd_worker_up{device=\"cuda:0\",model=\"a\"} 1");
}

/* Of each stage, also of those that are kept in parts by thread. */
Test(metrics, observations_that_are_counted_together_are_as_if_counted_one_by_one)
{
    static const uint64_t times[] = {0, 50, 51, 700, 700, 10000001};
    const size_t count = sizeof times / sizeof times[0];
    struct convoy_model_metrics *one = convoy_metrics_model(metrics, "one");
    struct convoy_model_metrics *all = convoy_metrics_model(metrics, "all");
    for (unsigned stage = 0; stage < CONVOY_STAGES; stage++) {
        struct convoy_observations observations = {0};
        convoy_metrics_observe_all(all, (enum convoy_stage)stage, &observations);
        for (size_t i = 0; i < count; i++) {
            convoy_metrics_observe(one, (enum convoy_stage)stage, times[i]);
            convoy_observations_add(&observations, times[i]);
        }
        cr_assert_eq(observations.times, count);
        convoy_metrics_observe_all(all, (enum convoy_stage)stage, &observations);
        convoy_metrics_observe_all(NULL, (enum convoy_stage)stage, &observations);
        struct convoy_histogram wanted, got;
        convoy_metrics_sum_stage(one, (enum convoy_stage)stage, &wanted);
        convoy_metrics_sum_stage(all, (enum convoy_stage)stage, &got);
        for (unsigned i = 0; i <= CONVOY_TIME_BUCKETS; i++)
            cr_assert_eq(got.counts[i], wanted.counts[i], "stage %u, bucket %u", stage, i);
        cr_assert_eq(got.sum, wanted.sum);
        cr_assert_eq(got.sum, 10001502);
    }
}

static void *queue_one(void *context)
{
    convoy_metrics_queue_add(context, 1);
    return NULL;
}

static void *count_requests(void *context)
{
    convoy_metrics_observe(context, CONVOY_STAGE_REQUEST, 100);
    convoy_metrics_observe(context, CONVOY_STAGE_WAIT, 10);
    convoy_metrics_observe(context, CONVOY_STAGE_DECODE, 1);
    convoy_metrics_decoded(context, 2, 3);
    convoy_metrics_received(metrics, 1000);
    convoy_metrics_sent(metrics, 10);
    return NULL;
}

Test(metrics, what_threads_count_in_parts_is_shown_as_one_sum)
{
    struct convoy_model_metrics *model = convoy_metrics_model(metrics, "m");
    pthread_t thread;
    for (unsigned i = 0; i < 2 * CONVOY_THREAD_PARTS; i++) {
        cr_assert_eq(
            pthread_create(&thread, NULL, i < CONVOY_THREAD_PARTS ? queue_one : count_requests, model), 0);
        pthread_join(thread, NULL);
    }
    convoy_metrics_queue_add(model, 2 - (int64_t)CONVOY_THREAD_PARTS);
    render();
    assert_line("convoyd_queue_images{model=\"m\"} 2");
    assert_line("convoyd_request_seconds_count{model=\"m\"} 32");
    assert_line("convoyd_request_seconds_sum{model=\"m\"} 0.0032");
    assert_line("convoyd_wait_seconds_sum{model=\"m\"} 0.00032");
    assert_line("convoyd_decode_seconds_sum{model=\"m\"} 0.000032");
    assert_line("convoyd_decoded_images_total{model=\"m\",decoder=\"cpu\"} 64");
    assert_line("convoyd_decoded_images_total{model=\"m\",decoder=\"gpu\"} 96");
    assert_line("convoyd_received_bytes_total 32000");
    assert_line("convoyd_sent_bytes_total 320");
    struct convoy_json_writer json = {0};
    convoy_json_write_begin_object(&json);
    convoy_metrics_totals_write(metrics, (const char *const[]){NULL}, &json);
    convoy_json_write_end_object(&json);
    char *totals = strndup(json.bytes, json.length);
    convoy_json_writer_free(&json);
    cr_assert_not_null(strstr(totals, "\"queue_images\":2,"), "%s", totals);
    cr_assert_not_null(strstr(totals, "\"counts\":[0,32,0,"), "%s", totals);
    free(totals);
    /* While an image's arrival is not seen yet that it left may be. */
    convoy_metrics_queue_add(model, -3);
    render();
    assert_line("convoyd_queue_images{model=\"m\"} 0");
}

Test(metrics, bounds_of_buckets_belong_to_them)
{
    static const char *const bounds[] = {"0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025",
                                         "0.005",   "0.01",   "0.025",   "0.05",   "0.1",   "0.25",
                                         "0.5",     "1",      "2.5",     "5",      "10"};
    struct convoy_model_metrics *model = convoy_metrics_model(metrics, "m");
    for (unsigned i = 0; i < CONVOY_TIME_BUCKETS; i++) {
        convoy_metrics_observe(model, CONVOY_STAGE_QUEUE, convoy_time_bounds[i]);
        convoy_metrics_observe(model, CONVOY_STAGE_QUEUE, convoy_time_bounds[i] + 1);
    }
    for (uint32_t rows = 1; rows <= 1024; rows *= 2)
        convoy_metrics_batch(model, NULL, rows);
    convoy_metrics_batch(model, NULL, 1025);
    render();
    char line[120];
    for (unsigned i = 0; i < CONVOY_TIME_BUCKETS; i++) {
        /* The bound itself is inside (le), the microsecond above it is not. */
        snprintf(line, sizeof line, "convoyd_queue_seconds_bucket{model=\"m\",le=\"%s\"} %u", bounds[i],
                 2 * i + 1);
        assert_line(line);
    }
    assert_line("convoyd_queue_seconds_bucket{model=\"m\",le=\"+Inf\"} 34");
    assert_line("convoyd_queue_seconds_count{model=\"m\"} 34");
    for (unsigned i = 0; i <= 10; i++) {
        snprintf(line, sizeof line, "convoyd_batch_size_bucket{model=\"m\",le=\"%u\"} %u", 1u << i, i + 1);
        assert_line(line);
    }
    assert_line("convoyd_batch_size_bucket{model=\"m\",le=\"+Inf\"} 12");
}

/* A worker that died, and was not waited for yet. */
Test(metrics, what_the_kernel_does_not_tell_of_a_worker_is_absent)
{
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    convoy_metrics_worker_process(convoy_metrics_device(metrics, "cpu"), pid);
    render();
    cr_expect_eq(count_of("convoyd_worker_start_time_seconds{device=\"cpu\"} "), 1);
    cr_expect_eq(count_of("convoyd_worker_open_fds"), 0, "%s", text);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    metrics->processes.read_us = 0; /* the second is over */
    render();
    cr_expect_eq(count_of("convoyd_worker_"), 0, "%s", text);
}

Test(metrics, what_was_never_set_is_absent)
{
    enum { ALWAYS = 1 + 4 + 6 }; /* build_info; connections and bytes; process_* */
    render();
    cr_assert_eq(count_of("# TYPE "), ALWAYS);
    convoy_metrics_device(metrics, "cpu");
    render();
    cr_assert_eq(count_of("# TYPE "), ALWAYS);
    struct convoy_model_metrics *model = convoy_metrics_model(metrics, "m");
    convoy_metrics_worker_up(convoy_metrics_device(metrics, "cpu"), true);
    convoy_metrics_batch(model, convoy_metrics_device(metrics, "cpu"), 1);
    render();
    cr_assert_null(strstr(text, "cuda"));
    cr_assert_null(strstr(text, "device_memory"));
    cr_assert_null(strstr(text, "slots_in_use"));
    assert_line("convoyd_images_total{model=\"m\"} 1");
    assert_line("convoyd_request_seconds_count{model=\"m\"} 0"); /* a model's own begin at 0 */
}

Test(metrics, handles_are_found_again_and_may_be_missing)
{
    struct convoy_model_metrics *model = convoy_metrics_model(metrics, "m");
    cr_assert_eq(convoy_metrics_model(metrics, "m"), model);
    cr_assert_neq(convoy_metrics_model(metrics, "n"), model);
    struct convoy_device_metrics *device = convoy_metrics_device(metrics, "cpu");
    cr_assert_eq(convoy_metrics_device(metrics, "cpu"), device);
    convoy_metrics_observe(NULL, CONVOY_STAGE_QUEUE, 1);
    convoy_metrics_batch(NULL, device, 1);
    convoy_metrics_retried(NULL, 1);
    convoy_metrics_spared(NULL, 1);
    convoy_metrics_decoded(NULL, 1, 1);
    convoy_metrics_undecoded(NULL, 1);
    convoy_metrics_queue_add(NULL, 1);
    convoy_metrics_worker_up(NULL, true);
    convoy_metrics_worker_restart(NULL, "exit");
    convoy_metrics_cuda_calls(NULL, "x", 1);
    convoy_metrics_device_memory(NULL, "x", 1);
    convoy_metrics_free(NULL);
    char name[16];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "d%d", i);
        convoy_metrics_batch(model, convoy_metrics_device(metrics, name), 1);
    }
    render();
    assert_line("convoyd_batches_total{model=\"m\",device=\"d62\"} 1");
    assert_line("convoyd_batches_total{model=\"m\",device=\"other\"} 137"); /* 200 less the 63 that fit */
}

Test(metrics, the_response_cache_is_there_when_it_is_on)
{
    convoy_metrics_model(metrics, "cifar10");
    cr_assert_null(strstr(render(), "convoyd_cache"));
    convoy_metrics_cache(metrics);
    render();
    assert_line("convoyd_cache_bytes 0");
    assert_line("convoyd_cache_entries 0");
    assert_line("convoyd_cache_evictions_total 0");
    assert_line("convoyd_cache_hits_total{model=\"cifar10\"} 0");
    assert_line("convoyd_cache_misses_total{model=\"cifar10\"} 0");
    fill();
    render();
    assert_line("convoyd_cache_bytes 3010");
    assert_line("convoyd_cache_entries 2");
    assert_line("convoyd_cache_evictions_total 1");
    assert_line("convoyd_cache_hits_total{model=\"cifar10\"} 1");
    assert_line("convoyd_cache_misses_total{model=\"cifar10\"} 4");
    convoy_metrics_cache_inserted(NULL, 1);
    convoy_metrics_cache_evicted(NULL, 1);
    convoy_metrics_cache_lookup(NULL, true);
}

Test(metrics, label_values_are_escaped)
{
    convoy_metrics_request(metrics, "a\"b\\c\nd\xFF", "\xC3\xA4", 200);
    render();
    assert_line(
        "convoyd_requests_total{model=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\",route=\"\xC3\xA4\",status=\"200\"} 1");
    /* What is too long is cut, and the line stays whole. */
    char value[1000];
    memset(value, '"', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    convoy_metrics_device_memory(convoy_metrics_device(metrics, "cpu"), value, 1);
    render();
    const char *line = strstr(text, "convoyd_device_memory_bytes{device=\"cpu\",kind=\"\\\"\\\"");
    cr_assert_not_null(line);
    cr_assert_eq(strncmp(strchr(line, '\n') - 6, "\\\"\"} 1", 6), 0);
}

Test(metrics, labels_for_every_capacity_stay_whole)
{
    for (size_t capacity = 1; capacity < 60; capacity++) {
        char *labels = calloc(capacity, 1); /* exactly: the sanitizer sees a byte too many */
        convoy_metrics_label(labels, capacity, "model", "a\"\xE2\x82\xAC");
        convoy_metrics_label(labels, capacity, "version", "1");
        size_t length = strlen(labels);
        cr_assert(length < capacity && (length == 0 || labels[length - 1] == '"'));
        free(labels);
    }
}

Test(metrics, series_stand_in_the_order_of_their_labels)
{
    static const char *const order[] = {"a\"", "b\"", "c\"", "d\""};
    static const char *const made[] = {"c", "a", "d", "b"};
    for (int i = 0; i < 4; i++) {
        convoy_metrics_model(metrics, made[i]);
        convoy_metrics_request(metrics, made[i], "/classify", 200);
        convoy_metrics_batch(convoy_metrics_model(metrics, "c"), convoy_metrics_device(metrics, made[i]), 1);
    }
    char *once = strdup(render());
    cr_assert_str_eq(render(), once);
    free(once);
    static const char *const starts[] = {
        "\nconvoyd_requests_total{model=\"", "\nconvoyd_images_total{model=\"",
        "\nconvoyd_queue_seconds_count{model=\"", "\nconvoyd_batches_total{model=\"c\",device=\""};
    for (int s = 0; s < 4; s++) {
        const char *at = text;
        for (int i = 0; i < 4; i++) {
            at = strstr(at, starts[s]);
            cr_assert_not_null(at);
            at += strlen(starts[s]);
            cr_assert_eq(strncmp(at, order[i], 2), 0, "%s: %.10s instead of %s", starts[s], at, order[i]);
        }
    }
}

/* ---- Threads ---- */

enum { THREADS = 4, ROUNDS = 40000 };

static pthread_barrier_t start; /* so that the threads really meet */

static void *count_things(void *argument)
{
    (void)argument;
    pthread_barrier_wait(&start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct convoy_model_metrics *model = convoy_metrics_model(metrics, i % 2 ? "odd" : "even");
        convoy_metrics_observe(model, CONVOY_STAGE_REQUEST, i % 5000);
        convoy_metrics_batch(model, convoy_metrics_device(metrics, "cpu"), 1 + i % 4);
        convoy_metrics_request(metrics, "m", "/classify", 200 + (int)(i % 100));
    }
    return NULL;
}

static unsigned long long number_after(const char *start)
{
    const char *at = strstr(text, start);
    cr_assert_not_null(at, "%s", start);
    return strtoull(at + strlen(start), NULL, 10);
}

/* While others count: buckets never fall, and _count is the +Inf bucket. */
static void consistent(void)
{
    const char *at = text;
    unsigned long long last = 0;
    unsigned buckets = 0;
    while ((at = strstr(at, "convoyd_request_seconds_bucket{model=\"odd\",le=\"")) != NULL) {
        at = strchr(at, '}') + 2;
        unsigned long long count = strtoull(at, NULL, 10);
        cr_assert_geq(count, last);
        last = count;
        buckets++;
    }
    cr_assert(buckets == 0 || buckets == CONVOY_TIME_BUCKETS + 1);
    if (buckets > 0)
        cr_assert_eq(number_after("convoyd_request_seconds_count{model=\"odd\"} "), last);
}

Test(metrics, nothing_is_lost_and_histograms_hold_together_under_threads, .timeout = 60)
{
    pthread_t threads[THREADS];
    cr_assert_eq(pthread_barrier_init(&start, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_things, NULL), 0);
    pthread_barrier_wait(&start);
    for (int i = 0; i < 100; i++) {
        render();
        consistent();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    render();
    consistent();
    unsigned long long half = THREADS * ROUNDS / 2;
    cr_assert_eq(number_after("convoyd_request_seconds_count{model=\"odd\"} "), half);
    cr_assert_eq(number_after("convoyd_request_seconds_count{model=\"even\"} "), half);
    cr_assert_eq(number_after("convoyd_batches_total{model=\"odd\",device=\"cpu\"} "), half);
    cr_assert_eq(number_after("convoyd_images_total{model=\"odd\"} "), half * 3);  /* 2 and 4 in turn */
    cr_assert_eq(number_after("convoyd_images_total{model=\"even\"} "), half * 2); /* 1 and 3 in turn */
    cr_assert_eq(count_of("convoyd_requests_total{model=\"m\""), 100);
    cr_assert_eq(number_after("convoyd_requests_total{model=\"m\",route=\"/classify\",status=\"299\"} "),
                 THREADS * ROUNDS / 100);
}

/* Of requests in a row, each differs from the one before in one thing only. */
Test(metrics, requests_that_differ_are_counted_apart)
{
    char route[64] = "/a", long_name[200], line[300];
    memset(long_name, 'm', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    for (int i = 0; i < 3; i++) {
        struct convoy_metrics *others = convoy_metrics_new();
        for (int j = 0; j < 3; j++)
            convoy_metrics_request(metrics, "m", route, 200);
        convoy_metrics_request(others, "m", route, 200);
        convoy_metrics_request(metrics, "n", route, 200);
        convoy_metrics_request(metrics, "n", route, 503);
        route[1] = 'b';
        convoy_metrics_request(metrics, "n", route, 503);
        convoy_metrics_request(metrics, long_name, route, 503);
        convoy_metrics_request(metrics, long_name, route, 503);
        long_name[198] = '\0';
        convoy_metrics_request(metrics, long_name, route, 503);
        long_name[198] = 'm';
        route[1] = 'a';
        convoy_metrics_free(others);
    }
    render();
    assert_line("convoyd_requests_total{model=\"m\",route=\"/a\",status=\"200\"} 9");
    assert_line("convoyd_requests_total{model=\"n\",route=\"/a\",status=\"200\"} 3");
    assert_line("convoyd_requests_total{model=\"n\",route=\"/a\",status=\"503\"} 3");
    assert_line("convoyd_requests_total{model=\"n\",route=\"/b\",status=\"503\"} 3");
    snprintf(line, sizeof line, "convoyd_requests_total{model=\"%s\",route=\"/b\",status=\"503\"} 6",
             long_name);
    assert_line(line);
    cr_assert_eq(count_of("convoyd_requests_total{"), 6);
}

/* Memory is used again: what was counted before at an address is not what is there now. */
Test(metrics, requests_are_counted_in_the_metrics_that_are_there)
{
    for (int i = 0; i < 3; i++) {
        close_metrics();
        text = NULL;
        open_metrics();
        for (int j = 0; j < 2; j++)
            convoy_metrics_request(metrics, "m", "/a", 200);
        render();
        assert_line("convoyd_requests_total{model=\"m\",route=\"/a\",status=\"200\"} 2");
    }
}

Test(metrics, a_mistaken_label_cannot_fill_memory, .timeout = 60)
{
    char route[32];
    for (int i = 0; i < CONVOY_SERIES_MAX + 100; i++) {
        snprintf(route, sizeof route, "/%d", i);
        convoy_metrics_request(metrics, "", route, 404);
    }
    render();
    cr_assert_eq(count_of("convoyd_requests_total{"), CONVOY_SERIES_MAX);
}

/* ---- A judge from outside ---- */

/* The exit code of command, a call of promtool: 0 right, 3 a matter of style, 1 wrong. */
static int promtool(const char *command, const char *input)
{
    FILE *pipe = popen(command, "w");
    cr_assert_not_null(pipe);
    fputs(input, pipe);
    return WEXITSTATUS(pclose(pipe));
}

Test(metrics, promtool_accepts_the_text)
{
    if (system("command -v promtool >/dev/null 2>&1") != 0)
        cr_skip_test("promtool (Debian package prometheus) is not installed");
    cr_assert_neq(promtool("promtool check metrics >/dev/null 2>&1", "convoyd_x{model=\"unclosed} 1\n"), 0,
                  "promtool must refuse what is wrong");
    cr_assert_eq(promtool("promtool check metrics >&2", render()), 0);
    fill();
    convoy_metrics_request(metrics, "a\"b\\c\nd\xFF", "\xC3\xA4", 500);
    convoy_metrics_model(metrics, "");
    cr_assert_eq(promtool("promtool check metrics >&2", render()), 0);
}
