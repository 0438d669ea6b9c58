#include "server/image/image.h"

#include "server/image/alpha.h"
#include "server/image/decoder.h"
#include "server/image/fit.h"
#include "server/image/raster.h"
#include "server/image/resize.h"
#include "server/image/resize_rows.h"
#include "server/image/scratch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define MAX_TARGET_SIDE 65535

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

static int open_image(struct convoy_decoder *decoder, const uint8_t *bytes, size_t length,
                      uint64_t max_pixels, bool keep_alpha, struct convoy_error *error)
{
    int code = convoy_decoder_open(decoder, bytes, length, keep_alpha, error);
    if (code != 0)
        return code;
    const struct convoy_stored_image *stored = &decoder->stored;
    uint64_t pixels = (uint64_t)stored->width * (uint64_t)stored->height;
    if (pixels > max_pixels)
        code = convoy_fail(error, -EFBIG,
                           "the image has %d x %d = %" PRIu64 " pixels, more than the %" PRIu64
                           " that are taken: send a smaller one",
                           stored->width, stored->height, pixels, max_pixels);
    if (code == 0)
        code = convoy_decoder_check(decoder, error);
    if (code != 0)
        convoy_decoder_close(decoder);
    return code;
}

int convoy_image_probe(const uint8_t *bytes, size_t length, uint64_t max_pixels,
                       struct convoy_image_info *info, struct convoy_error *error)
{
    struct convoy_decoder decoder;
    int code = open_image(&decoder, bytes, length, max_pixels, false, error);
    if (code != 0)
        return code;
    const struct convoy_stored_image *stored = &decoder.stored;
    bool swaps = convoy_orientation_swaps(stored->orientation);
    info->width = swaps ? stored->height : stored->width;
    info->height = swaps ? stored->width : stored->height;
    info->kind = decoder.kind;
    info->decode_bytes = convoy_decoder_memory(&decoder);
    convoy_decoder_close(&decoder);
    return 0;
}

/* Grey came out as one byte a pixel; the row wants three, or four with alpha. Back to front, in place. */
static void spread_grey(uint8_t *row, size_t pixels, size_t channels)
{
    while (pixels-- > 0) {
        uint8_t grey = row[pixels], *to = row + channels * pixels;
        if (channels == 4)
            to[3] = 255;
        to[2] = grey;
        to[1] = grey;
        to[0] = grey;
    }
}

