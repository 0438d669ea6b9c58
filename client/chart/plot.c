#include "client/chart/plot.h"

#include <math.h>

#include "client/chart/markup.h"

static bool is_drawn(const struct client_plot *plot, const struct client_series *series, size_t i)
{
    return isfinite(series->x[i]) && isfinite(series->y[i]) && (!plot->x_log || series->x[i] > 0) &&
           (!plot->y_log || series->y[i] > 0);
}

/* Finds the extent of what is drawn. Returns the number of points. */
static size_t measure(const struct client_plot *plot, double x[2], double y[2])
{
    size_t points = 0;
    x[0] = y[0] = INFINITY;
    x[1] = y[1] = -INFINITY;
    for (size_t s = 0; s < plot->count; s++) {
        const struct client_series *series = &plot->series[s];
        for (size_t i = 0; i < series->count; i++) {
            if (!is_drawn(plot, series, i))
                continue;
            points++;
            x[0] = fmin(x[0], series->x[i]);
            x[1] = fmax(x[1], series->x[i]);
            y[0] = fmin(y[0], series->y[i]);
            y[1] = fmax(y[1], series->y[i]);
        }
    }
    return points;
}

static void make_scale(struct client_scale *scale, const struct client_plot *plot, bool logarithmic,
                       const double extent[2], size_t wanted)
{
    if (plot->shares)
        client_scale_linear(scale, 0, 100, 5);
    else if (logarithmic)
        client_scale_log(scale, extent[0], extent[1]);
    else
        client_scale_linear(scale, plot->from_zero ? fmin(extent[0], 0) : extent[0], extent[1], wanted);
}

static void draw_line(FILE *out, const struct client_plot *plot, const struct client_series *series)
{
    bool pen_down = false;
    fprintf(out, "<path class=\"line%s\" d=\"", series->legend.dashed ? " dashed" : "");
    for (size_t i = 0; i < series->count; i++) {
        if (!is_drawn(plot, series, i)) {
            pen_down = false;
            continue;
        }
        fprintf(out, "%c%.1f %.1f", pen_down ? 'L' : 'M', client_scale_place(&plot->frame.x, series->x[i]),
                client_scale_place(&plot->frame.y, series->y[i]));
        pen_down = true;
    }
    fputs("\"></path>", out);
}

static void draw_error_bar(FILE *out, const struct client_plot *plot, const struct client_series *series,
                           size_t i)
{
    double x = client_scale_place(&plot->frame.x, series->x[i]);
    double low = client_scale_place(&plot->frame.y, series->low[i]);
    double high = client_scale_place(&plot->frame.y, series->high[i]);
    if (isfinite(low) && isfinite(high))
        fprintf(out, "<path class=\"whisker\" d=\"M%.1f %.1fh8m-4 0V%.1fm-4 0h8\"></path>", x - 4, low, high);
}

static void draw_points(FILE *out, const struct client_plot *plot, const struct client_series *series)
{
    char tip[512], x[24], y[24];
    for (size_t i = 0; i < series->count; i++) {
        if (!is_drawn(plot, series, i))
            continue;
        if (series->low && series->high)
            draw_error_bar(out, plot, series, i);
        snprintf(x, sizeof x, "%.4g", series->x[i]);
        snprintf(y, sizeof y, "%.4g", series->y[i]);
        snprintf(tip, sizeof tip, "%s%s%s: %s %s at %s %s", series->legend.name, series->about ? ", " : "",
                 series->about ? series->about[i] : "", y, plot->y_unit ? plot->y_unit : "", x,
                 plot->x_unit ? plot->x_unit : "");
        client_frame_mark(out, series->legend.mark, series->legend.dashed,
                          client_scale_place(&plot->frame.x, series->x[i]),
                          client_scale_place(&plot->frame.y, series->y[i]), tip);
    }
}

void client_plot_draw(FILE *out, struct client_plot *plot)
{
    struct client_frame *frame = &plot->frame;
    struct client_legend legend[CLIENT_PLOT_SERIES];
    double x[2], y[2];
    if (plot->count > CLIENT_PLOT_SERIES)
        plot->count = CLIENT_PLOT_SERIES;
    size_t points = measure(plot, x, y);
    make_scale(&frame->x, plot, plot->x_log, x, 8);
    make_scale(&frame->y, plot, plot->y_log, y, 6);
    if (plot->x_ticks)
        client_scale_tick_at(&frame->x, plot->x_ticks, plot->x_tick_count);
    for (size_t s = 0; s < plot->count; s++)
        legend[s] = plot->series[s].legend;
    /* A single line is named by the axis. */
    frame->legend = legend;
    frame->legend_count = plot->count > 1 ? plot->count : 0;
    client_frame_open(out, frame);
    frame->legend = NULL;
    frame->legend_count = 0;
    if (plot->shares)
        fprintf(out, "<path class=\"diagonal\" d=\"M%.1f %.1fL%.1f %.1f\"></path>", frame->left,
                frame->bottom, frame->right, frame->top);
    for (size_t s = 0; s < plot->count; s++) {
        fprintf(out, "<g class=\"c%d\">", plot->series[s].legend.colour % CLIENT_FRAME_COLOURS);
        draw_line(out, plot, &plot->series[s]);
        draw_points(out, plot, &plot->series[s]);
        fputs("</g>", out);
    }
    if (points == 0)
        fprintf(
            out,
            "<text class=\"none\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">nothing was measured</text>",
            (frame->left + frame->right) / 2, (frame->top + frame->bottom) / 2);
    client_frame_close(out);
}
