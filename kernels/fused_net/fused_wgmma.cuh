/* A convolution of whole_net on warpgroups (wgmma.cuh): fp16, stride 1, one block for an image.
 *
 * Idea: mma.sync has its operands in registers, loaded by each warp for its own tile. Here a warpgroup
 * multiplies straight from the planes of cells: 8 adjacent cells are a piece of a matrix as they
 * lie, so a patch of 8 x 8 outputs is 64 rows whose pieces are a line apart, and each step of the reduction
 * is the same patch seen from another tap or two planes on: one descriptor. The weights come through a ring
 * of chunks that the bulk copy engine fills, of all such layers one after the other and around again for the
 * next image, so that those of a layer arrive while the one before it ends.
 *
 * Floor: a step of 64 x 32 x 16 costs shared memory 16 + 8 wavefronts and the tensor cores 16 cycles;
 * cifar10-resnet by that is 130,000 cycles an image, 0.6 ms for 1,024. docs/kernels.md has the rest. */
#ifndef CONVOY_KERNELS_FUSED_WGMMA_CUH
#define CONVOY_KERNELS_FUSED_WGMMA_CUH

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/fused_net/fused_conv.cuh"

/* The weights' way through shared memory. A chunk lies in one of the ring's places; a barrier `full` says
 * that it is there, one `empty` that all warps have multiplied with it. One thread does nothing but ask for
 * them. */
struct fused_ring {
    int turn; /* the chunk that is next, of all images */

    static __device__ __forceinline__ char *place(const struct fused_job &job, uint32_t *shared, int turn)
    {
        return reinterpret_cast<char *>(shared + job.ring) + turn % FUSED_STAGES * FUSED_CHUNK;
    }

    static __device__ __forceinline__ uint64_t *full(const struct fused_job &job, uint32_t *shared, int turn)
    {
        return reinterpret_cast<uint64_t *>(place(job, shared, 0) + FUSED_STAGES * FUSED_CHUNK) +
               turn % FUSED_STAGES;
    }

    static __device__ __forceinline__ uint64_t *empty(const struct fused_job &job, uint32_t *shared, int turn)
    {
        return full(job, shared, turn) + FUSED_STAGES;
    }

    static __device__ __forceinline__ int parity(int turn)
    {
        return turn / FUSED_STAGES % 2;
    }

    /* By a warpgroup, before a barrier of the block. */
    static __device__ __forceinline__ void make(const struct fused_job &job, uint32_t *shared)
    {
        for (int i = 0; i < FUSED_STAGES && threadIdx.x % CONVOY_WARPGROUP == 0; i++) {
            convoy_barrier_make(full(job, shared, i), 1);
            convoy_barrier_make(empty(job, shared, i), job.threads / 32);
        }
    }

    /* Asks for so many chunks, by the same warpgroup. */
    static __device__ __forceinline__ void fill(const struct fused_job &job, uint32_t *shared, int chunks)
    {
        for (int i = 0; i < chunks && threadIdx.x % CONVOY_WARPGROUP == 0; i++) {
            const uint2 chunk = __ldg(reinterpret_cast<const uint2 *>(job.chunks + i % job.ring_chunks));
            if (i >= FUSED_STAGES)
                convoy_barrier_wait(empty(job, shared, i), parity(i - FUSED_STAGES));
            convoy_copy_bulk(place(job, shared, i), job.weights + chunk.x, (int)chunk.y,
                             full(job, shared, i));
        }
    }

    /* The next chunk, once it is there. */
    __device__ __forceinline__ const char *wait(const struct fused_job &job, uint32_t *shared) const
    {
        convoy_barrier_wait(full(job, shared, turn), parity(turn));
        return place(job, shared, turn);
    }

    /* This warp does not read chunk `done` any more. */
    static __device__ __forceinline__ void leave(const struct fused_job &job, uint32_t *shared, int done)
    {
        convoy_barrier_arrive_if(threadIdx.x % 32 == 0, empty(job, shared, done));
    }
};

/* Where a patch's input begins, under the filter's first tap: words from plane 0. rows: of its results. */
static __device__ __forceinline__ int fused_find_patch(const struct fused_step &step, int number,
                                                       struct fused_patch &rows)
{
    int width = step.real_w, height = step.real_h;
    int down = tensor_divide(number, step.by_w), beside = number - down * ((width + 7) / 8);
    int y = down * 8, x = beside * 8, column = (int)threadIdx.x % 32 / 4;
    rows.line = step.width * FUSED_CELL;
    rows.out = step.first + y * rows.line + (x + column) * FUSED_CELL;
    rows.lines = x + column < width ? height - y : 0;
    return step.patch_in + (y * step.in_line / (int)sizeof(uint32_t)) + x * FUSED_CELL;
}

/* What fused_add_residual(), the activation and fused_keep() make of a patch and tiles that are all real:
 * four matrices of 8 results x 8 maps at a time, each row a cell. */
