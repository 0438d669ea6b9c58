/* The known file's row, beside what the front makes of the file. */
#include "engine/cuda/decode/jpeg_known.h"
#include "server/image/image.h"

#include <criterion/criterion.h>
#include <string.h>

/* As the front decodes it, into row. */
static void decode(uint8_t *row)
{
    uint8_t input[CONVOY_JPEG_KNOWN_INPUT];
    struct convoy_jpeg_row header;
    struct convoy_error error;
    const struct convoy_image_target target = {.width = CONVOY_JPEG_KNOWN_WIDTH,
                                               .height = CONVOY_JPEG_KNOWN_HEIGHT,
                                               .channels = 3,
                                               .fit = CONVOY_FIT_STRETCH,
                                               .filter = CONVOY_FILTER_BILINEAR};
    convoy_jpeg_known_fill(input);
    memcpy(&header, input, sizeof(header));
    cr_assert(convoy_jpeg_row_valid(&header, sizeof(input)));
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    cr_assert_eq(
        convoy_image_to_row(scratch, input + header.offset, header.length, 1000, &target, row, &error), 0,
        "%s", error.message);
    convoy_image_scratch_free(scratch);
}

Test(jpeg_known, is_what_the_front_makes_of_it)
{
    uint8_t row[CONVOY_JPEG_KNOWN_BYTES];
    struct convoy_error error;
    decode(row);
    cr_assert(convoy_jpeg_known_agrees(row, &error), "%s", error.message);
}

/* Rounding is none, any sample that is off by more is found, and the sentence says by how much. */
Test(jpeg_known, finds_each_wrong_sample)
{
    uint8_t row[CONVOY_JPEG_KNOWN_BYTES];
    struct convoy_error error;
    decode(row);
    for (size_t i = 0; i < sizeof(row); i++) {
        uint8_t right = row[i];
        int away = right < 128 ? 1 : -1;
        row[i] = (uint8_t)(right + away * CONVOY_JPEG_KNOWN_NEAR);
        cr_assert(convoy_jpeg_known_agrees(row, &error), "sample %zu: %s", i, error.message);
        row[i] = (uint8_t)(right + away * (CONVOY_JPEG_KNOWN_NEAR + 1));
        cr_assert(!convoy_jpeg_known_agrees(row, &error), "sample %zu", i);
        cr_assert(strstr(error.message, "1 of 624 samples") != NULL, "%s", error.message);
        row[i] = right;
    }
}
