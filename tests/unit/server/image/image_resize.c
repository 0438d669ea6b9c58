/* Resizing at its edges, against the formula in resize.h computed in double and in two dimensions at once. */
#include "server/image/image.h"
#include "server/image/resize.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* A value that changes everywhere and has large parts that are dark and bright. */
static uint8_t value_at(int64_t x, int64_t y, int c)
{
    uint64_t hash = (uint64_t)(x + 1) * 0x9E3779B97F4A7C15u ^ (uint64_t)(y + 1) * 0xC2B2AE3D27D4EB4Fu;
    int trend = (int)((x / 7 + y / 5 + c * 40) % 200);
    return (uint8_t)(trend + (int)(hash >> 58) % 56);
}

static double triangle_mean_1d(const double *line, int64_t length, double centre, double reach, double *norm)
{
    double sum = 0.0;
    int64_t start = (int64_t)fmax(0.0, centre - reach - 1.0);
    int64_t end = (int64_t)fmin((double)length, centre + reach + 2.0);
    *norm = 0.0;
    for (int64_t i = start; i < end; i++) {
        double weight = fmax(0.0, 1.0 - fabs((double)i + 0.5 - centre) / reach);
        sum += weight * line[i];
        *norm += weight;
    }
    return sum / *norm;
}

/* Resizes width x height to the target and compares every output with the two-dimensional mean. */
static void check(int width, int height, int channels, const struct convoy_image_target *target)
{
    struct convoy_axis x;
    struct convoy_axis y;
    convoy_image_fit(target, width, height, &x, &y);
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    size_t pixels = (size_t)width * (size_t)height;
    uint8_t *source = malloc(pixels * (size_t)channels);
    uint8_t *result = malloc((size_t)target->width * (size_t)target->height * (size_t)channels);
    double *down = malloc((size_t)width * sizeof *down);
    double *column = malloc((size_t)height * sizeof *column);
    cr_assert(scratch != NULL && source != NULL && result != NULL && down != NULL && column != NULL);
    for (int64_t r = 0; r < height; r++)
        for (int64_t q = 0; q < width; q++)
            for (int c = 0; c < channels; c++)
                source[(r * width + q) * channels + c] = value_at(q, r, c);
    cr_assert_eq(convoy_image_resize(scratch, source, channels, &x, &y, result, NULL), 0);

    double scale_x = (double)x.in / (double)x.scaled;
    double scale_y = (double)y.in / (double)y.scaled;
    double worst = 0.0;
    for (int j = 0; j < y.out; j++)
        for (int c = 0; c < channels; c++) {
            double norm;
            for (int q = 0; q < width; q++) {
                for (int r = 0; r < height; r++)
                    column[r] = source[((int64_t)r * width + q) * channels + c];
                down[q] = triangle_mean_1d(column, height, ((double)(y.first + j) + 0.5) * scale_y,
                                           fmax(scale_y, 1.0), &norm);
            }
            for (int i = 0; i < x.out; i++) {
                double exact = triangle_mean_1d(down, width, ((double)(x.first + i) + 0.5) * scale_x,
                                                fmax(scale_x, 1.0), &norm);
                worst = fmax(
                    worst,
                    fabs(exact -
                         result[((size_t)j * (size_t)x.out + (size_t)i) * (size_t)channels + (size_t)c]));
            }
        }
    /* Half a level for the result, half for the values between the passes. */
    cr_expect_leq(worst, 1.01, "%dx%dx%d to %dx%d, fit %d: off by %f", width, height, channels, target->width,
                  target->height, (int)target->fit, worst);
    free(column);
    free(down);
    free(result);
    free(source);
    convoy_image_scratch_free(scratch);
}

