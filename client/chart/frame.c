#include "client/chart/frame.h"

#include <math.h>
#include <string.h>

#include "client/chart/markup.h"

/* Pixels. Widths of texts are estimates: the font is the reader's. */
#define CHARACTER     6.7
#define TITLE_HEIGHT  28
#define LEGEND_HEIGHT 20
#define AXIS_HEIGHT   44 /* tick labels and the axis' name */
#define NUMBERS_ROOM  64
#define LEGEND_MARK   30
#define LEGEND_GAP    18

static size_t characters_of(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

static double entry_width(const struct client_legend *entry)
{
    return LEGEND_MARK + CHARACTER * (double)characters_of(entry->name) + LEGEND_GAP;
}

void client_frame_tip(FILE *out, const char *tip)
{
    if (!tip)
        return;
    fputs("<title>", out);
    client_markup_text(out, tip);
    fputs("</title>", out);
}

void client_frame_mark(FILE *out, enum client_mark mark, bool hollow, double x, double y, const char *tip)
{
    const char *class = hollow ? "mark hollow" : "mark";
    if (!isfinite(x) || !isfinite(y))
        return;
    switch (mark) {
    case CLIENT_MARK_CIRCLE:
        fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\">", class, x, y);
        client_frame_tip(out, tip);
        fputs("</circle>", out);
        return;
    case CLIENT_MARK_SQUARE:
        fprintf(out, "<path class=\"%s\" d=\"M%.1f %.1fh7v7h-7z\">", class, x - 3.5, y - 3.5);
        break;
    case CLIENT_MARK_TRIANGLE:
        fprintf(out, "<path class=\"%s\" d=\"M%.1f %.1fl4.5 8h-9z\">", class, x, y - 5);
        break;
    case CLIENT_MARK_DIAMOND:
        fprintf(out, "<path class=\"%s\" d=\"M%.1f %.1fl4.8 4.8l-4.8 4.8l-4.8 -4.8z\">", class, x, y - 4.8);
        break;
    default:
        return;
    }
    client_frame_tip(out, tip);
    fputs("</path>", out);
}

static void draw_entry(FILE *out, const struct client_legend *entry, double x, double y)
{
    fprintf(out, "<g class=\"c%d\">", entry->colour % CLIENT_FRAME_COLOURS);
    if (entry->mark == CLIENT_MARK_BLOCK) {
        fprintf(out, "<rect class=\"block%s\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"11\"></rect>",
                entry->dashed ? " pale" : "", x + 8, y - 9.5);
    } else {
        fprintf(out, "<path class=\"line%s\" d=\"M%.1f %.1fh24\"></path>", entry->dashed ? " dashed" : "", x,
                y - 4);
        client_frame_mark(out, entry->mark, false, x + 12, y - 4, NULL);
    }
    fprintf(out, "</g><text x=\"%.1f\" y=\"%.1f\">", x + LEGEND_MARK, y);
    client_markup_text(out, entry->name);
    fputs("</text>", out);
}

/* Lays the entries out in rows, and draws them if out is not NULL. Returns the number of rows. */
static int legend_rows(FILE *out, const struct client_frame *frame, double y)
{
    double x = 8;
    int rows = frame->legend_count > 0;
    for (size_t i = 0; i < frame->legend_count; i++) {
        double width = entry_width(&frame->legend[i]);
        if (x > 8 && x + width > frame->width) {
            x = 8;
            y += LEGEND_HEIGHT;
            rows++;
        }
        if (out)
            draw_entry(out, &frame->legend[i], x, y);
        x += width;
    }
    return rows;
}

double client_frame_border(const struct client_frame *frame)
{
    return TITLE_HEIGHT + 8 + legend_rows(NULL, frame, 0) * LEGEND_HEIGHT + frame->head_room + AXIS_HEIGHT;
}

static void draw_x_axis(FILE *out, const struct client_frame *frame)
{
    char label[24];
    double last = -1e9;
    for (size_t i = 0; i < frame->x.tick_count; i++) {
        double x = client_scale_place(&frame->x, frame->x.ticks[i]);
        client_scale_label(frame->x.ticks[i], label, sizeof label);
        double half = CHARACTER * (double)strlen(label) / 2;
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"></path>", x, frame->top, frame->bottom);
        /* Labels that would touch the last one are left out. */
        if (x - half < last + 6)
            continue;
        last = x + half;
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x,
                frame->bottom + 16, label);
    }
    fprintf(out, "<path class=\"axis\" d=\"M%.1f %.1fH%.1f\"></path>", frame->left, frame->bottom,
            frame->right);
    if (!frame->x_name)
        return;
    fprintf(out, "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
            (frame->left + frame->right) / 2, frame->bottom + 36);
    client_markup_text(out, frame->x_name);
    fputs("</text>", out);
}

static void draw_y_axis(FILE *out, const struct client_frame *frame)
{
    char label[24];
    for (size_t i = 0; !frame->rows && i < frame->y.tick_count; i++) {
        double y = client_scale_place(&frame->y, frame->y.ticks[i]);
        client_scale_label(frame->y.ticks[i], label, sizeof label);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"></path>", frame->left, y, frame->right);
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                frame->left - 7, y + 4, label);
    }
    fprintf(out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1f\"></path>", frame->left, frame->top,
            frame->bottom);
    if (!frame->y_name)
        return;
    double middle = (frame->top + frame->bottom) / 2;
    fprintf(out, "<text class=\"name\" transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">",
            middle);
    client_markup_text(out, frame->y_name);
    fputs("</text>", out);
}

void client_frame_open(FILE *out, struct client_frame *frame)
{
    frame->left = frame->left_room > 0 ? frame->left_room : NUMBERS_ROOM;
    frame->right = frame->width - (frame->right_room > 0 ? frame->right_room : 20);
    frame->top = client_frame_border(frame) - AXIS_HEIGHT;
    frame->bottom = frame->height - AXIS_HEIGHT;
    frame->x.from = frame->left;
    frame->x.to = frame->right;
    frame->y.from = frame->bottom;
    frame->y.to = frame->top;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" id=\"%s\" role=\"img\" "
            "aria-labelledby=\"%s-title%s%s%s\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\">",
            frame->id, frame->id, frame->description ? " " : "", frame->description ? frame->id : "",
            frame->description ? "-about" : "", frame->width, frame->height, frame->width, frame->height);
    fprintf(out, "<title id=\"%s-title\">", frame->id);
    client_markup_text(out, frame->title);
    fputs("</title>", out);
    if (frame->description) {
        fprintf(out, "<desc id=\"%s-about\">", frame->id);
        client_markup_text(out, frame->description);
        fputs("</desc>", out);
    }
    fputs("<text class=\"title\" x=\"8\" y=\"19\">", out);
    client_markup_text(out, frame->title);
    fputs("</text>", out);
    legend_rows(out, frame, TITLE_HEIGHT + 12);
    draw_x_axis(out, frame);
    draw_y_axis(out, frame);
}

void client_frame_close(FILE *out)
{
    fputs("</svg>\n", out);
}
