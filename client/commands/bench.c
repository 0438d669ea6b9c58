#include "client/commands/bench.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/lib/answer.h"
#include "client/lib/failure.h"
#include "client/lib/http.h"
#include "client/stats/poisson.h"
#include "client/term/clock.h"
#include "client/term/terminal.h"

#define STACK_BYTES ((size_t)256 << 10)
#define PROGRESS_S  0.25
#define STOP_S      0.1 /* how long a wait goes on after the run was stopped */

/* State shared by the threads of all connections. */
struct bench_run {
    const struct client_bench_load *load;
    double start;         /* on the monotonic clock, in seconds; read after the lock was taken once */
    pthread_mutex_t lock; /* protects the members below; held until all threads are there */
    size_t next;          /* request to send, counted through */
    double due;           /* open loop: when the next request is */
    uint64_t random;
    bool failed; /* not all threads were created */
    struct client_bench_result *result;
};

/* A request and what became of it. */
struct exchange {
    const struct client_request *request;
    double due, sent, answered; /* on the monotonic clock */
    int status;                 /* HTTP; 0: no answer, -1: not sent */
    bool read;                  /* the answer's times are to be read */
    struct convoy_answer *answer;
    struct convoy_failure failure; /* where there is no answer */
};

struct connection {
    pthread_t thread;
    struct bench_run *run;
    struct client_http *http;
    bool no_server;
};

static bool is_stopped(void *run)
{
    bool (*stop)(void) = ((const struct bench_run *)run)->load->stop;
    return stop && stop();
}

/* Adds the times that the server told of an answer. */
static void count_stages(struct client_bench_stages *stages, const struct exchange *exchange)
{
    const struct convoy_answer *answer = exchange->answer;
    const struct convoy_timing *timing = &answer->timing;
    stages->answers++;
    stages->client_us += (exchange->answered - exchange->sent) * 1e6;
    stages->batch_size += (double)answer->batch_size;
    stages->timing.wait_us += timing->wait_us;
    stages->timing.decode_us += timing->decode_us;
    stages->timing.queue_us += timing->queue_us;
    stages->timing.input_us += timing->input_us;
    stages->timing.compute_us += timing->compute_us;
    stages->timing.output_us += timing->output_us;
    stages->timing.total_us += timing->total_us;
    snprintf(stages->model, sizeof stages->model, "%s", answer->model);
    snprintf(stages->version, sizeof stages->version, "%s", answer->version);
    snprintf(stages->device, sizeof stages->device, "%s", answer->device);
}

/* Counts what became of the last request. The caller holds the lock. */
static void count_exchange(struct bench_run *run, const struct exchange *exchange)
{
    struct client_bench_result *result = run->result;
    if (exchange->status < 0) {
        result->unsent++;
        return;
    }
    if (run->load->rate > 0)
        client_bins_add(&result->lags, (exchange->sent - exchange->due) * 1e6);
    result->statuses[exchange->status]++;
    if (exchange->answered - run->start > result->elapsed_s)
        result->elapsed_s = exchange->answered - run->start;
    if (exchange->status == 0)
        result->sample = exchange->failure;
    else if (exchange->status == 200)
        client_bins_add(&result->latency, (exchange->answered - exchange->due) * 1e6);
    else if (exchange->status == 503)
        client_bins_add(&result->refusals, (exchange->answered - exchange->due) * 1e6);
    if (exchange->answer)
        count_stages(&result->stages, exchange);
}

/* Counts what became of the last request and takes the next, with the time when it is due (closed loop: now).
 * False when the time is up. Both need the lock, and so take it once. */
static bool take(struct bench_run *run, struct exchange *exchange)
{
    const struct client_bench_load *load = run->load;
    pthread_mutex_lock(&run->lock);
    bool stop = is_stopped(run);
    double end = run->start + load->seconds;
    if (exchange->request)
        count_exchange(run, exchange);
    client_answer_discard(exchange->answer);
    exchange->answer = NULL;
    exchange->request = NULL;
    exchange->due = load->rate > 0 ? run->due : client_clock_now();
    if (exchange->due < end && !run->failed && !stop) {
        exchange->read = load->timing_every && run->next % load->timing_every == 0;
        exchange->request = &load->requests[run->next++ % load->count];
        if (load->rate > 0)
            run->due += client_poisson_gap(&run->random, load->rate);
    }
    pthread_mutex_unlock(&run->lock);
    return exchange->request != NULL;
}

/* Waits until the request is due. False when the run was stopped meanwhile. */
static bool wait_until_due(struct bench_run *run, double due)
{
    double now = client_clock_now();
    while (now < due && !is_stopped(run)) {
        client_clock_wait_until(run->load->stop && due > now + STOP_S ? now + STOP_S : due);
        now = client_clock_now();
    }
    return !is_stopped(run);
}

