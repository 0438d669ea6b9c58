/* The whole terminal as a screen that is drawn again and again, as top and htop do it: the alternate screen,
 * keys without Enter, and everything put back as it was at every way out: q, signals, exit(), a crash. There
 * is one screen, on standard output, with its keys from standard input; all but client_screen_fit is for the
 * main thread. */
#ifndef CONVOY_CLIENT_SCREEN_H
#define CONVOY_CLIENT_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

enum client_screen_event {
    CLIENT_SCREEN_TIME,    /* the time is there */
    CLIENT_SCREEN_CHANGED, /* the size is another, or the screen was left for a while: draw again */
    CLIENT_SCREEN_END,     /* q, Ctrl-C, a signal that ends programs, or the terminal is gone */
};

/* Takes the terminal. */
void client_screen_open(void);

/* Gives it back, as exit() does too. When a signal other than Ctrl-C's asked for the end, the process then
 * ends by that signal, so that whoever waits for it sees so; else it returns. */
void client_screen_close(void);

/* Waits until deadline (seconds of CLOCK_MONOTONIC) or until something happens. */
enum client_screen_event client_screen_wait(double deadline);

/* Whether the end was asked for, without waiting: for what takes its time in between. */
bool client_screen_ending(void *unused);

void client_screen_size(int *rows, int *columns);

/* Draws text, from the upper left corner. */
void client_screen_show(const char *text);

/* Writes text as it is drawn in a window: lines are cut to columns cells (escape sequences take none), lines
 * past the last row are replaced by a word that they are there, what stood in the window before is wiped. */
void client_screen_fit(FILE *stream, const char *text, int rows, int columns);

#endif
