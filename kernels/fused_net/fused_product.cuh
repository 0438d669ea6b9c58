/* A dense layer of all images at once, on warpgroups (wgmma.cuh): the product of whole_net's vectors, images
 * x cells of 8 fp16, and of the weights, with fp32 sums.
 *
 * Idea: GROUPS warpgroups make 64 images x 8 NT outputs each. The vectors were written so that the pieces of
 * a product's matrix lie as wgmma wants them, in device memory already (struct fused_vector), and so were the
 * weights: a chunk of 8 cells comes to shared memory by a few large copies of the bulk copy engine, which a
 * warp of its own asks for, through a ring that does not stop between tiles. A chunk is multiplied while the
 * one before it ends. Where there are fewer tiles than multiprocessors, the reduction is split; partial sums
 * go to scratch, as those of gemm.h.
 *
 * Floor: the vectors once from memory, 2 k bytes an image; from the L2 cache all weights once for each 64
 * GROUPS images and the vectors for each 8 NT outputs; 2 n k outs operations at 775 TFLOP/s. 10,000 images of
 * ece408 (k 17,496, 160 outputs): 350 MB, 0.08 ms at 4.2 TB/s; with 256 x 160 for a block 0.57 GB through the
 * L2 cache, 0.1 ms. Of lenet (k 7,200, 500 outputs), with 192 x 256: 0.65 GB, 0.12 ms, 0.1 of products.
 * Predicted and measured: docs/kernels.md. */
#ifndef CONVOY_KERNELS_FUSED_PRODUCT_CUH
#define CONVOY_KERNELS_FUSED_PRODUCT_CUH

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/fused_net/fused_plan.h"

#define PRODUCT_STAGES     4
#define PRODUCT_CELL       16  /* bytes */
#define PRODUCT_COPY_LANES 8   /* of the asking warp: a cell's weights each; and one for each warpgroup */
#define PRODUCT_PIECE      128 /* bytes of 8 rows of a matrix */

struct product_job {
    int images, outs;
    int columns;              /* outputs for which there are weights */
    int column_tiles, splits; /* of tiles the columns change first, then the split, then the images */
    int tiles;
    int chunks, piece; /* of a vector, of a split */
    const char *vectors, *weights;
    const float *bias;
    struct convoy_unary act;
    float *y; /* or partial sums */
    int64_t y_stride, split_stride;
};

/* What a block makes at a time. */
template <int GROUPS, int NT> struct product_tile {
    static constexpr int IMAGES = GROUPS * FUSED_VECTOR_IMAGES, COLUMNS = NT * 8;
    static constexpr int GROUP_BYTES = FUSED_VECTOR_CHUNK * FUSED_VECTOR_IMAGES * PRODUCT_CELL;
    static constexpr int CELL_BYTES = COLUMNS * PRODUCT_CELL;
    static constexpr int STAGE_BYTES = GROUPS * GROUP_BYTES + FUSED_VECTOR_CHUNK * CELL_BYTES;
    static constexpr int SHARED_BYTES = PRODUCT_STAGES * (STAGE_BYTES + 2 * (int)sizeof(uint64_t));

    int column, split, image; /* the first ones */
    int begin, chunks;

    __device__ __forceinline__ product_tile(const struct product_job &job, int tile)
    {
        column = tile % job.column_tiles * COLUMNS;
        tile /= job.column_tiles;
        split = tile % job.splits;
        image = tile / job.splits * IMAGES;
        begin = split * job.piece;
        chunks = min(job.piece, job.chunks - begin);
    }
};

