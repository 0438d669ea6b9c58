/* The plan of a fused network: how whole_net divides it, and what its blocks are launched with. Made on the
 * host (fused_planner.cu), read on the device (fused_net.cuh). */
#ifndef CONVOY_KERNELS_FUSED_PLAN_H
#define CONVOY_KERNELS_FUSED_PLAN_H

#include "kernels/device/divider.cuh"
#include "kernels/device/tensor_products.cuh"
#include "kernels/fused_net.h"

#define FUSED_NOWHERE       0xffffu
#define FUSED_NO_BIAS       0xffffffffu
#define FUSED_LEAST_STEPS   4           /* of a share */
#define FUSED_OUTS          8           /* results of a dense layer that a warp adds up at a time */
#define FUSED_STEPS_PAST    2           /* for which there are weights */
#define FUSED_STEPS_TOLD    6           /* past the end, for which there are offsets */
#define FUSED_CELL          4           /* words of a place in a plane */
#define FUSED_CHUNK         (16 * 1024) /* room for weights that come at a time, of layers on warpgroups */
#define FUSED_STAGES        4           /* chunks for which there is room */
#define FUSED_VECTOR_IMAGES 64          /* whose vectors lie together, cell by cell */
#define FUSED_VECTOR_CHUNK  8           /* cells, of which a vector has a multiple */

/* Tiles of 16 rows x 8 maps that a warp takes at a time, at most: what the registers hold. For blocks alone;
 * in a cluster it takes one. Beside warpgroups a block is alone on its multiprocessor: small tasks, so that
 * all warps have one and no sum is kept in device memory (with 16 tiles cifar10-resnet took 2.14 ms for
 * 1,024 images, with 4 1.49). */
static constexpr __host__ __device__ __forceinline__ int fused_most_tiles(enum tensor_math math, bool wgmma)
{
    return wgmma ? 4 : math == TENSOR_FP32 ? 8 : 16;
}

/* Planes of cells for so many words of a place. */
static __host__ __device__ __forceinline__ int fused_planes(int words)
{
    return (words + FUSED_CELL - 1) / FUSED_CELL;
}

/* What a warpgroup may take at a time of a layer: patches of outputs, tiles of maps, and the steps whose
 * weights come together. */
#define FUSED_WGMMA_CASES(X)                                                                                 \
    X(1, 2, 6)                                                                                               \
    X(1, 4, 6)                                                                                               \
    X(1, 8, 6)                                                                                               \
    X(2, 2, 6)                                                                                               \
    X(2, 4, 6)                                                                                               \
    X(2, 8, 6)                                                                                               \
    X(4, 2, 6)                                                                                               \
    X(4, 4, 6)                                                                                               \
    X(1, 4, 4)                                                                                               \
    X(1, 8, 4)                                                                                               \
    X(2, 8, 4)

/* Weights that come at a time. */
struct alignas(8) fused_chunk {
    uint32_t from; /* words into the packed weights */
    int bytes;
};

/* Where the result of a row of a convolution's matrix product goes: words from plane 0, and the blocks of the
 * cluster that want it. */
struct alignas(4) fused_target {
    uint16_t out; /* FUSED_NOWHERE for rows past the last */
    uint8_t first, last;
};

/* A row of the product: words from plane 0 of the input to what lies under the filter's first tap, and where
 * its result goes. */
struct alignas(8) fused_row {
    uint16_t in;
    uint16_t places; /* of a convolution in phases: adjacent results that are real */
    struct fused_target target;
};

/* A layer, as one block of the cluster sees it. Places in shared memory are words from its start. */
struct alignas(16) fused_step {
    uint8_t kind; /* enum convoy_fused_kind */
    uint8_t pool;
    uint8_t mt, nt; /* tiles of 16 rows and of 8 maps that a warp takes at a time */
    /* Of the rows and of the maps, a block takes one of each; DENSE: of the places of the input. */
    uint8_t parts, map_parts;
    bool result; /* goes to y */
    bool clear;  /* the result's memory has to be zeroed first: its border is padding */
    bool has_residual;
    bool block_alone; /* after it a barrier of this block is enough: no other block reads or writes its memory
                       */
    bool phases;      /* struct fused_reduction */
    /* A convolution on warpgroups (fused_wgmma.cuh): mt patches of 8 x 8 outputs, four tiles of rows each,
     * and nt tiles of maps for each of them; steps of a chunk of weights; bytes of a line of the input. Its
     * offsets are 16 bytes each. */
    bool wgmma;
    bool exact; /* no patch goes past the result, no tile past its planes */
    uint8_t chunk_steps;
    int in_line;
    struct convoy_unary act;
    /* A tensor: its planes of cells, words from one plane to the next, words of a place that are real. */
    uint16_t in, in_plane, in_words;
    uint16_t out, out_plane, out_words, residual;
    /* In a cluster the weights of this block's maps, their bias and the table of its rows come to shared
     * memory beforehand. */
    uint16_t staged, staged_bias, staged_rows;
    uint16_t tile_begin, tile_end; /* this block's rows, in tiles; DENSE: places */
    uint16_t map_begin, map_end;   /* and maps, in tiles */
    uint16_t shares, share_steps;  /* of a task, in a cluster: warps that divide its steps */
    uint16_t tasks;                /* CONV: of this block's warps */
    uint16_t steps;                /* of the reduction */
    uint16_t offset_bytes;         /* of their table, a multiple of 16 */
    uint16_t m_tiles, n_tiles;     /* of all rows and maps */
    uint16_t maps;                 /* that are real; DENSE: outputs */
    uint16_t places;               /* CONV: of the result; DENSE, MEAN: of the input */
    /* DENSE, MEAN: of the input: places of a row, words to the first element, real width. On warpgroups the
     * same of the result, its height, and words of the input to what its first place sees. */
    uint16_t width, first, real_w, real_h, patch_in;
    uint32_t rows, offsets;          /* where its tables begin */
    uint32_t weights, bias;          /* words into the packed weights; bias: FUSED_NO_BIAS for none */
    struct tensor_divider by_w;      /* real_w; on warpgroups patches of a row */
    struct tensor_divider by_cells;  /* cells of a place */
    struct tensor_divider by_across; /* CONV: tasks of a row */
};

