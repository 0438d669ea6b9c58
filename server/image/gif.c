#include "server/image/gif.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <string.h>

/* 12 bits, of which two bytes hold 4/3 codes, give 4,095 pixels at most: see convoy_gif_check(). */
#define PIXELS_A_BYTE 2730u

/* Extensions may stand before a frame. This one says what is transparent (GIF89a, section 23). */
#define GRAPHIC_CONTROL 0xF9

static int failure(const struct convoy_gif *gif, int code, struct convoy_error *error)
{
    if (gif->late)
        return convoy_fail(error, -ETIMEDOUT, "the deadline passed while the image was decoded");
    if (gif->ended || code == D_GIF_ERR_EOF_TOO_SOON)
        return convoy_fail(error, -EBADMSG, "the GIF image ends before its last pixel: send the whole file");
    if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
        return convoy_fail(error, -ENOMEM,
                           "out of memory while decoding a GIF image: send a smaller one or try again");
    const char *reason = GifErrorString(code); /* giflib does not name every failure */
    return convoy_fail(error, -EBADMSG, "the GIF image cannot be decoded (%s): encode it again and send that",
                       reason != NULL ? reason : "it is damaged");
}

/* giflib reads each block of at most 255 bytes with two calls. A block of clear codes alone keeps it busy for
 * half a millisecond, so the clock is looked at here and not between rows alone. */
static int give(GifFileType *decoder, GifByteType *to, int size)
{
    struct convoy_gif *gif = decoder->UserData;
    size_t wanted = (size_t)size, left = gif->length - gif->at;
    size_t part = wanted < left ? wanted : left;
    if (gif->deadline_us != 0 && gif->reads++ % 16 == 0 && convoy_now_us() >= gif->deadline_us) {
        gif->late = true;
        return 0;
    }
    gif->ended |= part < wanted;
    memcpy(to, gif->bytes + gif->at, part);
    gif->at += part;
    return (int)part;
}

