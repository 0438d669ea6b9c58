/* What an image costs is bounded by its bytes and by its deadline, whatever its format could hold. */
#include "engine/base/clock.h"
#include "server/image/image.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PIXELS 50000000

static int decode(const uint8_t *bytes, size_t length, uint64_t deadline_us, struct convoy_error *error)
{
    const struct convoy_image_target target = {
        .width = 8, .height = 8, .channels = 3, .deadline_us = deadline_us};
    uint8_t row[8 * 8 * 3];
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    cr_assert_not_null(scratch);
    int code = convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &target, row, error);
    convoy_image_scratch_free(scratch);
    return code;
}

/* Refused with that sentence, by its header as well. */
static void expect_refused(const uint8_t *bytes, size_t length, const char *sentence)
{
    struct convoy_error error;
    struct convoy_image_info info;
    cr_expect_eq(decode(bytes, length, 0, &error), -EBADMSG);
    cr_expect_not_null(strstr(error.message, sentence), "%s", error.message);
    cr_expect_eq(convoy_image_probe(bytes, length, MAX_PIXELS, &info, NULL), -EBADMSG);
}

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

/* A GIF of two colours up to its codes. */
static void gif_head(uint8_t head[32], unsigned screen, unsigned frame)
{
    memcpy(head, "GIF89a----\x80\0\0\1\2\3\4\5\6,\0\0\0\0----\0\2", 32 - 2);
    put16(head + 6, screen);
    put16(head + 8, screen);
    put16(head + 24, frame);
    put16(head + 26, frame);
}

Test(image_bounds, a_gif_of_more_pixels_than_its_codes_can_give)
{
    uint8_t gif[20000] = {0};
    gif_head(gif, 7000, 7000);
    expect_refused(gif, 17000, "ends before its last pixel"); /* 2,730 pixels a byte would take 17,949 */
    struct convoy_image_info info;
    cr_expect_eq(convoy_image_probe(gif, 18000, MAX_PIXELS, &info, NULL), 0);
    gif_head(gif, 7000, 1);
    expect_refused(gif, 17000, "next to nothing");
}

/* Each clear code, of 3 bits, has giflib forget 4,096 strings. */
Test(image_bounds, a_gif_of_clear_codes_ends_at_its_deadline)
{
    const size_t length = 1u << 20;
    uint8_t *gif = calloc(1, length);
    cr_assert_not_null(gif);
    gif_head(gif, 8, 8);
    size_t at = 30;
    for (; at + 256 < length; at += 256) {
        static const uint8_t clear[] = {0x24, 0x49, 0x92}; /* 100 again and again, from the lowest bit */
        gif[at] = 255;
        for (size_t i = 0; i < 255; i++)
            gif[at + 1 + i] = clear[i % 3];
    }
    struct convoy_error error;
    uint64_t begun_us = convoy_now_us();
    cr_expect_eq(decode(gif, length, begun_us + 20000, &error), -ETIMEDOUT, "%s", error.message);
    uint64_t took_us = convoy_now_us() - begun_us;
    cr_expect_eq(decode(gif, length, 0, &error), -EBADMSG, "it has no pixel");
    uint64_t whole_us = convoy_now_us() - begun_us - took_us;
    cr_expect_lt(took_us * 4, whole_us, "%llu of %llu us", (unsigned long long)took_us,
                 (unsigned long long)whole_us);
    free(gif);
}

/* 32 bytes, of one colour: each of the five codes has one symbol, which takes no bits. */
static void webp_head(uint8_t *webp, size_t length, uint32_t side)
{
    static const uint8_t codes[] = {0xE8, 0x40, 0x16, 0xB9, 0xFF, 0x01};
    uint32_t sides = (side - 1) | (side - 1) << 14;
    uint32_t chunk = (uint32_t)(length - 20);
    memset(webp, 0, length);
    memcpy(webp, "RIFF----WEBPVP8L----\x2F", 22); /* with its 0, which is the width's */
    put16(webp + 4, (unsigned)(length - 8));
    put16(webp + 6, (unsigned)((length - 8) >> 16));
    put16(webp + 16, chunk);
    put16(webp + 18, chunk >> 16);
    put16(webp + 21, sides);
    put16(webp + 23, sides >> 16);
    memcpy(webp + 25, codes, sizeof codes);
}