static void swap_red_and_blue(uint8_t *row, size_t pixels, size_t channels)
{
    for (size_t i = 0; i < pixels; i++, row += channels) {
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

/* Of an image with fewer pixels little work can be spared. */
#define LEAST_SCALED_PIXELS 65536

/* In how many eighths of its size the image is decoded. */
static int eighths_for(const struct convoy_decoder *decoder, const struct convoy_image_target *target,
                       const struct convoy_axis *x, const struct convoy_axis *y)
{
    int64_t larger = target->scaled_decoding == CONVOY_SCALED_AUTO ? 2 : 1;
    if (target->scaled_decoding == CONVOY_SCALED_OFF || decoder->kind != CONVOY_IMAGE_JPEG ||
        target->filter == CONVOY_FILTER_NEAREST || x->in * y->in < LEAST_SCALED_PIXELS)
        return 8;
    for (int eighths = 1; eighths < 8; eighths *= 2)
        if (convoy_reduced(x->in, eighths) >= larger * x->scaled &&
            convoy_reduced(y->in, eighths) >= larger * y->scaled)
            return eighths;
    return 8;
}

static void reduce(struct convoy_decoder *decoder, int eighths, struct convoy_axis *x, struct convoy_axis *y)
{
    bool mirrors_x;
    bool mirrors_y;
    convoy_orientation_mirrors(decoder->stored.orientation, &mirrors_x, &mirrors_y);
    convoy_jpeg_reduce(&decoder->as.jpeg, eighths, &decoder->stored);
    convoy_axis_reduce(x, eighths, mirrors_x);
    convoy_axis_reduce(y, eighths, mirrors_y);
}

/* What to_row() has decided. */
struct plan {
    struct convoy_axis x, y;
    int channels; /* that are decoded: 1, or the target's */
    bool mixes;   /* colours are multiplied by their alpha while they are resized */
};

/* Decodes into pixels, x.in x y.in of them, turned as they are shown. */
static int decode_whole(struct convoy_image_scratch *scratch, struct convoy_decoder *decoder,
                        const struct plan *plan, uint64_t deadline_us, uint8_t *pixels,
                        struct convoy_error *error)
{
    const struct convoy_stored_image *stored = &decoder->stored;
    struct convoy_raster raster;
    convoy_raster_aim(&raster, stored, pixels, plan->channels);
    if (convoy_raster_needs_line(&raster)) {
        raster.line = convoy_image_buffer_reserve(&scratch->line, (size_t)stored->width,
                                                  (size_t)convoy_pixel_bytes(stored->pixel), 1);
        if (raster.line == NULL)
            return out_of_memory(error);
    }
    return convoy_decoder_read(decoder, &raster, deadline_us, scratch, error);
}

static int resize_whole(struct convoy_image_scratch *scratch, struct convoy_decoder *decoder,
                        const struct plan *plan, uint64_t deadline_us, uint8_t *inner,
                        struct convoy_error *error)
{
    size_t width = (size_t)plan->x.in, height = (size_t)plan->y.in;
    uint8_t *pixels = convoy_image_buffer_reserve(&scratch->pixels, width, height, (size_t)plan->channels);
    if (pixels == NULL)
        return out_of_memory(error);
    int code = decode_whole(scratch, decoder, plan, deadline_us, pixels, error);
    if (code == 0 && plan->mixes)
        convoy_alpha_multiply(pixels, width * height);
    if (code == 0)
        code = convoy_image_resize(scratch, pixels, plan->channels, &plan->x, &plan->y, inner, error);
    return code;
}

/* The same where no more than a few rows are in memory. */
static int resize_rows(struct convoy_image_scratch *scratch, struct convoy_decoder *decoder,
                       const struct plan *plan, uint64_t deadline_us, uint8_t *inner,
                       struct convoy_error *error)
{
    struct convoy_row_resizer resizer;
    struct convoy_raster raster;
    if (convoy_resize_rows_begin(&resizer, scratch, &decoder->stored, plan->channels, plan->mixes, &plan->x,
                                 &plan->y, inner) != 0)
        return out_of_memory(error);
    convoy_raster_aim_at_sink(&raster, &decoder->stored, &resizer.sink, plan->channels);
    return convoy_decoder_read(decoder, &raster, deadline_us, scratch, error);
}

/* Decodes and resizes into inner, x.out x y.out pixels. */
static int decode_and_resize(struct convoy_image_scratch *scratch, struct convoy_decoder *decoder,
                             const struct plan *plan, uint64_t deadline_us, uint8_t *inner,
                             struct convoy_error *error)
{
    if (keeps_all(&plan->x) && keeps_all(&plan->y))
        return decode_whole(scratch, decoder, plan, deadline_us, inner, error);
    bool in_order = convoy_decoder_in_order(decoder) && convoy_resize_rows_can(&plan->x, &plan->y);
    return in_order ? resize_rows(scratch, decoder, plan, deadline_us, inner, error)
                    : resize_whole(scratch, decoder, plan, deadline_us, inner, error);
}

static struct plan plan_for(struct convoy_decoder *decoder, const struct convoy_image_target *target)
{
    const struct convoy_stored_image *stored = &decoder->stored;
    bool swaps = convoy_orientation_swaps(stored->orientation);
    struct plan plan = {.channels = stored->pixel == CONVOY_PIXEL_GREY ? 1 : target->channels};
    convoy_image_fit(target, swaps ? stored->height : stored->width, swaps ? stored->width : stored->height,
                     &plan.x, &plan.y);
    int eighths = eighths_for(decoder, target, &plan.x, &plan.y);
    if (eighths < 8)
        reduce(decoder, eighths, &plan.x, &plan.y);
    plan.mixes = plan.channels == 4 && stored->pixel == CONVOY_PIXEL_RGBA &&
                 target->filter != CONVOY_FILTER_NEAREST &&
                 !(convoy_axis_is_copy(&plan.x) && convoy_axis_is_copy(&plan.y));
    return plan;
}

static int to_row(struct convoy_image_scratch *scratch, struct convoy_decoder *decoder,
                  const struct convoy_image_target *target, uint8_t *row, struct convoy_error *error)
{
    const struct plan plan = plan_for(decoder, target);
    size_t pixels = (size_t)plan.x.out * (size_t)plan.y.out;
    bool fills = plan.x.out == target->width && plan.y.out == target->height;
    uint8_t *inner = row;
    if (!fills)
        inner = convoy_image_buffer_reserve(&scratch->inner, pixels, (size_t)target->channels, 1);
    if (inner == NULL)
        return out_of_memory(error);
    int code = decode_and_resize(scratch, decoder, &plan, target->deadline_us, inner, error);
    if (code != 0)
        return code;
    if (plan.mixes)
        convoy_alpha_divide(inner, pixels);
    if (plan.channels < target->channels)
        spread_grey(inner, pixels, (size_t)target->channels);
    if (!fills)
        convoy_image_pad(target, inner, plan.x.out, plan.y.out, row);
    if (target->bgr && target->channels >= 3)
        swap_red_and_blue(row, (size_t)target->width * (size_t)target->height, (size_t)target->channels);
    return 0;
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
           (target->channels == 1 || target->channels == 3 || target->channels == 4);
}

int convoy_image_to_row(struct convoy_image_scratch *scratch, const uint8_t *bytes, size_t length,
                        uint64_t max_pixels, const struct convoy_image_target *target, uint8_t *row,
                        struct convoy_error *error)
{
    if (!possible(target))
        return convoy_fail(
            error, -EINVAL,
            "an image cannot become %d x %d with %d channels: the model's input must be 1 to %d "
            "pixels wide and high and have 1, 3 or 4 channels",
            target->width, target->height, target->channels, MAX_TARGET_SIDE);
    struct convoy_decoder decoder;
    int code = open_image(&decoder, bytes, length, max_pixels, target->channels == 4, error);
    if (code != 0)
        return code;
    code = to_row(scratch, &decoder, target, row, error);
    convoy_decoder_close(&decoder);
    convoy_image_scratch_trim(scratch);
    return code;
}
