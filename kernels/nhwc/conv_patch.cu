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
 * Channels come in boxes of 64, 32 and 16 (80 are a box of 64 and one of 16), so that little is multiplied
 * with channels that are not there, and their weights leave room for more maps. nhwc_patch takes up to 96.
 *
 * The weights of 64 maps, 72 KB for 64 channels, stay in shared memory. One thread asks for boxes, which come
 * through a ring; warpgroups take them in turns, 64 outputs by 64 maps each, so that others multiply while
 * one ends its piece. The end is that of conv_wgmma.cuh, with boxes of 8 x 8 outputs in place of rows.
 *
 * Shared memory bounds a piece: products of 64 x 64 x 16 read 4 KB of it, 32 cycles, as many as they take;
 * boxes and results pass through it besides. nhwc_patch:4 is the same of 32 maps at a time, for layers of so
 * few, or of more channels than leave room for the weights of 64 maps; its products read 3 KB, 24 cycles.
 *
 * Measured on H200s, 256 images, microseconds, nhwc_wgmma or nhwc_turns beside it:
 * 64 x 56 x 56 to 64 maps: 101, 150 to 183; the products alone 64.
 * 128 x 56 x 56 to 32 maps: 117 (predicted 120), 250; memory 61.
 * 32 x 149 x 149 to 32 maps: 304 (predicted 220), 663; with three warpgroups 359; memory 180.
 * 32 x 147 x 147 to 64 maps: 446 (predicted 300), 738; memory 250.
 * 80 x 73 x 73 to 192 maps: 535 (predicted 385), 32 maps at a time 831; the products alone 390.
 *
 * nhwc_grouped_patch is the same of groups, whose channels that a tile of 64 maps reads are 64 at most
 * (conv_groups.cuh). */
#include "kernels/nhwc/conv_patch.cuh"

#include "kernels/nhwc/conv_groups.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"

/* The map of boxes of so many steps. */
static __device__ __forceinline__ const CUtensorMap *nhwc_patch_map(const struct nhwc_patch_job &patch,
                                                                    int steps)
{
    return steps == 4 ? &patch.conv.x : &patch.x[2 - steps];
}

/* Asks for the weights of the block's maps. They lie in memory as in shared memory, but of all maps. */
template <typename tile, int STEPS>
static __device__ __forceinline__ void nhwc_patch_copy_weights(const struct nhwc_job &job, char *shared,
                                                               int column, uint64_t *barrier)
{
    for (int tap = 0; tap < tile::TAPS; tap++)
#pragma unroll
        for (int box = 0; box < tile::BOXES; box++) {
            const int row = patch_box_steps(STEPS, box) * tile::STEP_BYTES;
            int64_t all =
                (int64_t)job.columns * tile::STEP_BYTES * (tap * STEPS + patch_box_first(STEPS, box));
            convoy_copy_row(shared + tile::weights_at(tap, box), job.weights + all + (int64_t)column * row,
                            tile::N * row, barrier);
        }
    convoy_barrier_expect(barrier, tile::WEIGHT_BYTES);
}

/* Asks for everything that the block's pieces need; one thread. */
template <typename tile, int STEPS>
static __device__ __forceinline__ void nhwc_patch_fill(const struct nhwc_patch_job &patch, char *shared,
                                                       const nhwc_patch_barriers<tile> &barriers, int column,
                                                       int first, int step)
{
    constexpr int PLACES = nhwc_patch_barriers<tile>::PLACES;
    const struct nhwc_job &job = patch.conv;
    int channel = nhwc_first_channel(job, column);
    for (int box = 0; box < tile::BOXES; box++)
        convoy_prefetch_map(nhwc_patch_map(patch, patch_box_steps(STEPS, box)));
    nhwc_patch_copy_weights<tile, STEPS>(job, shared, column, barriers.weights());
    convoy_wait_for_previous();
    int turn = 0;
    for (int piece = first; piece < job.tiles; piece += step, turn++) {
        const nhwc_patch_origin at(job, piece);
        if (turn >= tile::STAGES)
            convoy_barrier_wait(barriers.empty(turn), turn / tile::STAGES % 2 ^ 1);
        char *stage = shared + tile::RING + turn % tile::STAGES * tile::STAGE_BYTES;
#pragma unroll
        for (int box = 0; box < tile::BOXES; box++) {
            const int steps = patch_box_steps(STEPS, box);
            convoy_copy_patch(stage + tile::box_at(box), nhwc_patch_map(patch, steps),
                              channel + patch_box_first(STEPS, box) * 16, at.x - job.pad[1],
                              at.y - job.pad[0], at.n, barriers.full(turn));
        }
        convoy_barrier_expect(barriers.full(turn), tile::COPIED_BYTES);
        if (!job.has_residual)
            continue;
        if (turn >= PLACES)
            convoy_barrier_wait(barriers.free(turn), turn / PLACES % 2 ^ 1);
        convoy_copy_patch(nhwc_patch_place<tile>(shared, turn), &job.residual, column, at.x, at.y, at.n,
                          barriers.added(turn));
        convoy_barrier_expect(barriers.added(turn), tile::PANEL_BYTES);
    }
}

