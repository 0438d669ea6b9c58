/* The header of a JPEG file, read without libjpeg, to tell whether a device may be given the file. Any
 * thread.
 *
 * Devices decode what nearly all photographs are: one baseline scan. Everything else, and every file that is
 * not put together as the standard says, is left to libjpeg (jpeg.h), which also words the errors. So a
 * device's decoder, which is a driver's code, sees no odd header. */
#ifndef CONVOY_SERVER_IMAGE_JPEG_HEADER_H
#define CONVOY_SERVER_IMAGE_JPEG_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_jpeg_header {
    uint16_t width, height; /* as coded, before orientation */
    uint8_t orientation;    /* EXIF, 1 to 8 */
    uint8_t components;     /* 1: grey; 3: YCbCr */
};

/* True, with header filled, if bytes are a whole file of this kind: SOF0 with 8 bits; grey, or YCbCr at
 * 4:4:4, 4:2:2, 4:2:0 or 4:4:0; one scan of all components; tables that are there and well-formed; a header
 * of 512 KiB at most; between header and end no marker but the restart markers that the header announces, in
 * order; EOI as the last two bytes; a bit at least for each block (convoy_jpeg_check()). Single bits of the
 * scan may be wrong all the same. Reads each byte once: some 0.1 ns for each where the file is usual, 1 ns at
 * worst. */
bool convoy_jpeg_is_plain(const uint8_t *bytes, size_t length, struct convoy_jpeg_header *header);

#endif
