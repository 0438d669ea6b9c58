/* nhwc_patch: convolution of 3 x 3 in 16 bits, channels last, of up to 128 channels, that reads its inputs
 * once. Compute capability 9.0 alone.
 *
 * conv_wgmma.cuh asks for each input nine times, once for each tap: with 64 channels and 64 maps the L2 cache
 * gives no more than that (7 TB/s of 7.5 on an H200, 150 us where the products take 64). Here the copy engine
 * brings a box of 10 x 10 pixels, with zeros where there is no pixel, for 8 x 8 outputs. A tap is the same
 * box seen from another pixel: a matrix of 8 groups of 8 rows, a group for each row of outputs, whose groups
 * lie a row of the box apart. Cells are swizzled by their address alone, so that a matrix may begin at any
 * pixel.
 *
 * The weights of 64 maps, 72 KB, stay in shared memory. One thread asks for boxes, which come through a ring;
 * three warpgroups take them in turns, 64 outputs by 64 maps each, so that two multiply while one ends its
 * piece. The end is that of conv_wgmma.cuh, with boxes of 8 x 8 outputs in place of rows.
 *
 * One H200, 256 images of 64 x 56 x 56 to 64 maps: 101 us, where nhwc_wgmma took 150 to 183 and the products
 * alone take 64.
 *
 * nhwc_patch:4x2 is the same of 65 to 128 channels, in two panels of 64, for 32 maps at a time: as many
 * weights. Of more maps inputs are read once for each 32. Floor of a piece: 72 products of 64 x 32 x 16,
 * which read 3 KB of shared memory each, 24 cycles. 256 images of 128 x 56 x 56 to 32 maps (densenet121) on
 * an H200: predicted 120 us, measured 117, where nhwc_wgmma takes 250 and memory 61.
 *
 * nhwc_grouped_patch is the same of groups, whose channels that a tile of 64 maps reads are 64 at most
 * (conv_groups.cuh). */
#include "kernels/nhwc/conv_groups.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"

#define PATCH_SIDE   8 /* outputs */
#define PATCH_TAPS   3 /* of a side of the filter */
#define PATCH_GROUPS 3

/* TILES of 8 maps, BOXES of 64 channels. */
template <int TILES, int BOXES> struct nhwc_patch_tile {
    static constexpr int NT = TILES, N = NT * 8, ROW_BYTES = 128, BUFFERS = 2, STAGES = BOXES == 1 ? 6 : 4;
    static constexpr int PANEL = N, PANEL_BYTES = NHWC_PIECE * PANEL * 2;
    static constexpr int BOX = PATCH_SIDE + PATCH_TAPS - 1, BOX_BYTES = BOX * BOX * ROW_BYTES;
    static constexpr int BOX_PLACE = (BOX_BYTES + 1023) / 1024 * 1024, STAGE_BYTES = BOXES * BOX_PLACE;
    static constexpr int CHUNKS = PATCH_TAPS * PATCH_TAPS * BOXES; /* of the weights: taps, boxes */
    static constexpr int CHUNK_BYTES = N * ROW_BYTES, WEIGHT_BYTES = CHUNKS * CHUNK_BYTES;
    static constexpr int RING = WEIGHT_BYTES, RESULTS = RING + STAGES * STAGE_BYTES;
    static constexpr int BARRIERS = RESULTS + PATCH_GROUPS * BUFFERS * PANEL_BYTES;
    static constexpr int SHARED_BYTES = BARRIERS + 256 + 1024;
    static constexpr int THREADS = (PATCH_GROUPS + 1) * CONVOY_WARPGROUP;
};

/* A piece of 8 x 8 outputs. */
struct nhwc_patch_origin {
    int n, y, x;

    __device__ __forceinline__ nhwc_patch_origin(const struct nhwc_job &job, int piece)
    {
        int line = piece / job.across;
        n = line / job.down;
        x = (piece - line * job.across) * PATCH_SIDE;
        y = (line - n * job.down) * PATCH_SIDE;
    }
};

/* The barriers of a block: of each stage, of each place for results, and of the weights. A place is used by
 * every PATCH_GROUPS BUFFERS-th piece. */
