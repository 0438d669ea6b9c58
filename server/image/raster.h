/* Where decoded rows go: converted and turned on the way, so that the image is in memory once; or to a sink,
 * which takes one after the other.
 *
 * A decoder delivers stored rows in any order. For row y it asks convoy_raster_line() where to write, fills
 * that, and calls convoy_raster_place(). Inside server/image/ only; a raster belongs to one thread. */
#ifndef CONVOY_SERVER_IMAGE_RASTER_H
#define CONVOY_SERVER_IMAGE_RASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a decoder stores a pixel, 8 bits a component. CMYK is stored inverted. */
enum convoy_pixel { CONVOY_PIXEL_GREY, CONVOY_PIXEL_RGB, CONVOY_PIXEL_RGBA, CONVOY_PIXEL_CMYK };

/* What a decoder knows after the header. */
struct convoy_stored_image {
    int width, height; /* before orientation */
    int orientation;   /* EXIF, 1 to 8 */
    enum convoy_pixel pixel;
    bool
        keep_alpha; /* set before the decoder opens: what is transparent is told by RGBA, not laid on black */
};

/* Takes converted rows of the stored image, in the order from the first to the last. */
struct convoy_raster_sink {
    /* Where the decoder writes row y, the same until the row is taken: room for its pixels as they are stored
     * and as they are converted. */
    uint8_t *(*line)(struct convoy_raster_sink *sink, int y);
    /* Row y is there, of channels bytes a pixel. */
    void (*take)(struct convoy_raster_sink *sink, int y);
    size_t left, columns; /* what it reads of a row: the pixels [left, left + columns) */
};

struct convoy_raster {
    struct convoy_stored_image stored;
    int channels;             /* of the result: 1, 3 or 4 */
    uint8_t *origin;          /* where stored pixel (0, 0) goes */
    ptrdiff_t step_x, step_y; /* bytes from it to stored pixel (1, 0), (0, 1) */
    uint8_t *line; /* room for one stored row; NULL when rows need neither turning nor converting */
    struct convoy_raster_sink *sink; /* NULL: rows go to origin */
};

int convoy_pixel_bytes(enum convoy_pixel pixel);

/* Orientations 5 to 8 swap width and height. */
bool convoy_orientation_swaps(int orientation);

/* Whether stored row or column 0 is shown at the right (x) or at the bottom (y). */
void convoy_orientation_mirrors(int orientation, bool *x, bool *y);

/* Aims the raster at pixels, which holds width x height x channels bytes. channels is 3, or 1 (colour then
 * becomes luma), or 4 (with alpha, 255 where the image has none); 3 or 4 for a grey image is not done here.
 * Afterwards convoy_raster_needs_line() tells whether the caller must set raster->line to width x
 * convoy_pixel_bytes() bytes. */
void convoy_raster_aim(struct convoy_raster *raster, const struct convoy_stored_image *stored,
                       uint8_t *pixels, int channels);
bool convoy_raster_needs_line(const struct convoy_raster *raster);

/* Aims the raster at a sink; channels as above. Only for decoders that deliver rows in order, each once. */
void convoy_raster_aim_at_sink(struct convoy_raster *raster, const struct convoy_stored_image *stored,
                               struct convoy_raster_sink *sink, int channels);

/* Which pixels of a stored row are read, [*left, *left + *columns): a decoder may leave out all others. */
void convoy_raster_columns(const struct convoy_raster *raster, int *left, int *columns);

/* Where the decoder writes stored row y: in place, the line or the sink's. */
uint8_t *convoy_raster_line(const struct convoy_raster *raster, int y);

/* The same for a row of which only the pixels [left, left + width) will be written: all others become 0,
 * which is black. Returns where pixel `left` goes; width may be 0. */
uint8_t *convoy_raster_span(const struct convoy_raster *raster, int y, int left, int width);

/* Converts and turns what stands in convoy_raster_line() for row y; does nothing when it is in place. */
void convoy_raster_place(const struct convoy_raster *raster, int y);

#endif