static void *serve_connection(void *context)
{
    struct connection *connection = context;
    struct bench_run *run = connection->run;
    const struct client_bench_load *load = run->load;
    struct exchange exchange = {0};
    struct client_response response;
    while (take(run, &exchange)) {
        exchange.status = -1;
        if (load->rate > 0) {
            /* An overloaded server must not prolong the run: requests that are late at its end are not sent.
             */
            if (client_clock_now() >= run->start + load->seconds)
                continue;
            if (!wait_until_due(run, exchange.due))
                continue;
        }
        exchange.sent = client_clock_now();
        int status = client_http_post(connection->http, exchange.request, client_http_patience_ms(0),
                                      &response, &exchange.failure);
        exchange.answered = client_clock_now();
        exchange.status = 0;
        if (status) {
            connection->no_server = status == -ECONNREFUSED;
            /* Without a server a connection would spin: a closed loop ends for it here. */
            if (connection->no_server && load->rate <= 0)
                break;
            continue;
        }
        if (response.status > 0 && response.status < CLIENT_BENCH_STATUSES)
            exchange.status = response.status;
        if (exchange.read && response.status == 200)
            client_answer_read(&response, load->images_per_request, &exchange.answer, NULL);
    }
    if (exchange.request) {
        pthread_mutex_lock(&run->lock);
        count_exchange(run, &exchange);
        pthread_mutex_unlock(&run->lock);
    }
    return NULL;
}

/* Waits for the end of a connection's thread and shows progress on a terminal. */
static void join_drawing(pthread_t thread, const struct bench_run *run,
                         const struct client_terminal *terminal)
{
    const struct client_bench_load *load = run->load;
    for (double next = client_clock_now(); terminal->terminal && next < run->start + load->seconds;
         next = client_clock_now()) {
        next += PROGRESS_S;
        struct timespec time = client_clock_timespec(next);
        if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &time) == 0)
            return;
        client_print_progress(stderr, terminal, load->progress, (size_t)(client_clock_now() - run->start),
                              (size_t)ceil(load->seconds));
    }
    pthread_join(thread, NULL);
}

/* The clock of the run begins. The caller holds the lock. */
static void begin(struct bench_run *run)
{
    run->start = client_clock_now();
    run->due = run->start + (run->load->rate > 0 ? client_poisson_gap(&run->random, run->load->rate) : 0);
}

/* Starts the threads of `connections` and waits for their end. The clock begins when all are there: thousands
 * take a part of a second, by which the first requests of an open loop would be late. */
static int run_connections(struct bench_run *run, struct connection *connections,
                           struct convoy_failure *failure)
{
    pthread_attr_t attributes;
    long started = 0;
    int status = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_mutex_lock(&run->lock); /* for which the threads wait */
    for (; status == 0 && started < run->load->connections; started++) {
        status = -pthread_create(&connections[started].thread, &attributes, serve_connection,
                                 &connections[started]);
        if (status) {
            run->failed = true;
            client_fail_with(failure, status, "only %ld threads for connections can be made: %s", started,
                             strerror(-status));
            break;
        }
    }
    begin(run);
    pthread_mutex_unlock(&run->lock);
    struct client_terminal terminal = client_terminal_open(stderr);
    for (long i = 0; i < started; i++)
        join_drawing(connections[i].thread, run, &terminal);
    client_end_progress(stderr, &terminal);
    pthread_attr_destroy(&attributes);
    return status;
}

/* Returns -ECONNREFUSED when there was no answer because there is no server. */
static int check_server(const struct connection *connections, long count,
                        const struct client_bench_result *result, struct convoy_failure *failure)
{
    bool no_server = false;
    for (int status = 1; status < CLIENT_BENCH_STATUSES; status++) {
        if (result->statuses[status])
            return 0;
    }
    for (long i = 0; i < count; i++)
        no_server |= connections[i].no_server;
    if (no_server && failure)
        *failure = result->sample;
    return no_server ? -ECONNREFUSED : 0;
}

int client_bench_run(const struct client_bench_load *load, struct client_bench_result *result,
                     struct convoy_failure *failure)
{
    struct bench_run run = {.load = load, .result = result};
    int status = 0;
    long opened = 0;
    memset(result, 0, sizeof *result);
    if (getrandom(&run.random, sizeof run.random, 0) != (ssize_t)sizeof run.random || run.random == 0)
        run.random = 1;
    struct connection *list = calloc((size_t)load->connections, sizeof *list);
    if (!list)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    for (; status == 0 && opened < load->connections; opened++) {
        list[opened].run = &run;
        status = client_http_open(load->url, &list[opened].http, failure);
        if (status == 0 && load->stop)
            client_http_abort_when(list[opened].http, is_stopped, &run);
    }
    pthread_mutex_init(&run.lock, NULL);
    if (status == 0)
        status = run_connections(&run, list, failure);
    if (status == 0)
        status = check_server(list, load->connections, result, failure);
    result->images = result->latency.count * load->images_per_request;
    for (long i = 0; i < opened; i++)
        client_http_close(list[i].http);
    pthread_mutex_destroy(&run.lock);
    free(list);
    return status;
}
