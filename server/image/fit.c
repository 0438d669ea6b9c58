#include "server/image/fit.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static int64_t half_to_even(int64_t twice)
{
    int64_t down = twice / 2;
    return twice % 2 == 0 ? down : down + down % 2;
}

static void crop(const struct convoy_image_target *target, struct convoy_axis *x, struct convoy_axis *y)
{
    int64_t width = target->cover_width > 0 ? target->cover_width : target->width;
    int64_t height = target->cover_height > 0 ? target->cover_height : target->height;

    x->scaled = width;
    y->scaled = height;
    if (width * y->in >= height * x->in)
        y->scaled = width * y->in / x->in;
    else
        x->scaled = height * x->in / y->in;
    x->first = half_to_even(x->scaled - x->out);
    y->first = half_to_even(y->scaled - y->out);
}

/* The length of the side that does not fill the target, in Pillow's words. */
static int contained(int64_t in, int64_t other_in, int other_out, int most)
{
    double length = rint((double)in / (double)other_in * other_out);
    return length < 1.0 ? 1 : length > most ? most : (int)length;
}

static void pad(struct convoy_axis *x, struct convoy_axis *y)
{
    double image = (double)x->in / (double)y->in, room = (double)x->out / y->out;

    if (image > room)
        y->out = contained(y->in, x->in, x->out, y->out);
    else if (image < room)
        x->out = contained(x->in, y->in, y->out, x->out);
    x->scaled = x->out;
    y->scaled = y->out;
}

void convoy_image_fit(const struct convoy_image_target *target, int width, int height, struct convoy_axis *x,
                      struct convoy_axis *y)
{
    *x = (struct convoy_axis){
        .in = width, .scaled = target->width, .out = target->width, .filter = target->filter};
    *y = (struct convoy_axis){
        .in = height, .scaled = target->height, .out = target->height, .filter = target->filter};
    if (target->fit == CONVOY_FIT_CROP)
        crop(target, x, y);
    else if (target->fit == CONVOY_FIT_PAD)
        pad(x, y);
    x->extent = width;
    y->extent = height;
}

int64_t convoy_reduced(int64_t pixels, int eighths)
{
    return (pixels * eighths + 7) / 8;
}

void convoy_axis_reduce(struct convoy_axis *axis, int eighths, bool mirrored)
{
    axis->extent = (double)axis->in * eighths / 8.0;
    axis->in = convoy_reduced(axis->in, eighths);
    axis->start = mirrored ? (double)axis->in - axis->extent : 0.0;
}

bool convoy_axis_is_copy(const struct convoy_axis *axis)
{
    return axis->scaled == axis->in;
}

/* Writes count pixels of the colour. */
static void paint(uint8_t *to, const uint8_t *color, size_t channels, size_t count)
{
    for (size_t i = 0; i < count; i++, to += channels)
        memcpy(to, color, channels);
}

int64_t convoy_image_padding(int image, int room)
{
    return half_to_even(room - image);
}

void convoy_image_pad(const struct convoy_image_target *target, const uint8_t *image, int width, int height,
                      uint8_t *row)
{
    const uint8_t *rgb = target->color;
    uint8_t grey = (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
    const uint8_t with_alpha[4] = {rgb[0], rgb[1], rgb[2], 255};
    const uint8_t *color = target->channels == 1 ? &grey : with_alpha;
    size_t channels = (size_t)target->channels, line = (size_t)width * channels;
    size_t row_line = (size_t)target->width * channels;
    size_t left = (size_t)convoy_image_padding(width, target->width);
    int top = (int)convoy_image_padding(height, target->height);

    for (int y = 0; y < target->height; y++, row += row_line) {
        if (y < top || y >= top + height) {
            paint(row, color, channels, (size_t)target->width);
            continue;
        }
        paint(row, color, channels, left);
        memcpy(row + left * channels, image, line);
        paint(row + left * channels + line, color, channels, (size_t)(target->width - width) - left);
        image += line;
    }
}
