/* Output for people: colours and bars on a terminal, plain text otherwise. Any thread may print;
 * client_terminal_open reads the settings once. */
#ifndef CONVOY_CLIENT_TERMINAL_H
#define CONVOY_CLIENT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct client_terminal {
    bool terminal; /* the stream is a terminal that can move its cursor: print bars and progress */
    bool colour;   /* terminal, and NO_COLOR (no-color.org) is not set */
    bool utf8;     /* the locale has block characters */
};

enum client_colour { CLIENT_PLAIN, CLIENT_BOLD, CLIENT_DIM, CLIENT_GREEN, CLIENT_RED };

/* Reads the settings from stream, TERM, NO_COLOR and the locale. */
struct client_terminal client_terminal_open(FILE *stream);

/* Returns the escape sequence of a colour; "" when colours are off. */
const char *client_colour(const struct client_terminal *terminal, enum client_colour colour);

/* Prints two spaces and a bar of at most width cells for a share from 0 to 1 (clamped; NaN counts as 0).
 * Prints nothing if the stream is not a terminal. */
void client_print_bar(FILE *stream, const struct client_terminal *terminal, double share, int width);

/* Writes a number into text with four significant digits, but always all digits before the decimal point; "-"
 * for NaN. 64 bytes hold any number below 1e60. Returns text. */
const char *client_number_text(double value, char *text, size_t bytes);

/* Prints text from an untrusted source: control characters become '?', so that it cannot control the
 * terminal.
 */
void client_print_safely(FILE *stream, const char *text);

/* Redraws the progress line "NAME bar done/total", truncated to the terminal's width; total 0 means unknown.
 * Prints nothing if the stream is not a terminal. */
void client_print_progress(FILE *stream, const struct client_terminal *terminal, const char *name,
                           size_t done, size_t total);

/* Erases the progress line. */
void client_end_progress(FILE *stream, const struct client_terminal *terminal);

#endif
