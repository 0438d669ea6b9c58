/* One open image of any of the formats, told by its content: open (header), check, read (pixels), close.
 * Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_DECODER_H
#define CONVOY_SERVER_IMAGE_DECODER_H

#include "server/image/bmp.h"
#include "server/image/gif.h"
#include "server/image/jpeg.h"
#include "server/image/png.h"
#include "server/image/sniff.h"
#include "server/image/webp.h"

struct convoy_decoder {
    enum convoy_image_kind kind;
    size_t length; /* of the file */
    struct convoy_stored_image stored;
    union {
        struct convoy_jpeg jpeg;
        struct convoy_png png;
        struct convoy_webp webp;
        struct convoy_bmp bmp;
        struct convoy_gif gif;
    } as;
};

/* Reads the header of bytes, which must outlive decoder; decoder must not move afterwards. keep_alpha: the
 * raster will have four channels. On 0 the caller closes decoder; on an error there is nothing to close.
 * -ENODATA, -ENOTSUP, -EBADMSG, -ENOMEM. */
int convoy_decoder_open(struct convoy_decoder *decoder, const uint8_t *bytes, size_t length, bool keep_alpha,
                        struct convoy_error *error);

/* Makes sure that what the pixels cost is bounded by the bytes, as each format's header says. -EBADMSG. */
int convoy_decoder_check(const struct convoy_decoder *decoder, struct convoy_error *error);

/* Whether reading delivers rows in order, each once: a raster may aim at a sink (raster.h). */
bool convoy_decoder_in_order(const struct convoy_decoder *decoder);

/* About what reading takes, with the raster and with resizing. Where it reads in order, to a target of 16
 * pixels a side at least: for smaller ones a large image may be kept whole (resize.h). */
uint64_t convoy_decoder_memory(struct convoy_decoder *decoder);

/* Decodes into raster, once. */
int convoy_decoder_read(struct convoy_decoder *decoder, const struct convoy_raster *raster,
                        uint64_t deadline_us, struct convoy_image_scratch *scratch,
                        struct convoy_error *error);

void convoy_decoder_close(struct convoy_decoder *decoder);

#endif
