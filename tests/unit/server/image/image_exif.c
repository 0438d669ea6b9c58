/* The orientation out of EXIF, from damaged directories too. Each case lies in memory of exactly its size. */
#include "server/image/exif.h"

#include "server/image/png_chunks.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static int orientation(const void *tiff, size_t length)
{
    uint8_t *exactly = malloc(length > 0 ? length : 1);
    cr_assert_not_null(exactly);
    memcpy(exactly, tiff, length);
    int answer = convoy_exif_orientation(exactly, length);
    free(exactly);
    return answer;
}

#define INTEL    "II*\0\x08\0\0\0"
#define MOTOROLA "MM\0*\0\0\0\x08"

Test(image_exif, both_byte_orders)
{
    cr_expect_eq(orientation(INTEL "\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22), 6);
    cr_expect_eq(orientation(MOTOROLA "\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 22), 8);
    cr_expect_eq(orientation(INTEL "\x01\0\x12\x01\x04\0\x01\0\0\0\x03\0\0\0", 22), 3, "a LONG");
}

Test(image_exif, the_entry_may_be_the_last_of_many)
{
    static const uint8_t last[12] = {0x12, 1, 3, 0, 1, 0, 0, 0, 5};
    uint8_t tiff[8 + 2 + 3 * 12] = INTEL "\x03";
    memcpy(tiff + 8 + 2 + 2 * 12, last, sizeof last);
    cr_expect_eq(orientation(tiff, sizeof tiff), 5);
    cr_expect_eq(orientation(tiff, sizeof tiff - 1), 1, "its last byte is missing");
    tiff[9] = 0xFF; /* claims 65283 entries */
    cr_expect_eq(orientation(tiff, sizeof tiff), 5);
}

Test(image_exif, a_directory_at_the_end)
{
    static const uint8_t directory[14] = {0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 2};
    uint8_t tiff[1000] = "MM\0*";
    tiff[6] = (uint8_t)((sizeof tiff - 14) >> 8);
    tiff[7] = (uint8_t)(sizeof tiff - 14);
    memcpy(tiff + sizeof tiff - sizeof directory, directory, sizeof directory);
    cr_expect_eq(orientation(tiff, sizeof tiff), 2);
    for (size_t length = 0; length < sizeof tiff; length++)
        cr_expect_eq(orientation(tiff, length), 1, "cut at %zu", length);
}

Test(image_exif, nonsense_counts_as_upright)
{
    cr_expect_eq(orientation("", 0), 1);
    cr_expect_eq(orientation("XX*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22), 1, "byte order");
    cr_expect_eq(orientation("IM*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22), 1, "byte order");
    cr_expect_eq(orientation("II+\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22), 1, "magic");
    cr_expect_eq(orientation("II*\0\xFF\xFF\xFF\xFF\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22), 1,
                 "offset");
    cr_expect_eq(orientation("II*\0\x15\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22), 1, "offset");
    cr_expect_eq(orientation(INTEL "\x01\0\x12\x01\x03\0\x01\0\0\0\0\0\0\0", 22), 1, "value 0");
    cr_expect_eq(orientation(INTEL "\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0", 22), 1, "value 9");
    cr_expect_eq(orientation(INTEL "\x01\0\x12\x01\x02\0\x01\0\0\0\x06\0\0\0", 22), 1, "text");
    cr_expect_eq(orientation(INTEL "\0\0", 10), 1, "empty directory");
}

Test(image_exif, other_app1_segments_are_not_exif)
{
    cr_expect(convoy_exif_is_app1((const uint8_t *)"Exif\0\0II", 8));
    cr_expect_not(convoy_exif_is_app1((const uint8_t *)"Exif\0\0", 6));
    cr_expect_not(convoy_exif_is_app1((const uint8_t *)"http://ns.adobe.com/xap/1.0/", 28));
}

/* libspng never sees the chunk, so its length is checked here alone. */
Test(image_exif, a_png_chunk_is_read_only_when_whole)
{
    static const uint8_t png[] = "\x89PNG\r\n\x1a\n"
                                 "\0\0\0\1tEXta...."
                                 "\0\0\0\x16"
                                 "eXIfII*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0....";
    size_t whole = sizeof png - 1;
    for (size_t length = 0; length <= whole; length++) {
        uint8_t *exactly = malloc(length > 0 ? length : 1);
        cr_assert_not_null(exactly);
        memcpy(exactly, png, length);
        cr_expect_eq(convoy_png_orientation(exactly, length), length == whole ? 6 : 1, "%zu bytes", length);
        free(exactly);
    }
}
