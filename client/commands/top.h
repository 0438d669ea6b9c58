/* `convoy top`: shows a running server. top.c reads the metrics periodically, top_text.c and top_json.c
 * print. */
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

/* Parses the arguments; argv[0] is the command's name. Returns 0, or -EINVAL with a message. */
int client_top_arguments(int argc, char **argv, struct client_top_arguments *arguments,
                         struct convoy_failure *failure);

/* The content of one display. */
struct client_top_view {
    const char *url;
    struct timespec time;                  /* time of day */
    const char *failure;                   /* why there is no answer; NULL when there is one */
    double silent_s;                       /* with failure: seconds since the last answer */
    const struct client_snapshot *between; /* counts over the last `seconds`; NULL without an answer */
    double seconds;                        /* 0: the counts are totals since the server's start */
    bool restarted;                        /* the daemon was restarted since the previous display */
};

/* Prints the display as text; width is the window's, in cells. */
void client_top_print_text(FILE *stream, const struct client_terminal *terminal,
                           const struct client_top_view *view, int width);

/* Prints the display as one line of JSON. */
void client_top_print_json(FILE *stream, const struct client_top_view *view);

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_top_command(int argc, char **argv);

#endif
