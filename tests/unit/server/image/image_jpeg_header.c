/* Which JPEG files a device may be given. The files are made by libjpeg, as encoders make them, and then
 * bent. */
#include "server/image/jpeg_header.h"

#include "server/image/jpeg.h"

#include <criterion/criterion.h>
#include <stdio.h> /* jpeglib.h needs it */
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct making {
    unsigned width, height;
    int components;   /* 1, 3 or 4 */
    int across, down; /* sampling of the first component */
    int restart;      /* MCUs */
    bool progressive, arithmetic, rgb, in_scans, with_exif, exif_twice;
    int quality;
};

struct file {
    uint8_t *bytes;
    size_t length;
};

static const uint8_t exif[] = "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";

/* A file in memory of exactly its size; the caller frees. */
static struct file make(const struct making *making)
{
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    unsigned char *made = NULL;
    unsigned long length = 0;
    encoder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &made, &length);
    encoder.image_width = making->width;
    encoder.image_height = making->height;
    encoder.input_components = making->components;
    encoder.in_color_space = making->components == 1   ? JCS_GRAYSCALE
                             : making->components == 3 ? JCS_RGB
                                                       : JCS_CMYK;
    jpeg_set_defaults(&encoder);
    jpeg_set_quality(&encoder, making->quality > 0 ? making->quality : 90, making->quality == 0);
    if (making->rgb)
        jpeg_set_colorspace(&encoder, JCS_RGB);
    if (making->across > 0) {
        encoder.comp_info[0].h_samp_factor = making->across;
        encoder.comp_info[0].v_samp_factor = making->down;
    }
    encoder.restart_interval = (unsigned)making->restart;
    encoder.arith_code = making->arithmetic;
    static const jpeg_scan_info scans[] = {{1, {0}, 0, 63, 0, 0}, {2, {1, 2}, 0, 63, 0, 0}};
    if (making->progressive)
        jpeg_simple_progression(&encoder);
    if (making->in_scans) {
        encoder.scan_info = scans;
        encoder.num_scans = 2;
    }
    jpeg_start_compress(&encoder, TRUE);
    if (making->with_exif)
        jpeg_write_marker(&encoder, JPEG_APP0 + 1, exif, sizeof exif - 1);
    if (making->exif_twice) {
        uint8_t other[sizeof exif];
        memcpy(other, exif, sizeof exif);
        other[24] = 3;
        jpeg_write_marker(&encoder, JPEG_APP0 + 1, other, sizeof exif - 1);
    }
    uint8_t *line = malloc((size_t)making->width * 4);
    uint32_t noise = 1;
    while (encoder.next_scanline < encoder.image_height) {
        for (size_t i = 0; i < (size_t)making->width * 4; i++) {
            noise = noise * 1664525u + 1013904223u;
            line[i] = (uint8_t)(noise >> 24);
        }
        JSAMPROW row = line;
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    free(line);
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    struct file file = {malloc(length), length};
    memcpy(file.bytes, made, length);
    free(made);
    return file;
}

static bool is_plain(const struct making *making, struct convoy_jpeg_header *header)
{
    struct file file = make(making);
    bool plain = convoy_jpeg_is_plain(file.bytes, file.length, header);
    free(file.bytes);
    return plain;
}

Test(image_jpeg_header, what_devices_take)
{
    struct convoy_jpeg_header header;
    static const int samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}};
    for (size_t i = 0; i < 4; i++) {
        const struct making making = {
            .width = 123, .height = 77, .components = 3, .across = samplings[i][0], .down = samplings[i][1]};
        cr_assert(is_plain(&making, &header), "sampling %zu", i);
        cr_expect_eq(header.width, 123);
        cr_expect_eq(header.height, 77);
        cr_expect_eq(header.components, 3);
        cr_expect_eq(header.orientation, 1);
    }
    cr_assert(is_plain(&(struct making){.width = 9, .height = 1, .components = 1}, &header), "grey");
    cr_expect_eq(header.components, 1);
    cr_assert(
        is_plain(&(struct making){.width = 40, .height = 40, .components = 3, .with_exif = true}, &header));
    cr_expect_eq(header.orientation, 6);
    cr_assert(is_plain(
        &(struct making){.width = 40, .height = 40, .components = 3, .with_exif = true, .exif_twice = true},
        &header));
    cr_expect_eq(header.orientation, 6, "the first counts");
    for (int restart = 1; restart < 30; restart++)
        cr_expect(is_plain(&(struct making){.width = 100, .height = 50, .components = 3, .restart = restart},
                           &header),
                  "a restart marker behind each %d", restart);
}