/* Passes over an extension; of the last graphic control before the frame, the transparent index counts. */
static int read_extension(struct convoy_gif *gif, int *transparent)
{
    GraphicsControlBlock control;
    GifByteType *block;
    int kind;
    int code = DGifGetExtension(gif->decoder, &kind, &block);
    if (code == GIF_OK && kind == GRAPHIC_CONTROL && block != NULL &&
        DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
        *transparent = control.TransparentColor;
    while (code == GIF_OK && block != NULL)
        code = DGifGetExtensionNext(gif->decoder, &block);
    return code;
}

/* Up to the first frame's pixels. */
static int find_frame(struct convoy_gif *gif, int *transparent, struct convoy_error *error)
{
    for (;;) {
        GifRecordType kind;
        int code = DGifGetRecordType(gif->decoder, &kind);
        if (code == GIF_OK && kind == TERMINATE_RECORD_TYPE)
            return convoy_fail(error, -EBADMSG, "the GIF image holds no picture: send one that does");
        if (code == GIF_OK && kind == IMAGE_DESC_RECORD_TYPE) {
            code = DGifGetImageDesc(gif->decoder);
            return code == GIF_OK ? 0 : failure(gif, gif->decoder->Error, error);
        }
        if (code == GIF_OK)
            code = read_extension(gif, transparent);
        if (code != GIF_OK)
            return failure(gif, gif->decoder->Error, error);
    }
}

/* True when all colours are grey. */
static bool read_colours(struct convoy_gif *gif, const ColorMapObject *map, int transparent, bool keep_alpha)
{
    bool grey = true;
    memset(gif->colours, 0, sizeof gif->colours);
    for (int i = 0; i < 256; i++)
        gif->colours[i][3] = i == transparent ? 0 : 255;
    for (int i = 0; i < map->ColorCount && i < 256; i++) {
        const GifColorType *colour = &map->Colors[i];
        if (i == transparent && !keep_alpha)
            continue;
        gif->colours[i][0] = colour->Red;
        gif->colours[i][1] = colour->Green;
        gif->colours[i][2] = colour->Blue;
        grey = grey && colour->Red == colour->Green && colour->Green == colour->Blue;
    }
    return grey;
}

static int read_head(struct convoy_gif *gif, struct convoy_stored_image *stored, struct convoy_error *error)
{
    int transparent = NO_TRANSPARENT_COLOR;
    int code = find_frame(gif, &transparent, error);
    if (code != 0)
        return code;
    gif->frame = gif->decoder->Image;
    const GifImageDesc *frame = &gif->frame;
    const ColorMapObject *map = frame->ColorMap != NULL ? frame->ColorMap : gif->decoder->SColorMap;
    if (map == NULL)
        return convoy_fail(
            error, -EBADMSG,
            "the GIF image cannot be decoded (it has no palette): encode it again and send that");
    if (frame->Width < 1 || frame->Height < 1 || frame->Left < 0 || frame->Top < 0)
        return convoy_fail(error, -EBADMSG, "the GIF image holds no picture: send one that does");
    int right = frame->Left + frame->Width;
    int bottom = frame->Top + frame->Height;
    stored->width = gif->decoder->SWidth > right ? gif->decoder->SWidth : right;
    stored->height = gif->decoder->SHeight > bottom ? gif->decoder->SHeight : bottom;
    stored->orientation = 1;
    bool covers = frame->Width == stored->width && frame->Height == stored->height;
    bool grey = read_colours(gif, map, transparent, stored->keep_alpha);
    if (stored->keep_alpha && (transparent != NO_TRANSPARENT_COLOR || !covers))
        stored->pixel = CONVOY_PIXEL_RGBA;
    else
        stored->pixel = grey ? CONVOY_PIXEL_GREY : CONVOY_PIXEL_RGB;
    return 0;
}

int convoy_gif_open(struct convoy_gif *gif, const uint8_t *bytes, size_t length,
                    struct convoy_stored_image *stored, struct convoy_error *error)
{
    int code = 0;
    gif->bytes = bytes;
    gif->length = length;
    gif->at = 0;
    gif->deadline_us = 0;
    gif->reads = 0;
    gif->ended = false;
    gif->late = false;
    gif->decoder = DGifOpen(gif, give, &code);
    if (gif->decoder == NULL)
        return failure(gif, code, error);
    code = read_head(gif, stored, error);
    if (code != 0)
        convoy_gif_close(gif);
    return code;
}

int convoy_gif_check(const struct convoy_gif *gif, const struct convoy_stored_image *stored, size_t length,
                     struct convoy_error *error)
{
    uint64_t most = (uint64_t)length * PIXELS_A_BYTE;
    if ((uint64_t)gif->frame.Width * (uint64_t)gif->frame.Height > most)
        return convoy_fail(error, -EBADMSG, "the GIF image ends before its last pixel: send the whole file");
    if ((uint64_t)stored->width * (uint64_t)stored->height > most)
        return convoy_fail(
            error, -EBADMSG,
            "the GIF image has a screen of %d x %d pixels and next to nothing on it: encode it "
            "again and send that",
            stored->width, stored->height);
    return 0;
}

/* A row of the frame, as it lies on the image's row y. */
static void place(const struct convoy_gif *gif, const struct convoy_raster *raster, int y,
                  const uint8_t *indices)
{
    const GifImageDesc *frame = &gif->frame;
    uint8_t *to = convoy_raster_span(raster, y, frame->Left, frame->Width);
    if (raster->stored.pixel == CONVOY_PIXEL_GREY)
        for (int x = 0; x < frame->Width; x++)
            to[x] = gif->colours[indices[x]][0];
    else if (raster->stored.pixel == CONVOY_PIXEL_RGBA)
        for (int x = 0; x < frame->Width; x++, to += 4)
            memcpy(to, gif->colours[indices[x]], 4);
    else
        for (int x = 0; x < frame->Width; x++, to += 3) {
            const uint8_t *colour = gif->colours[indices[x]];
            to[0] = colour[0];
            to[1] = colour[1];
            to[2] = colour[2];
        }
    convoy_raster_place(raster, y);
}

static void blank_rows(const struct convoy_raster *raster, int from, int to)
{
    for (int y = from; y < to; y++) {
        (void)convoy_raster_span(raster, y, 0, 0);
        convoy_raster_place(raster, y);
    }
}

/* The frame's row that comes after row y in the file; at its height there is none. An interlaced frame has
 * its rows in four passes (GIF89a, appendix E). */
static int row_after(const GifImageDesc *frame, int y, int *pass)
{
    static const int first[] = {0, 4, 2, 1};
    static const int step[] = {8, 8, 4, 2};
    if (!frame->Interlace)
        return y + 1;
    y += step[*pass];
    while (y >= frame->Height && *pass < 3)
        y = first[++*pass];
    return y;
}

int convoy_gif_read(struct convoy_gif *gif, const struct convoy_raster *raster, uint64_t deadline_us,
                    struct convoy_image_scratch *scratch, struct convoy_error *error)
{
    const GifImageDesc *frame = &gif->frame;
    int pass = 0;
    uint8_t *indices = convoy_image_buffer_reserve(&scratch->packed, (size_t)frame->Width, 1, 1);
    if (indices == NULL)
        return failure(gif, D_GIF_ERR_NOT_ENOUGH_MEM, error);
    gif->deadline_us = deadline_us;
    blank_rows(raster, 0, frame->Top);
    for (int y = 0, row = 0; row < frame->Height; row++, y = row_after(frame, y, &pass)) {
        if (deadline_us != 0 && row % 16 == 0 && convoy_now_us() >= deadline_us)
            gif->late = true;
        if (gif->late || DGifGetLine(gif->decoder, indices, frame->Width) != GIF_OK)
            return failure(gif, gif->decoder->Error, error);
        place(gif, raster, frame->Top + y, indices);
    }
    blank_rows(raster, frame->Top + frame->Height, raster->stored.height);
    return 0;
}

void convoy_gif_close(struct convoy_gif *gif)
{
    int unused;
    (void)DGifCloseFile(gif->decoder, &unused);
    gif->decoder = NULL;
}
