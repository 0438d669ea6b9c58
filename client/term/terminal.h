/* What a person sees: colours and bars on a terminal, plain text elsewhere. Any thread may print; the
 * settings are read once, by client_terminal_open. */
#ifndef CONVOY_CLIENT_TERMINAL_H
#define CONVOY_CLIENT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct client_terminal {
    bool terminal; /* bars and progress: the stream is a terminal that can move its cursor */
    bool colour;   /* and NO_COLOR (no-color.org) is not set */
    bool utf8;     /* block characters can be shown */
};

enum client_colour { CLIENT_PLAIN, CLIENT_BOLD, CLIENT_DIM, CLIENT_GREEN, CLIENT_RED };

/* Looks at stream, TERM, NO_COLOR and the locale. */
struct client_terminal client_terminal_open(FILE *stream);

/* The escape sequence for a colour, "" without colours. */
const char *client_colour(const struct client_terminal *terminal, enum client_colour colour);

/* Two spaces and a bar of at most width cells for a share of 0 to 1 (outside: clamped, NaN is 0); nothing off
 * a terminal. */
void client_print_bar(FILE *stream, const struct client_terminal *terminal, double share, int width);

/* Puts a number into text (64 bytes hold any below 1e60), four digits that count, but never less than all
 * before the point; "-" for NaN. Gives text. */
const char *client_number_text(double value, char *text, size_t bytes);

/* Prints text that came from elsewhere: control characters become '?', so that it cannot steer the terminal.
 */
void client_print_safely(FILE *stream, const char *text);

/* Redraws a line "NAME bar done/total" on a terminal, cut to its width; total 0 is not known. Prints nothing
 * elsewhere. */
void client_print_progress(FILE *stream, const struct client_terminal *terminal, const char *name,
                           size_t done, size_t total);

/* Wipes the progress line. */
void client_end_progress(FILE *stream, const struct client_terminal *terminal);

#endif
