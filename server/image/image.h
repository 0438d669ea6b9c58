/* Images: bytes of a JPEG, PNG, WebP, BMP or GIF in, one row of 8-bit pixels for the channel out.
 *
 * Pure functions over bytes: no files, no HTTP, no globals. Any thread may call them; a scratch belongs to
 * one thread at a time. Which decoder runs is told by the content, never by a name or a header.
 *
 * The pixels, in this order:
 *  1. Decoding. JPEG by libjpeg-turbo with its default DCT and upsampling. Of a PNG only IHDR, PLTE, tRNS,
 * IDAT and IEND reach the decoder, so text, profiles and animation cost nothing; bit depths under 8 are
 * scaled to 0..255 and 16-bit samples keep their high byte. WebP by libwebp, of an animated one the first
 * frame on its canvas. BMP with or without runs (bmp_header.h); components of other than 8 bits are scaled,
 * floor(255 v / (2^bits - 1)), or keep their highest 8; what runs leave out has palette index 0. GIF by
 * giflib, the first frame on its screen (gif.h). No gamma or colour profile is applied.
 *  2. Orientation. EXIF orientation 1 to 8, from JPEG's first Exif APP1, PNG's first eXIf chunk (before or
 * after the pixels) or WebP's EXIF chunk; anything unreadable there counts as 1.
 *  3. Colour. CMYK and YCCK are taken as stored inverted (Adobe's convention, as Pillow does) and become
 *     R = K' - round((255 - C') K' / 255) of the stored C' and K'. Alpha is laid on black: round(c a / 255),
 *     and so is what a GIF or an animation leaves free. For four channels it is kept: 255 where an image has
 * none, 0 where a GIF or an animation leaves the screen free. Of a BMP alpha counts where the header has a
 * mask for it. Grey is (19595 R + 38470 G + 7471 B + 32768) >> 16, ITU-R BT.601 luma as Pillow computes it.
 * A JPEG that is shrunk anyway may be decoded in a part of its size (target.h), which changes pixels by a
 * level or two.
 *  4. Size: as Pillow resizes with that filter (resize.h), by stretching, cropping or padding (fit.h). An
 * image that has the wanted size already is not resampled. Colours with alpha are multiplied by it before and
 * divided by it afterwards, except with NEAREST, so that the colours of clear pixels do not bleed: Pillow's
 * RGBA.
 *
 * Damage: whatever leaves pixels undefined is an error, namely a stream that ends early, a JPEG segment that
 * is shorter than its blocks, a component without a scan, a bad checksum of a PNG chunk that carries pixels.
 * What every browser shows all the same is not: bytes between JPEG segments, anything after the end of the
 * image, a missing EOI after the last block of a one-scan JPEG, damaged ancillary PNG chunks.
 *
 * Cost: bounded by the bytes, not by the pixels that a header claims. A JPEG has a bit at least for each
 * block of 8 x 8, a GIF a byte for 2,730 pixels, a BMP of runs one for 128; with less an image ends before
 * its last pixel. A WebP without loss could have any number of pixels in no byte: it may have half a million,
 * and 4,096 for each byte. An arithmetic-coded JPEG is refused: what it costs is not bounded by its bytes.
 *
 * Errors, all functions (HTTP status for the caller's convenience):
 *   -ENODATA (400) no bytes; -ENOTSUP (415) another format; -EFBIG (413) more than max_pixels, told by
 * the header before anything is decoded or allocated; -EBADMSG (422) cannot be decoded; -ENOMEM (500);
 *   -ETIMEDOUT (503) the target's deadline passed.
 *   -EINVAL (500) a target with a side under 1 or over 65535, a cover size that is less or over 65535, or
 *   other than 1, 3 or 4 channels. */
#ifndef CONVOY_SERVER_IMAGE_IMAGE_H
#define CONVOY_SERVER_IMAGE_IMAGE_H

#include "engine/base/error.h"
#include "server/image/sniff.h"
#include "server/image/target.h"

#include <stddef.h>
#include <stdint.h>

struct convoy_image_info {
    int width, height; /* pixels, after EXIF orientation */
    enum convoy_image_kind kind;
    uint64_t decode_bytes; /* about what decoding it takes, as convoy_image_to_row() says, to a target of 16
                              pixels a side or more */
};

/* Reusable buffers, grown as needed; what a large image needed is given back after it. */
struct convoy_image_scratch;

/* NULL when out of memory. */
struct convoy_image_scratch *convoy_image_scratch_new(void);
void convoy_image_scratch_free(struct convoy_image_scratch *scratch); /* NULL is fine */

/* Reads the header alone: a few microseconds whatever the size. A caller uses it to choose the thread that
 * decodes. 0 does not promise that the rest can be decoded. */
int convoy_image_probe(const uint8_t *bytes, size_t length, uint64_t max_pixels,
                       struct convoy_image_info *info, struct convoy_error *error);

/* Decodes bytes into row, which holds target->height x width x channels bytes, interleaved, no padding. After
 * an error the row's content is undefined.
 *
 * An image of the target's size is decoded straight into row. Any other JPEG, and a PNG that is not
 * interlaced, is resized row by row as it is decoded (resize_rows.h): some 400 bytes for each pixel of its
 * width. The others, and those to targets under 16 pixels a side, take a byte a pixel and channel until they
 * are resized, plus what is between the two passes of resizing (never over the larger of image and row). A
 * progressive JPEG 2 bytes a coefficient more (at most 6 a pixel, 8 with CMYK), an interlaced PNG that is
 * converted or turned at most 4 a pixel more, a WebP up to 6. Without loss or with alpha, a WebP has tables
 * besides: up to 8 KB for each of its bytes, 1.3 KB for each pixel and 1.3 GB. */
int convoy_image_to_row(struct convoy_image_scratch *scratch, const uint8_t *bytes, size_t length,
                        uint64_t max_pixels, const struct convoy_image_target *target, uint8_t *row,
                        struct convoy_error *error);

#endif
