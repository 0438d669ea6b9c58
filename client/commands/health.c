/* `convoy health`: for whatever watches a server and has no curl, such as a container's health check. */
#include "client/commands/health.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/command.h"
#include "client/lib/failure.h"
#include "client/lib/http.h"
#include "client/term/terminal.h"

static const char help[] =
    "Usage: convoy health [OPTION]...\n"
    "Asks whether a convoyd is ready, for health checks; no key is needed.\n"
    "\n"
    "  --live           ask only whether it lives: one that loads, drains or waits for a device does\n"
    "  --timeout S      how long to wait for the answer, in seconds (default 5)\n"
    "  --json           print the server's answer\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "Exit status: 0 ready (--live: alive), 1 not, 2 wrong command line, 3 no server, 4 no answer in time, "
    "or\n"
    "none of a convoyd.\n"
    "\n"
    "  convoy health && echo ready\n"
    "  convoy health --live --url http://gpu-7:8081\n";

struct health_options {
    bool live;
    long timeout_s;
};

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct health_options *options = context;
    if (letter == 't')
        return client_read_whole("timeout", value, 1, 3600, &options->timeout_s, failure);
    options->live = true;
    return 0;
}

/* 0: the page says yes, 1: no. Only these two statuses are a convoyd's. */
static int ask(const char *url, const struct health_options *options, bool json,
               struct convoy_failure *failure)
{
    struct client_http *http = NULL;
    struct client_response response;
    int status = client_http_open(url, &http, failure);
    if (status == 0)
        status = client_http_get(http, options->live ? "/v2/health/live" : "/v2/health/ready",
                                 options->timeout_s * 1000, &response, failure);
    if (status == 0 && response.status != 200 && response.status != 503)
        status = client_fail_with(failure, -EPROTO, "the answer from %s has status %d and is not a convoyd's",
                                  url, response.status);
    if (status == 0) {
        status = response.status != 200;
        if (json)
            client_print_safely(stdout, response.text);
        else
            fputs(options->live ? status ? "not alive" : "alive" : status ? "not ready" : "ready", stdout);
        putchar('\n');
    }
    client_http_close(http);
    return status;
}

int client_health_command(int argc, char **argv)
{
    static const struct option known[] = {CLIENT_COMMON_OPTIONS,
                                          {"live", no_argument, NULL, 'l'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {0}};
    struct health_options options = {.timeout_s = 5};
    struct client_common common;
    struct convoy_failure failure;
    int first = client_arguments(argc, argv, known, &common, take, &options, &failure);
    if (first == 0) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    if (first > 0 && first < argc)
        first = client_fail_with(&failure, -EINVAL, "'%s' is one argument too many", argv[first]);
    if (first < 0)
        return client_report("health", first, &failure);
    int status = ask(common.url, &options, common.json, &failure);
    if (status < 0)
        return client_report("health", status, &failure);
    return status == 0 ? CLIENT_EXIT_OK : CLIENT_EXIT_IMAGE;
}
