#include "server/image/fit.h"

#include <stddef.h>
#include <string.h>

void convoy_image_fit(const struct convoy_image_target *target, int width, int height, struct convoy_axis *x,
                      struct convoy_axis *y)
{
    *x = convoy_axis_of(width, target->width, target->filter);
    *y = convoy_axis_of(height, target->height, target->filter);
    if (target->fit == CONVOY_FIT_CROP)
        convoy_axes_crop(target->cover_width, target->cover_height, target->cuts_down, x, y);
    else if (target->fit == CONVOY_FIT_PAD)
        convoy_axes_pad(x, y);
    else
        convoy_axes_stretch(target->cover_width, target->cover_height, target->cuts_down, x, y);
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
