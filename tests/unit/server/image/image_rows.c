/* Resizing row by row: the same bits as of the whole picture, whatever its size, its turn and its pixels are;
 * and in how much memory. */
#include "server/image/alpha.h"
#include "server/image/decoder.h"
#include "server/image/image.h"
#include "server/image/resize.h"
#include "server/image/resize_rows.h"
#include "tests/unit/server/image/image_forge.h"
#include "tests/unit/server/image/image_samples.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

struct picture {
    struct convoy_stored_image stored;
    int channels; /* of the result */
    bool mixes;   /* colours are multiplied by their alpha */
    uint8_t *bytes;
};

static struct picture draw_picture(int width, int height, int orientation, enum convoy_pixel pixel,
                                   int channels)
{
    struct picture picture = {{width, height, orientation, pixel, channels == 4},
                              pixel == CONVOY_PIXEL_GREY ? 1 : channels,
                              pixel == CONVOY_PIXEL_RGBA && channels == 4 && orientation % 2 == 0,
                              NULL};
    size_t size = (size_t)width * (size_t)height * (size_t)convoy_pixel_bytes(pixel);
    picture.bytes = malloc(size);
    cr_assert_not_null(picture.bytes);
    for (size_t i = 0; i < size; i++) /* bright and dark stretches, in which every filter is cut off */
        picture.bytes[i] = (uint8_t)(i / 97 % 3 == 0 ? 255 : i / 97 % 3 == 1 ? draw(256) : 0);
    return picture;
}

/* As a decoder does it. */
static void deliver(const struct picture *picture, const struct convoy_raster *raster)
{
    size_t row = (size_t)picture->stored.width * (size_t)convoy_pixel_bytes(picture->stored.pixel);
    for (int y = 0; y < picture->stored.height; y++) {
        memcpy(convoy_raster_line(raster, y), picture->bytes + (size_t)y * row, row);
        convoy_raster_place(raster, y);
    }
}

static uint8_t *by_whole(const struct picture *picture, const struct convoy_axis *x,
                         const struct convoy_axis *y, struct convoy_image_scratch *scratch)
{
    struct convoy_raster raster;
    uint8_t *shown = malloc((size_t)x->in * (size_t)y->in * (size_t)picture->channels);
    uint8_t *line = malloc((size_t)picture->stored.width * 4);
    uint8_t *result = malloc((size_t)x->out * (size_t)y->out * (size_t)picture->channels);
    cr_assert(shown != NULL && line != NULL && result != NULL);
    convoy_raster_aim(&raster, &picture->stored, shown, picture->channels);
    if (convoy_raster_needs_line(&raster))
        raster.line = line;
    deliver(picture, &raster);
    if (picture->mixes)
        convoy_alpha_multiply(shown, (size_t)x->in * (size_t)y->in);
    cr_assert_eq(convoy_image_resize(scratch, shown, picture->channels, x, y, result, NULL), 0);
    free(line);
    free(shown);
    return result;
}

static void check(const struct picture *picture, const struct convoy_image_target *target)
{
    bool turned = convoy_orientation_swaps(picture->stored.orientation);
    struct convoy_axis x, y;
    struct convoy_row_resizer resizer;
    struct convoy_raster raster;
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    convoy_image_fit(target, turned ? picture->stored.height : picture->stored.width,
                     turned ? picture->stored.width : picture->stored.height, &x, &y);
    uint8_t *whole = by_whole(picture, &x, &y, scratch);
    size_t size = (size_t)x.out * (size_t)y.out * (size_t)picture->channels, off = 0;
    uint8_t *rows = malloc(size);
    cr_assert_not_null(rows);
    memset(rows, 0xAA, size);
    cr_assert(convoy_resize_rows_can(&x, &y));
    cr_assert_eq(convoy_resize_rows_begin(&resizer, scratch, &picture->stored, picture->channels,
                                          picture->mixes, &x, &y, rows),
                 0);
    convoy_raster_aim_at_sink(&raster, &picture->stored, &resizer.sink, picture->channels);
    deliver(picture, &raster);
    for (size_t i = 0; i < size; i++)
        off += whole[i] != rows[i];
    cr_expect_eq(off, 0, "%d x %d, pixel %d, turn %d, to %d x %d, fit %d, filter %d: %zu of %zu bytes differ",
                 picture->stored.width, picture->stored.height, (int)picture->stored.pixel,
                 picture->stored.orientation, target->width, target->height, (int)target->fit,
                 (int)target->filter, off, size);
    free(rows);
    free(whole);
    convoy_image_scratch_free(scratch);
}

static void check_all(int width, int height, const struct convoy_image_target *target)
{
    for (int orientation = 1; orientation <= 8; orientation++) {
        struct picture picture = draw_picture(width, height, orientation, CONVOY_PIXEL_RGB, 3);
        check(&picture, target);
        free(picture.bytes);
    }
}

/* More rows than wait together, in each direction: shrunk, enlarged, both; rows or columns first; and axes
 * that keep their size. */
