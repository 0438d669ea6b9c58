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

double client_scale_place(const struct client_scale *scale, double value)
{
    if (isnan(value))
        return NAN;
    double share = (value - scale->low) / (scale->high - scale->low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return scale->from + share * (scale->to - scale->from);
}

const char *client_scale_label(double value, char *text, size_t bytes)
{
    /* What is left of a sum that should be 0 is 0. */
    snprintf(text, bytes, "%.5g", fabs(value) < 1e-12 ? 0 : value);
    return text;
}
