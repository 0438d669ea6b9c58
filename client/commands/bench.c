#include "client/commands/bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/lib/failure.h"
#include "client/lib/http.h"
#include "client/stats/percentiles.h"
#include "client/stats/poisson.h"
#include "client/term/clock.h"
#include "client/term/terminal.h"

#define STACK_BYTES ((size_t)256 << 10)
#define PROGRESS_S  0.25

/* State shared by the threads of all connections. */
struct load {
    const struct client_request *requests;
    size_t count;
    double rate, seconds;
    double start;         /* on the monotonic clock, in seconds */
    pthread_mutex_t lock; /* protects the members below */
    size_t next;          /* request to send, counted through */
    double due;           /* open loop: when the next request is */
    uint64_t random;
    bool stop;
};

struct latencies {
    double *ms;
    size_t count, capacity;
};

struct connection {
    pthread_t thread;
    struct load *load;
    struct client_http *http;
    struct latencies answered, refused; /* 200, 503 */
    struct latencies lags;              /* open loop: from due to sent */
    size_t statuses[CLIENT_BENCH_STATUSES];
    size_t unsent;
    double last; /* time of its last answer */
    bool no_server, out_of_memory;
    struct convoy_failure sample;
};

/* Returns the next request and the time when it is due (closed loop: now); NULL when the time is up. */
static const struct client_request *take(struct load *load, double *due)
{
    const struct client_request *request = NULL;
    double end = load->start + load->seconds;
    pthread_mutex_lock(&load->lock);
    *due = load->rate > 0 ? load->due : client_clock_now();
    if (*due < end && !load->stop) {
        request = &load->requests[load->next++ % load->count];
        if (load->rate > 0)
            load->due += client_poisson_gap(&load->random, load->rate);
    }
    pthread_mutex_unlock(&load->lock);
    return request;
}

static bool keep_latency(struct latencies *latencies, double latency_ms)
{
    if (latencies->count == latencies->capacity) {
        size_t capacity = latencies->capacity ? latencies->capacity * 2 : 256;
        double *larger = realloc(latencies->ms, capacity * sizeof *larger);
        if (!larger)
            return false;
        latencies->ms = larger;
        latencies->capacity = capacity;
    }
    latencies->ms[latencies->count++] = latency_ms;
    return true;
}

static void *serve_connection(void *context)
{
    struct connection *connection = context;
    struct load *load = connection->load;
    const struct client_request *request;
    struct client_response response;
    double due;
    while ((request = take(load, &due))) {
        if (load->rate > 0) {
            /* An overloaded server must not prolong the run: requests that are late at its end are not sent.
             */
            if (client_clock_now() >= load->start + load->seconds) {
                connection->unsent++;
                continue;
            }
            client_clock_wait_until(due);
            if (!keep_latency(&connection->lags, (client_clock_now() - due) * 1e3)) {
                connection->out_of_memory = true;
                break;
            }
        }
        int status = client_http_post(connection->http, request, client_http_patience_ms(0), &response,
                                      &connection->sample);
        connection->last = client_clock_now();
        if (status) {
            connection->statuses[0]++;
            connection->no_server = status == -ECONNREFUSED;
            /* Without a server a connection would spin: a closed loop ends for it here. */
            if (connection->no_server && load->rate <= 0)
                break;
            continue;
        }
        int slot = response.status > 0 && response.status < CLIENT_BENCH_STATUSES ? response.status : 0;
        connection->statuses[slot]++;
        struct latencies *kept = response.status == 200   ? &connection->answered
                                 : response.status == 503 ? &connection->refused
                                                          : NULL;
        if (kept && !keep_latency(kept, (connection->last - due) * 1e3)) {
            connection->out_of_memory = true;
            break;
        }
    }
    return NULL;
}

/* Waits for the end of a connection's thread and shows progress on a terminal. */
static void join_drawing(pthread_t thread, const struct load *load, const struct client_terminal *terminal)
{
    for (double next = client_clock_now(); terminal->terminal && next < load->start + load->seconds;
         next = client_clock_now()) {
        next += PROGRESS_S;
        struct timespec time = client_clock_timespec(next);
        if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &time) == 0)
            return;
        client_print_progress(stderr, terminal, "bench: second", (size_t)(client_clock_now() - load->start),
                              (size_t)load->seconds);
    }
    pthread_join(thread, NULL);
}

