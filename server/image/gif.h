/* The first frame of a GIF image, decoded by giflib: open (header), read (pixels), close. Inside
 * server/image/ only.
 *
 * The image is the logical screen, enlarged to the frame where that reaches beyond it. Around the frame and
 * where it is transparent it is black, or has an alpha of 0 where that is kept; the screen's background
 * colour is not used, as no browser does. */
#ifndef CONVOY_SERVER_IMAGE_GIF_H
#define CONVOY_SERVER_IMAGE_GIF_H

#include "engine/base/error.h"
#include "server/image/raster.h"
#include "server/image/scratch.h"

#include <gif_lib.h>

struct convoy_gif {
    GifFileType *decoder;
    const uint8_t *bytes; /* the caller's */
    size_t length, at;
    uint64_t deadline_us; /* convoy_now_us() time after which decoding ends with -ETIMEDOUT; 0: none */
    uint32_t reads;       /* of which every 16th looks at the clock */
    bool ended, late;     /* why reading failed: the file ended, the deadline passed */
    GifImageDesc frame;
    uint8_t colours[256]
                   [4]; /* R, G, B, alpha; on black unless alpha is kept; what the palette lacks is black */
};

/* Reads what comes before the first frame's pixels of bytes, which must outlive gif; gif must not move
 * afterwards. On 0 the caller closes gif; on an error it is closed already. */
int convoy_gif_open(struct convoy_gif *gif, const uint8_t *bytes, size_t length,
                    struct convoy_stored_image *stored, struct convoy_error *error);

/* Makes sure that the pixels are bounded by the bytes: a code of LZW has 12 bits at most and gives fewer than
 * 4,096 pixels. A screen that is larger than that is refused as well. -EBADMSG; the caller closes gif all the
 * same. */
int convoy_gif_check(const struct convoy_gif *gif, const struct convoy_stored_image *stored, size_t length,
                     struct convoy_error *error);

/* Decodes into raster, once, after a successful open. Of scratch, packed takes a row of the frame. */
int convoy_gif_read(struct convoy_gif *gif, const struct convoy_raster *raster, uint64_t deadline_us,
                    struct convoy_image_scratch *scratch, struct convoy_error *error);

void convoy_gif_close(struct convoy_gif *gif);

#endif
