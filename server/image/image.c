#include "server/image/image.h"

#include "server/image/fit.h"
#include "server/image/jpeg.h"
#include "server/image/png.h"
#include "server/image/raster.h"
#include "server/image/resize.h"
#include "server/image/scratch.h"
#include "server/image/sniff.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define MAX_TARGET_SIDE 65535

/* An open image of either kind. */
struct opened {
    bool is_png;
    union {
        struct convoy_jpeg jpeg;
        struct convoy_png png;
    } as;
    struct convoy_stored_image stored;
};

struct convoy_image_scratch *convoy_image_scratch_new(void)
{
    return calloc(1, sizeof(struct convoy_image_scratch));
}

void convoy_image_scratch_free(struct convoy_image_scratch *scratch)
{
    if (scratch == NULL)
        return;
    convoy_image_scratch_clear(scratch);
    free(scratch);
}

static void close_image(struct opened *image)
{
    if (image->is_png)
        convoy_png_close(&image->as.png);
    else
        convoy_jpeg_close(&image->as.jpeg);
}

static int open_image(struct opened *image, const uint8_t *bytes, size_t length, uint64_t max_pixels,
                      struct convoy_error *error)
{
    int code;
    if (length == 0)
        return convoy_fail(error, -ENODATA, "there is no image, the body is empty: send a JPEG or PNG image");
    switch (convoy_image_sniff(bytes, length)) {
    case CONVOY_IMAGE_JPEG:
        image->is_png = false;
        code = convoy_jpeg_open(&image->as.jpeg, bytes, length, &image->stored, error);
        break;
    case CONVOY_IMAGE_PNG:
        image->is_png = true;
        code = convoy_png_open(&image->as.png, bytes, length, &image->stored, error);
        break;
    default:
        return convoy_fail(error, -ENOTSUP, "this is %s: send a JPEG or PNG image",
                           convoy_image_stranger(bytes, length));
    }
    if (code != 0)
        return code;
    uint64_t pixels = (uint64_t)image->stored.width * (uint64_t)image->stored.height;
    if (pixels > max_pixels) {
        close_image(image);
        return convoy_fail(error, -EFBIG,
                           "the image has %d x %d = %" PRIu64 " pixels, more than the %" PRIu64
                           " that are taken: send a smaller one",
                           image->stored.width, image->stored.height, pixels, max_pixels);
    }
    code = image->is_png ? 0 : convoy_jpeg_check(&image->as.jpeg, length, error);
    if (code != 0)
        close_image(image);
    return code;
}

int convoy_image_probe(const uint8_t *bytes, size_t length, uint64_t max_pixels,
                       struct convoy_image_info *info, struct convoy_error *error)
{
    struct opened image = {.stored = {0}};
    int code = open_image(&image, bytes, length, max_pixels, error);
    if (code != 0)
        return code;
    bool swaps = convoy_orientation_swaps(image.stored.orientation);
    info->width = swaps ? image.stored.height : image.stored.width;
    info->height = swaps ? image.stored.width : image.stored.height;
    info->is_png = image.is_png;
    uint64_t pixels = (uint64_t)info->width * (uint64_t)info->height;
    /* The pixels as bytes, with the columns pass; coefficients, or rows of an interlaced image, that are kept
     * whole. */
    bool whole = image.is_png ? image.as.png.interlaced : jpeg_has_multiple_scans(&image.as.jpeg.decoder);
    info->decode_bytes = pixels * (whole ? 11 : 5);
    close_image(&image);
    return 0;
}

/* Grey came out as one byte a pixel; the row wants three. Back to front, in place. */
static void spread_grey(uint8_t *row, size_t pixels)
{
    while (pixels-- > 0) {
        uint8_t grey = row[pixels];
        row[3 * pixels] = grey;
        row[3 * pixels + 1] = grey;
        row[3 * pixels + 2] = grey;
    }
}

static void swap_red_and_blue(uint8_t *row, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, row += 3) {
        uint8_t red = row[0];
        row[0] = row[2];
        row[2] = red;
    }
}

