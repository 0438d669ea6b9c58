/* Damaged images: whatever is in the bytes, an answer comes back and no byte outside is touched. Worth
 * running under the address sanitizer alone. The damage is the same in every run. */
#include "server/image/image.h"
#include "tests/unit/server/image/image_forge.h"
#include "tests/unit/server/image/image_samples.h"

#include <errno.h>

#define ROUNDS     500
#define MAX_PIXELS 100000 /* small, so that a header that claims more costs no time */

/* xorshift (G. Marsaglia, 2003). */
static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void damage(const char *name, struct convoy_image_scratch *scratch, int outcomes[2])
{
    static const struct convoy_image_target targets[] = {
        {32, 32, 3, CONVOY_FIT_STRETCH},
        {28, 28, 1, CONVOY_FIT_CROP},
        {47, 31, 3, CONVOY_FIT_STRETCH},
        {6, 31, 3, CONVOY_FIT_CROP}}; /* most columns of a picture are left out */
    size_t length;
    uint32_t random = 2463534242u;
    uint8_t *bytes = samples_read(name, &length);
    uint8_t *damaged = malloc(length);
    bool is_png = bytes[0] == 0x89;
    for (int round = 0; round < ROUNDS; round++) {
        const struct convoy_image_target *target = &targets[round % 4];
        struct convoy_image_info info;
        struct convoy_error error;
        size_t size = (size_t)target->width * (size_t)target->height * (size_t)target->channels;
        uint8_t *row = malloc(size);
        memcpy(damaged, bytes, length);
        int flips = 1 + round % 4;
        for (int i = 0; i < flips; i++)
            damaged[next_random(&random) % length] ^= (uint8_t)(1u << next_random(&random) % 8);
        if (is_png && round % 2 == 1)
            forge_mend_png(damaged, length);
        int probed = convoy_image_probe(damaged, length, MAX_PIXELS, &info, &error);
        int code = convoy_image_to_row(scratch, damaged, length, MAX_PIXELS, target, row, &error);
        cr_expect(code == 0 || code == -EBADMSG || code == -EFBIG || code == -ENOTSUP, "%s, round %d: %d %s",
                  name, round, code, error.message);
        cr_expect(probed == 0 || probed == code, "%s, round %d: probe %d, decoding %d", name, round, probed,
                  code);
        outcomes[code == 0]++;
        free(row);
    }
    free(damaged);
    free(bytes);
}

Test(image_damage, flipped_bits_are_survived, .timeout = 300)
{
    static const char *const names[] = {
        "444.jpg",
        "422.jpg",
        "420.jpg",
        "grey.jpg",
        "progressive.jpg",
        "cmyk.jpg",
        "ycck.jpg",
        "exif5.jpg",
        "exif8-grey.jpg",
        "size-1x1.jpg",
        "grey1.png",
        "grey16-trns.png",
        "rgb8.png",
        "rgb16-trns.png",
        "palette2-trns.png",
        "palette8.png",
        "la8.png",
        "rgba16.png",
        "exif7-rgba.png",
        "exif6-rgb.png",
        "rgb8-interlaced.png",
        "grey4-trns-interlaced.png",
        "exif8-rgba-interlaced.png",
        "size-1x1.png",
        "lossy.webp",
        "lossy-alpha.webp",
        "lossless.webp",
        "lossless-alpha.webp",
        "exif6-rgba.webp",
        "animated-part-lossless.webp",
        "animated-part-alpha.webp",
        "palette1.bmp",
        "palette8-os2.bmp",
        "rgb24-40.bmp",
        "fields-1555.bmp",
        "fields-8888.bmp",
        "runs4.bmp",
        "runs8.bmp",
        "runs8-skips.bmp",
        "palette16.gif",
        "palette256-interlaced.gif",
        "transparent.gif",
        "animated.gif",
        "frame-part.gif",
        "own-palette.gif",
    };
    int outcomes[2] = {0, 0};
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        damage(names[i], scratch, outcomes);
    convoy_image_scratch_free(scratch);
    fprintf(stderr, "image_damage: %d refused, %d decoded\n", outcomes[0], outcomes[1]);
    cr_assert_gt(outcomes[0], 0);
    cr_assert_gt(outcomes[1], 0);
}