Test(image_rows, the_same_bits_in_every_turn)
{
    static const int sizes[][4] = {
        {150, 131, 32, 32}, {150, 131, 149, 130}, {131, 150, 50, 7},   {40, 300, 39, 9},
        {300, 40, 9, 39},   {90, 200, 120, 100},  {200, 90, 100, 120}, {70, 129, 200, 300},
        {129, 70, 129, 33}, {70, 129, 33, 129},   {1, 200, 3, 20},     {200, 1, 20, 3},
        {65, 65, 1, 1},     {64, 64, 13, 17},     {66, 90, 66, 91},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int filter = CONVOY_FILTER_BILINEAR; filter <= CONVOY_FILTER_NEAREST; filter++) {
            struct convoy_image_target target = {.width = sizes[i][2],
                                                 .height = sizes[i][3],
                                                 .channels = 3,
                                                 .filter = (enum convoy_image_filter)filter,
                                                 .fit = (enum convoy_image_fit)((i + (size_t)filter) % 3)};
            check_all(sizes[i][0], sizes[i][1], &target);
        }
}

/* Crops of pictures that keep their size, along one axis or both, lose their edges. */
Test(image_rows, crops_that_keep_the_size)
{
    static const int sizes[][4] = {{150, 100, 100, 100}, {100, 150, 100, 100}, {101, 50, 100, 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int filter = CONVOY_FILTER_BILINEAR; filter <= CONVOY_FILTER_NEAREST; filter++) {
            struct convoy_image_target target = {.width = sizes[i][2],
                                                 .height = sizes[i][3],
                                                 .channels = 3,
                                                 .filter = (enum convoy_image_filter)filter,
                                                 .fit = CONVOY_FIT_CROP};
            check_all(sizes[i][0], sizes[i][1], &target);
        }
}

Test(image_rows, every_kind_of_pixel)
{
    static const struct {
        enum convoy_pixel pixel;
        int channels;
    } kinds[] = {{CONVOY_PIXEL_GREY, 3}, {CONVOY_PIXEL_RGB, 1},  {CONVOY_PIXEL_RGB, 4},
                 {CONVOY_PIXEL_RGBA, 1}, {CONVOY_PIXEL_RGBA, 3}, {CONVOY_PIXEL_RGBA, 4},
                 {CONVOY_PIXEL_CMYK, 1}, {CONVOY_PIXEL_CMYK, 3}, {CONVOY_PIXEL_CMYK, 4}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int orientation = 1; orientation <= 8; orientation++) {
            struct convoy_image_target target = {.width = 31, .height = 23, .channels = kinds[i].channels};
            /* The longest filter, with parts below 0. */
            target.filter = i % 2 == 0 ? CONVOY_FILTER_LANCZOS : CONVOY_FILTER_BILINEAR;
            struct picture picture = draw_picture(77, 140, orientation, kinds[i].pixel, kinds[i].channels);
            check(&picture, &target);
            free(picture.bytes);
        }
}

/* Few rows go together when they are long. */
Test(image_rows, long_rows)
{
    static const int sizes[][4] = {{6000, 70, 30, 20}, {6000, 70, 300, 3}, {6000, 70, 5999, 69}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int orientation = 1; orientation <= 6; orientation += 5) {
            struct convoy_image_target target = {
                .width = sizes[i][2], .height = sizes[i][3], .channels = 3, .filter = CONVOY_FILTER_BICUBIC};
            struct picture picture = draw_picture(sizes[i][0], sizes[i][1], orientation, CONVOY_PIXEL_RGB, 3);
            check(&picture, &target);
            free(picture.bytes);
        }
}

Test(image_rows, sizes_at_random)
{
    for (int i = 0; i < 300; i++) {
        struct convoy_image_target target = {.width = 1 + (int)draw(i % 3 == 0 ? 200 : 40),
                                             .height = 1 + (int)draw(i % 5 == 0 ? 200 : 40),
                                             .channels = 3,
                                             .filter = (enum convoy_image_filter)draw(4),
                                             .fit = (enum convoy_image_fit)draw(3)};
        struct picture picture = draw_picture(1 + (int)draw(150), 1 + (int)draw(250), 1 + (int)draw(8),
                                              draw(3) == 0 ? CONVOY_PIXEL_GREY : CONVOY_PIXEL_RGB, 3);
        check(&picture, &target);
        free(picture.bytes);
    }
}

/* PNG files with alpha, to a network with four channels: what image.c does around it. */
Test(image_rows, files_with_alpha)
{
    for (int orientation = 1; orientation <= 8; orientation++) {
        char name[64];
        size_t length;
        struct convoy_decoder decoder;
        struct convoy_raster raster;
        struct convoy_axis x, y;
        struct convoy_error error;
        uint8_t shown[47 * 31 * 4], line[47 * 4], whole[20 * 9 * 4], row[20 * 9 * 4];
        const struct convoy_image_target target = {.width = 20, .height = 9, .channels = 4};
        struct convoy_image_scratch *scratch = convoy_image_scratch_new();
        snprintf(name, sizeof name, "exif%d-rgba.png", orientation);
        uint8_t *bytes = samples_read(name, &length);
        cr_assert_eq(convoy_decoder_open(&decoder, bytes, length, true, &error), 0);
        const struct convoy_stored_image *stored = &decoder.stored;
        bool turned = orientation >= 5;
        convoy_image_fit(&target, turned ? stored->height : stored->width,
                         turned ? stored->width : stored->height, &x, &y);
        convoy_raster_aim(&raster, stored, shown, 4);
        raster.line = line;
        cr_assert_eq(convoy_decoder_read(&decoder, &raster, 0, scratch, &error), 0);
        convoy_decoder_close(&decoder);
        convoy_alpha_multiply(shown, sizeof shown / 4);
        cr_assert_eq(convoy_image_resize(scratch, shown, 4, &x, &y, whole, &error), 0);
        convoy_alpha_divide(whole, sizeof whole / 4);
        cr_assert_eq(convoy_image_to_row(scratch, bytes, length, 10000, &target, row, &error), 0);
        cr_expect_arr_eq(row, whole, sizeof row, "%s", name);
        convoy_image_scratch_free(scratch);
        free(bytes);
    }
}

/* 9 megapixels, in little more bytes than are allowed. */
static struct forged large_jpeg(int width, int height, int orientation, bool progressive)
{
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    uint8_t exif[] = "Exif\0\0II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0.\0\0\0\0\0\0\0";
    exif[24] = (uint8_t)orientation;
    encoder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &bytes, &length);
    encoder.image_width = (JDIMENSION)width;
    encoder.image_height = (JDIMENSION)height;
    encoder.input_components = 3;
    encoder.in_color_space = JCS_RGB;
    jpeg_set_defaults(&encoder);
    if (progressive)
        jpeg_simple_progression(&encoder);
    jpeg_start_compress(&encoder, TRUE);
    jpeg_write_marker(&encoder, JPEG_APP0 + 1, exif, sizeof exif - 1);
    uint8_t *row = malloc((size_t)width * 3);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < 3 * width; x++)
            row[x] = (uint8_t)((x + y) / 16);
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    return (struct forged){bytes, length};
}

