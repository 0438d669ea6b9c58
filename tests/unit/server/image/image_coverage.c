/* Which part of an image a target shows, and grey pictures that are written as PNG. */
#include "server/image/coverage.h"
#include "server/image/image.h"
#include "server/image/png_write.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void covers(enum convoy_image_fit fit, int width, int height, struct convoy_image_box expected)
{
    const struct convoy_image_target target = {.width = 10,
                                               .height = 12,
                                               .channels = 3,
                                               .fit = fit,
                                               .cover_width = fit == CONVOY_FIT_CROP ? 20 : 0,
                                               .cover_height = fit == CONVOY_FIT_CROP ? 16 : 0};
    struct convoy_image_box box;
    convoy_image_coverage(&target, width, height, &box);
    cr_assert(fabs(box.left - expected.left) < 1e-12 && fabs(box.top - expected.top) < 1e-12 &&
                  fabs(box.right - expected.right) < 1e-12 && fabs(box.bottom - expected.bottom) < 1e-12,
              "%d x %d: %g %g %g %g", width, height, box.left, box.top, box.right, box.bottom);
}

Test(image_coverage, of_each_fit)
{
    covers(CONVOY_FIT_STRETCH, 300, 20, (struct convoy_image_box){0, 0, 1, 1});
    /* 40 x 16, of which the 10 from 15 on and the 12 from 2 on */
    covers(CONVOY_FIT_CROP, 50, 20, (struct convoy_image_box){15 / 40., 2 / 16., 25 / 40., 14 / 16.});
    /* 20 x 40, the 10 from 5 on and the 12 from 14 on */
    covers(CONVOY_FIT_CROP, 20, 40, (struct convoy_image_box){5 / 20., 14 / 40., 15 / 20., 26 / 40.});
    /* 10 x 5 with 4 rows above (3.5, half to even) and 3 below; 6 x 12 with 2 columns on each side */
    covers(CONVOY_FIT_PAD, 20, 10, (struct convoy_image_box){0, -4 / 5., 1, 8 / 5.});
    covers(CONVOY_FIT_PAD, 30, 60, (struct convoy_image_box){-2 / 6., 0, 8 / 6., 1});
    covers(CONVOY_FIT_PAD, 5, 6, (struct convoy_image_box){0, 0, 1, 1});
}

/* The decoder of images gives the pixels back. */
Test(png_write, a_grey_picture_comes_back)
{
    uint8_t pixels[7 * 5], row[7 * 5];
    const struct convoy_image_target target = {.width = 7, .height = 5, .channels = 1};
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    struct convoy_image_info info;
    struct convoy_error error;
    uint8_t *bytes;
    size_t length;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 73);
    cr_assert_eq(convoy_png_write_grey(pixels, 7, 5, &bytes, &length, &error), 0, "%s", error.message);
    cr_assert_eq(convoy_image_probe(bytes, length, 1000, &info, &error), 0, "%s", error.message);
    cr_assert(info.width == 7 && info.height == 5 && info.kind == CONVOY_IMAGE_PNG);
    cr_assert_eq(convoy_image_to_row(scratch, bytes, length, 1000, &target, row, &error), 0, "%s",
                 error.message);
    cr_assert_eq(memcmp(pixels, row, sizeof row), 0);
    free(bytes);
    convoy_image_scratch_free(scratch);
}

Test(png_write, a_picture_without_pixels_is_refused)
{
    struct convoy_error error;
    uint8_t *bytes, pixel = 0;
    size_t length;
    cr_assert_lt(convoy_png_write_grey(&pixel, 0, 1, &bytes, &length, &error), 0);
    cr_assert(bytes == NULL && strstr(error.message, "0 x 1") != NULL, "%s", error.message);
}