template <typename tile> struct nhwc_patch_barriers {
    static constexpr int PLACES = PATCH_GROUPS * tile::BUFFERS;
    uint64_t *first;

    __device__ __forceinline__ uint64_t *full(int turn) const
    {
        return first + turn % tile::STAGES;
    }
    __device__ __forceinline__ uint64_t *empty(int turn) const
    {
        return first + tile::STAGES + turn % tile::STAGES;
    }
    __device__ __forceinline__ uint64_t *added(int turn) const
    {
        return first + 2 * tile::STAGES + turn % PLACES;
    }
    __device__ __forceinline__ uint64_t *free(int turn) const
    {
        return first + 2 * tile::STAGES + PLACES + turn % PLACES;
    }
    __device__ __forceinline__ uint64_t *weights(void) const
    {
        return first + 2 * tile::STAGES + 2 * PLACES;
    }
    /* By a thread, before a barrier of the block. */
    __device__ __forceinline__ void make(void) const
    {
        for (int i = 0; i < tile::STAGES; i++) {
            convoy_barrier_make(full(i), 1);
            convoy_barrier_make(empty(i), CONVOY_WARPGROUP / 32);
        }
        for (int i = 0; i < PLACES; i++) {
            convoy_barrier_make(added(i), 1);
            convoy_barrier_make(free(i), 1);
        }
        convoy_barrier_make(weights(), 1);
    }
};

/* Where results of a block's turn-th piece lie. */
template <typename tile> static __device__ __forceinline__ char *nhwc_patch_place(char *shared, int turn)
{
    return shared + tile::RESULTS + turn % nhwc_patch_barriers<tile>::PLACES * tile::PANEL_BYTES;
}

/* Asks for everything that the block's pieces need; one thread. */
template <typename tile>
static __device__ __forceinline__ void nhwc_patch_fill(const struct nhwc_job &job, char *shared,
                                                       const nhwc_patch_barriers<tile> &barriers, int column,
                                                       int first, int step)
{
    constexpr int PLACES = nhwc_patch_barriers<tile>::PLACES, BOXES = tile::STAGE_BYTES / tile::BOX_PLACE;
    int channel = nhwc_first_channel(job, column);
    convoy_prefetch_map(&job.x);
    for (int chunk = 0; chunk < tile::CHUNKS; chunk++)
        convoy_copy_row(shared + chunk * tile::CHUNK_BYTES, nhwc_weights(job, chunk, column, tile::ROW_BYTES),
                        tile::CHUNK_BYTES, barriers.weights());
    convoy_barrier_expect(barriers.weights(), tile::WEIGHT_BYTES);
    convoy_wait_for_previous();
    int turn = 0;
    for (int piece = first; piece < job.tiles; piece += step, turn++) {
        const nhwc_patch_origin at(job, piece);
        if (turn >= tile::STAGES)
            convoy_barrier_wait(barriers.empty(turn), turn / tile::STAGES % 2 ^ 1);
        char *stage = shared + tile::RING + turn % tile::STAGES * tile::STAGE_BYTES;
        for (int box = 0; box < BOXES; box++)
            convoy_copy_patch(stage + box * tile::BOX_PLACE, &job.x, channel + box * NHWC_PATCH,
                              at.x - job.pad[1], at.y - job.pad[0], at.n, barriers.full(turn));
        convoy_barrier_expect(barriers.full(turn), BOXES * tile::BOX_BYTES);
        if (!job.has_residual)
            continue;
        if (turn >= PLACES)
            convoy_barrier_wait(barriers.free(turn), turn / PLACES % 2 ^ 1);
        convoy_copy_patch(nhwc_patch_place<tile>(shared, turn), &job.residual, column, at.x, at.y, at.n,
                          barriers.added(turn));
        convoy_barrier_expect(barriers.added(turn), tile::PANEL_BYTES);
    }
}

/* The sums of a piece: all taps, all channels. */
template <typename tile>
static __device__ __forceinline__ void nhwc_patch_multiply(const char *weights, const char *stage,
                                                           float (&sum)[tile::NT][4])
{
    constexpr uint64_t SWIZZLED = (uint64_t)1 << 62; /* rows of 128 bytes */
    constexpr int BOXES = tile::STAGE_BYTES / tile::BOX_PLACE, CELLS = tile::ROW_BYTES / 16;
    const uint64_t a = convoy_matrix(stage, 16, tile::BOX * tile::ROW_BYTES) | SWIZZLED;
    const uint64_t b = convoy_matrix_swizzled<tile::ROW_BYTES>(weights);
    convoy_wgmma_begin();
#pragma unroll
    for (int chunk = 0; chunk < tile::CHUNKS; chunk++)
#pragma unroll
        for (int step = 0; step < tile::ROW_BYTES / 32; step++) {
            const int tap = chunk / BOXES, box = chunk % BOXES;
            const int pixel = tap / PATCH_TAPS * tile::BOX + tap % PATCH_TAPS;
            nhwc_multiply<tile::NT, tile::ROW_BYTES>(
                sum, convoy_matrix_at(a, box * (tile::BOX_PLACE / 16) + pixel * CELLS + step * 2),
                convoy_matrix_at(b, chunk * (tile::CHUNK_BYTES / 16) + step * 2));
        }
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
}

