#include "server/image/raster.h"

#include "server/image/alpha.h"

#include <string.h>

int convoy_pixel_bytes(enum convoy_pixel pixel)
{
    switch (pixel) {
    case CONVOY_PIXEL_GREY:
        return 1;
    case CONVOY_PIXEL_RGB:
        return 3;
    default:
        return 4;
    }
}

bool convoy_orientation_swaps(int orientation)
{
    return orientation >= 5;
}

void convoy_orientation_mirrors(int orientation, bool *x, bool *y)
{
    *x = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    *y = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
}

void convoy_raster_aim(struct convoy_raster *raster, const struct convoy_stored_image *stored,
                       uint8_t *pixels, int channels)
{
    ptrdiff_t across = channels; /* one pixel to the right in the result */
    ptrdiff_t right = stored->width - 1;
    ptrdiff_t bottom = stored->height - 1;
    raster->stored = *stored;
    raster->channels = channels;
    raster->line = NULL;
    raster->sink = NULL;
    /* A result pixel is at pixels + X across + Y down. With stored (x, y) and far edges R, B, the
     * orientations (TIFF 6.0: where the stored row 0 and column 0 are to be shown) put it at these X, Y. */
    ptrdiff_t down =
        across * (convoy_orientation_swaps(stored->orientation) ? stored->height : stored->width);
    ptrdiff_t start = 0;
    ptrdiff_t x = across;
    ptrdiff_t y = down;
    switch (stored->orientation) {
    case 2: /* R - x, y */
        start = right * across;
        x = -across;
        break;
    case 3: /* R - x, B - y */
        start = right * across + bottom * down;
        x = -across;
        y = -down;
        break;
    case 4: /* x, B - y */
        start = bottom * down;
        y = -down;
        break;
    case 5: /* y, x */
        x = down;
        y = across;
        break;
    case 6: /* B - y, x */
        start = bottom * across;
        x = down;
        y = -across;
        break;
    case 7: /* B - y, R - x */
        start = bottom * across + right * down;
        x = -down;
        y = -across;
        break;
    case 8: /* y, R - x */
        start = right * down;
        x = -down;
        y = across;
        break;
    default: /* x, y */
        break;
    }
    raster->origin = pixels + start;
    raster->step_x = x;
    raster->step_y = y;
}

void convoy_raster_aim_at_sink(struct convoy_raster *raster, const struct convoy_stored_image *stored,
                               struct convoy_raster_sink *sink, int channels)
{
    *raster = (struct convoy_raster){.stored = *stored, .channels = channels, .sink = sink};
}

/* Is the result what the decoder writes? */
static bool is_stored_so(const struct convoy_raster *raster)
{
    return convoy_pixel_bytes(raster->stored.pixel) == raster->channels &&
           raster->stored.pixel != CONVOY_PIXEL_CMYK;
}

void convoy_raster_columns(const struct convoy_raster *raster, int *left, int *columns)
{
    /* Pixels that become shorter or longer are converted from the row's first one on. */
    bool some = raster->sink != NULL && is_stored_so(raster);
    *left = some ? (int)raster->sink->left : 0;
    *columns = some ? (int)raster->sink->columns : raster->stored.width;
}

bool convoy_raster_needs_line(const struct convoy_raster *raster)
{
    return raster->step_x != raster->channels || !is_stored_so(raster);
}

uint8_t *convoy_raster_line(const struct convoy_raster *raster, int y)
{
    if (raster->sink != NULL)
        return raster->sink->line(raster->sink, y);
    return raster->line != NULL ? raster->line : raster->origin + y * raster->step_y;
}

uint8_t *convoy_raster_span(const struct convoy_raster *raster, int y, int left, int width)
{
    uint8_t *line = convoy_raster_line(raster, y);
    size_t pixel = (size_t)convoy_pixel_bytes(raster->stored.pixel);
    size_t before = (size_t)left * pixel, within = (size_t)width * pixel;
    memset(line, 0, before);
    memset(line + before + within, 0, (size_t)raster->stored.width * pixel - before - within);
    return line + before;
}

