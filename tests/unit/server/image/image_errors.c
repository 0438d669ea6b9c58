/* What is not an image, not a whole one, or too large a one: the error's code and its sentence. */
#include "server/image/image.h"
#include "server/image/scratch.h"
#include "tests/unit/server/image/image_forge.h"
#include "tests/unit/server/image/image_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define MAX_PIXELS 50000000

static const struct convoy_image_target target = {.width = 32, .height = 32, .channels = 3};

/* A test that needs no scratch of its own. bytes are copied to a place of exactly their size. */
static int decode(const void *bytes, size_t length, uint64_t max_pixels, uint8_t *row,
                  struct convoy_error *error)
{
    uint8_t unused[32 * 32 * 3];
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    cr_assert_not_null(scratch);
    uint8_t *exactly = malloc(length > 0 ? length : 1);
    cr_assert_not_null(exactly);
    memcpy(exactly, bytes, length);
    error->message[0] = '\0';
    int code =
        convoy_image_to_row(scratch, exactly, length, max_pixels, &target, row != NULL ? row : unused, error);
    cr_expect_eq(code == 0, error->message[0] == '\0', "%d with the sentence '%s'", code, error->message);
    free(exactly);
    convoy_image_scratch_free(scratch);
    return code;
}

Test(image_errors, strangers_are_named)
{
    static const struct {
        const char *bytes, *named;
        size_t length;
        int code;
    } cases[] = {
        {"", "empty", 0, -ENODATA},
        {"hello, world\n", "text", 13, -ENOTSUP},
        {"x", "text", 1, -ENOTSUP},
        {"caf\xC3\xA9", "text", 5, -ENOTSUP},
        {"\xFF", "not an image", 1, -ENOTSUP},
        {"\xFF\xD8\x00", "not an image", 3, -ENOTSUP},
        {"\x01\x02\x03\x04", "not an image", 4, -ENOTSUP},
        {"RIFF\x24\0\0\0WAVEfmt ", "not an image", 16, -ENOTSUP},
        {"BMW drives", "text", 10, -ENOTSUP},
        {"BMW drives on the left", "text", 22, -ENOTSUP},
        {"II*\0\x08\0\0\0", "a TIFF image", 8, -ENOTSUP},
        {"MM\0*\0\0\0\x08", "a TIFF image", 8, -ENOTSUP},
        {"II+\0\x08\0\0\0", "a TIFF image", 8, -ENOTSUP},
        {"\xFF\x0A\xFA\x7F", "a JPEG XL image", 4, -ENOTSUP},
        {"\0\0\0\x0CJXL \x0D\x0A\x87\x0A", "a JPEG XL image", 12, -ENOTSUP},
        {"\0\0\0\x0CjP  \x0D\x0A\x87\x0A", "a JPEG 2000 image", 12, -ENOTSUP},
        {"\xFF\x4F\xFF\x51\0\x2F", "a JPEG 2000 image", 6, -ENOTSUP},
        {"II\xBC\x01", "a JPEG XR image", 4, -ENOTSUP},
        {"\0\0\x01\0\x01\0\x10\x10\0\0\x01\0", "a Windows icon (ICO)", 12, -ENOTSUP},
        {"\0\0\x02\0\x01\0\x10\x10\0\0\x01\0", "a Windows cursor (CUR)", 12, -ENOTSUP},
        {"\0\0\x01\0\0\0\x10\x10\0\0\x01\0", "not an image", 12, -ENOTSUP},
        {"8BPS\0\x01", "a Photoshop document", 6, -ENOTSUP},
        {"P6\n2 2\n255\n", "a Netpbm image", 11, -ENOTSUP},
        {"P8 is no such", "text", 13, -ENOTSUP},
        {"<svg xmlns=\"\">", "an SVG drawing", 14, -ENOTSUP},
        {"<?xml version=\"1.0\"?>\n<!-- x --><svg/>", "an SVG drawing", 39, -ENOTSUP},
        {"<?xml version=\"1.0\"?>\n<rss/>", "text", 28, -ENOTSUP},
        {"\0\0\0\x1C"
         "ftypavif",
         "AVIF", 12, -ENOTSUP},
        {"\0\0\0\x1C"
         "ftypheic",
         "a HEIC image", 12, -ENOTSUP},
        {"\0\0\0\x18"
         "ftypmif1\0\0\0\0mif1heic",
         "a HEIC image", 24, -ENOTSUP},
        {"\0\0\0\x18"
         "ftypmif1\0\0\0\0mif1avif",
         "an AVIF image", 24, -ENOTSUP},
        {"\0\0\0\x14"
         "ftypisom\0\0\0\0avif",
         "an AVIF image", 20, -ENOTSUP},
        {"\0\0\0\x10"
         "ftypisom\0\0\0\0avif",
         "not an image", 20, -ENOTSUP},
        {"%PDF-1.7\n", "PDF", 9, -ENOTSUP},
        {"<!DOCTYPE html><html></html>", "HTML", 28, -ENOTSUP},
        {"\xEF\xBB\xBF \r\n<hTmL>", "HTML", 12, -ENOTSUP},
        {"\x89PNG", "PNG image ends", 4, -EBADMSG},
        {"\x89PNG\n\x1a\n\0\0\0\x0dIHDR------------------", "PNG image cannot", 33, -EBADMSG},
        {"\xFF\xD8", "JPEG image ends", 2, -EBADMSG},
        {"RIFF\x24\0\0\0WEBP", "WebP image ends", 12, -EBADMSG},
        {"RIFF\x24\0\0\0WEBPVP8 ", "WebP image ends", 16, -EBADMSG},
        {"RIFF\x24\0\0\0WEBPVP8X\x0A\0\0\0\x02\0\0\0\0\0\0\0\0\0", "WebP image ends", 30, -EBADMSG},
        {"GIF8", "GIF image ends", 4, -EBADMSG},
        {"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xFF\xFF\xFF", "GIF image ends", 19, -EBADMSG},
        {"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xFF\xFF\xFF;", "holds no picture", 20, -EBADMSG},
        {"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02", "no palette", 24, -EBADMSG},
        {"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\0\0\x01\0\x80------\x02", "holds no picture", 30, -EBADMSG},
        {"GIF89a\x01\0\x01\0\0\0\0?", "GIF image cannot", 14, -EBADMSG},
        {"BM\x46\0\0\0\0\0\0\0\x36\0\0\0", "BMP image ends", 14, -EBADMSG},
        {"\xFF\xD8\xFF", "JPEG image ends", 3, -EBADMSG},
        {"\xFF\xD8\xFF\xD9", "JPEG image cannot", 4, -EBADMSG},
        {"\xFF\xD8\xFF\xE1", "JPEG image ends", 4, -EBADMSG},
        {"\xFF\xD8\xFF\xE1\x00", "JPEG image ends", 5, -EBADMSG},
        {"\xFF\xD8\xFF\xE1\x00\x01zzzz", "JPEG image cannot", 10, -EBADMSG},
        {"\xFF\xD8\xFF\xE1\xFF\xFFzzzz", "JPEG image ends", 10, -EBADMSG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct convoy_error error;
        struct convoy_image_info info;
        int code = decode(cases[i].bytes, cases[i].length, MAX_PIXELS, NULL, &error);
        cr_expect_eq(code, cases[i].code, "case %zu: %d, %s", i, code, error.message);
        cr_expect_not_null(strstr(error.message, cases[i].named), "case %zu: %s", i, error.message);
        if (code == -ENOTSUP)
            cr_expect_not_null(strstr(error.message, "JPEG, PNG, WebP, BMP or GIF"), "case %zu: %s", i,
                               error.message);
        code = convoy_image_probe((const uint8_t *)cases[i].bytes, cases[i].length, MAX_PIXELS, &info, NULL);
        cr_expect_eq(code, cases[i].code, "case %zu, probe: %d", i, code);
    }
}

/* Cut anywhere a file is damaged, unless only what follows the last pixel is missing: then the row is the
 * same. */
Test(image_errors, truncated_images_are_refused, .timeout = 120)
{
    static const char *const names[] = {
        "444.jpg",
        "420.jpg",
        "grey.jpg",
        "cmyk.jpg",
        "progressive.jpg",
        "exif6.jpg",
        "photo.jpg",
        "rgb8.png",
        "rgb8-interlaced.png",
        "grey1-interlaced.png",
        "rgba16.png",
        "palette4-trns.png",
        "exif5-rgba-interlaced.png",
        "photo-lossy.webp",
        "lossy-alpha.webp",
        "photo-lossless.webp",
        "lossless-alpha.webp",
        "animated-part-alpha.webp",
        "palette1.bmp",
        "rgb24-40.bmp",
        "fields-8888.bmp",
        "runs4.bmp",
        "runs8.bmp",
        "large.gif",
        "palette256-interlaced.gif",
    };
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t length;
        uint8_t whole[32 * 32 * 3];
        uint8_t row[32 * 32 * 3];
        struct convoy_error error;
        uint8_t *bytes = samples_read(names[n], &length);
        cr_assert_eq(decode(bytes, length, MAX_PIXELS, whole, &error), 0, "%s: %s", names[n], error.message);
        for (size_t i = 1; i < 16; i++) {
            int code = decode(bytes, length * i / 16, MAX_PIXELS, NULL, &error);
            cr_expect_eq(code, -EBADMSG, "%s cut at %zu/16: %d %s", names[n], i, code, error.message);
        }
        size_t refused = 0;
        size_t step = length > 4096 ? length / 512 : 1;
        for (size_t cut = length - length / 16; cut < length; cut += step) {
            int code = decode(bytes, cut, MAX_PIXELS, row, &error);
            cr_expect(code == -EBADMSG || code == 0, "%s cut at %zu: %d %s", names[n], cut, code,
                      error.message);
            cr_expect(code != 0 || memcmp(row, whole, sizeof row) == 0, "%s cut at %zu differs", names[n],
                      cut);
            refused += code != 0;
        }
        cr_expect_gt(refused, 0, "%s can lose a sixteenth", names[n]);
        free(bytes);
    }
}

