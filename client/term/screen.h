/* A full-screen display that is redrawn periodically, as in top and htop: it uses the alternate screen, reads
 * keys without Enter, and restores the terminal on every exit: q, signals, exit(), a crash. There is one
 * screen, on standard output, with keys from standard input. Main thread only, except client_screen_fit. */
#ifndef CONVOY_CLIENT_SCREEN_H
#define CONVOY_CLIENT_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

enum client_screen_event {
    CLIENT_SCREEN_TIME,    /* the deadline has passed */
    CLIENT_SCREEN_CHANGED, /* the size changed, or the process was suspended: redraw */
    CLIENT_SCREEN_END,     /* q, Ctrl-C, a terminating signal, or the terminal was closed */
};

/* Switches the terminal to the alternate screen and unbuffered keys. */
void client_screen_open(void);

/* Restores the terminal, as exit() does too. If a signal other than SIGINT requested the end, raises that
 * signal again with its default action, so that the parent process sees it; otherwise returns. */
void client_screen_close(void);

/* Waits until deadline (seconds of CLOCK_MONOTONIC) or until another event, and returns the event. */
enum client_screen_event client_screen_wait(double deadline);

/* Returns whether the end was requested, without waiting; for use during long operations, as the `stop` of
 * client_http_abort_when. */
bool client_screen_ending(void *unused);

/* Reads the window's size in character cells. */
void client_screen_size(int *rows, int *columns);

/* Draws text, starting in the upper left corner. */
void client_screen_show(const char *text);

/* Writes text to stream as it fits a window: truncates lines to `columns` cells (escape sequences count
 * none), replaces the lines beyond the last row by a note that there are more, and erases the previous
 * content. Any thread. */
void client_screen_fit(FILE *stream, const char *text, int rows, int columns);

#endif
