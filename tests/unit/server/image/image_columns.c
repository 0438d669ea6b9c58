/* JPEG pictures of which a crop leaves out columns: they are not decoded, and the others are as if they were.
 */
#include "server/image/image.h"
#include "server/image/jpeg.h"
#include "tests/unit/server/image/image_forge.h"

#include <criterion/criterion.h>
#include <string.h>

#define MAX_PIXELS 100000000u
#define POISON     0xA5

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

struct form {
    int width, height;
    int components;    /* 1 or 3 */
    int factors[3][2]; /* sampling of each component, across and down */
    int restart;       /* blocks; 0: none */
};

/* Bright, dark and noisy stretches of every colour. */
static struct forged encode(const struct form *form)
{
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    struct forged file = {NULL, 0};
    uint8_t *row = malloc((size_t)form->width * 3);
    encoder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &file.bytes, &file.length);
    encoder.image_width = (JDIMENSION)form->width;
    encoder.image_height = (JDIMENSION)form->height;
    encoder.input_components = form->components;
    encoder.in_color_space = form->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&encoder);
    for (int i = 0; i < form->components; i++) {
        encoder.comp_info[i].h_samp_factor = form->factors[i][0];
        encoder.comp_info[i].v_samp_factor = form->factors[i][1];
    }
    encoder.restart_interval = (unsigned)form->restart;
    jpeg_start_compress(&encoder, TRUE);
    for (int y = 0; y < form->height; y++) {
        for (int i = 0; i < form->width * form->components; i++)
            row[i] = (uint8_t)(i / 7 % 3 == 0 ? draw(256) : i / 31 % 2 == y / 5 % 2 ? 255 : 0);
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    free(row);
    return file;
}

/* The same coefficients in several scans, of which convoyd leaves out nothing. */
static struct forged in_scans(const struct forged *file)
{
    struct jpeg_decompress_struct decoder;
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    struct forged result = {NULL, 0};
    decoder.err = encoder.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&decoder);
    jpeg_create_compress(&encoder);
    jpeg_mem_src(&decoder, file->bytes, file->length);
    jpeg_mem_dest(&encoder, &result.bytes, &result.length);
    jpeg_read_header(&decoder, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&decoder);
    jpeg_copy_critical_parameters(&decoder, &encoder);
    jpeg_simple_progression(&encoder);
    jpeg_write_coefficients(&encoder, coefficients);
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    jpeg_destroy_decompress(&decoder);
    return result;
}

static uint8_t *row_of(const struct forged *file, const struct convoy_image_target *target)
{
    struct convoy_error error;
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    uint8_t *row = malloc((size_t)target->width * (size_t)target->height * (size_t)target->channels);
    cr_assert(scratch != NULL && row != NULL);
    cr_assert_eq(convoy_image_to_row(scratch, file->bytes, file->length, MAX_PIXELS, target, row, &error), 0,
                 "%s", error.message);
    convoy_image_scratch_free(scratch);
    return row;
}

static void check(const struct form *form, const struct convoy_image_target *target)
{
    struct forged file = encode(form), scans = in_scans(&file);
    size_t size = (size_t)target->width * (size_t)target->height * (size_t)target->channels;
    uint8_t *part = row_of(&file, target), *whole = row_of(&scans, target);
    cr_expect_arr_eq(part, whole, size,
                     "%d x %d, %d components, %d x %d, %d x %d, %d x %d, to %d x %d, filter %d, %d",
                     form->width, form->height, form->components, form->factors[0][0], form->factors[0][1],
                     form->factors[1][0], form->factors[1][1], form->factors[2][0], form->factors[2][1],
                     target->width, target->height, (int)target->filter, (int)target->scaled_decoding);
    free(whole);
    free(part);
    free(scans.bytes);
    free(file.bytes);
}

