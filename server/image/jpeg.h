/* One JPEG image, decoded by libjpeg-turbo: open (header), read (pixels), close. Inside server/image/ only.
 */
#ifndef CONVOY_SERVER_IMAGE_JPEG_H
#define CONVOY_SERVER_IMAGE_JPEG_H

#include "server/image/jpeg_errors.h"
#include "server/image/raster.h"

#include <stdint.h>

struct convoy_jpeg {
    struct jpeg_decompress_struct decoder;
    struct convoy_jpeg_errors errors;
    struct jpeg_progress_mgr progress;
    uint64_t deadline_us; /* convoy_now_us() time after which decoding ends with -ETIMEDOUT; 0: none */
    uint32_t steps;       /* of progress, of which every 16th looks at the clock */
    int orientation;      /* 0 until an Exif segment was seen */
};

/* Reads the header of bytes, which must outlive jpeg, and fills stored. On 0 the caller closes jpeg; on an
 * error it is closed already. A decoder is made for every image: libjpeg keeps tables from image to image,
 * and an image without tables must not be decoded with those of another one. */
int convoy_jpeg_open(struct convoy_jpeg *jpeg, const uint8_t *bytes, size_t length,
                     struct convoy_stored_image *stored, struct convoy_error *error);

/* What an image costs is bounded by its pixels; this makes sure that they are bounded by its bytes. A whole
 * one has a bit at least for each block of each component, of its DC coefficient. Arithmetic coding has no
 * such bound. -EBADMSG; the caller closes jpeg all the same. */
int convoy_jpeg_check(const struct convoy_jpeg *jpeg, size_t length, struct convoy_error *error);

/* Decoding will make an image of eighths / 8 of the size (1, 2 or 4), each side rounded up, with 1 / 64 to a
 * quarter of the work behind the bits: the coefficients of high frequencies are left out of the DCT. After a
 * successful open; changes the size in stored. */
void convoy_jpeg_reduce(struct convoy_jpeg *jpeg, int eighths, struct convoy_stored_image *stored);

/* Decodes into raster, once, after a successful open. -ETIMEDOUT: deadline_us (0: none), a convoy_now_us()
 * time, has passed. */
int convoy_jpeg_read(struct convoy_jpeg *jpeg, const struct convoy_raster *raster, uint64_t deadline_us,
                     struct convoy_error *error);

void convoy_jpeg_close(struct convoy_jpeg *jpeg);

#endif
