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
    int orientation; /* 0 until an Exif segment was seen */
};

/* Reads the header of bytes, which must outlive jpeg, and fills stored. On 0 the caller closes jpeg; on an
 * error it is closed already. A decoder is made for every image: libjpeg keeps tables from image to image,
 * and an image without tables must not be decoded with those of another one. */
int convoy_jpeg_open(struct convoy_jpeg *jpeg, const uint8_t *bytes, size_t length,
                     struct convoy_stored_image *stored, struct convoy_error *error);

/* Decodes into raster, once, after a successful open. */
int convoy_jpeg_read(struct convoy_jpeg *jpeg, const struct convoy_raster *raster,
                     struct convoy_error *error);

void convoy_jpeg_close(struct convoy_jpeg *jpeg);

#endif
