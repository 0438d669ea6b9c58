/* How whole_net cuts a network up: what its blocks are launched with. Made on the host (whole_plan.cu), read
 * on the device (whole_net.cuh). */
#ifndef CONVOY_KERNELS_WHOLE_PLAN_H
#define CONVOY_KERNELS_WHOLE_PLAN_H

#include "kernels/tensor_plan.h"
#include "kernels/whole_net.h"

#define WHOLE_NOWHERE     0xffffu
#define WHOLE_NO_BIAS     0xffffffffu
#define WHOLE_LEAST_STEPS 4 /* of a share */
#define WHOLE_OUTS        8 /* results of a dense layer that a warp adds up at a time */

/* Where row i of the matrix product of a convolution lies in shared memory: words from plane 0 of the input
 * (under the filter's first tap) and of the result, and which blocks of the cluster want the result. */
struct alignas(8) whole_row {
    uint16_t in, out; /* out: WHOLE_NOWHERE for rows past the last */
    uint8_t first, last;
    uint16_t unused;
};

/* A layer, as one block of the cluster sees it. Places in shared memory are words from its start. */
struct alignas(16) whole_step {
    uint8_t kind; /* enum convoy_whole_kind */
    uint8_t pool;
    uint8_t mt, nt; /* tiles of 16 rows and of 8 maps that a warp takes at a time */
    /* Of the rows and of the maps, a block takes one of each; DENSE: of the places of the input. */
    uint8_t parts, map_parts;
    bool result; /* goes to y */
    bool clear;  /* the result's memory has to be zeroed first: its border is padding */
    bool has_residual;
    bool block_alone; /* after it only this block waits for itself: nobody else reads or writes here */
    struct convoy_unary act;
    uint16_t in, in_plane, in_words; /* planes of a tensor, words from one to the next, number of planes */
    uint16_t out, out_plane, out_words, residual;
    /* In a cluster the weights of this block's maps, their bias and the table of its rows come to shared
     * memory beforehand. */
    uint16_t staged, staged_bias, staged_rows;
    uint16_t tile_begin, tile_end; /* this block's rows, in tiles; DENSE: places */
    uint16_t map_begin, map_end;   /* and maps, in tiles */
    uint16_t shares, share_steps;  /* of a task, in a cluster: warps that divide its steps */
    uint16_t tasks;                /* CONV: of this block's warps */
    uint16_t steps;                /* of the reduction */
    uint16_t m_tiles, n_tiles;     /* of all rows and maps */
    uint16_t maps;                 /* that are real; DENSE: outputs */
    uint16_t places;               /* CONV: of the result; DENSE, MEAN: of the input */
    uint16_t width, first,
        real_w;             /* DENSE, MEAN: of the input: words of a row, the first element, real width */
    uint32_t rows, offsets; /* where its tables begin */
    uint32_t weights, bias; /* words into the packed weights; bias: WHOLE_NO_BIAS for none */
    struct tensor_divider by_w, by_groups; /* real_w; groups of 4 words in a place */
    struct tensor_divider by_across;       /* CONV: tasks beside each other */
};

/* Everything a launch is told. */
struct whole_job {
    int n, count, cluster;
    struct convoy_conv_shape first; /* the first layer's */
    struct convoy_images x;
    const uint32_t *weights;
    const struct whole_step *steps; /* of block 0 of a cluster, of block 1, ... */
    const struct whole_row *rows;
    const int *offsets;
    float *y;
    int64_t y_stride;
    /* the images' own planes */
    bool tap_pairs;
    int in, in_plane, in_words, in_width, in_top, in_left;
    struct tensor_divider by_in_width;
    uint16_t first_row[CONVOY_WHOLE_CLUSTER],
        end_row[CONVOY_WHOLE_CLUSTER]; /* padded rows that a block needs */
    int words;                         /* that are zeroed once: all tensors */
    int offsets_at, offset_words;      /* two tables of offsets, used in turns */
    int partial;                       /* sums of a dense layer, in the first block */
    int shares;   /* sums of warps that share a task: 4 for each lane but the first share's */
    int steps_at; /* this block's steps */
};

struct convoy_whole_plan {
    const struct convoy_whole_kernel *kernel;
    struct whole_job job;
    struct whole_step steps[CONVOY_WHOLE_LAYERS];
    enum tensor_math math;
    size_t shared_bytes;
    int blocks; /* clusters x blocks of each */
    float guess_us;
    size_t weight_words, table_bytes, rows_from, offsets_from; /* from: bytes into the tables */
    void *tables;
};

/* Launches one of the three. */
cudaError_t whole_launch_fp32(const struct convoy_whole_plan *plan, const struct whole_job *job,
                              cudaStream_t stream);
cudaError_t whole_launch_tf32(const struct convoy_whole_plan *plan, const struct whole_job *job,
                              cudaStream_t stream);
cudaError_t whole_launch_fp16(const struct convoy_whole_plan *plan, const struct whole_job *job,
                              cudaStream_t stream);

#endif
