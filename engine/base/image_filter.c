#include "engine/base/image_filter.h"

#include <math.h>

#define PI 3.14159265358979323846

double convoy_filter_reach(enum convoy_image_filter filter)
{
    switch (filter) {
    case CONVOY_FILTER_BICUBIC:
        return 2.0;
    case CONVOY_FILTER_LANCZOS:
        return 3.0;
    default:
        return 1.0;
    }
}

static double bicubic(double x)
{
    const double a = -0.5;
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(PI * x) / (PI * x);
}

double convoy_filter_weight(enum convoy_image_filter filter, double x)
{
    x = fabs(x);
    switch (filter) {
    case CONVOY_FILTER_BICUBIC:
        return bicubic(x);
    case CONVOY_FILTER_LANCZOS:
        return x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
    default:
        return x < 1.0 ? 1.0 - x : 0.0;
    }
}
