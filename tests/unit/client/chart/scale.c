/* Scales: round ticks that hold the values, whatever the values are. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

#include "client/chart/scale.h"

static struct client_scale scale;

static void ticks_are(const double *wanted, size_t count)
{
    cr_assert_eq(scale.tick_count, count, "%zu ticks from %g to %g", scale.tick_count, scale.low, scale.high);
    for (size_t i = 0; i < count; i++)
        cr_assert_float_eq(scale.ticks[i], wanted[i], 1e-9 * fmax(1, fabs(wanted[i])), "tick %zu is %g", i,
                           scale.ticks[i]);
    cr_assert_float_eq(scale.low, wanted[0], 1e-9 * fmax(1, fabs(wanted[0])));
    cr_assert_float_eq(scale.high, wanted[count - 1], 1e-9 * fmax(1, fabs(wanted[count - 1])));
}
#define TICKS(...)                                                                                           \
    ticks_are((const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

Test(client_scale, linear_ticks_are_round)
{
    client_scale_linear(&scale, 0, 9.3, 5);
    TICKS(0, 2, 4, 6, 8, 10);
    client_scale_linear(&scale, 0, 100, 5);
    TICKS(0, 20, 40, 60, 80, 100);
    client_scale_linear(&scale, 0.31, 0.72, 5);
    TICKS(0.3, 0.4, 0.5, 0.6, 0.7, 0.8);
    client_scale_linear(&scale, -3, 7, 5);
    TICKS(-4, -2, 0, 2, 4, 6, 8);
    client_scale_linear(&scale, 0, 0.3, 3); /* 0.3 in binary */
    TICKS(0, 0.1, 0.2, 0.3);
    client_scale_linear(&scale, 0, 8765, 8);
    TICKS(0, 2000, 4000, 6000, 8000, 10000);
}

Test(client_scale, logarithmic_ticks_are_round)
{
    client_scale_log(&scale, 0.7, 31);
    TICKS(0.5, 1, 2, 5, 10, 20, 50);
    client_scale_log(&scale, 1, 1000);
    TICKS(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000);
    client_scale_log(&scale, 0.2, 500);
    TICKS(0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500);
    client_scale_log(&scale, 0.001, 100);
    TICKS(0.001, 0.01, 0.1, 1, 10, 100);
    client_scale_log(&scale, 5, 5);
    TICKS(2, 5, 10);
    client_scale_log(&scale, 1e-60, 1e60);
    cr_assert(scale.tick_count >= 5 && scale.tick_count <= CLIENT_SCALE_TICKS, "%zu", scale.tick_count);
}

Test(client_scale, one_value_has_room_around_it)
{
    client_scale_linear(&scale, 7, 7, 5);
    cr_assert(scale.low < 7 && scale.high > 7 && scale.tick_count >= 3);
    client_scale_linear(&scale, 0, 0, 5);
    cr_assert(scale.low == 0 && scale.high > 0 && scale.tick_count >= 2);
    client_scale_linear(&scale, -7, -7, 5);
    cr_assert(scale.low < -7 && scale.high > -7);
}

/* Nothing hangs, divides by 0 or gives more ticks than there is room for. */
Test(client_scale, bounds_that_are_none)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, DBL_MAX, -DBL_MAX, DBL_MIN,
                                 0,   -1,       1,         1e-300,  1e300};
    size_t count = sizeof odd / sizeof *odd;
    for (size_t i = 0; i < count * count; i++) {
        double low = odd[i / count], high = odd[i % count];
        client_scale_linear(&scale, low, high, 5);
        cr_assert(isfinite(scale.low) && isfinite(scale.high) && scale.low < scale.high, "%g %g: %g %g", low,
                  high, scale.low, scale.high);
        cr_assert(scale.tick_count >= 1 && scale.tick_count <= CLIENT_SCALE_TICKS, "%g %g: %zu", low, high,
                  scale.tick_count);
        cr_assert(isfinite(client_scale_place(&scale, scale.low)) &&
                  isfinite(client_scale_place(&scale, high)) == !isnan(high));
        client_scale_log(&scale, low, high);
        cr_assert(isfinite(scale.high) && scale.low > 0 && scale.low < scale.high, "%g %g: %g %g", low, high,
                  scale.low, scale.high);
        cr_assert(scale.tick_count >= 1 && scale.tick_count <= CLIENT_SCALE_TICKS);
    }
    client_scale_linear(&scale, 0, 10, 0);
    cr_assert_geq(scale.tick_count, 1);
}

Test(client_scale, places)
{
    client_scale_linear(&scale, 0, 10, 5);
    scale.from = 300;
    scale.to = 100;
    cr_assert_eq(client_scale_place(&scale, 0), 300);
    cr_assert_eq(client_scale_place(&scale, 2.5), 250);
    cr_assert_eq(client_scale_place(&scale, 10), 100);
    cr_assert_eq(client_scale_place(&scale, 99), 100);
    cr_assert_eq(client_scale_place(&scale, -INFINITY), 300);
    cr_assert(isnan(client_scale_place(&scale, NAN)));
    client_scale_log(&scale, 10, 1000);
    cr_assert_float_eq(client_scale_place(&scale, 100), 0.5, 1e-12);
    cr_assert(isnan(client_scale_place(&scale, 0)) && isnan(client_scale_place(&scale, -1)));
}

Test(client_scale, labels)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},           {0.30000000000000004, "0.3"},
                 {250, "250"},       {4000, "4000"},
                 {20000, "20k"},     {1.5e6, "1.5M"},
                 {-50000, "-50k"},   {2e9, "2G"},
                 {0.0005, "0.0005"}, {1e-7, "1e-07"},
                 {1e300, "1e+300"},  {12500, "12.5k"},
                 {-1e-17, "0"}};
    char text[24];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(client_scale_label(cases[i].value, text, sizeof text), cases[i].text, "%s", text);
}
