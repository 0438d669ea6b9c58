/* `convoy bench`, the load generator: bench.c generates load and measures, bench_command.c parses the
 * arguments and prints the report. */
#ifndef CONVOY_CLIENT_BENCH_H
#define CONVOY_CLIENT_BENCH_H

#include "client/commands/command.h"
#include "client/lib/request.h"

struct client_bench_arguments {
    struct client_common common;
    long connections;
    double rate; /* requests a second in open loop, 0 for closed loop */
    double seconds;
    long batch;         /* images a request */
    char *const *paths; /* into argv: files and folders */
    size_t path_count;
    bool help;
};

/* Parses the arguments; argv[0] is the command's name. Returns 0, or -EINVAL with a message. */
int client_bench_arguments(int argc, char **argv, struct client_bench_arguments *arguments,
                           struct convoy_failure *failure);

#define CLIENT_BENCH_STATUSES 600

/* What a run measured. */
struct client_bench_result {
    double *latencies_ms; /* of the requests answered 200, sorted */
    size_t answered;
    double *refusals_ms; /* latencies of the requests answered 503, sorted */
    size_t refused;
    double *lags_ms; /* open loop: the delay of each request from its due time to its sending, sorted. This is
                        the part of a latency that the generator and a lack of free connections cause */
    size_t sent;     /* open loop */
    size_t images;   /* in the answered requests */
    size_t statuses[CLIENT_BENCH_STATUSES]; /* answers by HTTP status; 0 counts requests without an answer */
    size_t unsent;                /* open loop: requests that were due but not sent when the time was up */
    double elapsed_s;             /* from the first request to the last answer */
    struct convoy_failure sample; /* of the last request that had no answer, message "" without one */
};

/* Sends the prepared requests in turn over `connections` connections for `seconds`, then waits for the
 * answers that are outstanding.
 *
 * Closed loop (rate 0): each connection sends its next request when it has received the previous answer; the
 * latency is the time from sending to the answer.
 * Open loop: requests are due at the times of a Poisson process, independently of the server, and use the
 * first free connection. The latency is measured from the due time, so that a stall shows in all requests
 * that it delayed (no coordinated omission).
 *
 * A 503 counts as an answer; no request is repeated. Call client_bench_clear also after an error. Returns 0,
 * -ECONNREFUSED when no request was answered because there is no server, -EINVAL, -ENOMEM, -EAGAIN when a
 * thread cannot be created. */
int client_bench_run(const char *url, const struct client_request *requests, size_t count, long connections,
                     double rate, double seconds, size_t images_per_request,
                     struct client_bench_result *result, struct convoy_failure *failure);

void client_bench_clear(struct client_bench_result *result);

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_bench_command(int argc, char **argv);

#endif
