/* The load generator, apart from the command that reads its arguments and prints its report. */
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

/* argv[0] is the command's name. 0 or -EINVAL with a sentence. */
int client_bench_arguments(int argc, char **argv, struct client_bench_arguments *arguments,
                           struct convoy_failure *failure);

#define CLIENT_BENCH_STATUSES 600

/* What a run measured. */
struct client_bench_result {
    double *latencies_ms; /* of the requests answered 200, sorted */
    size_t answered;
    double *refusals_ms; /* of those answered 503, sorted */
    size_t refused;
    double *lags_ms; /* open loop: how late after it was due each request was sent, sorted: the generator's
                        share of the latencies, and of a full set of connections */
    size_t sent;     /* open loop */
    size_t images;   /* in those */
    size_t statuses[CLIENT_BENCH_STATUSES]; /* answers by HTTP status; 0 counts requests without an answer */
    size_t unsent;                /* open loop: arrivals whose turn had not come when the time was up */
    double elapsed_s;             /* from the first request to the last answer */
    struct convoy_failure sample; /* of the last request that had no answer, message "" without one */
};

/* Sends the prepared requests in turn over connections for seconds, then waits for what is on its way.
 *
 * Closed loop (rate 0): each connection sends its next request when it has the answer to the last; a latency
 * is the time from sending to the answer.
 * Open loop: requests are due at the times of a Poisson process, whatever the server does, and go over the
 * connection that is free first; a latency counts from when the request was due, so that a stall shows in
 * all requests that it held up (no coordinated omission).
 *
 * 503 is an answer like another: nothing is sent again. Give result to client_bench_clear also after an
 * error. 0, -ECONNREFUSED when no request at all was answered for want of a server, -EINVAL, -ENOMEM,
 * -EAGAIN when no thread can be made. */
int client_bench_run(const char *url, const struct client_request *requests, size_t count, long connections,
                     double rate, double seconds, size_t images_per_request,
                     struct client_bench_result *result, struct convoy_failure *failure);

void client_bench_clear(struct client_bench_result *result);

/* The command: argv[0] is its name. Returns the exit status. */
int client_bench_command(int argc, char **argv);

#endif
