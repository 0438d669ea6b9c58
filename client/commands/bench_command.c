#include "client/commands/bench_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/commands/bench.h"
#include "client/commands/sweep.h"
#include "client/data/output_file.h"
#include "client/lib/failure.h"

static const char help[] =
    "Usage: convoy bench [OPTION]... PATH...\n"
    "       convoy bench --compare [--report FILE] [--json] REPORT REPORT\n"
    "Loads a convoyd with the images at PATH (files, or folders with all below them)\n"
    "and says how it did. What is no JPEG, PNG, WebP, BMP or GIF is\n"
    "passed over.\n"
    "\n"
    "  --connections C  how many at once (default 8; open loop 128)\n"
    "  --rate R         open loop: R requests a second arrive by chance (Poisson), whatever the server "
    "does;\n"
    "                   latencies count from when a request was due. Without it the loop is closed: each\n"
    "                   connection sends its next request when it has the answer to the last.\n"
    "  --seconds S      how long (default 10)\n"
    "  --batch N        images a request (default 1)\n"
    "  --sweep          measure a range of loads, each for --seconds after a short warm-up: --rate or\n"
    "                   --connections is then a list as 100,200,400 (default: connections 1,2,4,8,16,32,64)\n"
    "  --report FILE    with --sweep and --compare: also write a page (HTML) with charts; it stands alone\n"
    "  --compare        compare two reports of --sweep, pages or what --json printed: the second with the "
    "first\n"
    "  --model NAME     which model (default: the server's)\n"
    "  --version V      which version of it (default: the highest)\n"
    "  --json           print one JSON document\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "A closed loop finds the most that a server can do; an open loop says what users feel at a given load.\n"
    "Latencies and rates are those of requests answered 200; all others are counted by status, none is\n"
    "sent again. A form is answered 200 when any of its images was classified: its images all count.\n"
    "Percentiles are right to within 0.5 %. Ctrl-C ends a sweep and keeps the loads that are measured.\n"
    "\n"
    "Exit status: 0 all requests were answered 200, 1 some were not or an image cannot be read, 2 wrong\n"
    "command line, 3 no server, 4 none was answered 200.\n"
    "\n"
    "  convoy bench models/samples\n"
    "  convoy bench --connections 64 --batch 16 photos/\n"
    "  convoy bench --rate 500 --seconds 60 --json photos/ >run.json\n"
    "  convoy bench --sweep --report load.html photos/\n"
    "  convoy bench --sweep --rate 100,200,400,800 --report after.html photos/\n"
    "  convoy bench --compare --report both.html before.html after.html\n";

/* One load. Returns the exit status. */
static int run_one(const struct client_bench_arguments *arguments, const struct client_bench_set *set)
{
    struct convoy_failure failure;
    const struct client_bench_load load = {.url = arguments->common.url,
                                           .requests = set->requests,
                                           .count = set->request_count,
                                           .images_per_request = (size_t)arguments->batch,
                                           .connections = arguments->connections[0],
                                           .rate = arguments->rate_count ? arguments->rates[0] : 0,
                                           .seconds = arguments->seconds,
                                           .progress = "bench: second"};
    struct client_bench_result *result = calloc(1, sizeof *result);
    int status = result ? client_bench_run(&load, result, &failure)
                        : client_fail_with(&failure, -ENOMEM, "memory is out");
    int exit_status = status ? client_report("bench", status, &failure) : client_bench_exit_status(result);
    if (status == 0 && arguments->common.json)
        client_bench_print_json(&load, result);
    else if (status == 0)
        client_bench_print_text(&load, result);
    free(result);
    return exit_status;
}

int client_bench_command(int argc, char **argv)
{
    struct client_bench_arguments arguments;
    struct convoy_failure failure;
    struct client_bench_set set = {0};
    int status = client_bench_arguments(argc, argv, &arguments, &failure);
    if (status == 0 && arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    /* What takes long to measure must have a place to go. */
    if (status == 0 && arguments.report)
        status = client_output_file_check(arguments.report, &failure);
    if (status == 0 && arguments.compare)
        return client_sweep_compare_command(&arguments);
    if (status == 0)
        status = client_bench_set_read(&arguments, &set, &failure);
    int exit_status;
    if (status)
        exit_status = client_report("bench", status, &failure);
    else if (arguments.sweep)
        exit_status = client_sweep_command(&arguments, &set);
    else
        exit_status = run_one(&arguments, &set);
    client_bench_set_clear(&set);
    return exit_status;
}