static int out_of_memory(struct convoy_error *error)
{
    return convoy_fail(error, -ENOMEM,
                       "out of memory while decoding an image: send a smaller one or try again");
}

static bool keeps_all(const struct convoy_axis *axis)
{
    return convoy_axis_is_copy(axis) && axis->out == axis->in;
}

static int to_row(struct convoy_image_scratch *scratch, struct opened *image,
                  const struct convoy_image_target *target, uint8_t *row, struct convoy_error *error)
{
    const struct convoy_stored_image *stored = &image->stored;
    bool swaps = convoy_orientation_swaps(stored->orientation);
    int width = swaps ? stored->height : stored->width;
    int height = swaps ? stored->width : stored->height;
    int channels = stored->pixel == CONVOY_PIXEL_GREY ? 1 : target->channels;

    struct convoy_axis x;
    struct convoy_axis y;
    convoy_image_fit(target, width, height, &x, &y);
    bool fits = keeps_all(&x) && keeps_all(&y);
    bool fills = x.out == target->width && y.out == target->height;
    uint8_t *inner = row;
    if (!fills) {
        inner = convoy_image_buffer_reserve(&scratch->inner, (size_t)x.out, (size_t)y.out,
                                            (size_t)target->channels);
        if (inner == NULL)
            return out_of_memory(error);
    }
    uint8_t *pixels = inner;
    if (!fits) {
        pixels =
            convoy_image_buffer_reserve(&scratch->pixels, (size_t)width, (size_t)height, (size_t)channels);
        if (pixels == NULL)
            return out_of_memory(error);
    }
    struct convoy_raster raster;
    convoy_raster_aim(&raster, stored, pixels, channels);
    if (convoy_raster_needs_line(&raster)) {
        raster.line = convoy_image_buffer_reserve(&scratch->line, (size_t)stored->width,
                                                  (size_t)convoy_pixel_bytes(stored->pixel), 1);
        if (raster.line == NULL)
            return out_of_memory(error);
    }
    int code = image->is_png ? convoy_png_read(&image->as.png, &raster, target->deadline_us, scratch, error)
                             : convoy_jpeg_read(&image->as.jpeg, &raster, target->deadline_us, error);
    if (code == 0 && !fits)
        code = convoy_image_resize(scratch, pixels, channels, &x, &y, inner, error);
    if (code == 0 && channels < target->channels)
        spread_grey(inner, (size_t)x.out * (size_t)y.out);
    if (code == 0 && !fills)
        convoy_image_pad(target, inner, x.out, y.out, row);
    if (code == 0 && target->bgr && target->channels == 3)
        swap_red_and_blue(row, (size_t)target->width * (size_t)target->height);
    return code;
}

static bool possible_side(int side, int cover)
{
    return side >= 1 && side <= MAX_TARGET_SIDE &&
           (cover == 0 || (cover >= side && cover <= MAX_TARGET_SIDE));
}

static bool possible(const struct convoy_image_target *target)
{
    return possible_side(target->width, target->cover_width) &&
           possible_side(target->height, target->cover_height) &&
           (target->channels == 1 || target->channels == 3);
}

int convoy_image_to_row(struct convoy_image_scratch *scratch, const uint8_t *bytes, size_t length,
                        uint64_t max_pixels, const struct convoy_image_target *target, uint8_t *row,
                        struct convoy_error *error)
{
    if (!possible(target))
        return convoy_fail(
            error, -EINVAL,
            "an image cannot become %d x %d with %d channels: the model's input must be 1 to %d "
            "pixels wide and high and have 1 or 3 channels",
            target->width, target->height, target->channels, MAX_TARGET_SIDE);
    struct opened image = {.stored = {0}};
    int code = open_image(&image, bytes, length, max_pixels, error);
    if (code != 0)
        return code;
    code = to_row(scratch, &image, target, row, error);
    close_image(&image);
    convoy_image_scratch_trim(scratch);
    return code;
}
