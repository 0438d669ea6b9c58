/* What a launch of inverted.cu is given: the sizes of its tiles, the places in shared memory. */
#ifndef CONVOY_KERNELS_NHWC_INVERTED_JOB_CUH
#define CONVOY_KERNELS_NHWC_INVERTED_JOB_CUH

#include "kernels/nhwc/bottleneck_job.cuh"

#define INV_SIDE       8  /* outputs of a patch's side */
#define INV_CHANNELS   64 /* of the middle, at a time: a chunk */
#define INV_ROW_BYTES  (INV_CHANNELS * 2)
#define INV_INPUTS     (1 << 16)              /* most channels of x */
#define INV_MAPS       160                    /* most of the last layer */
#define INV_GROUPS     4                      /* most warpgroups of a block */
#define INV_STAGES     16                     /* most chunks whose weights are there at a time */
#define INV_BUFFERS    2                      /* most patches of x of a warpgroup */
#define INV_BARRIERS   512                    /* bytes */
#define INV_SHARED_MAX (227 << 10)            /* bytes of a block's shared memory */
#define INV_PITCH      (INV_ROW_BYTES + 16)   /* from pixel to pixel of the middle: 8 pixels in other banks */
#define INV_TAP_ROW    (INV_CHANNELS * 4)     /* bytes of two taps of the depthwise filter */
#define INV_TABLE_ROW  (CONVOY_WARPGROUP * 2) /* bytes of a piece's table: 16 bits for each thread */

/* SIDE: of the depthwise filter. NT: tiles of 8 maps of the last layer; 0: there is none, and the depthwise
 * layer's results are stored. */
template <int SIDE, int STRIDE, int NT> struct inv_tile {
    static constexpr int PAD = SIDE / 2, BOX = (INV_SIDE - 1) * STRIDE + SIDE, PIXELS = BOX * BOX;
    /* Lines of the middle that two lines of outputs read. */
    static constexpr int LINES = STRIDE + SIDE;
    /* One pixel more: what the products have of pixels that are not there. */
    static constexpr int MIDDLE_BYTES = ((PIXELS + 1) * INV_PITCH + 1023) / 1024 * 1024;
    static constexpr int RESULT_BYTES = NHWC_PIECE * INV_ROW_BYTES; /* of 64 channels or maps */
    static constexpr int RESULTS =
        NT == 0 ? 2 * RESULT_BYTES : (NT * 8 + INV_CHANNELS - 1) / INV_CHANNELS * RESULT_BYTES;
    /* Of a warpgroup, besides x: the last results lie where the middle was. */
    static constexpr int OWN_BYTES =
        NT == 0 ? MIDDLE_BYTES + RESULTS : (MIDDLE_BYTES > RESULTS ? MIDDLE_BYTES : RESULTS);
    /* Weights of a chunk: the first layer's, then these. */
    static constexpr int MAPS = NT * 8, PROJECT_BYTES = MAPS * INV_ROW_BYTES;
    static constexpr int PAIRS = (SIDE * SIDE + 1) / 2,
                         TAP_BYTES = (PAIRS * INV_TAP_ROW + 1023) / 1024 * 1024;
    /* As many as the registers suffice for. */
    static constexpr int GROUPS = NT <= 12 ? INV_GROUPS : 3;

    /* Where a column of a line of the middle lies: those that the outputs of a line read at one tap lie
     * beside each other. */
    static __host__ __device__ constexpr int at_column(int column)
    {
        return STRIDE == 1 ? column : column % 2 * ((BOX + 1) / 2) + column / 2;
    }
};

/* How a layer's sums become numbers of 16 bits. */
enum inv_kind { INV_PLAIN, INV_RELU, INV_RELU_CLIP, INV_CLIP, INV_SWISH, INV_HARD_SWISH };

struct inv_act {
    enum inv_kind kind;
    uint32_t low, high; /* bounds, twice; INV_RELU_CLIP has the higher one alone */
};

struct inv_job {
    CUtensorMap x, y;
    const char *weights;
    const float *bias[CONVOY_BOTTLENECK_LAYERS];
    int h, w, oh, ow, mid, k;
    int side, down, across, tiles;   /* outputs of a patch's side; patches of an image, of all */
    int box_w, box_h, pieces;        /* pixels of x that a patch reads; 64 each */
    unsigned box_part;               /* of 65,536: pixel * box_part / 65,536 is the pixel's line */
    bool inside;                     /* of a patch's box only what lies in the image is read */
    int x_channels, x_row, x_panels; /* of x: channels and bytes of a panel's row, panels */
    int steps, panel_shift;          /* 16 channels each, of all and (a power of two) of a panel */
    uint64_t rows;                   /* of both matrices of the first layer, as convoy_matrix_rows() says */
    int x_panel, w_panel;            /* 16 bytes each of a panel of x, of weights */
    int x_bytes, buffers;            /* of a patch of x; how many a warpgroup has */
    int chunks, stage_bytes, stages;
    bool looks[2];   /* can a layer's results be what fp16 does not hold? Then the kernel looks for it */
    int groups, own; /* warpgroups; where their own places begin, behind each x */
    int tables,
        table_bytes; /* place in shared memory; from a warpgroup's to the next one's: 0, all have one */
    int group_bytes, ring, biases, barriers, bytes; /* places in shared memory; groups are at 0 */
    bool residual;
    struct inv_act act[CONVOY_BOTTLENECK_LAYERS];
    uint32_t *overflow;
    uint32_t marks[CONVOY_BOTTLENECK_LAYERS];
};

#endif