/* The products of a box: its channels of all taps. */
template <typename tile, int STEPS, int BOX>
static __device__ __forceinline__ void nhwc_patch_multiply_box(const char *weights, const char *stage,
                                                               float (&sum)[tile::NT][4])
{
    constexpr int BOX_STEPS = patch_box_steps(STEPS, BOX), ROW_BYTES = BOX_STEPS * tile::STEP_BYTES;
    /* The layout of rows of that many bytes, with groups of 8 rows that lie a row of the box apart. */
    constexpr uint64_t LAYOUT = convoy_matrix_layout(ROW_BYTES);
    const uint64_t a = convoy_matrix(stage + tile::box_at(BOX), 16, tile::BOX * ROW_BYTES) | LAYOUT;
#pragma unroll
    for (int tap = 0; tap < tile::TAPS; tap++) {
        const int pixel = tap / PATCH_TAPS * tile::BOX + tap % PATCH_TAPS;
        const uint64_t b = convoy_matrix_swizzled<ROW_BYTES>(weights + tile::weights_at(tap, BOX));
#pragma unroll
        for (int step = 0; step < BOX_STEPS; step++)
            nhwc_multiply<tile::NT, ROW_BYTES>(sum, convoy_matrix_at(a, pixel * (ROW_BYTES / 16) + step * 2),
                                               convoy_matrix_at(b, step * 2));
    }
    if constexpr (BOX + 1 < tile::BOXES)
        nhwc_patch_multiply_box<tile, STEPS, BOX + 1>(weights, stage, sum);
}