Test(image_jpeg_header, what_is_left_to_libjpeg)
{
    struct convoy_jpeg_header header;
    const struct making left[] = {
        {.width = 40, .height = 40, .components = 3, .progressive = true},
        {.width = 40, .height = 40, .components = 3, .arithmetic = true},
        {.width = 40, .height = 40, .components = 3, .rgb = true},
        {.width = 40, .height = 40, .components = 3, .in_scans = true},
        {.width = 40, .height = 40, .components = 3, .across = 4, .down = 1},
        {.width = 40, .height = 40, .components = 3, .across = 4, .down = 2},
        {.width = 40, .height = 40, .components = 1, .across = 2, .down = 2},
        {.width = 40, .height = 40, .components = 4},
        {.width = 40, .height = 40, .components = 3, .quality = 1}, /* tables of 16 bits */
        {.width = 16385, .height = 8, .components = 1},
    };
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        cr_expect_not(is_plain(&left[i], &header), "file %zu", i);
}

/* Where the first segment of this marker begins. */
static size_t find(const struct file *file, uint8_t marker)
{
    for (size_t at = 2; at + 4 < file->length && file->bytes[at] == 0xFF;
         at += 2 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3]))
        if (file->bytes[at + 1] == marker)
            return at;
    cr_assert_fail("no marker %02X", marker);
    return 0;
}

/* Sets a byte of a whole file. */
static bool is_plain_with(const struct file *file, size_t at, uint8_t byte)
{
    struct convoy_jpeg_header header;
    uint8_t was = file->bytes[at];
    file->bytes[at] = byte;
    bool plain = convoy_jpeg_is_plain(file->bytes, file->length, &header);
    file->bytes[at] = was;
    return plain;
}

Test(image_jpeg_header, damaged_headers)
{
    struct convoy_jpeg_header header;
    struct file file = make(&(struct making){.width = 64, .height = 64, .components = 3, .restart = 3});
    size_t sof = find(&file, 0xC0), sos = find(&file, 0xDA), dht = find(&file, 0xC4), dqt = find(&file, 0xDB);
    cr_assert(convoy_jpeg_is_plain(file.bytes, file.length, &header));
    cr_expect_not(is_plain_with(&file, sof + 4, 12), "12 bits");
    cr_expect_not(is_plain_with(&file, sof + 5, 64), "higher than devices take");
    cr_expect_not(is_plain_with(&file, sof + 6, 0), "no line");
    cr_expect_not(is_plain_with(&file, sof + 8, 0), "no column");
    cr_expect_not(is_plain_with(&file, sof + 9, 1), "fewer components than are listed");
    cr_expect_not(is_plain_with(&file, sof + 12, 3), "a table that is not there");
    cr_expect_not(is_plain_with(&file, sof + 1, 0xC1), "extended");
    cr_expect_not(is_plain_with(&file, sos + 5, 9), "a component that is not there");
    cr_expect_not(is_plain_with(&file, sos + 6, 0x30), "a table that is not there");
    cr_expect_not(is_plain_with(&file, sos + 11, 5), "part of a spectrum");
    cr_expect_not(is_plain_with(&file, sos + 13, 1), "an approximation");
    cr_expect_not(is_plain_with(&file, dht + 4, 2), "a third table");
    file.bytes[dht + 7] -= 3; /* of three bits: the sum stays */
    cr_expect_not(is_plain_with(&file, dht + 5, 3), "more codes of a bit than two");
    file.bytes[dht + 7] += 3;
    cr_expect_not(is_plain_with(&file, dht + 3, file.bytes[dht + 3] - 1), "a table that is cut");
    cr_expect_not(is_plain_with(&file, dqt + 4, 0x10), "16 bits");
    cr_expect_not(is_plain_with(&file, 0, 0), "no JPEG");
    cr_expect_not(is_plain_with(&file, file.length - 1, 0), "no end");
    free(file.bytes);
}

