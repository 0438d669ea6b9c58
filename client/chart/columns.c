#include "client/chart/columns.h"

#include <math.h>

static double height_of(const double *heights, size_t i)
{
    return heights && isfinite(heights[i]) && heights[i] > 0 ? heights[i] : 0;
}

/* Finds the range of bounds that is drawn, and the largest height. */
static void measure(const struct client_columns *columns, double *low, double *high, double *most)
{
    *low = columns->x_high > 0 ? columns->x_low : INFINITY;
    *high = columns->x_high > 0 ? columns->x_high : -INFINITY;
    *most = 0;
    for (size_t i = 0; i < columns->count; i++) {
        double height = fmax(height_of(columns->heights, i), height_of(columns->outline, i));
        *most = fmax(*most, height);
        if (height <= 0)
            continue;
        *low = fmin(*low, columns->bounds[i]);
        *high = fmax(*high, columns->bounds[i + 1]);
    }
}

static void draw_columns(FILE *out, const struct client_columns *columns)
{
    const struct client_frame *frame = &columns->frame;
    char tip[256];
    for (size_t i = 0; i < columns->count; i++) {
        double height = height_of(columns->heights, i);
        if (height <= 0)
            continue;
        double left = client_scale_place(&frame->x, columns->bounds[i]);
        double right = client_scale_place(&frame->x, columns->bounds[i + 1]);
        double top = client_scale_place(&frame->y, height);
        /* What is not empty is seen. */
        top = frame->bottom - top < 1 ? frame->bottom - 1 : top;
        fprintf(out, "<rect class=\"block\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", left, top,
                right - left > 1.5 ? right - left - 0.5 : right - left, frame->bottom - top);
        snprintf(tip, sizeof tip, "%.4g %s: %.4g to %.4g %s", height, columns->y_unit ? columns->y_unit : "",
                 columns->bounds[i], columns->bounds[i + 1], columns->x_unit ? columns->x_unit : "");
        client_frame_tip(out, tip);
        fputs("</rect>", out);
    }
}

static void draw_outline(FILE *out, const struct client_columns *columns)
{
    const struct client_frame *frame = &columns->frame;
    fprintf(out, "<path class=\"line dashed\" d=\"M%.1f %.1f",
            client_scale_place(&frame->x, columns->bounds[0]), frame->bottom);
    for (size_t i = 0; i < columns->count; i++)
        fprintf(out, "V%.1fH%.1f", client_scale_place(&frame->y, height_of(columns->outline, i)),
                client_scale_place(&frame->x, columns->bounds[i + 1]));
    fprintf(out, "V%.1f\"></path>", frame->bottom);
}

void client_columns_draw(FILE *out, struct client_columns *columns)
{
    struct client_frame *frame = &columns->frame;
    struct client_legend legend[] = {columns->legend, columns->outline_legend};
    double low, high, most;
    measure(columns, &low, &high, &most);
    client_scale_log(&frame->x, low, high);
    client_scale_linear(&frame->y, 0, most, 4);
    frame->legend = legend;
    frame->legend_count = columns->outline ? 2 : 0;
    client_frame_open(out, frame);
    frame->legend = NULL;
    frame->legend_count = 0;
    fprintf(out, "<g class=\"c%d\">", columns->legend.colour % CLIENT_FRAME_COLOURS);
    draw_columns(out, columns);
    fputs("</g>", out);
    if (columns->outline && columns->count) {
        fprintf(out, "<g class=\"c%d\">", columns->outline_legend.colour % CLIENT_FRAME_COLOURS);
        draw_outline(out, columns);
        fputs("</g>", out);
    }
    if (most <= 0)
        fprintf(
            out,
            "<text class=\"none\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">nothing was measured</text>",
            (frame->left + frame->right) / 2, (frame->top + frame->bottom) / 2);
    client_frame_close(out);
}
