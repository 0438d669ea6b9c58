/* Charts of ordinary and of odd data: what is drawn lies where it must, and nothing that is no number is
 * written. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/chart/matrix.h"
#include "client/chart/plot.h"
#include "client/chart/rows.h"

static char *out;
static size_t size;
static FILE *stream;

static void begin(void)
{
    stream = open_memstream(&out, &size);
}

static void end(void)
{
    fclose(stream);
    cr_assert_null(strstr(out, "nan"), "%s", out);
    cr_assert_null(strstr(out, "inf"), "%s", out);
    cr_assert_eq(strncmp(out, "<svg ", 5), 0);
    cr_assert_str_eq(out + size - 7, "</svg>\n");
}

static size_t count(const char *part)
{
    size_t found = 0;
    for (const char *at = out; (at = strstr(at, part)); at += strlen(part))
        found++;
    return found;
}

#define FRAME                                                                                                \
    {                                                                                                        \
        .id = "chart", .title = "A <title>", .description = "what is seen", .x_name = "x in ms",             \
        .y_name = "y in %", .width = 600, .height = 300                                                      \
    }

static void plot_of(const double *x, const double *y, size_t points)
{
    static const double low[] = {0, 40, NAN, NAN, NAN}, high[] = {10, 60, 80, NAN, NAN};
    static const char *const about[] = {"1 <answer>", "b", "c", "d", "e"};
    struct client_plot plot = {
        .frame = FRAME, .x = x, .y = y, .low = low, .high = high, .about = about, .count = points};
    begin();
    client_plot_draw(stream, &plot);
    end();
}

Test(client_charts, a_plot_has_what_people_and_readers_of_screens_need)
{
    plot_of((const double[]){0, 50, 100}, (const double[]){0, 50, 100}, 3);
    cr_assert_not_null(strstr(out, "role=\"img\" aria-labelledby=\"chart-title chart-about\""));
    cr_assert_not_null(strstr(out, "<title id=\"chart-title\">A &lt;title&gt;</title>"));
    cr_assert_not_null(strstr(out, "<desc id=\"chart-about\">what is seen</desc>"));
    cr_assert_not_null(strstr(out, ">x in ms</text>"));
    cr_assert_not_null(strstr(out, ">y in %</text>"));
    cr_assert(count("class=\"mark\"") == 3 && count("class=\"whisker\"") == 2 &&
              count("class=\"diagonal\"") == 1);
    /* The area is 64 to 580 wide, and 36 to 256 high: the middle value lies in its middle. */
    cr_assert_not_null(strstr(out, "cx=\"64.0\" cy=\"256.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "cx=\"322.0\" cy=\"146.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "cx=\"580.0\" cy=\"36.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "M318.0 168.0h8m-4 0V124.0"), "%s", out); /* 40 to 60 % */
    cr_assert_not_null(strstr(out, "<title>1 &lt;answer&gt;</title>"), "%s", out);
    free(out);
}

Test(client_charts, a_plot_of_odd_data)
{
    plot_of(NULL, NULL, 0);
    cr_assert(count("nothing was measured") == 1 && count("class=\"mark\"") == 0);
    free(out);
    plot_of((const double[]){3}, (const double[]){7}, 1);
    cr_assert(count("nothing was measured") == 0 && count("class=\"mark\"") == 1);
    free(out);
    plot_of((const double[]){NAN, NAN}, (const double[]){1, NAN}, 2);
    cr_assert_eq(count("nothing was measured"), 1);
    free(out);
    /* The line is broken where a point is missing. */
    plot_of((const double[]){1, 2, 3, 4, 5}, (const double[]){1, 2, NAN, INFINITY, 5}, 5);
    cr_assert_eq(count("class=\"mark\""), 3);
    const char *line = strstr(out, "class=\"line\" d=\"");
    cr_assert_not_null(line);
    size_t moves = 0;
    for (line += strlen("class=\"line\" d=\""); *line != '"'; line++)
        moves += *line == 'M';
    cr_assert_eq(moves, 2);
    free(out);
}

Test(client_charts, ranges)
{
    static const char *const names[] = {"cat", "</svg>", "none"};
    static const double values[] = {50, 100, NAN}, low[] = {40, 90, NAN}, high[] = {60, 100, NAN};
    struct client_ranges ranges = {
        .frame = FRAME, .names = names, .values = values, .low = low, .high = high, .rows = 3, .all = 75};
    begin();
    client_ranges_draw(stream, &ranges);
    end();
    cr_assert(count("class=\"mark\"") == 2 && count("class=\"whisker\"") == 2 &&
              count("class=\"diagonal\"") == 1);
    cr_assert_eq(count("</svg>"), 1);
    /* 50 % is in the middle of 168 to 580. */
    cr_assert_not_null(strstr(out, "cx=\"374.0\""), "%s", out);
    free(out);
    ranges.rows = 0;
    ranges.all = NAN;
    begin();
    client_ranges_draw(stream, &ranges);
    end();
    cr_assert_eq(count("nothing was measured"), 1);
    free(out);
}

Test(client_charts, a_matrix)
{
    char *labels[] = {"cat", "<b>dog</b>", "\"bird\""};
    static const size_t counts[] = {9, 1, 0, 0, 5, 5, 0, 0, 0};
    struct client_matrix matrix = {.frame = FRAME, .labels = labels, .counts = counts, .classes = 3};
    begin();
    client_matrix_draw(stream, &matrix);
    end();
    cr_assert_eq(count("class=\"cell\""), 4);
    cr_assert_not_null(strstr(out, "<title>cat recognised: 9 of 10 (90.0 %)</title>"), "%s", out);
    cr_assert_not_null(strstr(out, "cat taken for &lt;b&gt;dog&lt;/b&gt;: 1 of 10 (10.0 %)"), "%s", out);
    cr_assert_not_null(strstr(out, "fill-opacity=\"0.912\""), "%s", out);
    cr_assert_eq(count("<b>"), 0);
    free(out);
    matrix.classes = 0;
    begin();
    client_matrix_draw(stream, &matrix);
    end();
    free(out);
}
