#include "client/term/terminal.h"

#include <langinfo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PROGRESS_CELLS 30

struct client_terminal client_terminal_open(FILE *stream)
{
    struct client_terminal terminal = {0};
    const char *kind = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    terminal.terminal = isatty(fileno(stream)) && kind && strcmp(kind, "dumb") != 0;
    terminal.colour = terminal.terminal && !(no_colour && *no_colour);
    terminal.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    return terminal;
}

const char *client_colour(const struct client_terminal *terminal, enum client_colour colour)
{
    static const char *const sequences[] = {"\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[31m"};
    return terminal->colour ? sequences[colour] : "";
}

static int full_cells(double share, int width)
{
    return share > 0 ? (int)((share < 1 ? share : 1) * width + 0.5) : 0;
}

static void print_cells(FILE *stream, const struct client_terminal *terminal, double share, int width)
{
    int full = full_cells(share, width);
    for (int i = 0; i < full; i++)
        fputs(terminal->utf8 ? "\xE2\x96\x88" : "#", stream);
}

void client_print_bar(FILE *stream, const struct client_terminal *terminal, double share, int width)
{
    if (!terminal->terminal)
        return;
    fputs("  ", stream);
    fputs(client_colour(terminal, CLIENT_GREEN), stream);
    print_cells(stream, terminal, share, width);
    fputs(client_colour(terminal, CLIENT_PLAIN), stream);
}

const char *client_number_text(double value, char *text, size_t bytes)
{
    int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
    if (isnan(value))
        snprintf(text, bytes, "-");
    else
        snprintf(text, bytes, "%.*f", decimals, value);
    return text;
}

void client_print_safely(FILE *stream, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        /* U+0080 to U+009F control terminals too; in UTF-8 they are C2 80 to C2 9F. */
        if (at[0] == 0xC2 && at[1] >= 0x80 && at[1] <= 0x9F) {
            fputc('?', stream);
            at++;
        } else {
            fputc(*at < 0x20 || *at == 0x7F ? '?' : *at, stream);
        }
    }
}

static int columns_of(FILE *stream)
{
    struct winsize size;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void client_print_progress(FILE *stream, const struct client_terminal *terminal, const char *name,
                           size_t done, size_t total)
{
    if (!terminal->terminal)
        return;
    char count[64], shown[128];
    if (total)
        snprintf(count, sizeof count, "%zu/%zu", done, total);
    else
        snprintf(count, sizeof count, "%zu", done);
    /* A line that reaches the last column would wrap and could not be erased. */
    int room = columns_of(stream) - (int)strlen(count) - 3;
    int bar = !total ? 0 : room / 2 < PROGRESS_CELLS ? room / 2 : PROGRESS_CELLS;
    int length = room - bar < 0 ? 0 : room - bar < (int)sizeof shown - 1 ? room - bar : (int)sizeof shown - 1;
    /* Do not cut within a character. */
    while (length > 0 && length < (int)strlen(name) && ((unsigned char)name[length] & 0xC0) == 0x80)
        length--;
    snprintf(shown, sizeof shown, "%.*s", length, name);
    fputs("\r\033[K", stream);
    if (*shown)
        client_print_safely(stream, shown);
    if (bar > 0) {
        double share = (double)done / (double)total;
        fputc(' ', stream);
        print_cells(stream, terminal, share, bar);
        fprintf(stream, "%*s", bar - full_cells(share, bar), "");
    }
    fprintf(stream, " %s", count);
    fflush(stream);
}

void client_end_progress(FILE *stream, const struct client_terminal *terminal)
{
    if (!terminal->terminal)
        return;
    fputs("\r\033[K", stream);
    fflush(stream);
}