/* What a last convolution computes, as vectors of fp16 for a product with a dense layer's weights: for each
 * 64 images cells x 64 cells of 16 bytes, so that those of a place in the reduction are contiguous.
 * Place after place, each an even number of maps. */
struct fused_vector {
    uint32_t *images; /* NULL: the result is no vector */
    int place_words, cells;
};

/* The product of all images' vectors with a dense layer's weights (fused_product.cuh). */
struct fused_product {
    int outs, columns;      /* columns: outputs for which there are weights */
    int groups, nt;         /* of a block: warpgroups of 64 images, tiles of 8 outputs */
    int splits, piece;      /* of the reduction; piece: chunks of FUSED_VECTOR_CHUNK cells */
    uint32_t weights, bias; /* words into the packed weights */
    struct convoy_unary act;
};

/* The parameters of a launch. */
struct fused_job {
    int n, count, cluster, teams;   /* teams: clusters for an image, which divide its last layer */
    int threads;                    /* of a block */
    struct convoy_conv_shape first; /* the first layer's */
    struct convoy_images x;
    const uint32_t *weights;
    const struct fused_step *steps; /* of block 0 of a cluster, of block 1, ... */
    const struct fused_row *rows;
    const int *offsets;
    float *y;
    int64_t y_stride;
    struct fused_vector vector; /* instead of y */
    int softmax;                /* results of an image, of which that is taken; 0: it is not */
    /* The images' own plane: padded lines of in_width cells, each with the pixels from its place on; in
     * phases (struct fused_reduction) with pixels that no other has. */
    bool phases;
    int in, in_width, in_top, in_left;
    int pixel;   /* numbers of a pixel in a cell */
    int in_span; /* read of a line: pixels, as far as its last cell reaches; in phases words */
    struct tensor_divider by_in_span;
    /* Padded rows that a block needs. */
    uint16_t first_row[CONVOY_FUSED_CLUSTER], end_row[CONVOY_FUSED_CLUSTER];
    int words;                    /* that are zeroed once: all tensors */
    int offsets_at, offset_words; /* two tables of offsets, used in turns; a multiple of 4 */
    int partial;                  /* sums of a dense layer, in the first block */
    int shares;                   /* sums of warps that share a task: 4 for each lane but the first share's */
    int steps_at;                 /* this block's steps */
    /* Weights of layers on warpgroups: where the ring of chunks lies, its barriers behind it, and the chunks
     * of an image. */
    int ring, ring_chunks;
    const struct fused_chunk *chunks;
};

/* The reduction of a convolution: a sequence of cells, two to a step. Rows of the filter, then groups of
 * columns that a cell holds, then planes.
 *
 * Images of a single channel that are walked one pixel at a time are read in phases: a cell is 8 pixels (in
 * fp16, otherwise 4) that are adjacent, a row of the matrix product the outputs under a whole cell,
 * and each map is 8 columns, one for each of them, with its weights moved along as far. So a filter of s
 * columns takes s + phases - 1, to whole cells, of which all but s are multiplied by zero (of 7 columns in
 * fp16 9 of 16); but no pixel is kept twice, and a load serves 8 outputs. */
struct fused_reduction {
    int phases; /* outputs of a row: 1, or pixels of a cell */
    /* Numbers of a pixel in a cell: of images 1, 2 or 4, so that it lies on a multiple of its size. */
    int pixel;
    int columns; /* of a cell */
    int apart;   /* places from one group of columns to the next */
    int groups;  /* of columns in a row of the filter */
    int cells, steps;
    int offsets; /* cells that are tabulated: of all steps, and to a multiple of 16 bytes */
    int planes;  /* of the input */
};

struct convoy_fused_plan {
    const struct convoy_fused_kernel *kernel;
    struct fused_job job;
    struct fused_step steps[CONVOY_FUSED_LAYERS];
    struct fused_reduction reductions[CONVOY_FUSED_LAYERS]; /* of convolutions */
    enum tensor_math math;
    size_t shared_bytes;
    int blocks;                   /* clusters x blocks of each */
    struct fused_product product; /* of a kernel that has one */
    float estimate_us;
    size_t weight_words, table_bytes;
    size_t rows_from, offsets_from, chunks_from; /* bytes into the tables */
    void *tables;
};

/* Launches one of the four; the last one what follows them. */
cudaError_t fused_launch_fp32(const struct convoy_fused_plan *plan, const struct fused_job *job,
                              cudaStream_t stream);
cudaError_t fused_launch_tf32(const struct convoy_fused_plan *plan, const struct fused_job *job,
                              cudaStream_t stream);
cudaError_t fused_launch_wgmma(const struct convoy_fused_plan *plan, const struct fused_job *job,
                               cudaStream_t stream);
cudaError_t fused_launch_fp16(const struct convoy_fused_plan *plan, const struct fused_job *job,
                              cudaStream_t stream);
cudaError_t fused_launch_product(const struct convoy_fused_plan *plan,
                                 const struct convoy_fused_operands *operands, cudaStream_t stream);

#endif