/* An upload that broke off and was closed with an EOI by the program that stored it: the pixels are missing
 * all the same. */
Test(image_errors, a_cut_jpeg_with_a_new_end_is_refused)
{
    size_t length;
    uint8_t *bytes = samples_read("444.jpg", &length);
    size_t data = forge_find(bytes, length, 0, 0xDA) + 16;
    for (size_t i = 0; i < 16; i++) {
        struct convoy_error error;
        size_t cut = data + (length - data) * i / 16;
        uint8_t *closed = malloc(cut + 2);
        memcpy(closed, bytes, cut);
        closed[cut] = 0xFF;
        closed[cut + 1] = 0xD9;
        int code = decode(closed, cut + 2, MAX_PIXELS, NULL, &error);
        cr_expect_eq(code, -EBADMSG, "cut at %zu/16 of the data: %d %s", i, code, error.message);
        free(closed);
    }
    free(bytes);
}

/* What it costs is not bounded by its bytes. */
Test(image_errors, arithmetic_coding_is_refused)
{
    struct forged jpeg = forge_jpeg(true, false);
    struct convoy_error error;
    cr_expect_eq(decode(jpeg.bytes, jpeg.length, MAX_PIXELS, NULL, &error), -EBADMSG);
    cr_expect_not_null(strstr(error.message, "arithmetic"), "%s", error.message);
    free(jpeg.bytes);
}