Test(image_resize, every_way_through_agrees_with_the_formula)
{
    for (int fit = CONVOY_FIT_STRETCH; fit <= CONVOY_FIT_CROP; fit++)
        for (int channels = 1; channels <= 3; channels += 2) {
            struct convoy_image_target square = {32, 32, channels, (enum convoy_image_fit)fit};
            struct convoy_image_target flat = {40, 9, channels, (enum convoy_image_fit)fit};
            check(1, 1, channels, &square);
            check(37, 61, channels, &square);
            check(32, 61, channels, &square);
            check(61, 32, channels, &flat);
            check(40, 100, channels, &flat);
            check(100, 9, channels, &flat);
            check(2, 900, channels, &square);
            check(4, 20000, channels, &square); /* rows first */
            check(900, 2, channels, &square);
            check(40, 9, channels, &flat);
            check(33, 31, channels, &flat);
            /* A crop that scales by so little that one axis keeps its size, yet loses its edges. */
            struct convoy_image_target wider = {101, 20, channels, (enum convoy_image_fit)fit};
            struct convoy_image_target higher = {20, 101, channels, (enum convoy_image_fit)fit};
            check(100, 50, channels, &wider);
            check(50, 100, channels, &higher);
        }
}

/* Reductions past 4096 leave the fixed-point table. */
Test(image_resize, extreme_reductions_keep_their_mean)
{
    for (int channels = 1; channels <= 3; channels += 2) {
        struct convoy_image_target tiny = {2, 2, channels, CONVOY_FIT_STRETCH};
        struct convoy_image_target one = {1, 1, channels, CONVOY_FIT_STRETCH};
        check(8191, 3, channels, &tiny);
        check(8193, 3, channels, &tiny);
        check(3, 8193, channels, &tiny);
        check(300000, 2, channels, &one);
        check(2, 300000, channels, &one);
        check(100001, 1, channels, &tiny);
        check(1, 100001, channels, &tiny);
    }
}

