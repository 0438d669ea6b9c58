#include "server/image/decoder.h"

#include <errno.h>

int convoy_decoder_open(struct convoy_decoder *decoder, const uint8_t *bytes, size_t length, bool keep_alpha,
                        struct convoy_error *error)
{
    struct convoy_stored_image *stored = &decoder->stored;
    stored->keep_alpha = keep_alpha;
    if (length == 0)
        return convoy_fail(error, -ENODATA,
                           "there is no image, the body is empty: send a " CONVOY_IMAGE_FORMATS " image");
    decoder->length = length;
    decoder->kind = convoy_image_sniff(bytes, length);
    switch (decoder->kind) {
    case CONVOY_IMAGE_JPEG:
        return convoy_jpeg_open(&decoder->as.jpeg, bytes, length, stored, error);
    case CONVOY_IMAGE_PNG:
        return convoy_png_open(&decoder->as.png, bytes, length, stored, error);
    case CONVOY_IMAGE_WEBP:
        return convoy_webp_open(&decoder->as.webp, bytes, length, stored, error);
    case CONVOY_IMAGE_BMP:
        return convoy_bmp_open(&decoder->as.bmp, bytes, length, stored, error);
    case CONVOY_IMAGE_GIF:
        return convoy_gif_open(&decoder->as.gif, bytes, length, stored, error);
    default:
        return convoy_fail(error, -ENOTSUP, "this is %s: send a " CONVOY_IMAGE_FORMATS " image",
                           convoy_image_stranger(bytes, length));
    }
}

int convoy_decoder_check(const struct convoy_decoder *decoder, struct convoy_error *error)
{
    switch (decoder->kind) {
    case CONVOY_IMAGE_JPEG:
        return convoy_jpeg_check(&decoder->as.jpeg, decoder->length, error);
    case CONVOY_IMAGE_WEBP:
        return convoy_webp_check(&decoder->as.webp, &decoder->stored, decoder->length, error);
    case CONVOY_IMAGE_BMP:
        return convoy_bmp_check(&decoder->as.bmp, decoder->length, error);
    case CONVOY_IMAGE_GIF:
        return convoy_gif_check(&decoder->as.gif, &decoder->stored, decoder->length, error);
    default: /* PNG: deflate and 8 pixels a byte are a bound */
        return 0;
    }
}

bool convoy_decoder_in_order(const struct convoy_decoder *decoder)
{
    return decoder->kind == CONVOY_IMAGE_JPEG ||
           (decoder->kind == CONVOY_IMAGE_PNG && !decoder->as.png.interlaced);
}

/* Where rows are resized as they come (resize_rows.h): those that wait, libjpeg's own, sums and tables, with
 * the widest filter. */
static uint64_t row_memory(const struct convoy_stored_image *stored)
{
    return 262144 + 400 * (uint64_t)stored->width + 32 * (uint64_t)stored->height;
}

uint64_t convoy_decoder_memory(struct convoy_decoder *decoder)
{
    uint64_t pixels = (uint64_t)decoder->stored.width * (uint64_t)decoder->stored.height;
    uint64_t as_bytes = pixels * 5; /* with the columns pass */
    if (convoy_decoder_in_order(decoder) && row_memory(&decoder->stored) < as_bytes)
        as_bytes = row_memory(&decoder->stored);
    switch (decoder->kind) {
    case CONVOY_IMAGE_JPEG: /* coefficients that are kept whole */
        return as_bytes + (jpeg_has_multiple_scans(&decoder->as.jpeg.decoder) ? pixels * 6 : 0);
    case CONVOY_IMAGE_PNG: /* rows that are kept whole */
        return as_bytes + (decoder->as.png.interlaced ? pixels * 6 : 0);
    case CONVOY_IMAGE_WEBP:
        return as_bytes + convoy_webp_memory(&decoder->as.webp, &decoder->stored);
    default:
        return as_bytes;
    }
}

int convoy_decoder_read(struct convoy_decoder *decoder, const struct convoy_raster *raster,
                        uint64_t deadline_us, struct convoy_image_scratch *scratch,
                        struct convoy_error *error)
{
    switch (decoder->kind) {
    case CONVOY_IMAGE_JPEG:
        return convoy_jpeg_read(&decoder->as.jpeg, raster, deadline_us, error);
    case CONVOY_IMAGE_PNG:
        return convoy_png_read(&decoder->as.png, raster, deadline_us, scratch, error);
    case CONVOY_IMAGE_WEBP:
        return convoy_webp_read(&decoder->as.webp, raster, deadline_us, scratch, error);
    case CONVOY_IMAGE_BMP:
        return convoy_bmp_read(&decoder->as.bmp, raster, deadline_us, scratch, error);
    default:
        return convoy_gif_read(&decoder->as.gif, raster, deadline_us, scratch, error);
    }
}

void convoy_decoder_close(struct convoy_decoder *decoder)
{
    switch (decoder->kind) {
    case CONVOY_IMAGE_JPEG:
        convoy_jpeg_close(&decoder->as.jpeg);
        break;
    case CONVOY_IMAGE_PNG:
        convoy_png_close(&decoder->as.png);
        break;
    case CONVOY_IMAGE_GIF:
        convoy_gif_close(&decoder->as.gif);
        break;
    default: /* the others hold nothing */
        break;
    }
}
