#include "client/chart/rows.h"

#include <math.h>

#include "client/chart/markup.h"

#define ROW        22
#define NAMES_ROOM 168
#define NAME_CHARS 22

static double row_middle(const struct client_frame *frame, size_t row)
{
    return frame->top + ((double)row + 0.5) * ROW;
}

/* The name, cut to the room that there is; whole in its tip. */
static void draw_name(FILE *out, const struct client_frame *frame, size_t row, const char *name)
{
    fprintf(out, "<text class=\"row\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", frame->left - 7,
            row_middle(frame, row) + 4);
    client_frame_tip(out, name);
    client_markup_cut(out, name, NAME_CHARS);
    fputs("</text>", out);
}

static void open_rows(FILE *out, struct client_frame *frame, size_t rows)
{
    frame->rows = true;
    frame->left_room = NAMES_ROOM;
    frame->height = client_frame_border(frame) + ROW * (double)(rows ? rows : 1);
    client_frame_open(out, frame);
    if (rows == 0)
        fprintf(
            out,
            "<text class=\"none\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">nothing was measured</text>",
            (frame->left + frame->right) / 2, row_middle(frame, 0) + 4);
}

void client_ranges_draw(FILE *out, struct client_ranges *ranges)
{
    struct client_frame *frame = &ranges->frame;
    client_scale_linear(&frame->x, 0, 100, 10);
    open_rows(out, frame, ranges->rows);
    if (isfinite(ranges->all)) {
        double x = client_scale_place(&frame->x, ranges->all);
        fprintf(out, "<path class=\"diagonal\" d=\"M%.1f %.1fV%.1f\"><title>all: %.2f %%</title></path>", x,
                frame->top, frame->bottom, ranges->all);
    }
    fputs("<g class=\"c0\">", out);
    for (size_t row = 0; row < ranges->rows; row++) {
        double y = row_middle(frame, row);
        double low = client_scale_place(&frame->x, ranges->low[row]);
        double high = client_scale_place(&frame->x, ranges->high[row]);
        if (isfinite(low) && isfinite(high))
            fprintf(out, "<path class=\"whisker\" d=\"M%.1f %.1fv8m0 -4H%.1fm0 -4v8\"></path>", low, y - 4,
                    high);
        client_frame_mark(out, client_scale_place(&frame->x, ranges->values[row]), y,
                          ranges->about ? ranges->about[row] : NULL);
    }
    fputs("</g>", out);
    for (size_t row = 0; row < ranges->rows; row++)
        draw_name(out, frame, row, ranges->names[row]);
    client_frame_close(out);
}
