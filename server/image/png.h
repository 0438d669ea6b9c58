/* One PNG image, decoded by libspng: open (header), read (pixels), close. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_PNG_H
#define CONVOY_SERVER_IMAGE_PNG_H

#include "engine/base/error.h"
#include "server/image/png_chunks.h"
#include "server/image/png_packed.h"
#include "server/image/raster.h"
#include "server/image/scratch.h"

#include <spng.h>

struct convoy_png {
    spng_ctx *decoder;
    struct convoy_png_stream stream;
    enum spng_format format; /* what libspng is asked for; it matches stored.pixel */
    bool interlaced;
    struct convoy_png_packed packed; /* where its pixels have fewer than 8 bits */
};

/* Reads what comes before the pixels of bytes, which must outlive png; png must not move afterwards. On 0 the
 * caller closes png; on an error it is closed already. */
int convoy_png_open(struct convoy_png *png, const uint8_t *bytes, size_t length,
                    struct convoy_stored_image *stored, struct convoy_error *error);

/* Decodes into raster, once, after a successful open. Of scratch, staging is for interlaced images that are
 * converted or turned, whose rows are whole only at the end, and packed for those of fewer than 8 bits. */
int convoy_png_read(struct convoy_png *png, const struct convoy_raster *raster, uint64_t deadline_us,
                    struct convoy_image_scratch *scratch, struct convoy_error *error);

void convoy_png_close(struct convoy_png *png);

#endif
