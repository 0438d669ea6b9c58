#include "server/image/webp.h"

#include "engine/base/clock.h"
#include "server/image/webp_chunks.h"

#include <errno.h>
#include <string.h>
#include <webp/decode.h>

/* See convoy_webp_check(). */
#define FREE_PIXELS   (1u << 19)
#define PIXELS_A_BYTE 2048u

/* libwebp reads the tables of a lossless image from the start whenever more bytes have come before they are
 * whole, so the pieces are few. */
#define PIECES      8u
#define PIECE_BYTES ((size_t)16384)

/* A lossless image has sets of tables, each for some blocks of at least 4 x 4 pixels: at most 2^16 sets, each
 * of 20 bits at least in the file, and of at most so many bytes in libwebp. */
#define SET_BYTES ((uint64_t)21 << 10)
#define MOST_SETS ((uint64_t)1 << 16)

static int truncated(struct convoy_error *error)
{
    return convoy_fail(error, -EBADMSG, "the WebP image ends before its last pixel: send the whole file");
}

static int failure(VP8StatusCode status, struct convoy_error *error)
{
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return convoy_fail(error, -ENOMEM,
                           "out of memory while decoding a WebP image: send a smaller one or try again");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return truncated(error);
    default:
        return convoy_fail(error, -EBADMSG,
                           "the WebP image cannot be decoded (it is damaged): encode it again and send that");
    }
}

/* The first frame in place of the file. */
static int open_frame(struct convoy_webp *webp, const uint8_t *bytes, size_t length,
                      struct convoy_stored_image *stored, struct convoy_error *error)
{
    struct convoy_webp_frame frame;
    if (convoy_webp_first_frame(bytes, length, &frame) != 0)
        return truncated(error);
    webp->bytes = frame.bytes;
    webp->length = frame.length;
    webp->left = frame.left;
    webp->top = frame.top;
    webp->width = frame.width;
    webp->height = frame.height;
    stored->width = frame.canvas_width;
    stored->height = frame.canvas_height;
    if (frame.width > stored->width - frame.left || frame.height > stored->height - frame.top)
        return failure(VP8_STATUS_BITSTREAM_ERROR, error);
    return 0;
}

static bool covers(const struct convoy_webp *webp, const struct convoy_stored_image *stored)
{
    return webp->width == stored->width && webp->height == stored->height;
}

int convoy_webp_open(struct convoy_webp *webp, const uint8_t *bytes, size_t length,
                     struct convoy_stored_image *stored, struct convoy_error *error)
{
    WebPBitstreamFeatures features;
    bool animated = convoy_webp_is_animated(bytes, length);
    *webp = (struct convoy_webp){.bytes = bytes, .length = length};
    if (animated) {
        int code = open_frame(webp, bytes, length, stored, error);
        if (code != 0)
            return code;
    }
    VP8StatusCode status = WebPGetFeatures(webp->bytes, webp->length, &features);
    if (status != VP8_STATUS_OK)
        return failure(status, error);
    if (!animated) {
        stored->width = webp->width = features.width;
        stored->height = webp->height = features.height;
    } else if (features.width != webp->width || features.height != webp->height || features.has_animation) {
        return failure(VP8_STATUS_BITSTREAM_ERROR, error);
    }
    webp->lossless = features.format == 2;
    webp->alpha = features.has_alpha != 0 || (stored->keep_alpha && !covers(webp, stored));
    stored->orientation = convoy_webp_orientation(bytes, length);
    stored->pixel = webp->alpha ? CONVOY_PIXEL_RGBA : CONVOY_PIXEL_RGB;
    return 0;
}

int convoy_webp_check(const struct convoy_webp *webp, const struct convoy_stored_image *stored, size_t length,
                      struct convoy_error *error)
{
    uint64_t pixels = (uint64_t)stored->width * (uint64_t)stored->height;
    if ((webp->lossless || !covers(webp, stored)) && pixels > FREE_PIXELS + (uint64_t)length * PIXELS_A_BYTE)
        return convoy_fail(error, -EBADMSG,
                           "the WebP image has %d x %d pixels in %zu bytes, as only an almost empty one can: "
                           "send a smaller one, or a PNG",
                           stored->width, stored->height, length);
    return 0;
}

