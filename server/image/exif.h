/* The one thing of EXIF that changes pixels: the orientation. Any thread. */
#ifndef CONVOY_SERVER_IMAGE_EXIF_H
#define CONVOY_SERVER_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* tiff: a TIFF header and its first directory, as after "Exif\0\0" in JPEG or inside PNG's eXIf. Returns 1 to
 * 8 from tag 0x0112 (TIFF 6.0, section 8: "Orientation"), or 1 where it is missing, damaged or out of range.
 * Reads nothing outside length bytes and visits each directory entry at most once. */
int convoy_exif_orientation(const uint8_t *tiff, size_t length);

/* Whether an APP1 segment (after its length) is EXIF; then the TIFF part starts at byte 6. */
int convoy_exif_is_app1(const uint8_t *segment, size_t length);

#endif