/* Tells the image of numbers that fp16 does not hold, of rows `row` and `row` + 8 of a piece. */
static __device__ __forceinline__ void
nhwc_patch_tell(const struct nhwc_job &job, const nhwc_patch_origin &at, int row, const uint32_t (&over)[2])
{
    bool any = false;
#pragma unroll
    for (int half = 0; half < 2; half++)
        any |= at.y + row / PATCH_SIDE + half < job.oh && at.x + row % PATCH_SIDE < job.ow &&
               nhwc_any_over(over[half]);
    nhwc_tell(job.overflow, any, at.n);
}

/* A block computes one column of tiles. */
template <int TILES, int BOXES>
static __global__ void __launch_bounds__(nhwc_patch_tile<TILES, BOXES>::THREADS, 1)
    nhwc_patch(CONVOY_PARAMETER(struct nhwc_job) job)
{
    using tile = nhwc_patch_tile<TILES, BOXES>;
    char *shared = nhwc_shared();
    const nhwc_patch_barriers<tile> barriers = {reinterpret_cast<uint64_t *>(shared + tile::BARRIERS)};
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP);
    int column = (int)blockIdx.x % job.tiles_n * tile::N;
    int first = (int)blockIdx.x / job.tiles_n, step = (int)gridDim.x / job.tiles_n;
    convoy_let_next_begin();
    if (threadIdx.x == 0)
        barriers.make();
    __syncthreads();
    if (group == PATCH_GROUPS) {
        if (threadIdx.x % CONVOY_WARPGROUP == 0)
            nhwc_patch_fill<tile>(job, shared, barriers, column, first, step);
        return;
    }
    int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16;
    bool stores = threadIdx.x % CONVOY_WARPGROUP == 0;
    convoy_barrier_wait(barriers.weights(), 0);
    int turn = group;
    for (int piece = first + group * step; piece < job.tiles;
         piece += PATCH_GROUPS * step, turn += PATCH_GROUPS) {
        const nhwc_patch_origin at(job, piece);
        float sum[tile::NT][4] = {};
        uint32_t over[2] = {};
        convoy_barrier_wait(barriers.full(turn), turn / tile::STAGES % 2);
        nhwc_patch_multiply<tile>(shared, shared + tile::RING + turn % tile::STAGES * tile::STAGE_BYTES, sum);
        convoy_barrier_arrive_if(lane == 0, barriers.empty(turn));
        char *place = nhwc_patch_place<tile>(shared, turn);
        if (job.has_residual)
            convoy_barrier_wait(barriers.added(turn), turn / nhwc_patch_barriers<tile>::PLACES % 2);
        else
            nhwc_group_sync(group); /* the thread that stores has waited until the place was free */
        nhwc_end_piece<tile>(job, place, row, lane, column, sum, over);
        nhwc_patch_tell(job, at, row + lane / 4, over);
        convoy_wgmma_publish();
        nhwc_group_sync(group);
        if (stores) {
            convoy_store_patch(&job.y, place, column, at.x, at.y, at.n);
            convoy_store_end();
            convoy_store_wait<tile::BUFFERS - 1>();
            /* The place of the group's piece before this one is free. */
            if (job.has_residual)
                convoy_barrier_arrive_if(turn >= PATCH_GROUPS, barriers.free(turn + PATCH_GROUPS));
        }
    }
    if (stores)
        convoy_store_wait<0>(); /* shared memory stays until it was read */
}

/* ---- Launch ---- */

/* Of outputs, in boxes of 8 x 8. */
static struct convoy_map_images outputs_as_images(const struct convoy_conv_shape *s, const void *data,
                                                  int64_t pixel)
{
    return nhwc_plain_images(data, s->n, s->oh, s->ow, nhwc_columns_of(s), pixel);
}

