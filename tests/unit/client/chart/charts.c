/* Charts of ordinary and of odd data: what is drawn lies where it must, and nothing that is no number is
 * written. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/chart/columns.h"
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

enum kind { LINEAR, LOGARITHMIC, SHARES };

static void plot_of(const double *x, const double *y, size_t points, enum kind kind)
{
    static const double low[] = {0, 40, NAN, NAN, NAN}, high[] = {10, 60, 80, NAN, NAN};
    static const char *const about[] = {"1 <answer>", "b", "c", "d", "e"};
    struct client_series series = {.legend = {"a & b", 1, CLIENT_MARK_CIRCLE, false},
                                   .x = x,
                                   .y = y,
                                   .low = kind == SHARES ? low : NULL,
                                   .high = kind == SHARES ? high : NULL,
                                   .about = about,
                                   .count = points};
    struct client_plot plot = {.frame = FRAME,
                               .series = &series,
                               .count = 1,
                               .y_log = kind == LOGARITHMIC,
                               .shares = kind == SHARES};
    begin();
    client_plot_draw(stream, &plot);
    end();
}

Test(client_charts, a_plot_has_what_people_and_readers_of_screens_need)
{
    plot_of((const double[]){0, 50, 100}, (const double[]){0, 50, 100}, 3, SHARES);
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

Test(client_charts, axes_as_long_as_the_data)
{
    plot_of((const double[]){0, 5, 10}, (const double[]){0, 20, 40}, 3, LINEAR);
    cr_assert_eq(count("class=\"diagonal\""), 0);
    cr_assert_not_null(strstr(out, "cx=\"64.0\" cy=\"256.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "cx=\"322.0\" cy=\"146.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "cx=\"580.0\" cy=\"36.0\""), "%s", out);
    free(out);
    plot_of((const double[]){0, 5, 10}, (const double[]){1, 10, 100}, 3, LOGARITHMIC);
    cr_assert_not_null(strstr(out, "cx=\"64.0\" cy=\"256.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "cx=\"322.0\" cy=\"146.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "cx=\"580.0\" cy=\"36.0\""), "%s", out);
    free(out);
}

Test(client_charts, a_plot_of_odd_data)
{
    static const enum kind kinds[] = {LINEAR, LOGARITHMIC, SHARES};
    for (size_t i = 0; i < 3; i++) {
        plot_of(NULL, NULL, 0, kinds[i]);
        cr_assert(count("nothing was measured") == 1 && count("class=\"mark\"") == 0);
        free(out);
        plot_of((const double[]){3}, (const double[]){7}, 1, kinds[i]);
        cr_assert(count("nothing was measured") == 0 && count("class=\"mark\"") == 1);
        free(out);
        plot_of((const double[]){NAN, NAN}, (const double[]){1, NAN}, 2, kinds[i]);
        cr_assert_eq(count("nothing was measured"), 1);
        free(out);
        /* The line is broken where a point is missing. */
        plot_of((const double[]){1, 2, 3, 4, 5}, (const double[]){1, 2, NAN, INFINITY, 5}, 5, kinds[i]);
        cr_assert_eq(count("class=\"mark\""), 3);
        const char *line = strstr(out, "class=\"line\" d=\"");
        cr_assert_not_null(line);
        size_t moves = 0;
        for (line += strlen("class=\"line\" d=\""); *line != '"'; line++)
            moves += *line == 'M';
        cr_assert_eq(moves, 2);
        free(out);
    }
    /* A logarithm has no place for 0 and below. */
    plot_of((const double[]){0, 1, 10}, (const double[]){0, -1, 10}, 3, LOGARITHMIC);
    cr_assert_eq(count("class=\"mark\""), 1);
    free(out);
}

