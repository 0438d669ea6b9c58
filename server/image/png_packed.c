#include "server/image/png_packed.h"

#include <string.h>

/* round(a b / 255) as raster.c lays alpha on black; here it is a few dozen values. */
static uint8_t on_black(unsigned level, unsigned alpha)
{
    return (uint8_t)((level * alpha * 2 + 255) / 510);
}

/* The colours of all values of a pixel; true when all are grey. What a palette lacks is black. */
static bool read_colours(spng_ctx *decoder, const struct spng_ihdr *header, uint8_t colours[16][3])
{
    unsigned count = 1u << header->bit_depth;
    struct spng_trns trns = {0};
    struct spng_plte palette = {0};
    bool transparent = spng_get_trns(decoder, &trns) == 0, grey = true;

    if (header->color_type == SPNG_COLOR_TYPE_GRAYSCALE) {
        for (unsigned i = 0; i < count; i++)
            memset(colours[i], transparent && trns.gray == i ? 0 : (int)(i * 255 / (count - 1)), 3);
        return true;
    }
    (void)spng_get_plte(decoder, &palette); /* without one, decoding fails */
    for (unsigned i = 0; i < count && i < palette.n_entries; i++) {
        unsigned alpha = transparent && i < trns.n_type3_entries ? trns.type3_alpha[i] : 255;
        colours[i][0] = on_black(palette.entries[i].red, alpha);
        colours[i][1] = on_black(palette.entries[i].green, alpha);
        colours[i][2] = on_black(palette.entries[i].blue, alpha);
        grey = grey && colours[i][0] == colours[i][1] && colours[i][1] == colours[i][2];
    }
    return grey;
}

void convoy_png_packed_init(struct convoy_png_packed *packed, spng_ctx *decoder,
                            const struct spng_ihdr *header)
{
    uint8_t colours[16][3] = {{0}};

    packed->bits = header->bit_depth < 8 ? header->bit_depth : 0;
    if (packed->bits == 0)
        return;
    packed->channels = read_colours(decoder, header, colours) ? 1 : 3;
    int each = 4 / packed->bits;
    for (int nibble = 0; nibble < 16; nibble++)
        for (int i = 0; i < each; i++) {
            int value = nibble >> (4 - packed->bits * (i + 1)) & ((1 << packed->bits) - 1);
            memcpy(packed->nibbles[nibble] + (ptrdiff_t)i * packed->channels, colours[value],
                   (size_t)packed->channels);
        }
}

size_t convoy_png_packed_bytes(const struct convoy_png_packed *packed, size_t width)
{
    return (width * (size_t)packed->bits + 7) / 8;
}

/* Whole bytes. n, a constant: bytes that a nibble becomes. */
static inline void expand_bytes(const struct convoy_png_packed *packed, const uint8_t *from, size_t count,
                                size_t n, uint8_t *to)
{
    for (size_t i = 0; i < count; i++, to += 2 * n) {
        memcpy(to, packed->nibbles[from[i] >> 4], n);
        memcpy(to + n, packed->nibbles[from[i] & 15], n);
    }
}

/* A pixel at a time, from pixel first on. */
static inline void expand_pixels(const struct convoy_png_packed *packed, const uint8_t *from, size_t first,
                                 size_t width, size_t step, size_t channels, uint8_t *to)
{
    size_t bits = (size_t)packed->bits, each = 4 / bits;

    for (size_t x = first; x < width; x++) {
        size_t nibble = x / each;
        uint8_t byte = from[nibble / 2];
        const uint8_t *pixels = packed->nibbles[nibble % 2 == 0 ? byte >> 4 : byte & 15];
        memcpy(to + x * step * channels, pixels + x % each * channels, channels);
    }
}

void convoy_png_packed_expand(const struct convoy_png_packed *packed, const uint8_t *from, size_t width,
                              size_t step, uint8_t *to)
{
    size_t bytes = step == 1 ? width * (size_t)packed->bits / 8 : 0;

    switch (4 / packed->bits * packed->channels) {
    case 1:
        expand_bytes(packed, from, bytes, 1, to);
        break;
    case 2:
        expand_bytes(packed, from, bytes, 2, to);
        break;
    case 3:
        expand_bytes(packed, from, bytes, 3, to);
        break;
    case 4:
        expand_bytes(packed, from, bytes, 4, to);
        break;
    case 6:
        expand_bytes(packed, from, bytes, 6, to);
        break;
    default:
        expand_bytes(packed, from, bytes, 12, to);
        break;
    }
    size_t done = bytes * 8 / (size_t)packed->bits;
    if (packed->channels == 1)
        expand_pixels(packed, from, done, width, step, 1, to);
    else
        expand_pixels(packed, from, done, width, step, 3, to);
}
