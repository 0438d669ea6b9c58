/* `convoy top`: reads the metrics periodically and shows the differences. */
#include "client/commands/top.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "client/lib/http.h"
#include "client/term/clock.h"
#include "client/term/screen.h"

#define PATIENCE_MS 3000L

static const char help[] =
    "Usage: convoy top [OPTION]...\n"
    "Watches a convoyd: requests and images a second, latencies of each stage, batches, queues, devices and\n"
    "models, from its metrics. On a terminal it fills the window until q or Ctrl-C; elsewhere it prints a\n"
    "block of text for each interval.\n"
    "\n"
    "  --interval S     seconds between two readings, 0.1 to 3600 (default 1)\n"
    "  --count N        stop after N intervals\n"
    "  --json           print a line of JSON for each interval\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "Percentiles are estimated from histograms, as Prometheus does it: observations are taken to lie evenly\n"
    "in their bucket. When the server goes away, that is said, and it is asked again.\n"
    "\n"
    "Exit status: 0 stopped by q, Ctrl-C on a full window or --count, 1 the output cannot be written, 2 "
    "wrong\n"
    "command line, 3 no server (at the start or at the last interval), 4 what answers is no convoyd.\n"
    "\n"
    "  convoy top\n"
    "  convoy top --interval 10 --json >>load.jsonl\n"
    "  convoy top --count 1 --url http://gpu-7:8080\n";

/* The previous answer and the current display. */
struct top {
    const struct client_top_arguments *arguments;
    struct client_http *http;
    struct client_terminal terminal;
    bool full; /* the whole window */
    struct client_exposition exposition;
    struct client_snapshot totals, between; /* their names lie in exposition */
    bool compares;                          /* the next totals can be compared with these */
    double answered;                        /* when, in seconds of the monotonic clock */
    struct client_top_view view;
    struct convoy_failure failure;
};

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_top_arguments *arguments = context;
    if (letter == 'i')
        return client_read_decimal("interval", value, 0.1, 3600, &arguments->interval, failure);
    return client_read_whole("count", value, 1, 1000000000, &arguments->count, failure);
}

