/* `convoy stats`: what is shown, apart from the asking for it. */
#ifndef CONVOY_CLIENT_STATS_H
#define CONVOY_CLIENT_STATS_H

#include "client/commands/command.h"
#include "client/stats/server_stats.h"
#include "client/term/terminal.h"

struct client_stats_arguments {
    struct client_common common; /* model: NULL for all of them */
    bool batches;                /* --batches */
    bool help;
};

/* argv[0] is the command's name. 0 or -EINVAL with a sentence. */
int client_stats_arguments(int argc, char **argv, struct client_stats_arguments *arguments,
                           struct convoy_failure *failure);

/* The path of the page that has what arguments ask for, to be freed; NULL when memory is out. */
char *client_stats_path(const struct client_stats_arguments *arguments);

/* A line for each version; with_batches: then one for each batch size of each version. Times of the day are
 * those of the time zone here. */
void client_stats_print_text(FILE *stream, const struct client_terminal *terminal,
                             const struct client_server_stats *stats, bool with_batches);

/* The command: argv[0] is its name. Returns the exit status. */
int client_stats_command(int argc, char **argv);

#endif