Test(image_bounds, a_lossless_webp_of_more_pixels_than_its_bytes_justify)
{
    uint8_t webp[24000];
    struct convoy_error error;
    webp_head(webp, 40, 7000);
    expect_refused(webp, 40, "almost empty");
    webp_head(webp, 23000, 7000);
    expect_refused(webp, 23000, "almost empty"); /* 2,048 pixels a byte would take 23,670 */
    webp_head(webp, 40, 724);
    cr_expect_eq(decode(webp, 40, 0, &error), 0, "%s", error.message);
    webp_head(webp, 24000, 7000);
    cr_expect_eq(decode(webp, 24000, 0, &error), 0, "%s", error.message);
}

/* A canvas without a bound of its own: the frame is 1 x 1. */
Test(image_bounds, an_animation_on_a_large_canvas)
{
    uint8_t still[40];
    uint8_t moving[300] = "RIFF\x24\1\0\0WEBPVP8X\x0A\0\0\0\2\0\0\0\0\0\0\0\0\0"
                          "ANMF\x00\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x64\0\0\0";
    struct convoy_error error;
    webp_head(still, sizeof still, 1);
    memcpy(moving + 54, still + 12, sizeof still - 12);
    cr_expect_eq(decode(moving, sizeof moving, 0, &error), 0, "%s", error.message);
    put16(moving + 24, 6999);
    put16(moving + 27, 6999);
    expect_refused(moving, sizeof moving, "almost empty");
}

/* Runs: two bytes are 255 pixels at most, and rows may be left out altogether. */
Test(image_bounds, a_bmp_of_more_pixels_than_its_runs_can_give)
{
    static uint8_t bmp[400000] = "BM----\0\0\0\0\x36\0\0\0\x28\0\0\0\0\0\0\0\0\0\0\0\1\0\x08\0\1";
    struct convoy_error error;
    put16(bmp + 18, 7000);
    put16(bmp + 22, 7000);
    bmp[54] = 0;
    bmp[55] = 1; /* the end */
    expect_refused(bmp, 382000, "ends before its last pixel");
    cr_expect_eq(decode(bmp, 383000, 0, &error), 0, "%s", error.message);
}

/* Without runs the bytes are all there, or nothing is decoded. */
Test(image_bounds, a_bmp_without_its_rows)
{
    uint8_t bmp[54 + 24] = "BM----\0\0\0\0\x36\0\0\0\x28\0\0\0\3\0\0\0\2\0\0\0\1\0\x18";
    struct convoy_error error;
    cr_expect_eq(decode(bmp, 54 + 24, 0, &error), 0, "%s", error.message);
    cr_expect_eq(decode(bmp, 54 + 21, 0, &error), 0, "the last row need not be filled up");
    cr_expect_eq(decode(bmp, 54 + 20, 0, &error), -EBADMSG);
    cr_expect_not_null(strstr(error.message, "ends before its last pixel"), "%s", error.message);
}

Test(image_bounds, bmp_headers_that_are_refused)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *sentence;
    } cases[] = {
        {14, 41, "length that no version has"},
        {14, 124, "ends before"},
        {18, 0, "width or height"},
        {21, 0x80, "width or height"},
        {22, 0, "width or height"},
        {28, 2, "number of bits"},
        {28, 64, "number of bits"},
        {30, 1, "compressed"},
        {30, 3, "compressed"},
        {30, 4, "a JPEG or a PNG"},
        {30, 5, "a JPEG or a PNG"},
        {30, 7, "compressed"},
        {10, 20, "within its header"},
        {13, 0xFF, "ends before its last"},
        {28, 0, "number of bits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bmp[54 + 24] = "BM----\0\0\0\0\x36\0\0\0\x28\0\0\0\3\0\0\0\2\0\0\0\1\0\x18";
        struct convoy_error error;
        bmp[cases[i].at] = cases[i].value;
        cr_expect_eq(decode(bmp, sizeof bmp, 0, &error), -EBADMSG, "case %zu", i);
        cr_expect_not_null(strstr(error.message, cases[i].sentence), "case %zu: %s", i, error.message);
    }
}
