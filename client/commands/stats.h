/* `convoy stats`: prints the statistics that a server keeps of its models. */
#ifndef CONVOY_CLIENT_STATS_H
#define CONVOY_CLIENT_STATS_H

#include "client/commands/command.h"
#include "client/stats/server_stats.h"
#include "client/term/terminal.h"

struct client_stats_arguments {
    struct client_common common; /* model: NULL for all models */
    bool batches;                /* --batches */
    bool help;
};

/* Parses the arguments; argv[0] is the command's name. Returns 0, or -EINVAL with a message. */
int client_stats_arguments(int argc, char **argv, struct client_stats_arguments *arguments,
                           struct convoy_failure *failure);

/* Returns the request path for the arguments; the caller frees it. NULL when out of memory. */
char *client_stats_path(const struct client_stats_arguments *arguments);

/* Prints a line for each version and, with_batches, then one for each batch size of each version. Times of
 * day are in the local time zone. */
void client_stats_print_text(FILE *stream, const struct client_terminal *terminal,
                             const struct client_server_stats *stats, bool with_batches);

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_stats_command(int argc, char **argv);

#endif
