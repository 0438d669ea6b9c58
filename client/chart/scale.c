#include "client/chart/scale.h"

#include <math.h>
#include <stdio.h>

/* Returns the smallest of 1, 2, 5 or 10 times a power of ten that is at least value, which is above 0. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value)));
    static const double factors[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        /* A bound that is one of them but for its last bits is that one. */
        if (value <= factors[i] * power * (1 + 1e-9))
            return factors[i] * power;
    }
    return 10 * power;
}

static double round_down(double value)
{
    double power = pow(10, floor(log10(value) + 1e-12));
    static const double factors[] = {5, 2};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        if (value >= factors[i] * power * (1 - 1e-9))
            return factors[i] * power;
    }
    return power;
}

void client_scale_linear(struct client_scale *scale, double low, double high, size_t wanted)
{
    *scale = (struct client_scale){.from = 0, .to = 1};
    /* The bounds keep what is computed within a double's range. */
    if (!(low >= -1e100 && high <= 1e100 && low <= high)) {
        low = 0;
        high = 1;
    }
    double largest = fmax(fabs(low), fabs(high));
    if (high - low <= largest * 1e-9) {
        double room = largest > 0 ? largest / 2 : 1;
        low = low == 0 ? 0 : low - room;
        high += room;
    }
    double step = round_up((high - low) / (double)(wanted ? wanted : 1));
    double first = floor(low / step + 1e-9), last = ceil(high / step - 1e-9);
    scale->low = first * step;
    scale->high = last * step;
    for (double i = first; i <= last && scale->tick_count < CLIENT_SCALE_TICKS; i++)
        scale->ticks[scale->tick_count++] = i * step;
}

void client_scale_log(struct client_scale *scale, double low, double high)
{
    *scale = (struct client_scale){.logarithmic = true, .from = 0, .to = 1};
    if (!(low >= 1e-100 && high <= 1e100 && low <= high)) {
        low = 1;
        high = 10;
    }
    scale->low = round_down(low);
    scale->high = round_up(high);
    if (scale->high <= scale->low * (1 + 1e-9)) {
        scale->low = round_down(scale->low * 0.99);
        scale->high = round_up(scale->high * 1.01);
    }
    double first = floor(log10(scale->low) + 1e-9), last = ceil(log10(scale->high) - 1e-9),
           decades = last - first;
    static const double factors[] = {1, 2, 5};
    size_t each = decades <= 4 ? 3 : 1;
    size_t stride = decades > 12 ? (size_t)ceil(decades / 12) : 1;
    for (size_t decade = 0; (double)decade <= decades; decade += stride) {
        for (size_t i = 0; i < each && scale->tick_count < CLIENT_SCALE_TICKS; i++) {
            double tick = factors[i] * pow(10, first + (double)decade);
            if (tick >= scale->low * (1 - 1e-9) && tick <= scale->high * (1 + 1e-9))
                scale->ticks[scale->tick_count++] = tick;
        }
    }
}

double client_scale_place(const struct client_scale *scale, double value)
{
    if (isnan(value) || (scale->logarithmic && value <= 0))
        return NAN;
    double share = scale->logarithmic ? log(value / scale->low) / log(scale->high / scale->low)
                                      : (value - scale->low) / (scale->high - scale->low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return scale->from + share * (scale->to - scale->from);
}

const char *client_scale_label(double value, char *text, size_t bytes)
{
    double size = fabs(value);
    if (size < 1e-12)
        snprintf(text, bytes, "0");
    else if (size >= 1e15 || size < 1e-4)
        snprintf(text, bytes, "%.3g", value);
    else if (size >= 1e9)
        snprintf(text, bytes, "%.5gG", value / 1e9);
    else if (size >= 1e6)
        snprintf(text, bytes, "%.5gM", value / 1e6);
    else if (size >= 1e4)
        snprintf(text, bytes, "%.5gk", value / 1e3);
    else
        snprintf(text, bytes, "%.5g", value);
    return text;
}
