/* The charts of one sweep, and of two that are compared. */
#include <math.h>
#include <stdlib.h>

#include "client/chart/columns.h"
#include "client/chart/plot.h"
#include "client/chart/rows.h"
#include "client/commands/sweep.h"

#define ABOUT    160
#define WIDTH    820
#define TOGETHER 10 /* bins of a histogram's column, which is then 10.5 % wide */
#define COLUMNS  ((CLIENT_BINS + TOGETHER - 1) / TOGETHER)

const char *const client_sweep_part_names[CLIENT_SWEEP_PARTS] = {
    "client and network", "decode", "queue", "copy", "compute", "other"};

void client_sweep_parts(const struct client_sweep_point *point, double parts[CLIENT_SWEEP_PARTS])
{
    const struct client_bench_stages *stages = &point->result.stages;
    const struct convoy_timing *timing = &stages->timing;
    double answers = (double)stages->answers * 1000;
    for (size_t i = 0; i < CLIENT_SWEEP_PARTS; i++)
        parts[i] = 0;
    if (stages->answers == 0)
        return;
    double late = client_bins_mean(&point->result.lags) / 1000;
    double explained = timing->wait_us + timing->decode_us + timing->queue_us + timing->input_us +
                       timing->compute_us + timing->output_us;
    parts[CLIENT_SWEEP_OUTSIDE] =
        fmax(0, (stages->client_us - timing->total_us) / answers) + (isfinite(late) ? late : 0);
    parts[CLIENT_SWEEP_DECODE] = (timing->wait_us + timing->decode_us) / answers;
    parts[CLIENT_SWEEP_QUEUE] = timing->queue_us / answers;
    parts[CLIENT_SWEEP_COPY] = (timing->input_us + timing->output_us) / answers;
    parts[CLIENT_SWEEP_COMPUTE] = timing->compute_us / answers;
    parts[CLIENT_SWEEP_OTHER] = fmax(0, (timing->total_us - explained) / answers);
}

const struct client_sweep_point *client_sweep_fullest(const struct client_sweep *sweep)
{
    const struct client_sweep_point *fullest = NULL;
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_sweep_point *point = &sweep->points[i];
        bool worse = fullest && client_sweep_errors(point) && !client_sweep_errors(fullest);
        bool better = !fullest || (client_sweep_errors(fullest) && !client_sweep_errors(point)) ||
                      client_sweep_throughput(point) > client_sweep_throughput(fullest);
        if (!worse && better)
            fullest = point;
    }
    return fullest;
}

/* What a series of the latency chart is made of. */
struct curve {
    double x[CLIENT_BENCH_POINTS], y[CLIENT_BENCH_POINTS];
    bool hollow[CLIENT_BENCH_POINTS];
    char about[CLIENT_BENCH_POINTS][ABOUT], label[CLIENT_BENCH_POINTS][24], name[32];
    const char *abouts[CLIENT_BENCH_POINTS], *labels[CLIENT_BENCH_POINTS];
};

static void fill_curve(struct curve *curve, const struct client_sweep *sweep, const char *name,
                       double percent)
{
    char point_name[64];
    snprintf(curve->name, sizeof curve->name, "%s%s%g %%", name, *name ? ", " : "", percent);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct client_sweep_point *point = &sweep->points[i];
        size_t errors = client_sweep_errors(point);
        curve->x[i] = client_sweep_throughput(point);
        curve->y[i] = client_bins_percentile(&point->result.latency, percent) / 1000;
        curve->hollow[i] = errors > 0;
        snprintf(curve->about[i], ABOUT, "%s: %.4g ms at %.4g requests/s, %s%s", curve->name, curve->y[i],
                 curve->x[i], client_sweep_name(point, point_name, sizeof point_name),
                 errors ? ", WITH ERRORS" : "");
        if (point->rate > 0)
            snprintf(curve->label[i], sizeof curve->label[i], "%g", point->rate);
        else
            snprintf(curve->label[i], sizeof curve->label[i], "%ld", point->connections);
        curve->abouts[i] = curve->about[i];
        curve->labels[i] = curve->label[i];
    }
}

static bool is_open(const struct client_sweep *sweep)
{
    return sweep->count && sweep->points[0].rate > 0;
}