/* A header that promises more blocks than the file has bits: nothing is decoded, or allocated. */
Test(image_errors, more_blocks_than_bits_are_refused)
{
    static const char *const names[] = {"444.jpg", "progressive.jpg"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t length;
        struct convoy_error error;
        struct convoy_image_info info;
        uint8_t *bytes = samples_read(names[n], &length);
        size_t frame = forge_find(bytes, length, 0, n == 0 ? 0xC0 : 0xC2);
        cr_assert_neq(frame, SIZE_MAX);
        memcpy(bytes + frame + 5, "\x1B\x58\x1B\x58", 4); /* 7000 x 7000 */
        cr_expect_eq(convoy_image_probe(bytes, length, 50000000, &info, &error), -EBADMSG, "%s", names[n]);
        cr_expect_not_null(strstr(error.message, "ends before its last pixel"), "%s", error.message);
        free(bytes);
    }
}

Test(image_errors, decoding_ends_at_the_deadline)
{
    static const char *const names[] = {"444.jpg",          "progressive.jpg", "rgba16.png",
                                        "photo-lossy.webp", "lossless.webp",   "runs8.bmp",
                                        "rgb24-40.bmp",     "large.gif"};
    uint8_t row[32 * 32 * 3];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t length;
        struct convoy_error error;
        uint8_t *bytes = samples_read(names[n], &length);
        struct convoy_image_target late = target;
        struct convoy_image_scratch *scratch = convoy_image_scratch_new();
        late.deadline_us = 1; /* the clock counts from the start of the machine */
        cr_expect_eq(convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &late, row, &error), -ETIMEDOUT,
                     "%s", names[n]);
        late.deadline_us = UINT64_MAX;
        cr_expect_eq(convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &late, row, &error), 0, "%s",
                     names[n]);
        convoy_image_scratch_free(scratch);
        free(bytes);
    }
}

