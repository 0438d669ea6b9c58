/* `convoy bench`, the load generator: bench.c generates load and measures, bench_arguments.c parses the
 * arguments, bench_set.c reads the images, bench_report.c prints. A range of loads is a sweep
 * (client/commands/sweep.h). */
#ifndef CONVOY_CLIENT_BENCH_H
#define CONVOY_CLIENT_BENCH_H

#include "client/commands/command.h"
#include "client/lib/request.h"
#include "client/stats/bins.h"

#define CLIENT_BENCH_POINTS 64 /* of a sweep */

struct client_bench_arguments {
    struct client_common common;
    double rates[CLIENT_BENCH_POINTS]; /* requests a second in open loop; without one the loop is closed */
    size_t rate_count;
    long connections[CLIENT_BENCH_POINTS]; /* at least one; at most one of the lists is longer */
    size_t connection_count;
    double seconds;
    long batch;         /* images a request */
    char *const *paths; /* into argv: files and folders; with compare two reports */
    size_t path_count;
    const char *report; /* where the page goes; NULL: none */
    bool sweep, compare;
    bool help;
};

/* Parses the arguments; argv[0] is the command's name. Returns 0, or -EINVAL with a message. */
int client_bench_arguments(int argc, char **argv, struct client_bench_arguments *arguments,
                           struct convoy_failure *failure);

/* The images of a run and its requests. */
struct client_bench_set {
    struct convoy_image *images;
    size_t image_count;
    struct client_request *requests;
    size_t request_count;
};

/* Reads the images at the arguments' paths and makes requests of them. Call client_bench_set_clear also after
 * an error. Returns 0, or a negative errno with a message. */
int client_bench_set_read(const struct client_bench_arguments *arguments, struct client_bench_set *set,
                          struct convoy_failure *failure);

void client_bench_set_clear(struct client_bench_set *set);

#define CLIENT_BENCH_STATUSES 600

/* A load. */
struct client_bench_load {
    const char *url;
    const struct client_request *requests; /* sent in turn */
    size_t count;
    size_t images_per_request;
    long connections;
    double rate; /* requests a second in open loop, 0 for closed loop */
    double seconds;
    size_t timing_every;  /* read the server's times of one request in so many; 0: of none */
    const char *progress; /* the name of the progress line */
    bool (*stop)(void);   /* asked several times a second from all threads: ends the run early; NULL: never */
};

/* Sums over the answers whose times were read; nothing without one. */
struct client_bench_stages {
    size_t answers;
    double client_us;            /* from sending to the answer, as the client measures it */
    struct convoy_timing timing; /* as the server does */
    double batch_size;
    char model[128], version[64], device[64]; /* of the last one */
};

/* What a run measured. Durations are in microseconds. */
struct client_bench_result {
    struct client_bins latency;  /* of the requests answered 200 */
    struct client_bins refusals; /* of the requests answered 503 */
    struct client_bins
        lags;      /* open loop: the delay of each request from its due time to its sending. This is
                      the part of a latency that the generator and a lack of free connections cause */
    size_t images; /* in the answered requests */
    size_t statuses[CLIENT_BENCH_STATUSES]; /* answers by HTTP status; 0 counts requests without an answer */
    size_t unsent;                /* open loop: requests that were due but not sent when the time was up */
    double elapsed_s;             /* from the first request to the last answer */
    struct convoy_failure sample; /* of the last request that had no answer, message "" without one */
    struct client_bench_stages stages;
};

/* Sends the prepared requests in turn over the load's connections for its time, then waits for the answers
 * that are outstanding.
 *
 * Closed loop (rate 0): each connection sends its next request when it has received the previous answer; the
 * latency is the time from sending to the answer.
 * Open loop: requests are due at the times of a Poisson process, independently of the server, and use the
 * first free connection. The latency is measured from the due time, so that a stall shows in all requests
 * that it delayed (no coordinated omission).
 *
 * A 503 counts as an answer; no request is repeated. Returns 0, -ECONNREFUSED when no request was answered
 * because there is no server (result is filled, too), -EINVAL, -ENOMEM, -EAGAIN when a thread cannot be
 * created. */
int client_bench_run(const struct client_bench_load *load, struct client_bench_result *result,
                     struct convoy_failure *failure);

/* Returns the number of requests that were due, those not sent and not answered among them. */
size_t client_bench_requests(const struct client_bench_result *result);

/* Returns the exit status that a result means: all, some or none of the requests were answered 200. */
int client_bench_exit_status(const struct client_bench_result *result);

/* The percentiles of reports. */
#define CLIENT_BENCH_PERCENTS 4
extern const double client_bench_percents[CLIENT_BENCH_PERCENTS];

/* Print the result on standard output. */
void client_bench_print_text(const struct client_bench_load *load, const struct client_bench_result *result);
void client_bench_print_json(const struct client_bench_load *load, const struct client_bench_result *result);

#endif