/* The most that this process has had in memory since forget_peak(), in KiB. */
static long peak(void)
{
    char line[128];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    cr_assert_not_null(status);
    while (kib < 0 && fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "VmHWM: %ld", &kib);
    fclose(status);
    cr_assert_geq(kib, 0);
    return kib;
}

static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    cr_assert(file != NULL && fputs("5", file) >= 0 && fclose(file) == 0);
}

#define CODE_KIB 1024 /* of libraries, which comes into memory when it runs */

/* What a probe says is enough, and far less than the pixels are. */
static void expect_little_memory(int orientation, enum convoy_image_filter filter)
{
    const uint64_t pixels = 3000 * 3000;
    struct forged jpeg = large_jpeg(3000, 3000, orientation, false);
    struct convoy_image_target target = {.width = 224,
                                         .height = 224,
                                         .channels = 3,
                                         .fit = CONVOY_FIT_CROP,
                                         .cover_width = 256,
                                         .cover_height = 256,
                                         .filter = filter};
    struct convoy_image_info info;
    struct convoy_error error;
    uint8_t *row = malloc((size_t)3 * 224 * 224);
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    cr_assert_eq(convoy_image_probe(jpeg.bytes, jpeg.length, pixels, &info, &error), 0);
    forget_peak();
    long before = peak();
    cr_assert_eq(convoy_image_to_row(scratch, jpeg.bytes, jpeg.length, pixels, &target, row, &error), 0, "%s",
                 error.message);
    long taken = peak() - before, said = (long)(info.decode_bytes >> 10);
    cr_log_info("%ld KiB, said %ld", taken, said);
    cr_expect_leq(info.decode_bytes, pixels / 4);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
    cr_expect_leq(taken, said + CODE_KIB, "%ld KiB, said %ld", taken, said);
#endif
    convoy_image_scratch_free(scratch);
    free(row);
    free(jpeg.bytes);
}

Test(image_rows, little_memory)
{
    expect_little_memory(1, CONVOY_FILTER_BILINEAR);
}

Test(image_rows, little_memory_when_turned)
{
    expect_little_memory(6, CONVOY_FILTER_LANCZOS);
}

/* Where rows are not resized as they come, or their coefficients are kept, the probe says so. */
Test(image_rows, what_a_probe_says)
{
    struct convoy_image_info plain, progressive, small;
    struct forged jpeg = large_jpeg(1000, 1000, 1, false), scans = large_jpeg(1000, 1000, 1, true),
                  icon = large_jpeg(32, 32, 1, false);
    cr_assert_eq(convoy_image_probe(jpeg.bytes, jpeg.length, 1000000, &plain, NULL), 0);
    cr_assert_eq(convoy_image_probe(scans.bytes, scans.length, 1000000, &progressive, NULL), 0);
    cr_assert_eq(convoy_image_probe(icon.bytes, icon.length, 1000000, &small, NULL), 0);
    cr_expect_lt(plain.decode_bytes, 1000000u);
    cr_expect_eq(progressive.decode_bytes, plain.decode_bytes + 6000000u);
    cr_expect_eq(small.decode_bytes, 32 * 32 * 5);
    free(jpeg.bytes);
    free(scans.bytes);
    free(icon.bytes);
}
