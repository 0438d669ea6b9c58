/* Truncates text to a window, see screen.h. */
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "client/term/screen.h"

/* Returns the length of the escape sequence ESC [ ... LETTER at text, 0 when there is none. */
static size_t sequence_length(const char *text)
{
    if (text[0] != '\033' || text[1] != '[')
        return 0;
    size_t length = 2 + strspn(text + 2, "0123456789;?");
    return text[length] ? length + 1 : length;
}

/* Writes one line, of length bytes, in at most columns cells. */
static void fit_line(FILE *stream, const char *line, size_t length, int columns)
{
    const char *end = line + length;
    int cells = 0;
    bool full = false;
    mbstate_t state = {0};
    while (line < end) {
        size_t sequence = sequence_length(line);
        if (sequence) {
            /* Also beyond the cut, because the sequence that ends a colour must be written. */
            fwrite(line, 1, sequence, stream);
            line += sequence;
            continue;
        }
        wchar_t character;
        size_t bytes = mbrtowc(&character, line, (size_t)(end - line), &state);
        int width = bytes && bytes <= (size_t)(end - line) ? wcwidth(character) : -1;
        bool shown = width >= 0;
        if (!shown) {
            memset(&state, 0, sizeof state);
            width = bytes = 1;
        }
        full = full || cells + width > columns;
        if (!full && shown)
            fwrite(line, 1, bytes, stream);
        else if (!full)
            fputc('?', stream);
        cells += width;
        line += bytes;
    }
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        lines++;
    return lines;
}

void client_screen_fit(FILE *stream, const char *text, int rows, int columns)
{
    size_t lines = count_lines(text), last = rows > 0 ? (size_t)rows : 1;
    char more[64];
    fputs("\033[H", stream);
    for (size_t row = 1; row <= last && row <= lines; row++) {
        size_t length = strcspn(text, "\n");
        /* Erase the line before writing it: after the last column, erasing would delete that column. */
        fputs("\033[K", stream);
        if (row == last && lines > last) {
            snprintf(more, sizeof more, "(%zu more lines: the window is too low)", lines - last + 1);
            fit_line(stream, more, strlen(more), columns);
            return;
        }
        fit_line(stream, text, length, columns);
        text += length + 1;
        if (row < last)
            fputc('\n', stream);
    }
    if (lines < last)
        fputs("\033[J", stream);
}