Test(client_charts, several_lines_have_a_legend)
{
    static const double x[] = {1, 2, 2.001, 2}, y[] = {1, 2, 2.001, 1};
    static const char *const about[] = {"8 <connections>", "16", "32", "64"};
    static const char *const labels[] = {"<8>", "16", "32", "64"};
    static const bool hollow[] = {false, true, false, false};
    struct client_series series[] = {
        {.legend = {"first", 0, CLIENT_MARK_SQUARE, false},
         .x = x,
         .y = y,
         .about = about,
         .labels = labels,
         .hollow = hollow,
         .count = 4},
        {.legend = {"second", 1, CLIENT_MARK_TRIANGLE, true},
         .x = x,
         .y = y,
         .about = about,
         .labels = labels,
         .count = 4},
        {.legend = {"third", 9, CLIENT_MARK_DIAMOND, true}, .x = x, .y = y, .about = about, .count = 0}};
    struct client_plot plot = {.frame = FRAME, .series = series, .count = 3};
    begin();
    client_plot_draw(stream, &plot);
    end();
    cr_assert(count(">first</text>") == 1 && count(">second</text>") == 1 && count(">third</text>") == 1);
    cr_assert_eq(count("class=\"mark hollow\""), 1);
    cr_assert_eq(count("<title>8 &lt;connections&gt;</title>"), 2);
    cr_assert_eq(count("class=\"c9\""), 0);
    /* 32 would lie upon 16, and the second line's upon the first's; the others have room. */
    cr_assert(count(">&lt;8&gt;</text>") == 1 && count(">16</text>") == 1 && count(">32</text>") == 0 &&
              count(">64</text>") == 1);
    free(out);
}

static void columns_of(const double *heights, size_t columns_count, const double *outline)
{
    static const double bounds[] = {1, 2, 4, 8, 16};
    struct client_columns columns = {.frame = FRAME,
                                     .legend = {"now", 0, CLIENT_MARK_BLOCK, false},
                                     .outline_legend = {"then", 1, CLIENT_MARK_LINE, true},
                                     .bounds = bounds,
                                     .heights = heights,
                                     .outline = outline,
                                     .count = columns_count};
    begin();
    client_columns_draw(stream, &columns);
    end();
}

Test(client_charts, columns)
{
    columns_of((const double[]){0, 5, 10, 0}, 4, NULL);
    cr_assert_eq(count("<rect class=\"block\""), 2);
    cr_assert_not_null(strstr(out, "<title>5 : 2 to 4 </title>"), "%s", out);
    /* The higher one is as high as the area: 36 to 256. */
    cr_assert_not_null(strstr(out, "y=\"36.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "height=\"220.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "height=\"110.0\""), "%s", out);
    free(out);
    columns_of((const double[]){0, 1, 1e9, NAN}, 4, (const double[]){1, 0, -5, INFINITY});
    cr_assert(count("<title>") == 2 && count(">then</text>") == 1 && count("line dashed") == 2);
    cr_assert_eq(count("height=\"1.0\">"), 1); /* one of 1e9 is seen */
    free(out);
    columns_of((const double[]){0, 0, NAN, 0}, 4, NULL);
    cr_assert(count("nothing was measured") == 1 && count("<rect") == 0);
    free(out);
    columns_of(NULL, 0, NULL);
    cr_assert_eq(count("nothing was measured"), 1);
    free(out);
}

Test(client_charts, stacked_rows)
{
    static const char *const names[] = {"1 <connection>", "a name that is much longer than its room",
                                        "below 0"};
    static const char *const parts[] = {"decode", "compute"};
    static const double values[] = {10, 30, NAN, 20, -20, 40};
    static const bool pale[] = {false, true, false};
    static const int colours[] = {4, 2};
    struct client_stack stack = {.frame = FRAME,
                                 .names = names,
                                 .pale = pale,
                                 .rows = 3,
                                 .parts = parts,
                                 .colours = colours,
                                 .part_count = 2,
                                 .values = values,
                                 .unit = "us"};
    begin();
    client_stack_draw(stream, &stack);
    end();
    cr_assert_eq(count("class=\"block part\""), 3);
    cr_assert_eq(count("class=\"block part pale\""), 1);
    cr_assert(count("class=\"c4\"") == 2 && count("class=\"c2\"") == 4); /* with the legend's */
    /* The area is 168 to 580 wide, for 0 to 40. */
    cr_assert_not_null(strstr(out, "x=\"168.0\" y=\"59.5\" width=\"103.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "x=\"271.0\" y=\"59.5\" width=\"309.0\""), "%s", out);
    cr_assert_not_null(strstr(out, "x=\"168.0\" y=\"103.5\" width=\"412.0\""), "%s", out);
    cr_assert_not_null(
        strstr(out, "<title>a name that is much longer than its room</title>a name that is much l"));
    free(out);
    stack.rows = 0;
    begin();
    client_stack_draw(stream, &stack);
    end();
    cr_assert_eq(count("nothing was measured"), 1);
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
