/* The convolutions of --check: shapes that are awkward on purpose, then random ones, over every kernel that
 * takes them. */
#include "kernels/check/check_conv.h"
#include "kernels/check/check_nhwc.h"

#include <stdio.h>
#include <string.h>

/* Written out: each was chosen for an edge that some kernel has. The rest of a case is none or one. */
struct written {
    int n, c, h, w, k, r, s, stride, pad, dilation, groups, pool, act;
    bool bias, residual, in_place, u8;
    enum check_nan nan;
    int overlapping; /* pooling over 3 x 3 of stride 2 follows: 1 without padding, 2 with it */
    enum check_numbers numbers;
};

static const struct written written[] = {
    /* One pixel, one channel, one map; a filter as large as the image; nothing but padding. */
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false},
    {2, 1, 1, 1, 3, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {1, 2, 7, 7, 5, 7, 7, 1, 0, 1, 1, 1, CONVOY_UNARY_TANH, true, false, false, false},
    {3, 1, 2, 2, 2, 5, 5, 1, 3, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false},
    /* The reports' layers at their sizes, and lenet's and convnetjs's. */
    {1, 1, 72, 72, 12, 7, 7, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false},
    {1, 1, 72, 72, 12, 7, 7, 1, 0, 1, 1, 2, CONVOY_UNARY_TANH, false, false, false, true},
    {2, 12, 33, 33, 24, 7, 7, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {3, 1, 28, 28, 50, 5, 5, 1, 0, 1, 1, 2, CONVOY_UNARY_TANH, true, false, false, true},
    {3, 3, 32, 32, 16, 5, 5, 1, 2, 1, 1, 2, CONVOY_UNARY_RELU, true, false, false, true},
    {9, 16, 16, 16, 20, 5, 5, 1, 2, 1, 1, 2, CONVOY_UNARY_RELU, true, false, false, false},
    {17, 20, 8, 8, 20, 5, 5, 1, 2, 1, 1, 2, CONVOY_UNARY_RELU, true, false, false, false},
    /* Residual networks: 3x3, 1x1, with stride, residual, residual in place. */
    {5, 16, 8, 8, 16, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, true, true, false},
    {2, 64, 7, 7, 130, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {2, 33, 15, 13, 70, 1, 1, 2, 0, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {1, 3, 45, 43, 64, 7, 7, 2, 3, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false},
    {1, 3, 45, 43, 20, 7, 7, 2, 3, 1, 1, 2, CONVOY_UNARY_RELU, true, false, false, true},
    {2, 24, 14, 14, 33, 3, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_NONE, true, true, true, false},
    {1, 8, 56, 56, 16, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {1, 160, 4, 4, 136, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false},
    /* More images than a block takes, and a remainder. */
    {70, 2, 3, 3, 4, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {41, 4, 5, 5, 8, 3, 3, 1, 0, 1, 1, 2, CONVOY_UNARY_TANH, true, false, false, true},
    /* Pooling that leaves rows and columns out; windows of 3. */
    {2, 2, 13, 11, 5, 3, 3, 1, 0, 1, 1, 2, CONVOY_UNARY_SIGMOID, true, false, false, false},
    {2, 1, 9, 21, 3, 5, 5, 1, 2, 1, 1, 2, CONVOY_UNARY_HARD_SWISH, true, false, false, false},
    {2, 3, 17, 10, 4, 3, 3, 1, 1, 1, 1, 3, CONVOY_UNARY_TANH, true, false, false, false},
    {1, 3, 3, 3, 2, 1, 1, 1, 0, 1, 1, 2, CONVOY_UNARY_NONE, false, false, false, false},
    /* NaN in one half of a window. */
    {2, 3, 10, 12, 21, 1, 3, 1, 0, 1, 1, 2, CONVOY_UNARY_TANH, true, false, false, false, CHECK_NAN_ROWS},
    {2, 3, 10, 12, 21, 3, 1, 1, 0, 1, 1, 2, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_COLUMNS},
    {2, 3, 10, 12, 21, 1, 1, 1, 0, 1, 1, 2, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_ROWS},
    {2, 3, 10, 12, 21, 1, 1, 1, 0, 1, 1, 2, CONVOY_UNARY_TANH, true, false, false, false, CHECK_NAN_COLUMNS},
    /* 8-bit images of one, three and four channels. */
    {3, 1, 11, 9, 3, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, true},
    {3, 3, 10, 13, 7, 5, 5, 2, 2, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, true},
    {3, 4, 12, 12, 9, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, true},
    /* Dilation, groups, depthwise with one and two maps for a channel. */
    {2, 4, 19, 17, 6, 3, 3, 1, 2, 2, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {2, 12, 9, 9, 18, 3, 3, 1, 1, 1, 3, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {2, 32, 13, 15, 32, 3, 3, 1, 1, 1, 32, 1, CONVOY_UNARY_CLIP, true, false, false, false},
    {2, 10, 13, 15, 20, 5, 5, 2, 2, 1, 10, 1, CONVOY_UNARY_HARD_SWISH, true, true, true, false},
    {1, 6, 12, 30, 6, 7, 7, 1, 3, 1, 6, 1, CONVOY_UNARY_NONE, false, false, false, false},
    {1, 7, 11, 11, 7, 7, 7, 2, 3, 1, 7, 1, CONVOY_UNARY_NONE, true, false, false, false},
    /* 3 x 3 of more channels than a box has room for. */
    {2, 128, 17, 13, 32, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false},
    {1, 72, 9, 8, 96, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {3, 100, 8, 25, 21, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_SWISH, true, false, false, false},
    /* Groups that begin within a cell of 8 channels; a tile whose last chunk lies outside of the tensor. */
    {2, 60, 9, 9, 76, 3, 3, 1, 1, 1, 4, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {1, 120, 7, 8, 96, 3, 3, 2, 1, 1, 3, 1, CONVOY_UNARY_RELU, true, false, false, false},
    /* Filters that are no square, wide rows, tall columns. */
    {2, 3, 9, 14, 4, 1, 7, 1, 2, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {2, 3, 14, 9, 4, 7, 1, 1, 2, 1, 1, 1, CONVOY_UNARY_LEAKY_RELU, true, false, false, false},
    {1, 2, 3, 600, 3, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false},
    {1, 2, 300, 3, 3, 5, 5, 1, 2, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false},
    /* Several chunks of 64 channels and a rest, several tiles of maps, images that end within a tile: what
     * the kernels for 16 bits cut into pieces. */
    {3, 96, 7, 9, 136, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {3, 72, 13, 9, 40, 3, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_HARD_SWISH, true, true, true, false},
    {1, 136, 7, 7, 40, 3, 3, 1, 2, 2, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {9, 200, 1, 1, 72, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {3, 3, 31, 29, 24, 3, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_SWISH, true, false, false, false},
    {2, 4, 17, 23, 16, 5, 5, 1, 2, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {3, 40, 9, 10, 40, 3, 3, 2, 1, 1, 40, 1, CONVOY_UNARY_SWISH, true, true, true, false},
    {2, 27, 10, 9, 27, 5, 5, 1, 2, 1, 27, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {2, 24, 15, 11, 24, 5, 5, 2, 2, 1, 24, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {1, 16, 11, 12, 16, 7, 7, 1, 3, 1, 16, 1, CONVOY_UNARY_NONE, true, false, false, false},
    /* A filter for each channel: more tiles than the blocks' places, several images, strips one above the
     * other and bands of columns in a tile, with rows, columns and channels that end within; other padding.
     */
    {5, 40, 14, 14, 40, 7, 7, 1, 3, 1, 40, 1, CONVOY_UNARY_GELU, true, false, false, false},
    {19, 24, 7, 7, 24, 7, 7, 1, 3, 1, 24, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {2, 72, 30, 29, 72, 7, 7, 1, 3, 1, 72, 1, CONVOY_UNARY_NONE, false, false, false, false},
    {3, 32, 9, 150, 32, 3, 3, 1, 1, 1, 32, 1, CONVOY_UNARY_SWISH, true, false, false, false},
    {2, 35, 33, 10, 35, 5, 5, 1, 0, 1, 35, 1, CONVOY_UNARY_RELU, true, false, false, false},
    {1, 16, 6, 7, 16, 5, 5, 1, 4, 1, 16, 1, CONVOY_UNARY_HARD_SWISH, true, false, false, false},
    /* 3 x 3 of up to 64 channels: pieces of 8 x 8 outputs that reach beyond the image, more pieces than the
     * block's ring holds, several columns of maps, padding that differs from the usual. */
    {2, 64, 56, 17, 64, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {1, 40, 20, 24, 72, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_SWISH, true, true, true, false},
    {3, 48, 9, 7, 130, 3, 3, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {1, 64, 3, 4, 24, 3, 3, 1, 2, 1, 1, 1, CONVOY_UNARY_TANH, false, false, false, false},
    /* In boxes of 16 and 32 channels, and in several of different sizes; more pieces than stages. */
    {2, 20, 11, 9, 24, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {1, 32, 17, 8, 72, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {1, 80, 17, 20, 40, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false},
    {1, 96, 17, 18, 72, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    /* First layers, of floats and of bytes: several images and bands, rows that need several segments, an odd
     * number of rows, one row and one column of outputs; with pooling that overlaps, too. */
    {3, 3, 37, 45, 64, 7, 7, 2, 3, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NO_NAN, 2},
    {5, 3, 30, 29, 40, 7, 7, 2, 3, 1, 1, 1, CONVOY_UNARY_SWISH, true, false, false, true, CHECK_NO_NAN, 1},
    {1, 3, 12, 300, 24, 3, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, true, CHECK_NO_NAN, 2},
    {2, 1, 9, 10, 48, 3, 3, 2, 0, 1, 1, 1, CONVOY_UNARY_TANH, false, false, false, false, CHECK_NO_NAN, 1},
    {2, 3, 20, 22, 9, 7, 7, 2, 3, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_ROWS, 2},
    {1, 2, 3, 3, 33, 3, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, true, CHECK_NO_NAN, 2},
    {1, 3, 11, 290, 16, 3, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_HARD_SWISH, true, false, false, true},
    {2, 3, 13, 140, 64, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false},
    {3, 2, 8, 9, 60, 3, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_CLIP, true, false, false, true},
    {1, 3, 15, 6, 32, 7, 3, 2, 1, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    /* Few outputs of many maps or of a long reduction, as of one image deep in a network: tiles of maps and
     * of outputs that end within, an odd number of tiles for blocks in pairs, more chunks for each of eight
     * blocks than its ring holds (in 16 bits alone: 5,256 products are too long a sum for the bound of fp32).
     */
    {1, 136, 11, 13, 328, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_GELU, true, true, false, false},
    {2, 72, 13, 12, 264, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, true, true, false},
    {1, 584, 3, 4, 16, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_GELU, true, true, false, false},
    {3, 72, 6, 5, 24, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_ROWS},
    /* Many images of few pixels in a tile, many channels: what gates multiply. */
    {30, 136, 2, 3, 24, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_SWISH, true, true, false, false},
    {5, 1160, 7, 7, 72, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    /* Gates that a kernel makes itself: more chunks than a block's ring holds, images of several tiles and of
     * a part of one, of sums and of pixels; NaN in the last image, whose neighbour is in the same rows. */
    {2, 584, 9, 8, 40, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {3, 584, 5, 5, 136, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {2, 64, 13, 12, 72, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false, CHECK_NAN_LAST},
    {3, 520, 7, 3, 24, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, false, false, false, false, CHECK_NAN_LAST},
    /* Normalisation in front: means larger than the deviation, NaN in one image of a tile, fewer channels
     * than a chunk has, chunks of 32 and of 64 with a rest, many tiles for a block, maps that end within a
     * tile. */
    {3, 96, 9, 8, 136, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_GELU, true, true, false, false,
     .numbers = CHECK_OFFSET},
    {2, 200, 13, 12, 72, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_NONE, true, false, false, false,
     .numbers = CHECK_OFFSET},
    {5, 24, 7, 5, 40, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, false, false, false, false, CHECK_NAN_LAST},
    {2, 768, 15, 13, 264, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_GELU, true, true, true, false,
     .numbers = CHECK_OFFSET},
    {1, 320, 40, 41, 520, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false,
     .numbers = CHECK_OFFSET},
    /* Groups: that end where tiles of maps end, and elsewhere, of more maps than channels and of fewer, of
     * more channels than a chunk has, of one channel and several maps. */
    {2, 128, 9, 17, 128, 3, 3, 1, 1, 1, 32, 1, CONVOY_UNARY_RELU, true, true, false, false},
    {1, 104, 15, 8, 104, 3, 3, 2, 1, 1, 13, 1, CONVOY_UNARY_SWISH, true, false, false, false},
    {3, 144, 7, 7, 144, 3, 3, 1, 1, 1, 6, 1, CONVOY_UNARY_RELU, true, false, false, false},
    {2, 72, 9, 6, 144, 1, 1, 1, 0, 1, 3, 1, CONVOY_UNARY_NONE, true, true, true, false},
    {2, 320, 5, 6, 80, 3, 3, 1, 1, 1, 2, 1, CONVOY_UNARY_NONE, true, false, false, false},
    {1, 24, 10, 11, 96, 3, 3, 1, 1, 1, 24, 1, CONVOY_UNARY_RELU, true, false, false, false},
    {1, 64, 11, 9, 64, 3, 3, 1, 0, 1, 16, 1, CONVOY_UNARY_TANH, false, false, false, false},
    {1, 66, 6, 6, 33, 5, 5, 1, 2, 1, 33, 1, CONVOY_UNARY_NONE, true, false, false, false},
    /* In 16 bits alone; large and small numbers. */
    {2, 64, 7, 9, 72, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_GELU, true, false, false, false},
    {1, 130, 5, 5, 33, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_GELU, true, true, false, false},
    {1, 48, 9, 9, 40, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_GELU, true, false, false, false},
    {1, 24, 9, 9, 24, 7, 7, 1, 3, 1, 24, 1, CONVOY_UNARY_GELU, true, false, false, false},
    {1, 3, 20, 22, 24, 7, 7, 2, 3, 1, 1, 1, CONVOY_UNARY_GELU, true, false, false, true},
    {1, 64, 6, 5, 40, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_GELU_TANH, true, true, true, false},
    /* NaN in the last image alone, which the others of a tile are not told of: rows of a matrix of which 8
     * lie between a lane's two, a filter for each channel, taps of a box. */
    {13, 48, 1, 1, 40, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_LAST},
    {3, 72, 2, 3, 24, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, true, false, false, CHECK_NAN_LAST},
    {5, 40, 5, 6, 40, 5, 5, 1, 2, 1, 40, 1, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_LAST},
    {2, 40, 4, 5, 24, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_LAST},
    {2, 72, 4, 5, 24, 3, 3, 1, 1, 1, 1, 1, CONVOY_UNARY_RELU, true, false, false, false, CHECK_NAN_LAST},
    /* Tiles of more columns than there are maps, which read another chunk's weights; boxes of outputs, of
     * which some are beyond the image. */
    {3, 128, 3, 4, 40, 1, 1, 1, 0, 1, 1, 1, .bias = true, .numbers = CHECK_CROSSED},
    {1, 128, 4, 5, 40, 3, 3, 1, 1, 1, 1, 1, .bias = true, .numbers = CHECK_CROSSED},
    {1, 40, 11, 12, 24, 3, 3, 1, 0, 1, 1, 1, .bias = true, .numbers = CHECK_BEYOND},
    {1, 72, 11, 12, 24, 3, 3, 1, 0, 1, 1, 1, .bias = true, .numbers = CHECK_BEYOND},
    {2, 40, 13, 16, 40, 3, 3, 1, 0, 1, 40, 1, .bias = true, .numbers = CHECK_BEYOND},
    {3, 72, 4, 5, 24, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, true, .numbers = CHECK_HIDDEN},
    {2, 40, 9, 9, 72, 1, 1, 1, 0, 1, 1, 1, CONVOY_UNARY_RELU, false, .numbers = CHECK_HIDDEN},
};

/* 0 .. limit - 1 */
static int below(struct convoy_check *random, int limit)
{
    return convoy_check_between(random, 0, limit - 1);
}

static const struct convoy_unary acts[] = {
    [CONVOY_UNARY_NONE] = {CONVOY_UNARY_NONE, 0, 0},
    [CONVOY_UNARY_RELU] = {CONVOY_UNARY_RELU, 0, 0},
    [CONVOY_UNARY_LEAKY_RELU] = {CONVOY_UNARY_LEAKY_RELU, 0.1F, 0},
    [CONVOY_UNARY_SIGMOID] = {CONVOY_UNARY_SIGMOID, 0, 0},
    [CONVOY_UNARY_TANH] = {CONVOY_UNARY_TANH, 0, 0},
    [CONVOY_UNARY_CLIP] = {CONVOY_UNARY_CLIP, -0.25F, 0.5F},
    [CONVOY_UNARY_HARD_SIGMOID] = {CONVOY_UNARY_HARD_SIGMOID, 0.2F, 0.5F},
    [CONVOY_UNARY_HARD_SWISH] = {CONVOY_UNARY_HARD_SWISH, 0, 0},
    [CONVOY_UNARY_SWISH] = {CONVOY_UNARY_SWISH, 0, 0},
    [CONVOY_UNARY_GELU] = {CONVOY_UNARY_GELU, 0, 0},
    [CONVOY_UNARY_GELU_TANH] = {CONVOY_UNARY_GELU_TANH, 0, 0},
};

static struct check_case from_written(const struct written *w)
{
    struct check_case which = {
        .shape = {.n = w->n,
                  .c = w->c,
                  .h = w->h,
                  .w = w->w,
                  .k = w->k,
                  .r = w->r,
                  .s = w->s,
                  .groups = w->groups,
                  .stride = {w->stride, w->stride},
                  .dilation = {w->dilation, w->dilation},
                  .pad = {w->pad, w->pad},
                  .bias = w->bias,
                  .residual = w->residual,
                  .act = acts[w->act],
                  .pool = w->pool,
                  .u8 = w->u8},
        .in_place = w->in_place,
        .nan = w->nan,
        .numbers = w->numbers,
    };
    which.shape.compute_type = CONVOY_COMPUTE_FP16; /* all kernels */
    if (!check_complete(&which))
        check_die("a written case is wrong: line %d of the list", (int)(w - written));
    if (w->overlapping > 0)
        check_pool_overlapping(&which, w->overlapping - 1);
    return which;
}

/* Output size from padding that differs on all four sides. */
static bool pad_at_random(struct check_case *which, struct convoy_check *random)
{
    struct convoy_conv_shape *s = &which->shape;
    int spans[2] = {(s->r - 1) * s->dilation[0], (s->s - 1) * s->dilation[1]};
    int sizes[2] = {s->h, s->w}, outputs[2];
    for (int i = 0; i < 2; i++) {
        s->pad[i] = below(random, spans[i] + 1);
        int after = below(random, spans[i] + 1);
        outputs[i] = sizes[i] + s->pad[i] + after - spans[i] - 1;
        if (outputs[i] < 0)
            return false;
        outputs[i] = outputs[i] / s->stride[i] + 1;
    }
    s->oh = outputs[0];
    s->ow = outputs[1];
    return s->oh >= s->pool && s->ow >= s->pool;
}

/* A small case drawn so that every kernel takes its share of them. */
static struct check_case random_case(struct convoy_check *random)
{
    static const int filters[] = {1, 3, 3, 5, 5, 7, 7, 2};
    for (;;) {
        struct check_case which = {0};
        struct convoy_conv_shape *s = &which.shape;
        s->n = 1 + below(random, 5);
        s->h = 1 + below(random, 24);
        s->w = 1 + below(random, 24);
        s->r = filters[below(random, 8)];
        s->s = below(random, 8) ? s->r : filters[below(random, 8)];
        s->stride[0] = below(random, 3) ? 1 : 1 + below(random, 3);
        s->stride[1] = below(random, 8) ? s->stride[0] : 1 + below(random, 3);
        s->dilation[0] = below(random, 6) ? 1 : 1 + below(random, 3);
        s->dilation[1] = below(random, 8) ? s->dilation[0] : 1 + below(random, 3);
        s->groups = below(random, 4) ? 1 : 1 + below(random, 4);
        s->c = s->groups * (below(random, 2) ? 1 : 1 + below(random, 20));
        s->k = s->groups * (1 + below(random, below(random, 4) ? 26 : 70));
        int form = below(random, 16);
        if (form < 2) /* a filter for each channel */
            s->c = s->k = s->groups = 1 + below(random, 100);
        else if (form == 2) /* more channels than a row of shared memory has */
            s->c = s->groups * (65 + below(random, 64));
        s->bias = below(random, 2);
        s->compute_type = (enum convoy_compute_type)below(random, 3);
        if (below(random, 2))
            s->act = convoy_check_any_unary(random);
        s->pool = below(random, 3) ? 1 : 1 + below(random, 3);
        s->residual = s->pool == 1 && !below(random, 3);
        which.in_place = s->residual && below(random, 2);
        s->u8 = s->c <= CONVOY_KERNEL_CHANNELS && below(random, 2);
        if ((int64_t)s->n * s->c * s->k * s->h * s->w * s->r * s->s > 8000000 ||
            !pad_at_random(&which, random))
            continue;
        int64_t bytes = (int64_t)s->c * s->h * s->w * (s->u8 ? 1 : 4);
        which.image_bytes =
            s->u8 ? (bytes + 15) / 16 * 16 + 16ll * below(random, 3) : bytes + 4ll * below(random, 3);
        return which;
    }
}

struct tally {
    int taken, runs, failures; /* shapes that it takes, that were its turn, that were wrong */
    double worst;
};

/* Is it the turn of a kernel with a shape that it takes, of which it has seen `taken` before? Always with the
 * first one; `turn`, the kernel's number and the seed, says which others. The instances of these families are
 * the same code; most have more instances than turns, so that few shapes meet none of them. tiled, emulated,
 * takes a sixth of all time. The first family that fits counts. */
static bool takes_turn(const struct convoy_conv_kernel *kernel, int taken, uint64_t turn, bool in_turns)
{
    static const struct {
        const char *family;
        unsigned turns;
    } families[] = {{"tensor", 10},      {"fused_gemm", 6}, {"nhwc_wgmma", 4},          {"nhwc_split", 4},
                    {"tiled", 3},        {"nhwc_gated", 4}, {"nhwc_scaled", 4},         {"nhwc_grouped", 2},
                    {"nhwc_excited", 2}, {"nhwc_maps", 16}, {"nhwc_normalized_maps", 8}};
    for (size_t f = 0; in_turns && f < sizeof families / sizeof families[0]; f++)
        if (strncmp(kernel->name, families[f].family, strlen(families[f].family)) == 0)
            return taken == 0 || ((uint64_t)taken + turn) % families[f].turns == 0;
    return true;
}

int check_shapes(uint64_t seed, int random_shapes, const char *kernel_name, bool in_turns, bool verbose)
{
    int kernel_count = 0, written_count = (int)(sizeof(written) / sizeof(written[0])), failures = 0;
    const struct convoy_conv_kernel *const *kernels = check_kernels(&kernel_count);
    struct tally tallies[CHECK_KERNELS_MAX] = {0};
    struct convoy_check random = {.random = seed};
    for (int i = 0; i < written_count + random_shapes; i++) {
        struct check_case which = i < written_count ? from_written(&written[i]) : random_case(&random);
        struct check_problem problem;
        char text[512];
        check_describe(&which, text, sizeof(text));
        if (verbose)
            printf("%s\n", text);
        check_problem_make(&problem, &which, random.random);
        for (int j = 0; j < kernel_count; j++) {
            if (!check_name_matches(kernels[j], kernel_name) || !check_takes(kernels[j], &which.shape) ||
                !takes_turn(kernels[j], tallies[j].taken++, seed + (uint64_t)j, in_turns))
                continue;
            float estimate = check_estimate(kernels[j], &which.shape);
            struct check_result result = check_run(&problem, kernels[j], 0);
            tallies[j].runs++;
            if (result.error > tallies[j].worst)
                tallies[j].worst = result.error;
            if (check_passed(&result) && estimate > 0 && estimate < 1e9F)
                continue;
            tallies[j].failures++;
            failures++;
            printf("WRONG %-22s error %.2e, %lld outputs unwritten, guess %.1f us: %s\n", kernels[j]->name,
                   result.error, (long long)result.poison, estimate, text);
        }
        check_problem_free(&problem);
    }
    printf("%-24s %8s %8s %14s\n", "kernel", "shapes", "wrong", "largest error");
    for (int j = 0; j < kernel_count; j++) {
        if (!check_name_matches(kernels[j], kernel_name))
            continue;
        printf("%-24s %8d %8d %14.2e%s\n", kernels[j]->name, tallies[j].runs, tallies[j].failures,
               tallies[j].worst, tallies[j].runs ? "" : "  NEVER RAN");
        failures += random_shapes > 0 && tallies[j].runs == 0;
    }
    printf("%d shapes, seed %llu: %s\n", written_count + random_shapes, (unsigned long long)seed,
           failures ? "WRONG" : "all right");
    return failures;
}