Test(image_errors, a_component_without_a_scan_is_refused)
{
    struct forged jpeg = forge_jpeg(false, true);
    struct convoy_error error;
    cr_assert_eq(decode(jpeg.bytes, jpeg.length, MAX_PIXELS, NULL, &error), 0, "%s", error.message);
    size_t first = forge_find(jpeg.bytes, jpeg.length, 0, 0xDA);
    size_t second = forge_find(jpeg.bytes, jpeg.length, first + 2, 0xDA);
    cr_assert_neq(second, SIZE_MAX);
    memcpy(jpeg.bytes + second, "\xFF\xD9", 2);
    cr_expect_eq(decode(jpeg.bytes, second + 2, MAX_PIXELS, NULL, &error), -EBADMSG);
    cr_expect_not_null(strstr(error.message, "component"), "%s", error.message);
    free(jpeg.bytes);
}

/* A scan costs a few bytes in the file and a visit of every block in the decoder. The first scan of a
 * progressive image sets coefficients rather than refining them, so it can be given again and again. */
Test(image_errors, endless_scans_are_refused)
{
    size_t length;
    uint8_t *bytes = samples_read("progressive.jpg", &length);
    size_t first = forge_find(bytes, length, 0, 0xDA);
    size_t second = forge_find(bytes, length, first + 2, 0xDA);
    cr_assert_neq(second, SIZE_MAX);
    size_t scan = second - first;
    for (size_t copies = 20; copies <= 2000; copies += 1980) {
        struct convoy_error error;
        size_t size = length + scan * copies;
        uint8_t *bomb = malloc(size);
        memcpy(bomb, bytes, second);
        for (size_t i = 0; i < copies; i++)
            memcpy(bomb + second + i * scan, bytes + first, scan);
        memcpy(bomb + second + copies * scan, bytes + second, length - second);
        int code = decode(bomb, size, MAX_PIXELS, NULL, &error);
        cr_expect_eq(code, copies == 20 ? 0 : -EBADMSG, "%zu more scans: %d %s", copies, code, error.message);
        cr_expect(copies == 20 || strstr(error.message, "scans") != NULL, "%s", error.message);
        free(bomb);
    }
    free(bytes);
}

/* Tables of an earlier image must not be lent to one that lacks its own. */
Test(image_errors, a_jpeg_without_tables_is_refused_after_a_whole_one)
{
    size_t length;
    uint8_t row[32 * 32 * 3];
    uint8_t *bytes = samples_read("444.jpg", &length);
    size_t table = forge_find(bytes, length, 0, 0xDB);
    size_t frame = forge_find(bytes, length, 0, 0xC0);
    cr_assert(table < frame && frame != SIZE_MAX);
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    cr_assert_eq(convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &target, row, NULL), 0);
    memmove(bytes + table, bytes + frame, length - frame);
    length -= frame - table;
    cr_expect_eq(convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &target, row, NULL), -EBADMSG);
    convoy_image_scratch_free(scratch);
    free(bytes);
}

static void expect_too_large(const uint8_t *bytes, size_t length, const char *pixels)
{
    struct convoy_error error;
    struct convoy_image_info info;
    cr_expect_eq(decode(bytes, length, MAX_PIXELS, NULL, &error), -EFBIG, "%s", error.message);
    cr_expect_not_null(strstr(error.message, pixels), "%s", error.message);
    cr_expect_not_null(strstr(error.message, "50000000"), "%s", error.message);
    cr_expect_eq(convoy_image_probe(bytes, length, MAX_PIXELS, &info, &error), -EFBIG);
}

Test(image_errors, bombs_are_refused_by_their_header)
{
    struct forged png = forge_png_header(50000, 50000);
    expect_too_large(png.bytes, png.length, "2500000000");
    free(png.bytes);
    png = forge_png_header(0x7FFFFFFF, 0x7FFFFFFF);
    expect_too_large(png.bytes, png.length, "4611686014132420609");
    free(png.bytes);
    struct forged jpeg = forge_jpeg(false, false);
    size_t frame = forge_find(jpeg.bytes, jpeg.length, 0, 0xC0);
    memcpy(jpeg.bytes + frame + 5, "\xC3\x50\xC3\x50", 4);
    expect_too_large(jpeg.bytes, jpeg.length, "2500000000");
    free(jpeg.bytes);
}