/* Those that encoders write, or any: of all components at most 10 blocks lie together. */
static void draw_factors(struct form *form, bool any)
{
    static const int usual[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {2, 4}, {1, 4}};
    const int *luma = usual[draw(8)];
    int blocks;
    do {
        blocks = 0;
        for (int i = 0; i < 3; i++) {
            form->factors[i][0] = any ? 1 << draw(3) : i == 0 ? luma[0] : 1;
            form->factors[i][1] = any ? 1 << draw(3) : i == 0 ? luma[1] : 1;
            blocks += form->factors[i][0] * form->factors[i][1];
        }
    } while (blocks > 10);
}

Test(image_columns, the_others_are_the_same_bits, .timeout = 120)
{
    for (int i = 0; i < 900; i++) {
        bool large = draw(3) == 0; /* enough for scaled decoding */
        struct form form = {.width = (int)(large ? 300 + draw(300) : 20 + draw(300)),
                            .height = (int)(large ? 220 + draw(100) : 8 + draw(60)),
                            .components = i % 7 == 5 ? 1 : 3,
                            .restart = i % 5 == 0 ? (int)(1 + draw(20)) : 0};
        struct convoy_image_target target = {.width = (int)(1 + draw(large ? 60 : 40)),
                                             .height = (int)(8 + draw(large ? 60 : 40)),
                                             .channels = form.components,
                                             .fit = CONVOY_FIT_CROP,
                                             .filter = (enum convoy_image_filter)draw(4),
                                             .scaled_decoding =
                                                 large ? CONVOY_SCALED_ALWAYS : CONVOY_SCALED_OFF};
        draw_factors(&form, i % 3 == 0);
        if (i % 2 == 0) {
            target.cover_width = target.width + (int)draw(20);
            target.cover_height = target.height + (int)draw(20);
        }
        check(&form, &target);
    }
}

/* ---- What is decoded ---- */

struct kept {
    struct convoy_raster_sink sink; /* the first member */
    uint8_t row[4096];
    int first, end; /* the pixels of the last row that were written */
};

static uint8_t *line(struct convoy_raster_sink *sink, int y)
{
    struct kept *kept = (struct kept *)sink;
    (void)y;
    return kept->row;
}

static void take(struct convoy_raster_sink *sink, int y)
{
    struct kept *kept = (struct kept *)sink;
    (void)y;
    kept->first = 0;
    kept->end = (int)sizeof kept->row / 3;
    while (kept->first < kept->end && kept->row[3 * kept->first] == POISON)
        kept->first++;
    while (kept->end > kept->first && kept->row[3 * (kept->end - 1)] == POISON)
        kept->end--;
    memset(kept->row, POISON, sizeof kept->row);
}

static struct kept keep(const struct forged *file, int left, int columns)
{
    struct convoy_jpeg jpeg;
    struct convoy_stored_image stored = {0};
    struct convoy_raster raster;
    struct convoy_error error;
    struct kept kept = {.sink = {line, take, left, columns}};
    cr_assert_eq(convoy_jpeg_open(&jpeg, file->bytes, file->length, &stored, &error), 0, "%s", error.message);
    memset(kept.row, POISON, sizeof kept.row);
    convoy_raster_aim_at_sink(&raster, &stored, &kept.sink, 3);
    cr_assert_eq(convoy_jpeg_read(&jpeg, &raster, 0, &error), 0, "%s", error.message);
    convoy_jpeg_close(&jpeg);
    return kept;
}

Test(image_columns, those_that_are_not_read_are_left_out)
{
    const struct form form = {500, 32, 3, {{2, 2}, {1, 1}, {1, 1}}, 0};
    struct forged file = encode(&form), scans = in_scans(&file);
    struct kept kept = keep(&file, 200, 50);
    cr_expect(kept.first > 160 && kept.first <= 200 && kept.end >= 250 && kept.end < 290, "%d to %d",
              kept.first, kept.end);
    kept = keep(&file, 0, 500);
    cr_expect(kept.first < 16 && kept.end > 484, "%d to %d", kept.first, kept.end);
    kept = keep(&scans, 200, 50);
    cr_expect(kept.first < 16 && kept.end > 484, "%d to %d", kept.first, kept.end);
    free(scans.bytes);
    free(file.bytes);
}