/* The sums of a piece. */
template <typename tile, int STEPS>
static __device__ __forceinline__ void nhwc_patch_multiply(const char *weights, const char *stage,
                                                           float (&sum)[tile::NT][4])
{
    convoy_wgmma_begin();
    nhwc_patch_multiply_box<tile, STEPS, 0>(weights, stage, sum);
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
template <int TILES, int STEPS>
static __global__ void __launch_bounds__(nhwc_patch_tile<TILES, STEPS>::THREADS, 1)
    nhwc_patch(CONVOY_PARAMETER(struct nhwc_patch_job) patch)
{
    using tile = nhwc_patch_tile<TILES, STEPS>;
    const struct nhwc_job &job = patch.conv;
    char *shared = nhwc_shared();
    const nhwc_patch_barriers<tile> barriers = {reinterpret_cast<uint64_t *>(shared + tile::BARRIERS)};
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP);
    int column = (int)blockIdx.x % job.tiles_n * tile::N;
    int first = (int)blockIdx.x / job.tiles_n, step = (int)gridDim.x / job.tiles_n;
    convoy_let_next_begin();
    if (threadIdx.x == 0)
        barriers.make();
    __syncthreads();
    if (group == tile::GROUPS) {
        if (threadIdx.x % CONVOY_WARPGROUP == 0)
            nhwc_patch_fill<tile, STEPS>(patch, shared, barriers, column, first, step);
        return;
    }
    int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16;
    bool stores = threadIdx.x % CONVOY_WARPGROUP == 0;
    convoy_barrier_wait(barriers.weights(), 0);
    int turn = group;
    for (int piece = first + group * step; piece < job.tiles;
         piece += tile::GROUPS * step, turn += tile::GROUPS) {
        const nhwc_patch_origin at(job, piece);
        float sum[tile::NT][4] = {};
        uint32_t over[2] = {};
        convoy_barrier_wait(barriers.full(turn), turn / tile::STAGES % 2);
        nhwc_patch_multiply<tile, STEPS>(shared,
                                         shared + tile::RING + turn % tile::STAGES * tile::STAGE_BYTES, sum);
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
                convoy_barrier_arrive_if(turn >= tile::GROUPS, barriers.free(turn + tile::GROUPS));
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

/* Boxes of a size that no launch uses are described all the same. */
static cudaError_t describe_boxes(const struct convoy_conv_shape *s,
                                  const struct convoy_conv_operands *operands, int side,
                                  struct nhwc_patch_job *patch)
{
    const struct convoy_map_images x = nhwc_images_of(s, operands->x.data, 64, NHWC_PIECE);
    cudaError_t error = convoy_map_patches(&patch->conv.x, &x, 64, side, side);
    for (int i = 0; i < PATCH_SIZES - 1 && error == cudaSuccess; i++)
        error = convoy_map_patches(&patch->x[i], &x, 32 >> i, side, side);
    return error;
}

template <int TILES, int STEPS, bool GROUPED = false>
static cudaError_t launch_steps(const struct convoy_conv_shape *s,
                                const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    using tile = nhwc_patch_tile<TILES, STEPS>;
    struct nhwc_patch_job patch = {};
    struct nhwc_job *job = &patch.conv;
    cudaError_t error = nhwc_describe(s, operands, NHWC_PATCH, NHWC_PIECE, tile::N, 0, job);
    if (GROUPED)
        nhwc_describe_groups(s, tile::N, NHWC_PATCH, job);
    const struct convoy_map_images y = outputs_as_images(s, operands->y, s->nhwc.y_pixel);
    const struct convoy_map_images residual =
        outputs_as_images(s, operands->residual, s->nhwc.residual_pixel);
    job->across = (int)convoy_div_up(s->ow, PATCH_SIDE);
    job->down = (int)convoy_div_up(s->oh, PATCH_SIDE);
    job->tiles = patches_of(s);
    if (error == cudaSuccess)
        error = describe_boxes(s, operands, tile::BOX, &patch);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job->y, &y, tile::PANEL, PATCH_SIDE, PATCH_SIDE);
    if (error == cudaSuccess && s->residual)
        error = convoy_map_patches(&job->residual, &residual, tile::PANEL, PATCH_SIDE, PATCH_SIDE);
    if (error != cudaSuccess)
        return error;
    int64_t blocks = convoy_div_up(NHWC_SMS, job->tiles_n) * job->tiles_n,
            needed = (int64_t)job->tiles * job->tiles_n;
    return convoy_launch_early(nhwc_patch<TILES, STEPS>, dim3((unsigned)(needed < blocks ? needed : blocks)),
                               dim3(tile::THREADS), tile::SHARED_BYTES, stream, patch);
}

/* Steps of 16 channels as the kernels of 64 and of 32 maps have them. */
static int steps_of(const struct convoy_conv_shape *s)
{
    return (int)convoy_div_up(s->c, 16);
}

static int narrow_steps_of(const struct convoy_conv_shape *s)
{
    return steps_of(s) <= 2 ? steps_of(s) : (steps_of(s) + 1) / 2 * 2;
}

static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    static cudaError_t (*const launches[])(const struct convoy_conv_shape *,
                                           const struct convoy_conv_operands *, cudaStream_t) = {
        launch_steps<8, 1>, launch_steps<8, 2>, launch_steps<8, 3>,
        launch_steps<8, 4>, launch_steps<8, 5>, launch_steps<8, 6>};
    return launches[steps_of(s) - 1](s, operands, stream);
}

static cudaError_t launch_narrow(const struct convoy_conv_shape *s,
                                 const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    switch (narrow_steps_of(s)) {
    case 1:
        return launch_steps<4, 1>(s, operands, stream);
    case 2:
        return launch_steps<4, 2>(s, operands, stream);
    case 4:
        return launch_steps<4, 4>(s, operands, stream);
    case 6:
        return launch_steps<4, 6>(s, operands, stream);
    default:
        return launch_steps<4, 8>(s, operands, stream);
    }
}

/* ---- Weights ---- */

static size_t packed(const struct convoy_conv_shape *s, int steps)
{
    int taps = PATCH_TAPS * PATCH_TAPS;
    return ((size_t)taps * (size_t)(nhwc_columns_of(s) * steps * 16) + NHWC_WEIGHT_SLACK * NHWC_PATCH) / 2;
}