Test(image_jpeg_header, red_green_blue)
{
    struct convoy_jpeg_header header;
    struct file rgb = make(&(struct making){.width = 40, .height = 40, .components = 3, .rgb = true});
    struct file plain = make(&(struct making){.width = 40, .height = 40, .components = 3});
    cr_assert(convoy_jpeg_is_plain(plain.bytes, plain.length, &header));
    for (int i = 0; i < 3; i++) {
        uint8_t *of_rgb = rgb.bytes, *of_plain = plain.bytes;
        of_rgb[find(&rgb, 0xC0) + 10 + 3 * i] = of_rgb[find(&rgb, 0xDA) + 5 + 2 * i] = (uint8_t)(i + 1);
        of_plain[find(&plain, 0xC0) + 10 + 3 * i] = of_plain[find(&plain, 0xDA) + 5 + 2 * i] =
            (uint8_t) "RGB"[i];
    }
    cr_expect_not(convoy_jpeg_is_plain(rgb.bytes, rgb.length, &header), "by Adobe's marker alone");
    cr_expect_not(convoy_jpeg_is_plain(plain.bytes, plain.length, &header), "by names alone");
    free(rgb.bytes);
    free(plain.bytes);
}

Test(image_jpeg_header, cut_files)
{
    struct convoy_jpeg_header header;
    struct file file = make(&(struct making){.width = 64, .height = 48, .components = 3});
    for (size_t length = 0; length < file.length; length++) {
        uint8_t *exactly = malloc(length > 0 ? length : 1);
        memcpy(exactly, file.bytes, length);
        cr_expect_not(convoy_jpeg_is_plain(exactly, length, &header), "%zu bytes", length);
        if (length >= 2) { /* and with an end */
            memcpy(exactly + length - 2, "\xFF\xD9", 2);
            if (length < 600)
                cr_expect_not(convoy_jpeg_is_plain(exactly, length, &header), "%zu bytes and an end", length);
            else
                (void)convoy_jpeg_is_plain(exactly, length, &header);
        }
        free(exactly);
    }
    free(file.bytes);
}

Test(image_jpeg_header, markers_in_the_scan)
{
    struct file file = make(&(struct making){.width = 256, .height = 256, .components = 1, .restart = 8});
    size_t at = find(&file, 0xDA), first = 0, last = 0;
    for (at += 10; at + 2 < file.length; at++)
        if (file.bytes[at] == 0xFF && file.bytes[at + 1] != 0)
            *(first == 0 ? &first : &last) = at;
    cr_assert(is_plain_with(&file, first, 0xFF));
    cr_expect_not(is_plain_with(&file, first + 1, 0xD1), "out of order");
    cr_expect_not(is_plain_with(&file, first + 1, 0xD9), "an end");
    cr_expect_not(is_plain_with(&file, first + 1, 0xC4), "a table");
    cr_expect_not(is_plain_with(&file, first, 0x12), "one is missing");
    cr_expect_not(is_plain_with(&file, last, 0x12), "the last one is missing");
    cr_expect_not(is_plain_with(&file, file.length - 3, 0xFF), "a byte before the end");
    free(file.bytes);
    file = make(&(struct making){.width = 64, .height = 64, .components = 1});
    size_t scan = find(&file, 0xDA) + 10;
    cr_assert_neq(file.bytes[scan + 20], 0xFF);
    file.bytes[scan + 20] = 0xFF;
    cr_expect_not(is_plain_with(&file, scan + 21, 0xD0), "a restart marker that is not announced");
    free(file.bytes);
}

