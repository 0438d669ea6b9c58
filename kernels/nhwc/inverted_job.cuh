/* What a launch of inverted.cu is given, and the sizes of its tiles. */
#ifndef CONVOY_KERNELS_NHWC_INVERTED_JOB_CUH
#define CONVOY_KERNELS_NHWC_INVERTED_JOB_CUH

#include "kernels/nhwc/bottleneck_job.cuh"

#define INV_SIDE        8  /* outputs of a patch's side */
#define INV_CHANNELS    64 /* of the middle, at a time */
#define INV_ROW_BYTES   (INV_CHANNELS * 2)
#define INV_GROUPS      2
#define INV_THREADS     (INV_GROUPS * CONVOY_WARPGROUP)
#define INV_STAGES      3   /* pieces of weights at a time: one is read, the others come */
#define INV_BARRIERS    256 /* bytes */
#define INV_SHARED_MAX  (227 << 10)
#define INV_SHARED_HALF (113 << 10)          /* of which two fit into a multiprocessor */
#define INV_PITCH       (INV_ROW_BYTES + 16) /* from pixel to pixel of the middle: 8 pixels in other banks */

/* SIDE: of the depthwise filter. NT: tiles of 8 maps of the last layer, of a warpgroup; 0: there is none, and
 * the depthwise layer's results are stored. */
template <int SIDE, int STRIDE, int NT> struct inv_tile {
    static constexpr int PAD = SIDE / 2, BOX = (INV_SIDE - 1) * STRIDE + SIDE, PIXELS = BOX * BOX;
    static constexpr int PIECES = (PIXELS + NHWC_PIECE - 1) / NHWC_PIECE;
    static constexpr int PANEL_BYTES = PIECES * NHWC_PIECE * INV_ROW_BYTES; /* of x: 64 channels */
    static constexpr int MIDDLE_BYTES = (PIXELS * INV_PITCH + 1023) / 1024 * 1024;
    static constexpr int RESULT_BYTES =
        NHWC_PIECE * INV_ROW_BYTES; /* of the depthwise layer; of 64 outputs */
    static constexpr int MAPS = INV_GROUPS * NT * 8;
    /* Weights of 64 channels of the middle: panels of the first layer, then these. */
    static constexpr int EXPAND_BYTES = INV_CHANNELS * INV_ROW_BYTES, PROJECT_BYTES = MAPS * INV_ROW_BYTES;
    static constexpr int DEPTHWISE_BYTES = (SIDE * SIDE * INV_ROW_BYTES + 1023) / 1024 * 1024;
};

struct inv_job {
    CUtensorMap x, y;
    const char *weights;
    const float *bias[CONVOY_BOTTLENECK_LAYERS];
    int h, w, oh, ow, mid, k;
    int down, across;   /* patches of an image */
    int panels, chunks; /* of x; of the middle */
    int stage_bytes, stages;
    int middle, depthwise, ring, barriers, bytes; /* places in shared memory; x is at 0, results later */
    bool residual;
    struct convoy_unary act[CONVOY_BOTTLENECK_LAYERS];
    uint32_t *overflow;
    uint32_t marks[CONVOY_BOTTLENECK_LAYERS];
};

#endif
