/* The headers of a BMP file, of Windows (BITMAPINFOHEADER to BITMAPV5HEADER) and OS/2, checked as far as they
 * say where pixels lie and what they mean. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_BMP_HEADER_H
#define CONVOY_SERVER_IMAGE_BMP_HEADER_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum convoy_bmp_coding { CONVOY_BMP_PLAIN, CONVOY_BMP_RLE8, CONVOY_BMP_RLE4 };

/* Where a component of 1 to 32 bits lies in a pixel; bits 0: it is not there. */
struct convoy_bmp_mask {
    int shift, bits;
};

struct convoy_bmp_header {
    int width, height; /* above 0 */
    bool top_down;     /* else the last row comes first */
    int bits;          /* of a pixel: 1, 4, 8 (palette), 16, 24, 32 */
    enum convoy_bmp_coding coding;
    size_t pixels_at;                                /* at most the file's length */
    size_t palette_at, palette_entries, entry_bytes; /* blue, green, red each; entries lie within the file */
    struct convoy_bmp_mask masks[4];                 /* red, green, blue, alpha, of 16 and 32 bits */
};

/* 0 or -EBADMSG. */
int convoy_bmp_header_read(const uint8_t *bytes, size_t length, struct convoy_bmp_header *header,
                           struct convoy_error *error);

#endif
