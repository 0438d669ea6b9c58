#include "client/chart/plot.h"

#include <math.h>
#include <string.h>

#include "client/chart/markup.h"

#define LABEL_CHARACTER 6.4
#define LABEL_ROOM      14

static bool is_drawn(const struct client_plot *plot, const struct client_series *series, size_t i)
{
    return isfinite(series->x[i]) && isfinite(series->y[i]) && (!plot->y_log || series->y[i] > 0);
}

/* Finds the extent of what is drawn. Returns the number of points. */
static size_t measure(const struct client_plot *plot, double *x_high, double y[2])
{
    size_t points = 0;
    *x_high = 0;
    y[0] = INFINITY;
    y[1] = -INFINITY;
    for (size_t s = 0; s < plot->count; s++) {
        const struct client_series *series = &plot->series[s];
        for (size_t i = 0; i < series->count; i++) {
            if (!is_drawn(plot, series, i))
                continue;
            points++;
            *x_high = fmax(*x_high, series->x[i]);
            y[0] = fmin(y[0], series->y[i]);
            y[1] = fmax(y[1], series->y[i]);
        }
    }
    return points;
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
    for (size_t i = 0; i < series->count; i++) {
        if (!is_drawn(plot, series, i))
            continue;
        if (series->low && series->high)
            draw_error_bar(out, plot, series, i);
        client_frame_mark(out, series->legend.mark, series->hollow && series->hollow[i],
                          client_scale_place(&plot->frame.x, series->x[i]),
                          client_scale_place(&plot->frame.y, series->y[i]), series->about[i]);
    }
}

/* The labels that are drawn. */
struct plot_labels {
    struct {
        double x, y, half;
    } drawn[64];
    size_t count;
};

/* A label that would touch one that is drawn is left out: its point has a tip. */
static void draw_labels(FILE *out, const struct client_plot *plot, const struct client_series *series,
                        struct plot_labels *labels)
{
    const size_t most = sizeof labels->drawn / sizeof *labels->drawn;
    for (size_t i = 0; series->labels && i < series->count && labels->count < most; i++) {
        if (!is_drawn(plot, series, i))
            continue;
        double x = client_scale_place(&plot->frame.x, series->x[i]);
        double y = client_scale_place(&plot->frame.y, series->y[i]) - 9;
        double half = LABEL_CHARACTER * (double)strlen(series->labels[i]) / 2;
        bool free_place = true;
        for (size_t j = 0; j < labels->count; j++)
            free_place &= fabs(x - labels->drawn[j].x) > half + labels->drawn[j].half + 3 ||
                          fabs(y - labels->drawn[j].y) > 13;
        if (!free_place)
            continue;
        labels->drawn[labels->count].x = x;
        labels->drawn[labels->count].y = y;
        labels->drawn[labels->count++].half = half;
        fprintf(out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, y);
        client_markup_text(out, series->labels[i]);
        fputs("</text>", out);
    }
}

void client_plot_draw(FILE *out, struct client_plot *plot)
{
    struct client_frame *frame = &plot->frame;
    struct client_legend legend[CLIENT_PLOT_SERIES];
    struct plot_labels labels = {.count = 0};
    double x_high, y[2];
    if (plot->count > CLIENT_PLOT_SERIES)
        plot->count = CLIENT_PLOT_SERIES;
    size_t points = measure(plot, &x_high, y);
    client_scale_linear(&frame->x, 0, plot->shares ? 100 : x_high, plot->shares ? 5 : 8);
    if (plot->y_log)
        client_scale_log(&frame->y, y[0], y[1]);
    else
        client_scale_linear(&frame->y, 0, plot->shares ? 100 : y[1], 5);
    for (size_t s = 0; s < plot->count; s++) {
        legend[s] = plot->series[s].legend;
        if (plot->series[s].labels)
            frame->head_room = LABEL_ROOM; /* that of the highest point does not touch the legend */
    }
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
        draw_labels(out, plot, &plot->series[s], &labels);
        fputs("</g>", out);
    }
    if (points == 0)
        fprintf(
            out,
            "<text class=\"none\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">nothing was measured</text>",
            (frame->left + frame->right) / 2, (frame->top + frame->bottom) / 2);
    client_frame_close(out);
}
