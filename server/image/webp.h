/* One WebP image, or the first frame of an animated one, decoded by libwebp: open (header), read (pixels),
 * close. Inside server/image/ only.
 *
 * The image is the canvas of an animation, black (or transparent, where alpha is kept) where its first frame
 * does not reach. */
#ifndef CONVOY_SERVER_IMAGE_WEBP_H
#define CONVOY_SERVER_IMAGE_WEBP_H

#include "engine/base/error.h"
#include "server/image/raster.h"
#include "server/image/scratch.h"

struct convoy_webp {
    const uint8_t *bytes; /* what libwebp decodes: the caller's file, or a frame in it */
    size_t length;
    int left, top, width, height; /* of that within the image */
    bool lossless, alpha;
};

/* Reads the header of bytes, which must outlive webp. There is nothing to close. */
int convoy_webp_open(struct convoy_webp *webp, const uint8_t *bytes, size_t length,
                     struct convoy_stored_image *stored, struct convoy_error *error);

/* A lossless pixel may take no bits at all, and a canvas has none: this makes sure that the pixels are
 * bounded by the bytes. Lossy pixels are, by the 3 bits at least of each 256. -EBADMSG. */
int convoy_webp_check(const struct convoy_webp *webp, const struct convoy_stored_image *stored, size_t length,
                      struct convoy_error *error);

/* At most so much memory is taken by reading, besides the raster. */
uint64_t convoy_webp_memory(const struct convoy_webp *webp, const struct convoy_stored_image *stored);

/* Decodes into raster, once, after a successful open. Of scratch, staging takes the pixels where they are
 * converted, turned or part of a canvas. The clock is looked at between pieces of the bytes, an eighth of
 * them or 16 KB. libwebp cannot be stopped within one, and where pixels take no bits a piece has all of them:
 * 50 million, with every transform that there is, took 0.6 s. */
int convoy_webp_read(struct convoy_webp *webp, const struct convoy_raster *raster, uint64_t deadline_us,
                     struct convoy_image_scratch *scratch, struct convoy_error *error);

#endif
