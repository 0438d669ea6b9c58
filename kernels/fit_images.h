/* Decoded pictures to the rows of 8-bit pixels that a network reads: upright, resized, cropped or padded, on
 * the device. The result is what server/image makes of the same decoded samples, to the bit: libjpeg's
 * upsampling and colours, and Pillow's two passes in fixed point (server/image/resize.h says how). The
 * weights come from the caller, so the arithmetic that makes them is the host's
 * (engine/cuda/decode/resampling.h).
 *
 * The conventions are those of kernels.h. */
#ifndef CONVOY_KERNELS_FIT_IMAGES_H
#define CONVOY_KERNELS_FIT_IMAGES_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Weights of a pixel of the result are whole numbers, about 2^22 together. */
#define CONVOY_FIT_WEIGHT_BITS 22

/* Along the axis that is resized first, CONVOY_FIT_TILE pixels of the result beside each other are made of
 * CONVOY_FIT_SPAN source pixels at most, from the first to the last. */
#define CONVOY_FIT_TILE 32
#define CONVOY_FIT_SPAN 6144

enum convoy_fit_form {
    CONVOY_FIT_MISSING, /* there is no picture: its row becomes zeros */
    CONVOY_FIT_GREY,    /* one plane */
    CONVOY_FIT_YCC      /* Y, Cb, Cr as JFIF defines them, in planes; Cb and Cr perhaps of half the size */
};

/* What the pixels of one axis of the result are made of. The table is in device memory: for each of `out`
 * pixels 2 + taps numbers: the first source pixel, how many there are (1 to taps), and their weights. First
 * pixels, and last ones, do not fall from one entry to the next. */
struct convoy_fit_axis {
    const int32_t *table;
    int32_t taps, out;
    int32_t before; /* pixels of the row that are left free before these */
};

struct convoy_fit_picture {
    enum convoy_fit_form form;
    const uint8_t *planes[3]; /* in device memory */
    int32_t pitch[3];         /* bytes from line to line of a plane */
    int32_t width, height;    /* as stored */
    int32_t chroma_width, chroma_height;
    int32_t half_x, half_y; /* 1: Cb and Cr have half as many samples along that axis */
    int32_t orientation;    /* EXIF: 1 to 8 */
    bool rows_first;        /* the pass along y comes first */
    /* Of the picture when it is upright. */
    struct convoy_fit_axis x, y;
};

struct convoy_fit_job {
    const struct convoy_fit_picture *pictures; /* in device memory, one for each row */
    const uint32_t
        *unwritten; /* in device memory: not 0 where the picture counts as missing; NULL: none does */
    int rows;
    uint8_t *images;     /* the first row; H x W x C bytes each */
    int64_t image_bytes; /* from row to row */
    int width, height;   /* of a row */
    int channels;        /* 3, or 1: the luma of colours */
    bool bgr;
    uint8_t color[3]; /* of pixels that the picture leaves free, in the order of the row's channels */
};

cudaError_t convoy_launch_fit_images(const struct convoy_fit_job *job, cudaStream_t stream);

/* Engines have been seen to report success for pictures that they had passed over. So planes are filled with
 * a pattern that no picture has, 0 and 255 in turns, before they are decoded into; afterwards no line of a
 * picture may still show it. planes: on 256 bytes; bytes: a multiple of 16. */
cudaError_t convoy_launch_mark_planes(uint8_t *planes, int64_t bytes, cudaStream_t stream);
/* unwritten[i] = 1 where picture i has a plane of 16 samples or more across, one of whose lines still shows
 * the pattern, else 0; of every 16 lines the last one is looked at. Each plane begins on an even address and
 * has an even pitch. */
cudaError_t convoy_launch_check_planes(const struct convoy_fit_picture *pictures, int rows,
                                       uint32_t *unwritten, cudaStream_t stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