/* Tap after tap, box after box, map after map, the numbers of the box's channels, swizzled. */
static void pack(const struct convoy_conv_shape *s, const float *weights, int steps, float *packed)
{
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    for (int tap = 0; tap < PATCH_TAPS * PATCH_TAPS; tap++)
        for (int box = 0; box < patch_boxes(steps); box++) {
            int first = patch_box_first(steps, box) * 16, width = patch_box_steps(steps, box) * 16;
            for (int k = 0; k < s->k; k++)
                for (int i = 0; i < width; i++) {
                    int cell = i / 8 ^ convoy_swizzle(width * 2, k);
                    to[k * width + cell * 8 + i % 8] =
                        convoy_half(nhwc_weight_at(s, weights, k, tap, first + i));
                }
            to += nhwc_columns_of(s) * width;
        }
}

static size_t packed_floats(const struct convoy_conv_shape *s)
{
    return packed(s, steps_of(s));
}

static size_t packed_narrow(const struct convoy_conv_shape *s)
{
    return packed(s, narrow_steps_of(s));
}

static void pack_weights(const struct convoy_conv_shape *s, const float *weights, float *to)
{
    pack(s, weights, steps_of(s), to);
}

static void pack_narrow(const struct convoy_conv_shape *s, const float *weights, float *to)
{
    pack(s, weights, narrow_steps_of(s), to);
}

/* ---- The list ---- */

/* Fitted as NHWC_START_CYCLES is. */
#define START_CYCLES 4300.0
#define PIECE_CYCLES 140.0

static float estimate_steps(const struct convoy_conv_shape *s, int n, int steps)
{
    int64_t pieces = patches_of(s) * convoy_div_up(nhwc_columns_of(s), n);
    double products = PATCH_TAPS * PATCH_TAPS * steps * nhwc_product_cycles(n); /* cycles of a piece */
    double cycles =
        (double)convoy_div_up(pieces, CONVOY_ESTIMATE_SMS) * (products * 1.5 + PIECE_CYCLES) + START_CYCLES;
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

static float estimate(const struct convoy_conv_shape *s)
{
    return estimate_steps(s, nhwc_patch_tile<8, 4>::N, steps_of(s));
}

static float estimate_narrow(const struct convoy_conv_shape *s)
{
    return estimate_steps(s, nhwc_patch_tile<4, 4>::N, narrow_steps_of(s));
}

static float estimate_grouped(const struct convoy_conv_shape *s)
{
    return estimate_steps(s, nhwc_patch_tile<8, 4>::N, 4);
}

static bool takes_size(const struct convoy_conv_shape *s)
{
    return s->nhwc.window == 0 && convoy_is_square(s, 3, 1) &&
           convoy_div_up(s->oh, 8) * convoy_div_up(s->ow, 8) * s->n < INT32_MAX / 64;
}

static bool takes(const struct convoy_conv_shape *s)
{
    return nhwc_takes(s) && takes_size(s) && steps_of(s) <= 6;
}

static bool takes_narrow(const struct convoy_conv_shape *s)
{
    return nhwc_takes(s) && takes_size(s) && steps_of(s) <= 8 &&
           (steps_of(s) > 6 || nhwc_columns_of(s) <= nhwc_patch_tile<4, 4>::N);
}

static bool takes_groups(const struct convoy_conv_shape *s)
{
    return nhwc_takes_groups(s) && takes_size(s) &&
           nhwc_group_chunks(s, nhwc_patch_tile<8, 4>::N, NHWC_PATCH) == 1;
}

const struct convoy_conv_kernel convoy_conv_nhwc_patch[CONVOY_NHWC_PATCH_KERNELS] = {
    {"nhwc_patch", CONVOY_COMPUTE_FP16, takes, estimate, packed_floats, pack_weights, convoy_no_scratch,
     launch, true},
    {"nhwc_patch:4", CONVOY_COMPUTE_FP16, takes_narrow, estimate_narrow, packed_narrow, pack_narrow,
     convoy_no_scratch, launch_narrow, true},
    {"nhwc_grouped_patch", CONVOY_COMPUTE_FP16, takes_groups, estimate_grouped,
     nhwc_packed_groups<nhwc_patch_tile<8, 4>::N, NHWC_PATCH>,
     nhwc_pack_groups<nhwc_patch_tile<8, 4>::N, NHWC_PATCH>, convoy_no_scratch, launch_steps<8, 4, true>,
     true}};