Test(image_errors, impossible_sizes_are_damage)
{
    static const uint32_t sizes[][2] = {{0x80000000u, 1}, {1, 0xFFFFFFFFu}, {0, 1}, {1, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct convoy_error error;
        struct forged png = forge_png_header(sizes[i][0], sizes[i][1]);
        cr_expect_eq(decode(png.bytes, png.length, UINT64_MAX, NULL, &error), -EBADMSG, "%s", error.message);
        free(png.bytes);
    }
}

Test(image_errors, buffer_sizes_do_not_wrap_around)
{
    struct convoy_image_buffer buffer = {0};
    cr_expect_null(convoy_image_buffer_reserve(&buffer, (size_t)1 << 32, (size_t)1 << 31, 3));
    cr_expect_null(convoy_image_buffer_reserve(&buffer, (size_t)1 << 32, (size_t)1 << 32, 1));
    cr_expect_not_null(convoy_image_buffer_reserve(&buffer, 0, 7, 1));
    cr_expect_not_null(convoy_image_buffer_reserve(&buffer, 10, 10, 3));
    cr_expect_geq(buffer.capacity, 300);
    free(buffer.bytes);
}

Test(image_errors, the_bound_on_pixels_is_exact)
{
    static const char *const names[] = {"420.jpg",
                                        "exif6.jpg",
                                        "rgb8.png",
                                        "exif6-rgba-interlaced.png",
                                        "lossy.webp",
                                        "exif6-rgba.webp",
                                        "animated-lossless.webp",
                                        "runs8.bmp",
                                        "rgb32.bmp",
                                        "palette16.gif"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t length;
        struct convoy_error error;
        struct convoy_image_info info;
        uint8_t *bytes = samples_read(names[n], &length);
        cr_expect_eq(decode(bytes, length, 47 * 31, NULL, &error), 0, "%s", error.message);
        cr_expect_eq(decode(bytes, length, 47 * 31 - 1, NULL, &error), -EFBIG, "%s", names[n]);
        cr_expect_not_null(strstr(error.message, "1457"), "%s", error.message);
        cr_expect_not_null(strstr(error.message, "1456"), "%s", error.message);
        cr_expect_eq(convoy_image_probe(bytes, length, 47 * 31, &info, &error), 0);
        cr_expect_eq(convoy_image_probe(bytes, length, 47 * 31 - 1, &info, &error), -EFBIG);
        free(bytes);
    }
}

Test(image_errors, impossible_targets_are_refused)
{
    static const struct convoy_image_target impossible[] = {
        {0, 32, 3, CONVOY_FIT_STRETCH}, {32, -1, 3, CONVOY_FIT_CROP},      {32, 32, 2, CONVOY_FIT_STRETCH},
        {32, 32, 5, CONVOY_FIT_CROP},   {65536, 1, 1, CONVOY_FIT_STRETCH},
    };
    uint8_t row[1];
    struct convoy_error error;
    struct forged jpeg = forge_jpeg(false, false);
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++)
        cr_expect_eq(
            convoy_image_to_row(scratch, jpeg.bytes, jpeg.length, MAX_PIXELS, &impossible[i], row, &error),
            -EINVAL);
    convoy_image_scratch_free(scratch);
    free(jpeg.bytes);
}

/* libjpeg prints its warnings and errors unless it is told not to. */
Test(image_errors, nothing_is_printed)
{
    size_t length;
    struct convoy_error error;
    struct stat printed;
    uint8_t *bytes = samples_read("noise.jpg", &length);
    FILE *into = tmpfile();
    int kept = dup(STDERR_FILENO);
    cr_assert(into != NULL && kept >= 0);
    fflush(stderr);
    dup2(fileno(into), STDERR_FILENO);
    int code = decode(bytes, length, MAX_PIXELS, NULL, &error);
    int cut = decode(bytes, 500, MAX_PIXELS, NULL, &error);
    int odd = decode("\xFF\xD8\xFF\xD9", 4, MAX_PIXELS, NULL, &error);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    cr_assert_eq(fstat(fileno(into), &printed), 0);
    cr_expect_eq(printed.st_size, 0, "%ld bytes on stderr", (long)printed.st_size);
    cr_expect(code == 0 && cut == -EBADMSG && odd == -EBADMSG, "%d %d %d", code, cut, odd);
    close(kept);
    fclose(into);
    free(bytes);
}

/* A thread that decoded one huge image must not hold on to its memory. */
Test(image_errors, large_buffers_are_given_back)
{
    size_t length;
    uint8_t row[32 * 32 * 3];
    uint8_t *bytes = samples_read("endless-wide.png", &length);
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    cr_assert_eq(convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &target, row, NULL), 0);
    size_t kept = scratch->pixels.capacity + scratch->line.capacity + scratch->staging.capacity +
                  scratch->middle.capacity + scratch->weights.capacity + scratch->windows.capacity +
                  scratch->sums.capacity;
    cr_expect_leq(kept, (size_t)32 << 20, "%zu bytes kept", kept);
    convoy_image_scratch_free(scratch);
    free(bytes);
}