/* Worked out by hand from torchvision's rule. */
Test(image_resize, crops_cut_the_centre)
{
    static const struct {
        int width, height, to_width, to_height;
        int64_t scaled_x, scaled_y, first_x, first_y;
    } cases[] = {
        {500, 375, 224, 224, 298, 224, 37, 0}, /* (298 - 224) / 2 = 37 */
        {375, 500, 224, 224, 224, 298, 0, 37},
        {33, 32, 32, 32, 33, 32, 0, 0}, /* 0.5 rounds to 0 */
        {35, 32, 32, 32, 35, 32, 2, 0}, /* 1.5 rounds to 2 */
        {37, 32, 32, 32, 37, 32, 2, 0}, /* 2.5 rounds to 2 */
        {100, 100, 50, 20, 50, 50, 0, 15},
        {100, 100, 20, 50, 50, 50, 15, 0},
        {1, 50000000, 32, 32, 32, 1600000000, 0, 799999984},
        {2147483647, 1, 65535, 65535, 140735340806145, 65535, 70367670370305, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct convoy_image_target target = {cases[i].to_width, cases[i].to_height, 3, CONVOY_FIT_CROP};
        struct convoy_axis x;
        struct convoy_axis y;
        convoy_image_fit(&target, cases[i].width, cases[i].height, &x, &y);
        cr_expect_eq(x.scaled, cases[i].scaled_x, "case %zu: %ld", i, (long)x.scaled);
        cr_expect_eq(y.scaled, cases[i].scaled_y, "case %zu: %ld", i, (long)y.scaled);
        cr_expect_eq(x.first, cases[i].first_x, "case %zu: %ld", i, (long)x.first);
        cr_expect_eq(y.first, cases[i].first_y, "case %zu: %ld", i, (long)y.first);
    }
}

Test(image_resize, crops_cut_the_centre_of_what_covers_more)
{
    static const struct {
        int width, height, side, cover;
        int64_t scaled_x, scaled_y, first_x, first_y;
    } cases[] = {
        {500, 375, 224, 256, 341, 256, 58, 16}, /* 117 / 2 = 58.5 rounds to 58 */
        {375, 500, 224, 256, 256, 341, 16, 58},
        {256, 300, 224, 256, 256, 300, 16, 38},
        {224, 224, 224, 224, 224, 224, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct convoy_image_target target = {.width = cases[i].side,
                                             .height = cases[i].side,
                                             .channels = 3,
                                             .fit = CONVOY_FIT_CROP,
                                             .cover_width = cases[i].cover,
                                             .cover_height = cases[i].cover};
        struct convoy_axis x;
        struct convoy_axis y;
        convoy_image_fit(&target, cases[i].width, cases[i].height, &x, &y);
        cr_expect_eq(x.scaled, cases[i].scaled_x, "case %zu: %ld", i, (long)x.scaled);
        cr_expect_eq(y.scaled, cases[i].scaled_y, "case %zu: %ld", i, (long)y.scaled);
        cr_expect_eq(x.first, cases[i].first_x, "case %zu: %ld", i, (long)x.first);
        cr_expect_eq(y.first, cases[i].first_y, "case %zu: %ld", i, (long)y.first);
    }
}

/* As transformers does; an offset of 58.5 is 58 either way, one of 1.5 is 2 or 1. */
Test(image_resize, offsets_are_rounded_down_where_that_is_asked)
{
    static const struct {
        enum convoy_image_fit fit;
        int width, height, cover;
        int64_t even_x, down_x;
    } cases[] = {
        {CONVOY_FIT_CROP, 500, 375, 256, 58, 58},
        {CONVOY_FIT_CROP, 227, 224, 224, 2, 1},
        {CONVOY_FIT_STRETCH, 500, 375, 227, 2, 1},
        {CONVOY_FIT_STRETCH, 500, 375, 256, 16, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int down = 0; down < 2; down++) {
            struct convoy_image_target target = {.width = 224,
                                                 .height = 224,
                                                 .channels = 3,
                                                 .fit = cases[i].fit,
                                                 .cover_width = cases[i].cover,
                                                 .cover_height = cases[i].cover,
                                                 .cuts_down = down == 1};
            struct convoy_axis x, y;
            convoy_image_fit(&target, cases[i].width, cases[i].height, &x, &y);
            cr_expect_eq(x.first, down == 1 ? cases[i].down_x : cases[i].even_x, "case %zu: %ld", i,
                         (long)x.first);
        }
}

Test(image_resize, padding_keeps_the_proportions)
{
    static const struct {
        int width, height, to_width, to_height, out_x, out_y;
    } cases[] = {
        {500, 375, 224, 224, 224, 168},
        {375, 500, 224, 224, 168, 224},
        {100, 100, 50, 20, 20, 20},
        {1000, 3, 32, 32, 32, 1}, /* 0.096 would be none */
        {5, 2, 5, 5, 5, 2},
        {4, 5, 2, 5, 2, 2}, /* 2.5 rounds to 2 */
        {2147483647, 1, 224, 224, 224, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct convoy_image_target target = {cases[i].to_width, cases[i].to_height, 3, CONVOY_FIT_PAD};
        struct convoy_axis x;
        struct convoy_axis y;
        convoy_image_fit(&target, cases[i].width, cases[i].height, &x, &y);
        cr_expect_eq(x.out, cases[i].out_x, "case %zu: %d", i, x.out);
        cr_expect_eq(y.out, cases[i].out_y, "case %zu: %d", i, y.out);
        cr_expect(x.scaled == x.out && y.scaled == y.out && x.first == 0 && y.first == 0);
    }
}

/* Past 4,096 source pixels a filter is the bilinear one. */
Test(image_resize, wide_filters_are_bilinear)
{
    for (int filter = CONVOY_FILTER_BICUBIC; filter <= CONVOY_FILTER_LANCZOS; filter++) {
        struct convoy_image_target two = {
            .width = 2, .height = 2, .channels = 3, .filter = (enum convoy_image_filter)filter};
        check(4300, 2, 3, &two);
        check(2, 4300, 3, &two);
    }
}
