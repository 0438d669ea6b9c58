/* A row of a slot that holds a JPEG file instead of pixels (CONVOY_LAYOUT_JPEG): a header of one cache line,
 * and behind it the file's bytes. The front has read the file's header and fills this one in; the backend
 * decodes the file on its device, turns, resizes and crops the picture as struct convoy_image_fitting says,
 * and computes from there on as from a row of CONVOY_LAYOUT_U8_HWC.
 *
 * A slot's rows of this layout lie CONVOY_JPEG_STRIDE apart at most; a file that is larger than
 * the stride less the header never becomes such a row.
 *
 * Trust: the front writes the header, but the file is a client's. The backend checks length against
 * the stride and the decoder's own idea of width and height against the header. */
#ifndef CONVOY_ENGINE_BASE_JPEG_ROW_H
#define CONVOY_ENGINE_BASE_JPEG_ROW_H

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_JPEG_STRIDE   (512u << 10) /* bytes from row to row */
#define CONVOY_JPEG_ROWS_MAX 256u         /* rows of this layout in a slot */
#define CONVOY_JPEG_SIDE_MAX 16384u       /* pixels: greatest width and height that a device is given */

struct convoy_jpeg_row {
    uint32_t length;        /* bytes of the file */
    uint16_t width, height; /* as coded, before orientation */
    uint8_t orientation;    /* EXIF: 1 to 8 */
    uint8_t components;     /* 1: grey; 3: YCbCr */
    uint8_t reserved[54];
};

_Static_assert(sizeof(struct convoy_jpeg_row) == 64, "the file begins on a cache line");

/* How a picture comes to the size that a network takes, for devices that do it: the same as struct
 * convoy_image_target (server/image/target.h), which defines the result. Numbers of the enums are those of
 * server/config/model_input.h. All zero: the model cannot be asked with JPEG rows. */
enum convoy_fitting_kind {
    CONVOY_FITTING_NONE,
    CONVOY_FITTING_STRETCH,
    CONVOY_FITTING_CROP,
    CONVOY_FITTING_PAD
};
enum convoy_fitting_filter {
    CONVOY_FITTING_BILINEAR,
    CONVOY_FITTING_BICUBIC,
    CONVOY_FITTING_LANCZOS,
    CONVOY_FITTING_NEAREST
};

struct convoy_image_fitting {
    enum convoy_fitting_kind kind;
    enum convoy_fitting_filter filter;
    uint32_t width, height, channels;   /* of the network's input; channels 1 or 3 */
    uint32_t cover_width, cover_height; /* crop: scaled until it covers this; 0: width and height */
    uint8_t color[3];                   /* pad: R, G, B of what the picture leaves free */
    bool bgr;
};

#endif
