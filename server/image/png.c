#include "server/image/png.h"

#include "engine/base/clock.h"
#include <errno.h>
#include <limits.h>
#include <string.h>

/* The largest chunk that is kept rather than streamed is a palette of 768 bytes; see png_chunks.h for the
 * rest. */
#define KEPT_CHUNK_BYTES  ((size_t)4096)
#define KEPT_CHUNKS_BYTES ((size_t)65536)

static int failure(int code, struct convoy_error *error)
{
    if (code == SPNG_EMEM)
        return convoy_fail(error, -ENOMEM,
                           "out of memory while decoding a PNG image: send a smaller one or try again");
    if (code == SPNG_IO_EOF || code == SPNG_EIDAT_TOO_SHORT)
        return convoy_fail(error, -EBADMSG, "the PNG image ends before its last pixel: send the whole file");
    return convoy_fail(error, -EBADMSG, "the PNG image cannot be decoded (%s): encode it again and send that",
                       spng_strerror(code));
}

static int give(spng_ctx *decoder, void *user, void *to, size_t size)
{
    (void)decoder;
    return convoy_png_stream_read(user, to, size) == 0 ? 0 : SPNG_IO_EOF;
}

/* The narrowest form that libspng offers for what is stored. */
static void choose_form(struct convoy_png *png, const struct spng_ihdr *header,
                        struct convoy_stored_image *stored)
{
    struct spng_trns unused;
    bool has_key = spng_get_trns(png->decoder, &unused) == 0;

    png->packed.bits = 0; /* what is packed has no alpha */
    if (!has_key || !stored->keep_alpha)
        convoy_png_packed_init(&png->packed, png->decoder, header);
    if (png->packed.bits > 0) {
        png->format = SPNG_FMT_PNG;
        stored->pixel = png->packed.channels == 1 ? CONVOY_PIXEL_GREY : CONVOY_PIXEL_RGB;
        return;
    }
    bool alpha = header->color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
                 header->color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA || has_key;
    if (alpha) {
        png->format = SPNG_FMT_RGBA8;
        stored->pixel = CONVOY_PIXEL_RGBA;
    } else if (header->color_type == SPNG_COLOR_TYPE_GRAYSCALE && header->bit_depth <= 8) {
        png->format = SPNG_FMT_G8;
        stored->pixel = CONVOY_PIXEL_GREY;
    } else {
        png->format = SPNG_FMT_RGB8;
        stored->pixel = CONVOY_PIXEL_RGB;
    }
}

int convoy_png_open(struct convoy_png *png, const uint8_t *bytes, size_t length,
                    struct convoy_stored_image *stored, struct convoy_error *error)
{
    struct spng_ihdr header;
    png->decoder = spng_ctx_new(0);
    if (png->decoder == NULL)
        return failure(SPNG_EMEM, error);
    convoy_png_stream_init(&png->stream, bytes, length);
    int code = spng_set_png_stream(png->decoder, give, &png->stream);
    if (code == 0)
        code = spng_set_chunk_limits(png->decoder, KEPT_CHUNK_BYTES, KEPT_CHUNKS_BYTES);
    if (code == 0)
        code = spng_get_ihdr(png->decoder, &header);
    if (code != 0) {
        convoy_png_close(png);
        return failure(code, error);
    }
    png->interlaced = header.interlace_method != SPNG_INTERLACE_NONE;
    stored->width = (int)header.width;
    stored->height = (int)header.height;
    stored->orientation = convoy_png_orientation(bytes, length);
    choose_form(png, &header, stored);
    return 0;
}

/* A code that libspng does not use. */
#define LATE INT_MIN

/* Where the pixels of each pass of an interlaced image begin in a row, and how far apart they are (PNG,
 * section 8.2). */
static const uint8_t pass_first[] = {0, 4, 0, 2, 0, 1, 0};
static const uint8_t pass_step[] = {8, 8, 4, 4, 2, 2, 1};

/* The row's pixels of this pass, into line. */
static int decode_packed(struct convoy_png *png, size_t width, int pass, struct convoy_image_buffer *packed,
                         uint8_t *line)
{
    size_t first = png->interlaced ? pass_first[pass] : 0, step = png->interlaced ? pass_step[pass] : 1;
    size_t count = (width - first + step - 1) / step; /* libspng leaves out passes without pixels */
    int code =
        spng_decode_scanline(png->decoder, packed->bytes, convoy_png_packed_bytes(&png->packed, count));

    if (code == 0 || code == SPNG_EOI)
        convoy_png_packed_expand(&png->packed, packed->bytes, count, step,
                                 line + first * (size_t)png->packed.channels);
    return code;
}

/* Rows come in the order of libspng, each as often as there are passes that touch it; from the last row on
 * the answer is SPNG_EOI. */
static int decode(struct convoy_png *png, const struct convoy_raster *raster, uint64_t deadline_us,
                  uint8_t *staged, size_t row_bytes, struct convoy_image_buffer *packed)
{
    int code =
        spng_decode_image(png->decoder, NULL, 0, png->format, SPNG_DECODE_TRNS | SPNG_DECODE_PROGRESSIVE);
    while (code == 0) {
        struct spng_row_info row;
        if (deadline_us != 0 && convoy_now_us() >= deadline_us)
            return LATE;
        code = spng_get_row_info(png->decoder, &row);
        if (code != 0)
            break;
        int y = (int)row.row_num;
        uint8_t *line = staged != NULL ? staged + (size_t)y * row_bytes : convoy_raster_line(raster, y);
        code = png->packed.bits > 0 ? decode_packed(png, (size_t)raster->stored.width, row.pass, packed, line)
                                    : spng_decode_row(png->decoder, line, row_bytes);
        if (staged == NULL && (code == 0 || code == SPNG_EOI))
            convoy_raster_place(raster, y);
    }
    return code == SPNG_EOI ? 0 : code;
}

int convoy_png_read(struct convoy_png *png, const struct convoy_raster *raster, uint64_t deadline_us,
                    struct convoy_image_scratch *scratch, struct convoy_error *error)
{
    size_t packed_bytes = convoy_png_packed_bytes(&png->packed, (size_t)raster->stored.width);
    size_t height = (size_t)raster->stored.height;
    size_t row_bytes = (size_t)raster->stored.width * (size_t)convoy_pixel_bytes(raster->stored.pixel);
    uint8_t *staged = NULL;
    if (png->interlaced && raster->line != NULL) {
        staged = convoy_image_buffer_reserve(&scratch->staging, row_bytes, height, 1);
        if (staged == NULL)
            return failure(SPNG_EMEM, error);
    }
    if (png->packed.bits > 0 && convoy_image_buffer_reserve(&scratch->packed, packed_bytes, 1, 1) == NULL)
        return failure(SPNG_EMEM, error);
    int code = decode(png, raster, deadline_us, staged, row_bytes, &scratch->packed);
    if (code == LATE)
        return convoy_fail(error, -ETIMEDOUT, "the deadline passed while the image was decoded");
    if (code != 0)
        return failure(code, error);
    if (staged != NULL)
        for (int y = 0; y < raster->stored.height; y++) {
            memcpy(raster->line, staged + (size_t)y * row_bytes, row_bytes);
            convoy_raster_place(raster, y);
        }
    return 0;
}

void convoy_png_close(struct convoy_png *png)
{
    spng_ctx_free(png->decoder);
    png->decoder = NULL;
}