void client_sweep_draw_latency(FILE *out, const struct client_sweep *const *sweeps, const char *const *names,
                               size_t count)
{
    static const double two[] = {50, 99};
    const double *percents = count == 1 ? client_bench_percents : two;
    size_t each = count == 1 ? CLIENT_BENCH_PERCENTS : 2, all = count * each;
    struct client_series series[CLIENT_PLOT_SERIES];
    struct curve *curves = calloc(all, sizeof *curves);
    bool open = is_open(sweeps[0]), other_open = is_open(sweeps[count - 1]);
    for (size_t i = 0; curves && i < all; i++) {
        const struct client_sweep *sweep = sweeps[i / each];
        struct curve *curve = &curves[i];
        fill_curve(curve, sweep, names[i / each], percents[i % each]);
        /* Of two sweeps the colour is the report, the mark the percentile; of one both are the percentile. */
        series[i] =
            (struct client_series){.legend = {curve->name, (int)(count == 1 ? i : i / each),
                                              (enum client_mark)(i % each), count > 1 && i / each == 0},
                                   .x = curve->x,
                                   .y = curve->y,
                                   .about = curve->abouts,
                                   .labels = i % each == each - 1 ? curve->labels : NULL,
                                   .hollow = curve->hollow,
                                   .count = sweep->count};
    }
    struct client_plot plot = {
        .frame = {.id = "latency",
                  .title = "Latency against throughput, by percentile",
                  .description =
                      "A line for each percentile. Lower is faster, further to the right is more. A "
                      "ring is a load with errors.",
                  .x_name =
                      open != other_open
                          ? "answers 200 per second (numbers above points: connections, or requests/s due)"
                      : open ? "answers 200 per second (numbers above points: requests/s due)"
                             : "answers 200 per second (numbers above points: connections)",
                  .y_name = "latency in ms (logarithmic)",
                  .width = WIDTH,
                  .height = 460},
        .series = series,
        .count = curves ? all : 0,
        .y_log = true};
    fputs("<div class=\"wide\">\n", out);
    client_plot_draw(out, &plot);
    fputs("</div>\n", out);
    free(curves);
}

void client_sweep_draw_parts(FILE *out, const struct client_sweep_pair *pairs, size_t count, bool two)
{
    static const int colours[CLIENT_SWEEP_PARTS] = {5, 1, 2, 3, 0, 4};
    char names[4 * CLIENT_BENCH_POINTS][64];
    const char *name_list[4 * CLIENT_BENCH_POINTS];
    double values[4 * CLIENT_BENCH_POINTS][CLIENT_SWEEP_PARTS];
    bool pale[4 * CLIENT_BENCH_POINTS];
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        for (int second = 0; second <= (two ? 1 : 0); second++) {
            const struct client_sweep_point *point = second ? pairs[i].second : pairs[i].first;
            if (!point)
                continue;
            char name[48];
            client_sweep_name(point, name, sizeof name);
            snprintf(names[rows], sizeof names[rows], "%s%s", two ? second ? "B: " : "A: " : "", name);
            name_list[rows] = names[rows];
            pale[rows] = two && !second;
            client_sweep_parts(point, values[rows++]);
        }
    }
    struct client_stack stack = {
        .frame = {.id = "stages",
                  .title = "Where the time goes: mean of a request",
                  .description = "A bar for each load, made of the parts that a request spends its time in.",
                  .x_name = "milliseconds",
                  .width = WIDTH},
        .names = name_list,
        .pale = two ? pale : NULL,
        .rows = rows,
        .parts = client_sweep_part_names,
        .colours = colours,
        .part_count = CLIENT_SWEEP_PARTS,
        .values = &values[0][0],
        .unit = "ms"};
    fputs("<div class=\"wide\">\n", out);
    client_stack_draw(out, &stack);
    fputs("</div>\n", out);
}

/* Gathers bins into columns, as shares in percent: runs of different length compare. */
static void fill_columns(const struct client_bins *bins, double heights[COLUMNS])
{
    for (size_t i = 0; i < COLUMNS; i++)
        heights[i] = 0;
    for (size_t i = 0; i < CLIENT_BINS; i++)
        heights[i / TOGETHER] += (double)bins->counts[i];
    for (size_t i = 0; i < COLUMNS; i++)
        heights[i] = bins->count ? heights[i] / (double)bins->count * 100 : 0;
}

void client_sweep_draw_histogram(FILE *out, const char *id, const struct client_sweep_point *point,
                                 const struct client_sweep_point *other, const char *const *names,
                                 double low_ms, double high_ms)
{
    double bounds[COLUMNS + 1], heights[COLUMNS], outline[COLUMNS];
    char title[160], name[64];
    for (size_t i = 0; i <= COLUMNS; i++)
        bounds[i] = client_bins_bound(i * TOGETHER) / 1000;
    fill_columns(&point->result.latency, heights);
    if (other)
        fill_columns(&other->result.latency, outline);
    snprintf(title, sizeof title, "Latencies with %s%s", client_sweep_name(point, name, sizeof name),
             client_sweep_errors(point) ? " (WITH ERRORS: those answered 200)" : "");
    struct client_columns columns = {
        .frame = {.id = id,
                  .title = title,
                  .description = "A column for each range of the latency: its share of the requests.",
                  .x_name = "latency in ms (logarithmic)",
                  .y_name = "% of requests",
                  .width = WIDTH,
                  .height = 260},
        .legend = {names ? names[0] : "", names ? 1 : 0, CLIENT_MARK_BLOCK, false},
        .bounds = bounds,
        .heights = heights,
        .count = COLUMNS,
        .outline_legend = {names ? names[1] : "", 0, CLIENT_MARK_LINE, true},
        .outline = other ? outline : NULL,
        .x_low = low_ms,
        .x_high = high_ms,
        .x_unit = "ms",
        .y_unit = "% of requests"};
    fputs("<div class=\"wide\">\n", out);
    client_columns_draw(out, &columns);
    fputs("</div>\n", out);
}
