/* What `convoy bench --sweep` prints. */
#include <stdio.h>

#include "client/commands/sweep.h"
#include "client/term/terminal.h"

static void print_head(const struct client_sweep *sweep)
{
    fputs("model ", stdout);
    client_print_safely(stdout, *sweep->model ? sweep->model : "unknown");
    if (*sweep->version) {
        fputs(" version ", stdout);
        client_print_safely(stdout, sweep->version);
    }
    if (*sweep->device) {
        fputs(" on ", stdout);
        client_print_safely(stdout, sweep->device);
    }
    if (*sweep->server) {
        fputs(", ", stdout);
        client_print_safely(stdout, sweep->server);
    }
    printf("; %zu image%s a request; %g s a load after %g s of warm-up\n", sweep->images_per_request,
           sweep->images_per_request == 1 ? "" : "s", sweep->seconds, sweep->warm_up_s);
    printf("%-22s %11s %11s %9s %9s %9s %9s %10s\n", "load", "requests/s", "images/s", "50 % ms", "90 % ms",
           "99 % ms", "99.9 % ms", "longest ms");
}

void client_sweep_print_point(const struct client_sweep *sweep)
{
    const struct client_sweep_point *point = &sweep->points[sweep->count - 1];
    const struct client_bench_result *result = &point->result;
    char text[256];
    if (sweep->count == 1)
        print_head(sweep);
    printf("%-22s %11.1f %11.1f", client_sweep_name(point, text, sizeof text), client_sweep_throughput(point),
           result->elapsed_s > 0 ? (double)result->images / result->elapsed_s : 0);
    for (size_t i = 0; i < CLIENT_BENCH_PERCENTS; i++)
        printf(" %9s",
               client_number_text(client_bins_percentile(&result->latency, client_bench_percents[i]) / 1000,
                                  text, sizeof text));
    printf(" %10s",
           client_number_text(client_bins_percentile(&result->latency, 100) / 1000, text, sizeof text));
    if (client_sweep_errors(point))
        printf("  ERRORS: %s", client_sweep_problems(point, text, sizeof text));
    putchar('\n');
    fflush(stdout);
}

void client_sweep_print_end(const struct client_sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++) {
        const struct convoy_failure *sample = &sweep->points[i].result.sample;
        if (*sample->message) {
            fputs("no answer, for example: ", stdout);
            client_print_safely(stdout, sample->message);
            putchar('\n');
            break;
        }
    }
    if (*sweep->ended) {
        printf("%zu of %zu loads were measured: ", sweep->count, sweep->planned);
        client_print_safely(stdout, sweep->ended);
        putchar('\n');
    }
}
