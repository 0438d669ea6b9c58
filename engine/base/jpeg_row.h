/* A row of a slot that holds a JPEG file instead of pixels (CONVOY_LAYOUT_JPEG). The front has read the
 * file's header; the backend decodes the file on its device, turns, resizes and crops the picture as struct
 * convoy_image_fitting says, and computes from there on as from a row of CONVOY_LAYOUT_U8_HWC.
 *
 * A row is a header of one cache line, CONVOY_JPEG_ROW_BYTES from row to row; the files lie behind the
 * headers of all rows, each at its header's offset. So a slot takes as many files as fit its bytes, however
 * large each of them is.
 *
 *     header 0 | header 1 | ... | header capacity-1 | file 0 | file 1 | ...
 *
 * Trust: the front writes the header, but the file is a client's. Who reads a header checks
 * convoy_jpeg_row_valid(), and the decoder's own idea of width and height against it. */
#ifndef CONVOY_ENGINE_BASE_JPEG_ROW_H
#define CONVOY_ENGINE_BASE_JPEG_ROW_H

#include "engine/base/image_filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_JPEG_ROW_BYTES 64u    /* from row to row: the headers alone */
#define CONVOY_JPEG_ROWS_MAX  256u   /* rows of this layout in a slot */
#define CONVOY_JPEG_SIDE_MAX  16384u /* pixels: greatest width and height that a device is given */
/* Pixels, as coded, of all rows of a slot together, unless it has a single row. */
#define CONVOY_JPEG_SLOT_PIXELS (UINT64_C(128) << 20)

struct convoy_jpeg_row {
    uint32_t length;        /* bytes of the file, at least 1 */
    uint32_t offset;        /* bytes from this header to the file, a multiple of 64 */
    uint16_t width, height; /* as coded, before orientation; 1 to CONVOY_JPEG_SIDE_MAX */
    uint8_t orientation;    /* EXIF: 1 to 8 */
    uint8_t components;     /* 1: grey; 3: YCbCr */
    uint8_t reserved[50];
};

_Static_assert(sizeof(struct convoy_jpeg_row) == CONVOY_JPEG_ROW_BYTES, "rows begin on cache lines");

/* True if the file lies within the `bytes` that may be read from the row's header on. */
static inline bool convoy_jpeg_row_valid(const struct convoy_jpeg_row *row, size_t bytes)
{
    return row->length >= 1 && row->offset >= sizeof *row && row->offset % 64 == 0 && row->offset <= bytes &&
           row->length <= bytes - row->offset && row->width >= 1 && row->width <= CONVOY_JPEG_SIDE_MAX &&
           row->height >= 1 && row->height <= CONVOY_JPEG_SIDE_MAX && row->orientation >= 1 &&
           row->orientation <= 8 && (row->components == 1 || row->components == 3);
}

/* How a picture comes to the size that a network takes, for devices that do it: the same as struct
 * convoy_image_target (server/image/target.h), which defines the result. Numbers of the enums are those of
 * server/config/model_input.h, plus 1 for the kinds. All zero: the model cannot be asked with JPEG rows. */
enum convoy_fitting_kind {
    CONVOY_FITTING_NONE,
    CONVOY_FITTING_STRETCH,
    CONVOY_FITTING_CROP,
    CONVOY_FITTING_PAD
};

struct convoy_image_fitting {
    enum convoy_fitting_kind kind;
    enum convoy_image_filter filter;
    uint32_t width, height, channels; /* of the network's input; channels 1 or 3 */
    /* Crop: scaled until it covers this; stretch: to this; 0: width and height. */
    uint32_t cover_width, cover_height;
    uint8_t color[3]; /* pad: R, G, B of what the picture leaves free */
    bool bgr;
    bool cuts_down; /* the offset of what is cut out is rounded down, not half to even */
};

#endif