static int patches_of(const struct convoy_conv_shape *s)
{
    return (int)(s->n * convoy_div_up(s->oh, PATCH_SIDE) * convoy_div_up(s->ow, PATCH_SIDE));
}

template <int TILES, int BOXES, bool GROUPED>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = nhwc_patch_tile<TILES, BOXES>;
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, NHWC_PATCH, NHWC_PIECE, tile::N, 0, &job);
    if (GROUPED)
        nhwc_describe_groups(s, tile::N, NHWC_PATCH, &job);
    const struct convoy_map_images x = nhwc_images_of(s, operands->x.data, 64, NHWC_PIECE);
    const struct convoy_map_images y = outputs_as_images(s, operands->y, s->nhwc.y_pixel);
    const struct convoy_map_images residual =
        outputs_as_images(s, operands->residual, s->nhwc.residual_pixel);
    job.across = (int)convoy_div_up(s->ow, PATCH_SIDE);
    job.down = (int)convoy_div_up(s->oh, PATCH_SIDE);
    job.tiles = patches_of(s);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.x, &x, NHWC_PATCH, tile::BOX, tile::BOX);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.y, &y, tile::PANEL, PATCH_SIDE, PATCH_SIDE);
    if (error == cudaSuccess && s->residual)
        error = convoy_map_patches(&job.residual, &residual, tile::PANEL, PATCH_SIDE, PATCH_SIDE);
    if (error != cudaSuccess)
        return error;
    int64_t blocks = convoy_div_up(NHWC_SMS, job.tiles_n) * job.tiles_n,
            needed = (int64_t)job.tiles * job.tiles_n;
    return convoy_launch_early(nhwc_patch<TILES, BOXES>, dim3((unsigned)(needed < blocks ? needed : blocks)),
                               dim3(tile::THREADS), tile::SHARED_BYTES, stream, job);
}

/* ---- The list ---- */

template <int TILES, int BOXES> static float estimate(const struct convoy_conv_shape *s)
{
    using tile = nhwc_patch_tile<TILES, BOXES>;
    int64_t pieces = patches_of(s) * convoy_div_up(nhwc_columns_of(s), tile::N);
    double products = tile::CHUNKS * (64 / 16) * nhwc_product_cycles(tile::N); /* cycles of a piece */
    double cycles =
        (double)convoy_div_up(pieces, CONVOY_ESTIMATE_SMS) * products * 1.5 + NHWC_START_CYCLES * 2;
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

static bool takes_size(const struct convoy_conv_shape *s)
{
    return s->nhwc.window == 0 && convoy_is_square(s, 3, 1) &&
           convoy_div_up(s->oh, 8) * convoy_div_up(s->ow, 8) * s->n < INT32_MAX / 64;
}

/* The boxes have room for 64 channels each. */
template <int BOXES> static bool takes(const struct convoy_conv_shape *s)
{
    return nhwc_takes(s) && takes_size(s) && s->c > (BOXES == 1 ? 32 : (BOXES - 1) * NHWC_PATCH) &&
           s->c <= BOXES * NHWC_PATCH;
}

static bool takes_groups(const struct convoy_conv_shape *s)
{
    return nhwc_takes_groups(s) && takes_size(s) &&
           nhwc_group_chunks(s, nhwc_patch_tile<8, 1>::N, NHWC_PATCH) == 1;
}

const struct convoy_conv_kernel convoy_conv_nhwc_patch[CONVOY_NHWC_PATCH_KERNELS] = {
    {"nhwc_patch", CONVOY_COMPUTE_FP16, takes<1>, estimate<8, 1>, nhwc_packed_floats<NHWC_PATCH>,
     nhwc_pack<NHWC_PATCH>, convoy_no_scratch, launch<8, 1, false>, true},
    {"nhwc_patch:4x2", CONVOY_COMPUTE_FP16, takes<2>, estimate<4, 2>, nhwc_packed_floats<NHWC_PATCH>,
     nhwc_pack<NHWC_PATCH>, convoy_no_scratch, launch<4, 2, false>, true},
    {"nhwc_grouped_patch", CONVOY_COMPUTE_FP16, takes_groups, estimate<8, 1>,
     nhwc_packed_groups<nhwc_patch_tile<8, 1>::N, NHWC_PATCH>,
     nhwc_pack_groups<nhwc_patch_tile<8, 1>::N, NHWC_PATCH>, convoy_no_scratch, launch<8, 1, true>, true}};