/* Barriers of a stage: full when its bytes are there, empty when all warps have multiplied with it. */
template <int GROUPS, int NT> struct product_ring {
    using tile = product_tile<GROUPS, NT>;
    char *shared;
    int turn;

    __device__ __forceinline__ char *stage() const
    {
        return shared + turn % PRODUCT_STAGES * tile::STAGE_BYTES;
    }

    __device__ __forceinline__ uint64_t *full(int number) const
    {
        return reinterpret_cast<uint64_t *>(shared + PRODUCT_STAGES * tile::STAGE_BYTES) +
               number % PRODUCT_STAGES;
    }

    __device__ __forceinline__ uint64_t *empty(int number) const
    {
        return full(number) + PRODUCT_STAGES;
    }

    static __device__ __forceinline__ int parity(int number)
    {
        return number / PRODUCT_STAGES % 2;
    }

    /* By a thread, before a barrier of the block. */
    __device__ __forceinline__ void make() const
    {
        for (int i = 0; i < PRODUCT_STAGES; i++) {
            convoy_barrier_make(full(i), GROUPS + PRODUCT_COPY_LANES);
            convoy_barrier_make(empty(i), GROUPS * (CONVOY_WARPGROUP / 32));
        }
    }

    /* Asks for the chunks of this block's tiles: lanes of a warp, a copy of a chunk each. */
    __device__ __forceinline__ void fill(const struct product_job &job)
    {
        int lane = threadIdx.x % 32, group = lane - PRODUCT_COPY_LANES;
        bool weights = group < 0;
        if (group >= GROUPS)
            return;
        for (int number = blockIdx.x; number < job.tiles; number += gridDim.x) {
            const tile of(job, number);
            const char *from =
                weights ? job.weights +
                              ((int64_t)(of.begin * FUSED_VECTOR_CHUNK + lane) * job.columns + of.column) *
                                  PRODUCT_CELL
                        : job.vectors +
                              ((int64_t)(of.image / FUSED_VECTOR_IMAGES + group) * job.chunks + of.begin) *
                                  tile::GROUP_BYTES;
            int64_t step =
                weights ? (int64_t)job.columns * FUSED_VECTOR_CHUNK * PRODUCT_CELL : tile::GROUP_BYTES;
            int at =
                weights ? GROUPS * tile::GROUP_BYTES + lane * tile::CELL_BYTES : group * tile::GROUP_BYTES;
            int bytes = weights ? tile::CELL_BYTES : tile::GROUP_BYTES;
            for (int i = 0; i < of.chunks; i++, turn++, from += step) {
                if (turn >= PRODUCT_STAGES)
                    convoy_barrier_wait(empty(turn), parity(turn - PRODUCT_STAGES));
                convoy_copy_bulk(stage() + at, from, bytes, full(turn));
            }
        }
    }

    /* This warp does not read a stage any more. */
    __device__ __forceinline__ void leave(int number) const
    {
        convoy_barrier_arrive_if(threadIdx.x % 32 == 0, empty(number));
    }
};

template <int NT>
static __device__ __forceinline__ void product_store(const struct product_job &job, int image, int column,
                                                     float *y, float (&sum)[NT][4])
{
    int first = column + threadIdx.x % 4 * 2;
    if (job.bias != nullptr) {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[j][e] += __ldg(job.bias + min(first + j * 8 + e % 2, job.outs - 1));
    }
    convoy_activate(job.act, sum);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = image + i * 8;
        float *to = y + row * job.y_stride + first;
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (row < job.images && first + j * 8 + e < job.outs)
                    to[j * 8 + e] = sum[j][i * 2 + e];
    }
}

/* One warpgroup more, whose first warp asks for the chunks: its registers go to the others, which hold sums.
 */
template <int GROUPS> static constexpr int product_threads = (GROUPS + 1) * CONVOY_WARPGROUP;

template <int GROUPS, int NT>
static __global__ void __launch_bounds__(product_threads<GROUPS>, 1)
    fused_product(CONVOY_PARAMETER(struct product_job) job)
{
    using tile = product_tile<GROUPS, NT>;
    CONVOY_DYNAMIC_SHARED(char, shared);
    struct product_ring<GROUPS, NT> ring = {
        shared, 0
    };
    int group = convoy_uniform(threadIdx.x / CONVOY_WARPGROUP);
    convoy_let_next_begin();
    if (threadIdx.x == 0)
        ring.make();
    __syncthreads();
    convoy_wait_for_previous();
    if (group == GROUPS) {
        if constexpr (GROUPS >= 3)
            convoy_registers_leave<24>();
        if (threadIdx.x % CONVOY_WARPGROUP < 32)
            ring.fill(job);
        return;
    }
    if constexpr (GROUPS >= 3)
        convoy_registers_take<GROUPS == 3 ? 160 : 112>();
    for (int number = blockIdx.x; number < job.tiles; number += gridDim.x) {
        const tile of(job, number);
        float sum[NT][4] = {};
        for (int done = 0; done < of.chunks; done++, ring.turn++) {
            const char *stage = ring.stage();
            convoy_barrier_wait(ring.full(ring.turn), ring.parity(ring.turn));
            uint64_t a = convoy_matrix(stage + group * tile::GROUP_BYTES, FUSED_VECTOR_IMAGES * PRODUCT_CELL,
                                       PRODUCT_PIECE);
            uint64_t b = convoy_matrix(stage + GROUPS * tile::GROUP_BYTES, tile::CELL_BYTES, PRODUCT_PIECE);
            convoy_wgmma_begin();
#pragma unroll
            for (int cell = 0; cell < FUSED_VECTOR_CHUNK; cell += 2)
                convoy_wgmma_tiles<NT>(sum, convoy_matrix_at(a, cell * FUSED_VECTOR_IMAGES),
                                       convoy_matrix_at(b, cell * tile::COLUMNS));
            convoy_wgmma_end();
            convoy_wgmma_wait<1>();
            if (done > 0)
                ring.leave(ring.turn - 1);
        }
        convoy_wgmma_wait<0>();
        ring.leave(ring.turn - 1);
        int row = of.image + group * FUSED_VECTOR_IMAGES + (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16 +
                  (int)threadIdx.x % 32 / 4;
        product_store<NT>(job, row, of.column, job.y + of.split * job.split_stride, sum);
    }
}

#endif
