/* A PNG's chunks without its ballast: what libspng reads when only pixels matter.
 *
 * Ancillary chunks may be many, large, compressed many thousand times over, or damaged, and say nothing about
 * pixels (tRNS aside). They are passed over here, so no limit on them is needed and no harmless damage in
 * them fails an image. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_PNG_CHUNKS_H
#define CONVOY_SERVER_IMAGE_PNG_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

struct convoy_png_stream {
    const uint8_t *bytes; /* the caller's */
    size_t length;
    size_t at;   /* next byte to give */
    size_t ends; /* bytes up to here may be given as they are; a chunk header follows */
};

void convoy_png_stream_init(struct convoy_png_stream *stream, const uint8_t *bytes, size_t length);

/* Copies size bytes to to. 0, or -EIO when the file ends before that (what there is has been used up). */
int convoy_png_stream_read(struct convoy_png_stream *stream, void *to, size_t size);

/* EXIF orientation from the first eXIf chunk anywhere in the file, or 1. */
int convoy_png_orientation(const uint8_t *bytes, size_t length);

#endif