template <int NT>
static __device__ __forceinline__ void fused_keep_exact(const struct fused_step &step, int map,
                                                        const struct fused_patch &rows, uint32_t *shared,
                                                        float (&sum)[NT][4])
{
    int lane = threadIdx.x % 32, line = (int)threadIdx.x / 32 % 4 * 2 + lane / 8 % 2;
    /* The lane's own row of such matrices; rows.out is of column lane / 4. */
    int at =
        rows.out + line * rows.line + (lane % 8 - lane / 4) * FUSED_CELL + (map + lane / 16) * step.out_plane;
    int bytes = at * (int)sizeof(uint32_t), next = step.out_plane * 2 * (int)sizeof(uint32_t);
    if (step.has_residual) {
        const char *from = reinterpret_cast<const char *>(shared + step.residual);
#pragma unroll
        for (int j = 0; j < NT; j += 2) {
            uint32_t words[4];
            convoy_load_matrices(words, from, bytes + j / 2 * next);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float2 add = fused_halves(words[k]);
                sum[j + k / 2][k % 2 * 2] += add.x;
                sum[j + k / 2][k % 2 * 2 + 1] += add.y;
            }
        }
    }
    convoy_activate<true>(step.act, sum);
    char *to = reinterpret_cast<char *>(shared + step.out);
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        const uint32_t words[4] = {convoy_half2(sum[j][0], sum[j][1]), convoy_half2(sum[j][2], sum[j][3]),
                                   convoy_half2(sum[j + 1][0], sum[j + 1][1]),
                                   convoy_half2(sum[j + 1][2], sum[j + 1][3])};
        convoy_store_matrices(to, bytes + j / 2 * next, words);
    }
}

/* MT patches x NT tiles of 8 maps to each warpgroup, of which some may have none. A chunk is multiplied while
 * the one before it ends. */
template <int MT, int NT, int STEPS>
static __device__ __forceinline__ void fused_wgmma(const struct fused_job &job, const struct fused_step &step,
                                                   uint32_t *shared, const int *offsets,
                                                   struct fused_ring &ring)
{
    constexpr int TILE = 128; /* bytes of 8 maps in half a step's weights */
    int steps = convoy_uniform(step.steps), n_tiles = convoy_uniform(step.n_tiles);
    int group = convoy_uniform(threadIdx.x / CONVOY_WARPGROUP), across = n_tiles / NT;
    int patch = group / across * MT, map = group % across * NT, patches = step.m_tiles / 4;
    bool active = group < convoy_uniform(step.tasks);
    struct fused_patch rows[MT];
    uint64_t inputs[MT];
    float2 bias[NT];
    float sum[MT][NT][4] = {};
#pragma unroll
    for (int i = 0; i < MT; i++)
        inputs[i] =
            convoy_matrix(shared + step.in + fused_find_patch(step, min(patch + i, patches - 1), rows[i]),
                          step.in_plane * (int)sizeof(uint32_t), step.in_line);
#pragma unroll
    for (int j = 0; j < NT; j++) /* added in the end, so that no warp waits for it now */
        bias[j] = step.bias == FUSED_NO_BIAS
                      ? make_float2(0.0f, 0.0f)
                      : __ldg(reinterpret_cast<const float2 *>(job.weights + step.bias + (map + j) * 8) +
                              threadIdx.x % 4);
    if (!active) { /* goes along, because all warps leave each chunk */
        for (int done = 0; done < steps; done += STEPS, ring.turn++) {
            ring.wait(job, shared);
            __syncwarp(); /* all lanes have looked before one says that the chunk was read */
            ring.leave(job, shared, ring.turn);
        }
        return;
    }
    for (int done = 0; done < steps; done += STEPS, ring.turn++) {
        int at[STEPS];
#pragma unroll
        for (int k = 0; k < STEPS; k++) /* before the wait, since each is on its way for a while */
            at[k] = offsets[k * FUSED_STEP_CELLS];
        uint64_t filters = convoy_matrix(ring.wait(job, shared) + map * TILE, n_tiles * TILE, TILE);
        convoy_wgmma_begin();
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
#pragma unroll
            for (int i = 0; i < MT; i++)
                convoy_wgmma(sum[i], convoy_matrix_at(inputs[i], at[k]), filters);
            filters = convoy_matrix_at(filters, n_tiles * TILE * 2 >> 4);
        }
        convoy_wgmma_end();
        offsets += STEPS * FUSED_STEP_CELLS;
        convoy_wgmma_wait<1>();
        if (done > 0)
            ring.leave(job, shared, ring.turn - 1);
    }
    convoy_wgmma_wait<0>();
    ring.leave(job, shared, ring.turn - 1);
#pragma unroll
    for (int i = 0; i < MT; i++) {
        struct fused_task task = {(patch + i) * 4 + (int)threadIdx.x / 32 % 4, map};
        if (patch + i >= patches)
            break;
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int k = 0; k < 4; k++)
                sum[i][j][k] += k % 2 == 0 ? bias[j].x : bias[j].y;
        if (step.exact) {
            fused_keep_exact<NT>(step, map, rows[i], shared, sum[i]);
            continue;
        }
        if (step.has_residual)
            fused_add_residual<TENSOR_HALF, false, 1, NT>(step, task, rows[i], shared, sum[i]);
        convoy_activate<true>(step.act, sum[i]);
        fused_keep<TENSOR_HALF, false, 1, NT>(step, task, rows[i], shared, sum[i]);
    }
}

static __device__ __forceinline__ void fused_wgmma_any(const struct fused_job &job,
                                                       const struct fused_step &step, uint32_t *shared,
                                                       const int *offsets, struct fused_ring &ring)
{
    switch (convoy_uniform((step.mt * 16 + step.nt) * 16 + step.chunk_steps)) {
#define FUSED_CASE(MT, NT, STEPS)                                                                            \
    case (MT * 16 + NT) * 16 + STEPS:                                                                        \
        fused_wgmma<MT, NT, STEPS>(job, step, shared, offsets, ring);                                        \
        return;
        FUSED_WGMMA_CASES(FUSED_CASE)
#undef FUSED_CASE
    default:
        return;
    }
}

#endif