uint64_t convoy_webp_memory(const struct convoy_webp *webp, const struct convoy_stored_image *stored)
{
    uint64_t pixels = (uint64_t)stored->width * (uint64_t)stored->height;
    uint64_t sets = (uint64_t)webp->width * (uint64_t)webp->height / 16 + 1;
    uint64_t coded = (uint64_t)webp->length * 8 / 20 + 1;
    if (!webp->lossless && !webp->alpha) /* which is stored as a lossless image */
        return stored->orientation == 1 && covers(webp, stored) ? 0 : pixels * 3;
    sets = sets < coded ? sets : coded;
    sets = sets < MOST_SETS ? sets : MOST_SETS;
    return pixels * 6 + sets * SET_BYTES;
}

/* Decodes to rows of stride bytes at pixels. */
static int decode(const struct convoy_webp *webp, uint8_t *pixels, size_t stride, uint64_t deadline_us,
                  struct convoy_error *error)
{
    WebPDecBuffer output;
    VP8StatusCode status = VP8_STATUS_SUSPENDED;
    if (!WebPInitDecBuffer(&output))
        return failure(VP8_STATUS_BITSTREAM_ERROR, error); /* another version of libwebp */
    output.colorspace = webp->alpha ? MODE_RGBA : MODE_RGB;
    output.is_external_memory = 1;
    output.u.RGBA =
        (WebPRGBABuffer){.rgba = pixels, .stride = (int)stride, .size = stride * (size_t)webp->height};
    WebPIDecoder *decoder = WebPINewDecoder(&output);
    if (decoder == NULL)
        return failure(VP8_STATUS_OUT_OF_MEMORY, error);
    size_t piece = webp->length / PIECES > PIECE_BYTES ? webp->length / PIECES + 1 : PIECE_BYTES;
    bool late = false;
    for (size_t given = 0; status == VP8_STATUS_SUSPENDED && given < webp->length && !late;) {
        given = webp->length - given > piece ? given + piece : webp->length;
        late = deadline_us != 0 && convoy_now_us() >= deadline_us;
        if (!late)
            status = WebPIUpdate(decoder, webp->bytes, given);
    }
    WebPIDelete(decoder);
    if (late)
        return convoy_fail(error, -ETIMEDOUT, "the deadline passed while the image was decoded");
    return status == VP8_STATUS_OK ? 0 : failure(status, error);
}

/* Rows of a part of the image, or all of it. */
static void place(const struct convoy_webp *webp, const struct convoy_raster *raster, const uint8_t *pixels,
                  size_t stride)
{
    for (int y = 0; y < raster->stored.height; y++) {
        bool within = y >= webp->top && y < webp->top + webp->height;
        uint8_t *to = convoy_raster_span(raster, y, webp->left, within ? webp->width : 0);
        if (within)
            memcpy(to, pixels + (size_t)(y - webp->top) * stride, stride);
        convoy_raster_place(raster, y);
    }
}

int convoy_webp_read(struct convoy_webp *webp, const struct convoy_raster *raster, uint64_t deadline_us,
                     struct convoy_image_scratch *scratch, struct convoy_error *error)
{
    size_t stride = (size_t)webp->width * (size_t)convoy_pixel_bytes(raster->stored.pixel);
    if (raster->line == NULL && raster->step_y > 0 && covers(webp, &raster->stored))
        return decode(webp, raster->origin, stride, deadline_us, error);
    uint8_t *staged = convoy_image_buffer_reserve(&scratch->staging, stride, (size_t)webp->height, 1);
    if (staged == NULL)
        return failure(VP8_STATUS_OUT_OF_MEMORY, error);
    int code = decode(webp, staged, stride, deadline_us, error);
    if (code == 0)
        place(webp, raster, staged, stride);
    return code;
}
