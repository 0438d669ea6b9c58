/* Rows of a run-length encoded BMP. Inside server/image/ only. */
#ifndef CONVOY_SERVER_IMAGE_BMP_RLE_H
#define CONVOY_SERVER_IMAGE_BMP_RLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_bmp_rle {
    const uint8_t *bytes; /* the caller's */
    size_t length, at;    /* at: the next code */
    int bits;             /* 8, or 4: two pixels a byte */
    int width;
    int x;           /* where the next pixel of the row goes */
    uint32_t passed; /* rows that were skipped and are still to come */
    bool ended;      /* the end of the bitmap was there */
};

/* Decodes the next row, the last of the image first, into width palette indices. What is skipped is 0; what
 * reaches beyond the row is cut. last: no row follows, so that its end may be missing. 0, or -ENODATA when
 * the bytes end before the row does. */
int convoy_bmp_rle_row(struct convoy_bmp_rle *rle, uint8_t *indices, bool last);

#endif
