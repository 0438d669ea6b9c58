#include "client/commands/sweep.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/origin.h"
#include "client/lib/failure.h"

#define WARM_UP_S 1.0
/* The server's times are read of so many answers a second: reading costs the generator microseconds, which a
 * server on the same machine would miss. */
#define TIMED_A_SECOND 1000

static atomic_int ending_signal; /* all connections look */

static void end_by(int signal)
{
    ending_signal = signal;
}

static bool is_ending(void)
{
    return ending_signal != 0;
}

static void catch_signal(int signal, struct sigaction *old)
{
    /* The second signal of a kind ends the process. */
    const struct sigaction action = {.sa_handler = end_by, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigaction(signal, NULL, old);
    if (old->sa_handler != SIG_IGN)
        sigaction(signal, &action, NULL);
}

static void catch_signals(struct sigaction old[2])
{
    ending_signal = 0;
    catch_signal(SIGINT, &old[0]);
    catch_signal(SIGTERM, &old[1]);
}

static void release_signals(const struct sigaction old[2])
{
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
}

size_t client_sweep_errors(const struct client_sweep_point *point)
{
    return client_bench_requests(&point->result) - point->result.latency.count;
}

double client_sweep_throughput(const struct client_sweep_point *point)
{
    double seconds = point->result.elapsed_s;
    return seconds > 0 ? (double)point->result.latency.count / seconds : 0;
}

const char *client_sweep_name(const struct client_sweep_point *point, char *text, size_t bytes)
{
    if (point->rate > 0)
        snprintf(text, bytes, "%g requests/s due", point->rate);
    else
        snprintf(text, bytes, "%ld connection%s", point->connections, point->connections == 1 ? "" : "s");
    return text;
}

const char *client_sweep_problems(const struct client_sweep_point *point, char *text, size_t bytes)
{
    const struct client_bench_result *result = &point->result;
    size_t length = 0;
    *text = '\0';
    for (int status = 1; status < CLIENT_BENCH_STATUSES && length < bytes; status++) {
        if (status != 200 && result->statuses[status])
            length += (size_t)snprintf(text + length, bytes - length, "%s%zu answered %d", length ? ", " : "",
                                       result->statuses[status], status);
    }
    if (result->statuses[0] && length < bytes)
        length += (size_t)snprintf(text + length, bytes - length, "%s%zu without an answer",
                                   length ? ", " : "", result->statuses[0]);
    if (result->unsent && length < bytes)
        snprintf(text + length, bytes - length, "%s%zu not sent", length ? ", " : "", result->unsent);
    return text;
}

/* Says why nothing is measured, when the server answers but never 200. */
static int check_answers(const struct client_sweep_point *point, struct convoy_failure *failure)
{
    const struct client_bench_result *result = &point->result;
    char problems[256];
    size_t all = client_bench_requests(result);
    /* A busy server refuses, and may do better under another load. */
    if (result->latency.count || result->statuses[503] || all == result->unsent)
        return 0;
    return client_fail_with(failure, -EREMOTEIO, "no request of the warm-up was answered 200: %s%s%s",
                            client_sweep_problems(point, problems, sizeof problems),
                            *result->sample.message ? "; " : "", result->sample.message);
}

/* Measures the point: warm-up, then the run. */
static int measure(const struct client_sweep *sweep, struct client_bench_load *load,
                   struct client_sweep_point *point, struct convoy_failure *failure)
{
    char name[64], progress[160];
    client_sweep_name(point, name, sizeof name);
    snprintf(progress, sizeof progress, "bench: %zu of %zu, %s, warm-up", sweep->count + 1, sweep->planned,
             name);
    load->progress = progress;
    load->seconds = sweep->warm_up_s;
    load->timing_every = 0;
    int status = client_bench_run(load, &point->result, failure);
    if (status == 0 && sweep->count == 0 && !is_ending())
        status = check_answers(point, failure);
    if (status || is_ending())
        return status;
    double rate = load->rate > 0 ? load->rate : client_sweep_throughput(point);
    load->timing_every = rate > TIMED_A_SECOND ? (size_t)ceil(rate / TIMED_A_SECOND) : 1;
    load->seconds = sweep->seconds;
    snprintf(progress, sizeof progress, "bench: %zu of %zu, %s, second", sweep->count + 1, sweep->planned,
             name);
    return client_bench_run(load, &point->result, failure);
}

static int begin(const struct client_bench_arguments *arguments, const struct client_bench_set *set,
                 struct client_sweep *sweep, struct convoy_failure *failure)
{
    *sweep = (struct client_sweep){.images = set->image_count,
                                   .images_per_request = (size_t)arguments->batch,
                                   .seconds = arguments->seconds,
                                   .warm_up_s = fmin(WARM_UP_S, arguments->seconds / 2),
                                   .planned = arguments->rate_count > 1 ? arguments->rate_count
                                                                        : arguments->connection_count};
    snprintf(sweep->client, sizeof sweep->client, "%s", CONVOY_VERSION);
    client_origin_date(sweep->date, sizeof sweep->date);
    client_origin_machine(sweep->machine, sizeof sweep->machine);
    client_origin_url(arguments->common.url, sweep->url, sizeof sweep->url);
    client_origin_server(arguments->common.url, sweep->server, sizeof sweep->server);
    sweep->points = calloc(sweep->planned, sizeof *sweep->points);
    return sweep->points ? 0 : client_fail_with(failure, -ENOMEM, "memory is out");
}

/* Takes over what the point's answers say of model and device. */
static void take_names(struct client_sweep *sweep, const struct client_bench_stages *stages)
{
    if (stages->answers == 0)
        return;
    snprintf(sweep->model, sizeof sweep->model, "%s", stages->model);
    snprintf(sweep->version, sizeof sweep->version, "%s", stages->version);
    snprintf(sweep->device, sizeof sweep->device, "%s", stages->device);
}

int client_sweep_run(const struct client_bench_arguments *arguments, const struct client_bench_set *set,
                     void (*measured)(const struct client_sweep *sweep), struct client_sweep *sweep,
                     int *signal, struct convoy_failure *failure)
{
    struct sigaction old[2];
    struct convoy_failure local;
    struct client_bench_load load = {.url = arguments->common.url,
                                     .requests = set->requests,
                                     .count = set->request_count,
                                     .images_per_request = (size_t)arguments->batch,
                                     .stop = is_ending};
    failure = failure ? failure : &local;
    int status = begin(arguments, set, sweep, failure);
    *signal = 0;
    catch_signals(old);
    while (status == 0 && sweep->count < sweep->planned) {
        struct client_sweep_point *point = &sweep->points[sweep->count];
        point->rate =
            arguments->rate_count ? arguments->rates[arguments->rate_count > 1 ? sweep->count : 0] : 0;
        point->connections = arguments->connections[arguments->connection_count > 1 ? sweep->count : 0];
        load.rate = point->rate;
        load.connections = point->connections;
        status = measure(sweep, &load, point, failure);
        if (is_ending()) {
            status = 0;
            *signal = ending_signal;
            snprintf(sweep->ended, sizeof sweep->ended, "the sweep was interrupted");
            break;
        }
        /* What was measured before the server went away is worth something, and where it went away, too. */
        bool gone = status == -ECONNREFUSED && sweep->count > 0;
        if (gone) {
            snprintf(sweep->ended, sizeof sweep->ended, "the server went away: %s", failure->message);
            status = 0;
        }
        if (status)
            break;
        take_names(sweep, &point->result.stages);
        sweep->count++;
        if (measured)
            measured(sweep);
        if (gone)
            break;
    }
    release_signals(old);
    if (*sweep->model && !*sweep->ended)
        client_origin_precision(arguments->common.url, sweep->model, sweep->version, sweep->precision,
                                sizeof sweep->precision);
    return status;
}

void client_sweep_clear(struct client_sweep *sweep)
{
    free(sweep->points);
    sweep->points = NULL;
    sweep->count = 0;
}
