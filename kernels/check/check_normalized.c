#include "kernels/check/check_normalized.h"

#include <math.h>
#include <stdlib.h>

float *check_weight_sums(const struct convoy_conv_shape *s, const float *weights)
{
    int64_t of_map = (int64_t)(s->c / s->groups) * s->r * s->s;
    float *sums = convoy_check_memory(s->k, sizeof *sums);
    for (int k = 0; k < s->k; k++) {
        double sum = 0;
        for (int64_t i = 0; i < of_map; i++)
            sum += convoy_check_round(weights[k * of_map + i], CONVOY_COMPUTE_FP16);
        sums[k] = (float)sum;
    }
    float *device = convoy_check_device_copy(sums, (size_t)s->k * sizeof *sums);
    free(sums);
    return device;
}

float *check_image_moments(const struct convoy_conv_shape *s, const float *images, int64_t image_bytes)
{
    int parts = convoy_nhwc_moments(s->c);
    int64_t pixels = (int64_t)s->h * s->w, count = s->n * pixels * parts * 2;
    float *moments = convoy_check_memory(count, sizeof *moments);
    for (int64_t i = 0; i < (int64_t)s->n * s->c * pixels; i++) {
        int64_t n = i / pixels / s->c, c = i / pixels % s->c;
        const float *image = images + n * image_bytes / (int64_t)sizeof *images;
        double value = convoy_check_round(image[c * pixels + i % pixels], CONVOY_COMPUTE_FP16);
        float *to = moments + ((n * pixels + i % pixels) * parts + c / 64) * 2;
        to[0] += (float)value;
        to[1] += (float)(value * value);
    }
    float *device = convoy_check_device_copy(moments, (size_t)count * sizeof *moments);
    free(moments);
    return device;
}

double check_moments_error(const struct convoy_conv_shape *s, const float *moments, const double *expected,
                           double largest)
{
    int parts = convoy_nhwc_moments(s->k);
    int64_t pixels = (int64_t)s->oh * s->ow;
    double worst = 0;
    for (int64_t at = 0; at < pixels * parts; at++) {
        int64_t pixel = at / parts, first = at % parts * 64;
        double sum = 0, squares = 0;
        for (int64_t k = first; k < s->k && k < first + 64; k++) {
            sum += expected[k * pixels + pixel];
            squares += expected[k * pixels + pixel] * expected[k * pixels + pixel];
        }
        double error = fmax(fabs(moments[at * 2] - sum) / (64 * largest),
                            fabs(moments[at * 2 + 1] - squares) / (64 * largest * largest));
        if (isnan(sum))
            error = isnan(moments[at * 2]) && isnan(moments[at * 2 + 1]) ? 0 : INFINITY;
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}
