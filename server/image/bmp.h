/* One BMP image: open (header), read (pixels), close. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_BMP_H
#define CONVOY_SERVER_IMAGE_BMP_H

#include "engine/base/error.h"
#include "server/image/bmp_header.h"
#include "server/image/raster.h"
#include "server/image/scratch.h"

struct convoy_bmp {
    const uint8_t *bytes; /* the caller's */
    size_t length;
    struct convoy_bmp_header header;
};

/* Reads the headers of bytes, which must outlive bmp. There is nothing to close. */
int convoy_bmp_open(struct convoy_bmp *bmp, const uint8_t *bytes, size_t length,
                    struct convoy_stored_image *stored, struct convoy_error *error);

/* Makes sure that the pixels of a run-length encoded image are bounded by the bytes: two of them are a run of
 * 255 at most. Rows that are skipped without a run count as well. -EBADMSG. */
int convoy_bmp_check(const struct convoy_bmp *bmp, size_t length, struct convoy_error *error);

/* Decodes into raster, once, after a successful open. Of scratch, packed takes a row of palette indices. */
int convoy_bmp_read(const struct convoy_bmp *bmp, const struct convoy_raster *raster, uint64_t deadline_us,
                    struct convoy_image_scratch *scratch, struct convoy_error *error);

#endif
