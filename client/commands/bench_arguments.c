/* The arguments of `convoy bench`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/bench.h"
#include "client/lib/failure.h"

#define SWEEP_CONNECTIONS 64 /* the most, by default */

/* Reads a list of numbers, separated by commas. */
static int read_list(const char *name, const char *text,
                     int (*read)(const char *, const char *, size_t, void *, struct convoy_failure *),
                     void *list, size_t *count, struct convoy_failure *failure)
{
    char number[64];
    *count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (*count == CLIENT_BENCH_POINTS)
            return client_fail_with(failure, -EINVAL, "--%s has more than %d values", name,
                                    CLIENT_BENCH_POINTS);
        snprintf(number, sizeof number, "%.*s", length < sizeof number ? (int)length : (int)sizeof number - 1,
                 at);
        int status = read(name, number, (*count)++, list, failure);
        if (status)
            return status;
        at += length;
        if (!*at)
            return 0;
    }
}

static int read_rate(const char *name, const char *text, size_t place, void *list,
                     struct convoy_failure *failure)
{
    return client_read_decimal(name, text, 0.001, 1e6, (double *)list + place, failure);
}

static int read_connections(const char *name, const char *text, size_t place, void *list,
                            struct convoy_failure *failure)
{
    return client_read_whole(name, text, 1, 10000, (long *)list + place, failure);
}

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_bench_arguments *arguments = context;
    switch (letter) {
    case 'c':
        return read_list("connections", value, read_connections, arguments->connections,
                         &arguments->connection_count, failure);
    case 'r':
        return read_list("rate", value, read_rate, arguments->rates, &arguments->rate_count, failure);
    case 's':
        return client_read_decimal("seconds", value, 0.1, 1e6, &arguments->seconds, failure);
    case 'w':
        arguments->sweep = true;
        return 0;
    case 'd':
        arguments->compare = true;
        return 0;
    case 'p':
        if (!*value)
            return client_fail_with(failure, -EINVAL, "--report needs the name of a file");
        arguments->report = value;
        return 0;
    default:
        return client_read_whole("batch", value, 1, 1024, &arguments->batch, failure);
    }
}

/* Checks what excludes each other, and fills in what is not given. */
static int settle(struct client_bench_arguments *arguments, struct convoy_failure *failure)
{
    if (arguments->compare && arguments->sweep)
        return client_fail_with(failure, -EINVAL, "--compare and --sweep exclude each other");
    if (arguments->compare && arguments->path_count != 2)
        return client_fail_with(failure, -EINVAL, "--compare needs two reports, %zu are named",
                                arguments->path_count);
    if (arguments->report && !arguments->compare && !arguments->sweep)
        return client_fail_with(failure, -EINVAL, "--report needs --sweep or --compare");
    if (arguments->path_count == 0)
        return client_fail_with(failure, -EINVAL, "name a folder or files with images to send");
    if (!arguments->sweep && (arguments->rate_count > 1 || arguments->connection_count > 1))
        return client_fail_with(failure, -EINVAL, "--%s is a list, which only --sweep measures",
                                arguments->rate_count > 1 ? "rate" : "connections");
    if (arguments->rate_count > 1 && arguments->connection_count > 1)
        return client_fail_with(failure, -EINVAL,
                                "--rate and --connections are both lists: one sweep varies one of them");
    if (arguments->connection_count == 0 && arguments->sweep && arguments->rate_count == 0) {
        for (long connections = 1; connections <= SWEEP_CONNECTIONS; connections *= 2)
            arguments->connections[arguments->connection_count++] = connections;
    } else if (arguments->connection_count == 0) {
        arguments->connections[arguments->connection_count++] = arguments->rate_count ? 128 : 8;
    }
    return 0;
}

int client_bench_arguments(int argc, char **argv, struct client_bench_arguments *arguments,
                           struct convoy_failure *failure)
{
    static const struct option options[] = {CLIENT_COMMON_OPTIONS,
                                            CLIENT_MODEL_OPTIONS,
                                            {"connections", required_argument, NULL, 'c'},
                                            {"rate", required_argument, NULL, 'r'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"sweep", no_argument, NULL, 'w'},
                                            {"compare", no_argument, NULL, 'd'},
                                            {"report", required_argument, NULL, 'p'},
                                            {0}};
    *arguments = (struct client_bench_arguments){.seconds = 10, .batch = 1};
    int first = client_arguments(argc, argv, options, &arguments->common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    arguments->paths = argv + first;
    arguments->path_count = (size_t)(argc - first);
    return settle(arguments, failure);
}
