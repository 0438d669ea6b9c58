#include "client/chart/plot.h"

#include <math.h>

static bool is_drawn(const struct client_plot *plot, size_t i)
{
    return isfinite(plot->x[i]) && isfinite(plot->y[i]);
}

/* Returns the number of points that are drawn. */
static size_t draw_line(FILE *out, const struct client_plot *plot)
{
    size_t points = 0;
    bool pen_down = false;
    fputs("<path class=\"line\" d=\"", out);
    for (size_t i = 0; i < plot->count; i++) {
        if (!is_drawn(plot, i)) {
            pen_down = false;
            continue;
        }
        fprintf(out, "%c%.1f %.1f", pen_down ? 'L' : 'M', client_scale_place(&plot->frame.x, plot->x[i]),
                client_scale_place(&plot->frame.y, plot->y[i]));
        pen_down = true;
        points++;
    }
    fputs("\"></path>", out);
    return points;
}

static void draw_points(FILE *out, const struct client_plot *plot)
{
    for (size_t i = 0; i < plot->count; i++) {
        if (!is_drawn(plot, i))
            continue;
        double x = client_scale_place(&plot->frame.x, plot->x[i]);
        double low = client_scale_place(&plot->frame.y, plot->low[i]);
        double high = client_scale_place(&plot->frame.y, plot->high[i]);
        if (isfinite(low) && isfinite(high))
            fprintf(out, "<path class=\"whisker\" d=\"M%.1f %.1fh8m-4 0V%.1fm-4 0h8\"></path>", x - 4, low,
                    high);
        client_frame_mark(out, x, client_scale_place(&plot->frame.y, plot->y[i]), plot->about[i]);
    }
}

void client_plot_draw(FILE *out, struct client_plot *plot)
{
    struct client_frame *frame = &plot->frame;
    client_scale_linear(&frame->x, 0, 100, 5);
    client_scale_linear(&frame->y, 0, 100, 5);
    client_frame_open(out, frame);
    fprintf(out, "<path class=\"diagonal\" d=\"M%.1f %.1fL%.1f %.1f\"></path><g class=\"c0\">", frame->left,
            frame->bottom, frame->right, frame->top);
    size_t points = draw_line(out, plot);
    draw_points(out, plot);
    fputs("</g>", out);
    if (points == 0)
        fprintf(
            out,
            "<text class=\"none\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">nothing was measured</text>",
            (frame->left + frame->right) / 2, (frame->top + frame->bottom) / 2);
    client_frame_close(out);
}