/* The conversions work in place, front to back: no result pixel is longer than its source. */
static void rgba_on_black(uint8_t *line, int width)
{
    const uint8_t *from = line;
    for (uint8_t *to = line; width > 0; width--, from += 4, to += 3) {
        unsigned alpha = from[3];
        to[0] = convoy_alpha_scaled(from[0], alpha);
        to[1] = convoy_alpha_scaled(from[1], alpha);
        to[2] = convoy_alpha_scaled(from[2], alpha);
    }
}

static void cmyk_to_rgb(uint8_t *line, int width)
{
    const uint8_t *from = line;
    for (uint8_t *to = line; width > 0; width--, from += 4, to += 3) {
        unsigned light = from[3];
        to[0] = (uint8_t)(light - convoy_alpha_scaled(255u - from[0], light));
        to[1] = (uint8_t)(light - convoy_alpha_scaled(255u - from[1], light));
        to[2] = (uint8_t)(light - convoy_alpha_scaled(255u - from[2], light));
    }
}

static void rgb_to_grey(uint8_t *line, int width)
{
    const uint8_t *from = line;
    for (int i = 0; i < width; i++, from += 3)
        line[i] = (uint8_t)((19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 32768u) >> 16);
}

/* Pixels of four bytes, from a line of three or four bytes a pixel. */
static void place_with_alpha(const struct convoy_raster *raster, const uint8_t *line, uint8_t *to)
{
    bool has_alpha = raster->stored.pixel == CONVOY_PIXEL_RGBA;
    for (int x = 0; x < raster->stored.width; x++, to += raster->step_x, line += has_alpha ? 4 : 3) {
        to[0] = line[0];
        to[1] = line[1];
        to[2] = line[2];
        to[3] = has_alpha ? line[3] : 255;
    }
}

/* To the colours of the result, in place. */
static void convert(const struct convoy_raster *raster, uint8_t *line)
{
    int width = raster->stored.width;
    if (raster->stored.pixel == CONVOY_PIXEL_RGBA && raster->channels != 4)
        rgba_on_black(line, width);
    else if (raster->stored.pixel == CONVOY_PIXEL_CMYK)
        cmyk_to_rgb(line, width);
    if (raster->stored.pixel != CONVOY_PIXEL_GREY && raster->channels == 1)
        rgb_to_grey(line, width);
}

/* Three bytes a pixel become four, with alpha, in place: back to front. */
static void add_alpha(uint8_t *line, int width)
{
    for (int x = width - 1; x >= 0; x--) {
        uint8_t red = line[3 * x], green = line[3 * x + 1], blue = line[3 * x + 2];
        line[4 * x] = red;
        line[4 * x + 1] = green;
        line[4 * x + 2] = blue;
        line[4 * x + 3] = 255;
    }
}

static void give_to_sink(const struct convoy_raster *raster, int y)
{
    uint8_t *line = raster->sink->line(raster->sink, y);
    convert(raster, line);
    if (raster->channels == 4 && raster->stored.pixel != CONVOY_PIXEL_RGBA)
        add_alpha(line, raster->stored.width);
    raster->sink->take(raster->sink, y);
}

void convoy_raster_place(const struct convoy_raster *raster, int y)
{
    uint8_t *line = raster->line;
    int width = raster->stored.width;
    if (raster->sink != NULL) {
        give_to_sink(raster, y);
        return;
    }
    if (line == NULL)
        return;
    convert(raster, line);

    uint8_t *to = raster->origin + y * raster->step_y;
    if (raster->channels == 4)
        place_with_alpha(raster, line, to);
    else if (raster->step_x == raster->channels)
        memcpy(to, line, (size_t)width * (size_t)raster->channels);
    else if (raster->channels == 1)
        for (int x = 0; x < width; x++, to += raster->step_x)
            *to = line[x];
    else
        for (int x = 0; x < width; x++, to += raster->step_x, line += 3) {
            to[0] = line[0];
            to[1] = line[1];
            to[2] = line[2];
        }
}