int client_top_arguments(int argc, char **argv, struct client_top_arguments *arguments,
                         struct convoy_failure *failure)
{
    static const struct option options[] = {CLIENT_COMMON_OPTIONS,
                                            {"interval", required_argument, NULL, 'i'},
                                            {"count", required_argument, NULL, 'c'},
                                            {0}};
    *arguments = (struct client_top_arguments){.interval = 1};
    int first = client_arguments(argc, argv, options, &arguments->common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    if (first < argc)
        return client_fail_with(failure, -EINVAL, "'%s' is one argument too many", argv[first]);
    return 0;
}

/* Replaces the previous reading by a new one and puts the difference into the view. */
static int compare(struct top *top, struct client_exposition *exposition, double time)
{
    struct client_snapshot totals, between = {0};
    int status = client_snapshot_read(exposition, &totals, &top->failure);
    if (status == 0)
        status = client_snapshot_read(exposition, &between, &top->failure);
    if (status) {
        client_snapshot_clear(&totals);
        client_snapshot_clear(&between);
        return status;
    }
    bool restarted = top->compares && client_snapshot_restarted(&top->totals, &totals);
    if (top->compares && !restarted)
        client_snapshot_subtract(&top->totals, &between);
    top->view.seconds = top->compares ? time - top->answered : 0;
    top->view.restarted = restarted;
    client_snapshot_clear(&top->totals);
    client_snapshot_clear(&top->between);
    client_exposition_clear(&top->exposition);
    top->exposition = *exposition;
    memset(exposition, 0, sizeof *exposition);
    top->totals = totals;
    top->between = between;
    top->compares = true;
    top->answered = time;
    top->view.between = &top->between;
    top->view.failure = NULL;
    return 0;
}

/* Requests the metrics once and records the result in the view. */
static int ask(struct top *top)
{
    struct client_response response;
    struct client_exposition exposition = {0};
    int status = client_http_get(top->http, "/metrics", PATIENCE_MS, &response, &top->failure);
    double time = client_clock_now();
    clock_gettime(CLOCK_REALTIME, &top->view.time);
    if (status == 0 && response.status != 200)
        status = client_fail_with(&top->failure, -EPROTO,
                                  "/metrics was answered with status %d; is the URL right?", response.status);
    if (status == 0)
        status = client_exposition_read(response.text, response.size, &exposition, &top->failure);
    if (status == 0)
        status = compare(top, &exposition, time);
    client_exposition_clear(&exposition);
    if (status == 0)
        return 0;
    /* No server: the next one is another process, whose counts begin at 0. */
    if (status == -ECONNREFUSED)
        top->compares = false;
    top->view.failure = top->failure.message;
    top->view.between = NULL;
    top->view.restarted = false;
    top->view.silent_s = time - top->answered;
    return status;
}

/* 0, or -EIO when standard output cannot be written. */
static int show(struct top *top)
{
    char *text = NULL;
    size_t size = 0;
    int rows = 0, columns = 120;
    if (top->arguments->common.json) {
        client_top_print_json(stdout, &top->view);
    } else if (!top->full) {
        client_top_print_text(stdout, &top->terminal, &top->view, columns);
        putchar('\n');
    } else {
        FILE *stream = open_memstream(&text, &size);
        if (!stream)
            return 0; /* the next reading may succeed */
        client_screen_size(&rows, &columns);
        client_top_print_text(stream, &top->terminal, &top->view, columns);
        if (fclose(stream) == 0)
            client_screen_show(text);
        free(text);
        return 0;
    }
    if (fflush(stdout) == 0)
        return 0;
    return client_fail_with(&top->failure, -EIO, "standard output cannot be written: %s", strerror(errno));
}

/* Waits until the next reading is due; false when the end was requested. */
static bool wait_until(struct top *top, double time)
{
    if (!top->full) {
        client_clock_wait_until(time);
        return true;
    }
    for (;;) {
        switch (client_screen_wait(time)) {
        case CLIENT_SCREEN_TIME:
            return true;
        case CLIENT_SCREEN_END:
            return false;
        case CLIENT_SCREEN_CHANGED:
            show(top);
        }
    }
}

/* Reads and shows until the end. Returns the last reading's status, or -EIO. */
static int watch(struct top *top)
{
    int status = 0;
    double next = client_clock_now();
    for (long shown = 0; top->arguments->count == 0 || shown < top->arguments->count; shown++) {
        next += top->arguments->interval;
        if (next < client_clock_now()) /* the last answer took longer */
            next = client_clock_now();
        if (!wait_until(top, next))
            return 0;
        status = ask(top);
        if (status == -ECANCELED)
            return 0;
        if (show(top))
            return -EIO;
    }
    return status;
}

int client_top_command(int argc, char **argv)
{
    struct client_top_arguments arguments;
    struct top top = {.arguments = &arguments};
    int status = client_top_arguments(argc, argv, &arguments, &top.failure);
    if (status == 0 && arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    if (status == 0)
        status = client_http_open(arguments.common.url, &top.http, &top.failure);
    if (status)
        return client_report("top", status, &top.failure);
    top.view.url = arguments.common.url;
    top.terminal = client_terminal_open(stdout);
    top.full = top.terminal.terminal && !arguments.common.json;
    status = ask(&top);
    if (status == 0 && top.full) {
        client_screen_open();
        client_http_abort_when(top.http, client_screen_ending, NULL);
        show(&top);
    }
    if (status == 0)
        status = watch(&top);
    if (top.full)
        client_screen_close();
    int exit_status = status ? client_report("top", status, &top.failure) : CLIENT_EXIT_OK;
    client_http_close(top.http);
    client_snapshot_clear(&top.totals);
    client_snapshot_clear(&top.between);
    client_exposition_clear(&top.exposition);
    return exit_status;
}