static void append(double *all, size_t *count, const struct latencies *more)
{
    if (more->count)
        memcpy(all + *count, more->ms, more->count * sizeof *all);
    *count += more->count;
}

static int gather(struct connection *connections, long started, const struct load *load,
                  size_t images_per_request, struct client_bench_result *result,
                  struct convoy_failure *failure)
{
    size_t answered = 0, refused = 0, sent = 0, any = 0;
    bool no_server = false;
    for (long i = 0; i < started; i++) {
        if (connections[i].out_of_memory)
            return client_fail_with(failure, -ENOMEM, "memory is out");
        answered += connections[i].answered.count;
        refused += connections[i].refused.count;
        sent += connections[i].lags.count;
    }
    result->latencies_ms = calloc(answered + 1, sizeof *result->latencies_ms);
    result->refusals_ms = calloc(refused + 1, sizeof *result->refusals_ms);
    result->lags_ms = calloc(sent + 1, sizeof *result->lags_ms);
    if (!result->latencies_ms || !result->refusals_ms || !result->lags_ms)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    for (long i = 0; i < started; i++) {
        struct connection *each = &connections[i];
        append(result->latencies_ms, &result->answered, &each->answered);
        append(result->refusals_ms, &result->refused, &each->refused);
        append(result->lags_ms, &result->sent, &each->lags);
        result->unsent += each->unsent;
        for (int status = 0; status < CLIENT_BENCH_STATUSES; status++) {
            result->statuses[status] += each->statuses[status];
            any += status ? each->statuses[status] : 0;
        }
        if (each->statuses[0])
            result->sample = each->sample;
        no_server |= each->no_server;
        if (each->last - load->start > result->elapsed_s)
            result->elapsed_s = each->last - load->start;
    }
    if (any == 0 && no_server) {
        if (failure)
            *failure = result->sample;
        return -ECONNREFUSED;
    }
    result->images = result->answered * images_per_request;
    client_sort(result->latencies_ms, result->answered);
    client_sort(result->refusals_ms, result->refused);
    client_sort(result->lags_ms, result->sent);
    return 0;
}

int client_bench_run(const char *url, const struct client_request *requests, size_t count, long connections,
                     double rate, double seconds, size_t images_per_request,
                     struct client_bench_result *result, struct convoy_failure *failure)
{
    struct load load = {.requests = requests, .count = count, .rate = rate, .seconds = seconds};
    int status = 0;
    long opened = 0, started = 0;
    memset(result, 0, sizeof *result);
    if (getrandom(&load.random, sizeof load.random, 0) != (ssize_t)sizeof load.random || load.random == 0)
        load.random = 1;
    struct connection *list = calloc((size_t)connections, sizeof *list);
    if (!list)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    for (; status == 0 && opened < connections; opened++) {
        list[opened].load = &load;
        status = client_http_open(url, &list[opened].http, failure);
    }
    pthread_attr_t attributes;
    pthread_mutex_init(&load.lock, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    load.start = client_clock_now();
    load.due = load.start + (rate > 0 ? client_poisson_gap(&load.random, rate) : 0);
    for (; status == 0 && started < connections; started++) {
        status = -pthread_create(&list[started].thread, &attributes, serve_connection, &list[started]);
        if (status) {
            pthread_mutex_lock(&load.lock);
            load.stop = true;
            pthread_mutex_unlock(&load.lock);
            client_fail_with(failure, status, "only %ld threads for connections can be made: %s", started,
                             strerror(-status));
            break;
        }
    }
    struct client_terminal terminal = client_terminal_open(stderr);
    for (long i = 0; i < started; i++)
        join_drawing(list[i].thread, &load, &terminal);
    client_end_progress(stderr, &terminal);
    if (status == 0)
        status = gather(list, started, &load, images_per_request, result, failure);
    for (long i = 0; i < opened; i++) {
        client_http_close(list[i].http);
        free(list[i].answered.ms);
        free(list[i].refused.ms);
        free(list[i].lags.ms);
    }
    pthread_attr_destroy(&attributes);
    pthread_mutex_destroy(&load.lock);
    free(list);
    return status;
}

void client_bench_clear(struct client_bench_result *result)
{
    free(result->latencies_ms);
    free(result->refusals_ms);
    free(result->lags_ms);
    result->latencies_ms = result->refusals_ms = result->lags_ms = NULL;
}