/* A file that is all markers and escapes must not keep a thread. */
Test(image_jpeg_header, bounded_work)
{
    struct convoy_jpeg_header header;
    struct file file = make(&(struct making){.width = 64, .height = 64, .components = 1});
    size_t head = find(&file, 0xDA) + 10, length = 1 << 20;
    uint8_t *bytes = calloc(1, length);
    memcpy(bytes, file.bytes, head);
    memcpy(bytes + length - 2, "\xFF\xD9", 2);
    cr_expect(convoy_jpeg_is_plain(bytes, length, &header), "zeros say nothing against it");
    for (size_t i = head; i + 4 < length; i += 2)
        bytes[i] = 0xFF;
    cr_expect_not(convoy_jpeg_is_plain(bytes, length, &header));
    memcpy(bytes, "\xFF\xD8", 2);
    for (size_t i = 2; i + 4 < length - 2; i += 4)
        memcpy(bytes + i, "\xFF\xFE\0\x02", 4);
    cr_expect_not(convoy_jpeg_is_plain(bytes, length, &header));
    free(bytes);
    free(file.bytes);
}

/* Of a file that is plain libjpeg reads the same header, and finds it in order. */
static bool agrees(const uint8_t *bytes, size_t length)
{
    struct convoy_jpeg_header header;
    struct convoy_stored_image stored;
    struct convoy_jpeg jpeg;
    struct convoy_error error;
    if (!convoy_jpeg_is_plain(bytes, length, &header))
        return false;
    cr_assert_eq(convoy_jpeg_open(&jpeg, bytes, length, &stored, &error), 0, "%s", error.message);
    cr_assert_eq(convoy_jpeg_check(&jpeg, length, &error), 0, "%s", error.message);
    cr_assert_eq(stored.width, header.width);
    cr_assert_eq(stored.height, header.height);
    cr_assert_eq(stored.orientation, header.orientation);
    cr_assert_eq(stored.pixel, header.components == 1 ? CONVOY_PIXEL_GREY : CONVOY_PIXEL_RGB);
    cr_assert_not(jpeg_has_multiple_scans(&jpeg.decoder));
    cr_assert_not(jpeg.decoder.progressive_mode || jpeg.decoder.arith_code);
    cr_assert_eq(jpeg.decoder.data_precision, 8);
    if (header.components == 3)
        cr_assert_eq(jpeg.decoder.jpeg_color_space, JCS_YCbCr);
    convoy_jpeg_close(&jpeg);
    return true;
}

Test(image_jpeg_header, libjpeg_agrees_whatever_is_bent)
{
    const struct making makings[] = {
        {.width = 40, .height = 30, .components = 3, .restart = 2, .with_exif = true},
        {.width = 33, .height = 50, .components = 3, .across = 2, .down = 2},
        {.width = 64, .height = 20, .components = 1, .with_exif = true},
    };
    uint32_t chance = 7, plain = 0;
    for (size_t i = 0; i < 3; i++) {
        struct file file = make(&makings[i]);
        size_t head = find(&file, 0xDA) + 14;
        cr_assert(agrees(file.bytes, file.length));
        for (int turn = 0; turn < 20000; turn++) {
            uint8_t was[3];
            size_t at[3];
            for (int k = 0; k < 3; k++) {
                chance = chance * 1664525u + 1013904223u;
                at[k] = (chance >> 8) % head;
                was[k] = file.bytes[at[k]];
                chance = chance * 1664525u + 1013904223u;
                if (k == 0 || turn % (k + 1) == 0)
                    file.bytes[at[k]] =
                        turn % 2 ? (uint8_t)(chance >> 16) : was[k] ^ (uint8_t)(1u << (chance >> 16) % 8);
            }
            plain += agrees(file.bytes, file.length);
            for (int k = 3; k-- > 0;)
                file.bytes[at[k]] = was[k];
        }
        free(file.bytes);
    }
    cr_assert_gt(plain, 10000, "some bytes say nothing about that");
}
