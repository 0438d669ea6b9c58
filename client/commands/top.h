/* `convoy top`: what is shown, apart from the reading of it. */
#ifndef CONVOY_CLIENT_TOP_H
#define CONVOY_CLIENT_TOP_H

#include <time.h>

#include "client/commands/command.h"
#include "client/stats/snapshot.h"
#include "client/term/terminal.h"

struct client_top_arguments {
    struct client_common common;
    double interval; /* seconds */
    long count;      /* 0: until interrupted */
    bool help;
};

/* argv[0] is the command's name. 0 or -EINVAL with a sentence. */
int client_top_arguments(int argc, char **argv, struct client_top_arguments *arguments,
                         struct convoy_failure *failure);

/* One drawing. */
struct client_top_view {
    const char *url;
    struct timespec time;                  /* of the day */
    const char *failure;                   /* why there is no answer, NULL when there is one */
    double silent_s;                       /* with failure: seconds since the last answer */
    const struct client_snapshot *between; /* NULL without an answer; its counts are those of seconds */
    double seconds;                        /* 0: totals, there is nothing to compare them with */
    bool restarted;                        /* another daemon answers than before */
};

/* The block of text; width is the window's. */
void client_top_print_text(FILE *stream, const struct client_terminal *terminal,
                           const struct client_top_view *view, int width);

/* A line of JSON. */
void client_top_print_json(FILE *stream, const struct client_top_view *view);

/* The command: argv[0] is its name. Returns the exit status. */
int client_top_command(int argc, char **argv);

#endif
