/* The planner of fused networks: what its parts share while a plan is made. On the host, in one thread. */
#ifndef CONVOY_KERNELS_FUSED_PLANNER_H
#define CONVOY_KERNELS_FUSED_PLANNER_H

#include "kernels/device/launch.cuh"
#include "kernels/fused_net/fused_plan.h"

#define FUSED_SHARED_WORDS    ((int)(CONVOY_SHARED_MAX / sizeof(float))) /* of a block */
#define FUSED_ESTIMATE_CYCLES 1700.0                                     /* a microsecond */

/* A tensor in shared memory: planes of rows x width cells with padding around the real h x w. A cell is
 * FUSED_CELL words of channels of a place; of images also of the places beside it; of images that are read in
 * phases width counts cells of several pixels. Number 0 is the images, i + 1 what layer i computes. */
struct fused_tensor {
    bool kept; /* in shared memory: all but the result */
    int c, h, w, top, left, bottom, right;
    int rows, width;
    int plane, planes;       /* plane: words */
    int words;               /* of a place in all planes that are real */
    int offset, first, last; /* steps: written and read last; of the images first is -1 */
    int copy_of;             /* the tensor in whose memory it lies, itself as a rule */
    int need_from[CONVOY_FUSED_CLUSTER], need_to[CONVOY_FUSED_CLUSTER]; /* real rows that a block reads */
};

struct fused_planner {
    const struct convoy_fused_shape *shape;
    struct convoy_fused_plan *plan;
    bool phases; /* the images are read in phases (struct fused_reduction) */
    struct fused_tensor tensors[CONVOY_FUSED_LAYERS + 1];
    int staged_words[CONVOY_FUSED_LAYERS], staged_weights[CONVOY_FUSED_LAYERS];
    /* Of a convolution: what a row computes, or the rows that are pooled into one: how many, in a line of the
     * result, and rows of one. */
    int units[CONVOY_FUSED_LAYERS], line_units[CONVOY_FUSED_LAYERS], unit_rows[CONVOY_FUSED_LAYERS];
    int row_count, offset_count;
};

static inline int fused_at_most(int a, int b)
{
    return a < b ? a : b;
}

static inline int fused_at_least(int a, int b)
{
    return a > b ? a : b;
}

static inline int fused_lane_words(enum tensor_math math)
{
    return math == TENSOR_FP32 ? 4 : 2;
}

/* Channels that a word holds. */
static inline int fused_word_channels(enum tensor_math math)
{
    return math == TENSOR_HALF ? 2 : 1;
}

/* Rows of a convolution that are tabulated: tasks of four tiles may look past the last. */
static inline int fused_table_rows(const struct fused_step *step)
{
    return step->wgmma ? 0 : (step->m_tiles + 3) / 4 * 4 * 16;
}

/* Words of weights, so that the next ones begin on 256 bytes. */
static inline size_t fused_rounded(size_t words)
{
    return (words + 63) / 64 * 64;
}

/* Words of the weights of 8 maps. */
static inline int fused_tile_words(const struct fused_planner *p, int index)
{
    return p->plan->steps[index].steps * 32 * fused_lane_words(p->plan->math);
}

static inline int fused_part(int count, int number, int parts)
{
    return count * number / parts;
}

/* ---- Which block computes what (fused_divide.cu) ---- */

/* Does a large dense layer follow, which is divided as this is? */
bool fused_feeds_dense(const struct fused_planner *p, int index);
/* most: words of weights that a block keeps of a layer. Leaves mt 0 where the shares cannot be that small. */
void fused_divide_conv(struct fused_planner *p, int index, int most);
/* The units that block rank of the cluster computes of a convolution. */
void fused_units_of(const struct fused_planner *p, int index, int rank, int *from, int *to);
/* And the places of the result. */
void fused_places_of(const struct fused_planner *p, int index, int rank, int *from, int *to);
/* The rows of all tensors that each block reads. */
void fused_find_needs(struct fused_planner *p);
/* Of the plan when all else is known: estimate_us and blocks. */
void fused_estimate(struct fused_planner *p);
/* The blocks that want a row, from the first to the last of them. */
void fused_readers(const struct fused_planner *p, const struct fused_tensor *t, int row, uint8_t *first,
                   uint8_t *last);

/* ---- Convolutions on warpgroups (fused_wgmma.cu) ---- */

/* Decides whether a layer is for warpgroups, and then what its tiles and tasks are. */
void fused_divide_wgmma(struct fused_planner *p, int index);
double fused_wgmma_cycles(const struct fused_step *step);
/* Where their weights go, behind all others. */
void fused_place_chunks(struct fused_planner *p);
/* Writes where each of them is, in the order of the layers. */
void fused_make_chunks(const struct convoy_fused_plan *plan, int count, struct fused_chunk *chunks);
/* A place for the ring that brings them; returns its end. */
int fused_place_ring(struct fused_planner *p, int begin);
void fused_pack_wgmma(const struct convoy_fused_plan *plan, int index, const struct convoy_fused_layer *layer,
                      uint32_t *packed);

/* ---- A dense layer for all images at once (fused_product.cu) ---- */

/* Describes the product with a layer that reads the plan's result. False: not that layer. */
bool fused_describe_product(struct convoy_fused_plan *plan, const struct convoy_fused_layer *layer);
size_t fused_product_scratch_bytes(const struct convoy_fused_plan *plan);
/* packed: of the whole plan. */
void fused_pack_product(const struct convoy_fused_plan *plan, const struct convoy_fused_layer *layer,
                        uint32_t *packed);

/* ---- Places in shared memory (fused_places.cu) ---- */

/* Both return the end, in words. */
int fused_place_tensors(struct fused_planner *p);
int fused_place_staged(struct fused_planner *p, int begin);
/* Which layers have to clear their result's memory. */
void fused_find_clears(struct fused_planner *p);

/* ---- Tables and weights for the device (fused_tables.cu, fused_weights.cu) ---- */

/* Of a layer that reads x. */
struct fused_reduction fused_reduction_of(const struct fused_planner *p, int index);
/* Where a number of the reduction is in the filter (in phases: of the first of them): false past its end. */
struct fused_tap {
    int r, column, channel;
};
bool fused_tap_of(const struct fused_reduction *r, enum tensor_math math, int number, struct fused_tap *tap);
/* The weight of a map at a number of the reduction, for the output so many columns to the right; outside of
 * the filter 0. */
float fused_weight_at(const struct convoy_fused_layer *layer, const struct fused_reduction *reduction,
                      enum tensor_math math, int number, int map, int phase);

/* False: no memory. */
bool fused_make_tables(struct fused_planner *p);

#endif
