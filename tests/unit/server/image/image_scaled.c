/* JPEG images decoded in a part of their size: when, and that the result lies where the whole image's does.
 */
#include "server/image/image.h"
#include "tests/unit/server/image/image_forge.h"

#include <criterion/criterion.h>
#include <math.h>

#define MAX_PIXELS 100000000u

/* Four levels a pixel up and down again, along both axes: what is off by a pixel is off by four levels. */
static uint8_t wave(int at)
{
    int phase = at % 104;
    return (uint8_t)(24 + 4 * (phase < 52 ? phase : 104 - phase));
}

/* width x height, red a wave along x, green along y, blue their mean; with an Exif orientation where it is
 * not 0. */
static struct forged waves(int width, int height, int orientation)
{
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    uint8_t exif[] = "Exif\0\0II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0.\0\0\0\0\0\0\0";
    encoder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &bytes, &length);
    encoder.image_width = (JDIMENSION)width;
    encoder.image_height = (JDIMENSION)height;
    encoder.input_components = 3;
    encoder.in_color_space = JCS_RGB;
    jpeg_set_defaults(&encoder);
    jpeg_set_quality(&encoder, 95, TRUE);
    jpeg_start_compress(&encoder, TRUE);
    exif[24] = (uint8_t)orientation;
    if (orientation != 0)
        jpeg_write_marker(&encoder, JPEG_APP0 + 1, exif, sizeof exif - 1);
    uint8_t *row = malloc((size_t)width * 3);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            row[3 * x] = wave(x);
            row[3 * x + 1] = wave(y);
            row[3 * x + 2] = (uint8_t)((wave(x) + wave(y)) / 2);
        }
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    return (struct forged){bytes, length};
}

/* The mean difference between the image decoded in part and whole; 0 where both are the same bits. */
static double difference(const struct forged *jpeg, struct convoy_image_target target,
                         enum convoy_scaled_decoding how, int *most)
{
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    size_t size = (size_t)target.width * (size_t)target.height * (size_t)target.channels;
    uint8_t *whole = malloc(size), *part = malloc(size);
    struct convoy_error error;
    double sum = 0.0;
    cr_assert(scratch != NULL && whole != NULL && part != NULL);
    cr_assert_eq(convoy_image_to_row(scratch, jpeg->bytes, jpeg->length, MAX_PIXELS, &target, whole, &error),
                 0, "%s", error.message);
    target.scaled_decoding = how;
    cr_assert_eq(convoy_image_to_row(scratch, jpeg->bytes, jpeg->length, MAX_PIXELS, &target, part, &error),
                 0, "%s", error.message);
    *most = 0;
    for (size_t i = 0; i < size; i++) {
        int off = abs(whole[i] - part[i]);
        *most = off > *most ? off : *most;
        sum += off;
    }
    free(part);
    free(whole);
    convoy_image_scratch_free(scratch);
    return sum / (double)size;
}

Test(image_scaled, only_what_stays_large_enough_is_decoded_in_part)
{
    static const struct {
        int width, height, to_width, to_height;
        enum convoy_scaled_decoding how;
        bool in_part;
    } cases[] = {
        {512, 512, 128, 128, CONVOY_SCALED_AUTO, true},  /* a half is twice 128 */
        {508, 512, 128, 128, CONVOY_SCALED_AUTO, false}, /* a half is 254 */
        {512, 508, 128, 128, CONVOY_SCALED_AUTO, false},
        {512, 512, 128, 129, CONVOY_SCALED_AUTO, false},
        {512, 512, 129, 128, CONVOY_SCALED_AUTO, false},
        {512, 512, 129, 129, CONVOY_SCALED_ALWAYS, true},
        {512, 512, 256, 256, CONVOY_SCALED_ALWAYS, true},
        {512, 512, 257, 257, CONVOY_SCALED_ALWAYS, false},
        {512, 512, 600, 600, CONVOY_SCALED_ALWAYS, false},
        {512, 512, 32, 32, CONVOY_SCALED_OFF, false},
        {256, 256, 32, 32, CONVOY_SCALED_AUTO, true},
        {256, 255, 32, 32, CONVOY_SCALED_ALWAYS, false}, /* 65,280 pixels */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forged jpeg = waves(cases[i].width, cases[i].height, 0);
        struct convoy_image_target target = {.width = cases[i].to_width,
                                             .height = cases[i].to_height,
                                             .channels = 3,
                                             .fit = CONVOY_FIT_STRETCH};
        int most;
        double mean = difference(&jpeg, target, cases[i].how, &most);
        cr_expect_eq(mean > 0.0, cases[i].in_part, "case %zu: a mean difference of %f", i, mean);
        target.filter = CONVOY_FILTER_NEAREST;
        cr_expect_eq(difference(&jpeg, target, cases[i].how, &most), 0.0, "case %zu, nearest", i);
        free(jpeg.bytes);
    }
}

/* Sides that are no multiple of 8, so that the last pixel of the part is one of which the image has only a
 * piece; and turned, which puts it first. */
Test(image_scaled, a_part_lies_where_the_whole_does)
{
    static const struct convoy_image_target targets[] = {
        {.width = 31, .height = 31, .channels = 3, .fit = CONVOY_FIT_STRETCH},
        {.width = 50,
         .height = 50,
         .channels = 3,
         .fit = CONVOY_FIT_CROP,
         .cover_width = 60,
         .cover_height = 60},
        {.width = 64, .height = 64, .channels = 3, .fit = CONVOY_FIT_PAD},
        {.width = 40,
         .height = 40,
         .channels = 3,
         .fit = CONVOY_FIT_STRETCH,
         .filter = CONVOY_FILTER_BICUBIC},
    };
    static const int sides[][2] = {{521, 393}, {777, 1033}, {1009, 577}};
    double worst = 0.0;
    int worst_most = 0;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int orientation = 1; orientation <= 8; orientation++) {
            struct forged jpeg = waves(sides[i][0], sides[i][1], orientation);
            for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
                int most;
                double mean = difference(&jpeg, targets[t], CONVOY_SCALED_AUTO, &most);
                cr_expect(mean > 0.0, "%d x %d, target %zu: decoded whole", sides[i][0], sides[i][1], t);
                worst = fmax(worst, mean);
                worst_most = most > worst_most ? most : worst_most;
            }
            free(jpeg.bytes);
        }
    printf("decoded in part: %.2f levels in the mean, %d at most\n", worst, worst_most);
    cr_expect_leq(worst, 1.0);
    cr_expect_leq(worst_most, 8);
}
