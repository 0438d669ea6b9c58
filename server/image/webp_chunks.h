/* Where things lie in a WebP file: the first frame of an animation, and the orientation. Inside server/image/
 * only.
 *
 * A WebP is a RIFF file: chunks of a name, a length and data. A still image without extras is one chunk, VP8
 * (lossy) or VP8L (lossless); one with extras begins with VP8X. Damaged lengths end the search; nothing
 * outside the bytes is read, and a chunk is visited once. */
#ifndef CONVOY_SERVER_IMAGE_WEBP_CHUNKS_H
#define CONVOY_SERVER_IMAGE_WEBP_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_webp_frame {
    int canvas_width, canvas_height;
    int left, top, width, height; /* on the canvas */
    const uint8_t *bytes;         /* the frame's own chunks, the first with pixels first: within the file */
    size_t length;
};

/* Whether VP8X says that there are frames. */
bool convoy_webp_is_animated(const uint8_t *bytes, size_t length);

/* Finds the first frame of an animated file. 0, or -ENODATA where the file has none or ends before its
 * pixels begin. */
int convoy_webp_first_frame(const uint8_t *bytes, size_t length, struct convoy_webp_frame *frame);

/* EXIF orientation from the first EXIF chunk of a file with VP8X, or 1. */
int convoy_webp_orientation(const uint8_t *bytes, size_t length);

#endif
