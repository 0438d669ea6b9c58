/* Who decodes a JPEG file. */
#include "server/inference/decoder_choice.h"

#include <criterion/criterion.h>

static struct convoy_decoder_choice choice(enum convoy_image_decoder decoder)
{
    return (struct convoy_decoder_choice){
        .decoder = decoder, .takes_files = true, .file_bytes = 1000000, .max_pixels = 10000000};
}

static bool device(const struct convoy_decoder_choice *choice, uint16_t width, uint16_t height, size_t length)
{
    return convoy_decoder_choice_device(
        choice, &(struct convoy_jpeg_header){.width = width, .height = height, .components = 3}, length);
}

Test(decoder_choice, by_pixels)
{
    const struct convoy_decoder_choice automatic = choice(CONVOY_IMAGE_DECODER_AUTO);
    cr_expect(device(&automatic, 256, 256, 1000));
    cr_expect_not(device(&automatic, 255, 257, 1000));
    const struct convoy_decoder_choice gpu = choice(CONVOY_IMAGE_DECODER_GPU);
    cr_expect(device(&gpu, 8, 8, 1000));
    const struct convoy_decoder_choice cpu = choice(CONVOY_IMAGE_DECODER_CPU);
    cr_expect_not(device(&cpu, 2000, 2000, 1000));
    cr_expect_not(convoy_decoder_choice_open(&cpu));
}

Test(decoder_choice, by_load_where_that_is_asked_for_alone)
{
    for (int busy = 0; busy < 2; busy++) {
        struct convoy_decoder_choice fastest = choice(CONVOY_IMAGE_DECODER_FASTEST);
        struct convoy_decoder_choice automatic = choice(CONVOY_IMAGE_DECODER_AUTO);
        fastest.busy = automatic.busy = busy != 0;
        cr_expect_eq(device(&fastest, 500, 375, 1000), busy != 0);
        cr_expect_not(device(&fastest, 100, 100, 1000));
        cr_expect(device(&automatic, 500, 375, 1000));
    }
}

Test(decoder_choice, what_no_device_gets)
{
    struct convoy_decoder_choice gpu = choice(CONVOY_IMAGE_DECODER_GPU);
    cr_expect(device(&gpu, 4000, 2500, 1000000));
    cr_expect_not(device(&gpu, 4000, 2500, 1000001), "it fits no slot");
    cr_expect_not(device(&gpu, 4000, 2501, 1000), "images.max_pixels, for which there is a 413");
    gpu.max_pixels = 1000000000;
    cr_expect(device(&gpu, 4096, 5120, 1000));
    cr_expect_not(device(&gpu, 4096, 5121, 1000), "more than devices decode");
    gpu.takes_files = false;
    cr_expect_not(device(&gpu, 4000, 2500, 1000));
    cr_expect_not(convoy_decoder_choice_open(&gpu));
}
