/* nhwc_banded:ROWS: a filter for each channel, of stride 1, in 16 bits, channels last, as products of banded
 * matrices on the tensor cores. Compute capability 9.0 alone.
 *
 * nhwc_depthwise adds and multiplies number by number, which 7 x 7 makes 49 times for each output; a third of
 * its instructions convert. Here a row of the filter is a matrix: of 4 neighbouring outputs of two channels,
 * its columns, each has the filter's row at the inputs that it belongs to, and zeros elsewhere. So 16 strips
 * of 4 outputs are multiplied at once, two channels at a time: what a lane needs of A (mma.cuh) is then a
 * pixel's two channels as they lie in memory, and 16 bytes are those of 4 products. Of 7 x 7, 28 % of what is
 * multiplied counts (10 inputs of 12.6, one channel of two, 4 outputs' 7 taps of 10), and the tensor cores
 * multiply eight times as fast.
 *
 * A block makes tiles of 32 channels, 8 for each warp. The copy engine brings the box of inputs that a tile
 * reads, with zeros where there is no pixel, into one of two places in turns; results go out by the place
 * that has been read. A strip is ROWS rows high, so that a row of inputs is loaded from shared memory about
 * twice. Filters stay in registers, two numbers in one: which of them is multiplied, and by which of the two
 * channels, is a matter of the bytes that one instruction picks.
 *
 * One H200, 256 images, 7 x 7: 96 x 56 x 56 201 us (nhwc_depthwise 669, predicted 100, memory 73), 384 x 14 x
 * 14 60 us (192, 30, 18).
 *
 * An infinite input, or NaN, makes NaN of up to 5 outputs of a row beside those that it belongs to, and of
 * the last strip of the row above, of the same image and of two channels: its image was marked, or is by
 * these. */
#include "kernels/nhwc/conv_wgmma.cuh"

#define BAND_CHANNELS    32 /* of a tile */
#define BAND_WARPS       4
#define BAND_OUTPUTS     4 /* neighbouring ones, of a strip's row */
#define BAND_STRIPS      16
#define BAND_BYTES       (BAND_CHANNELS * 2) /* of a pixel in shared memory */
#define BAND_PLACES      2
#define BAND_PLACE_BYTES (55 * 1024) /* two blocks on a multiprocessor */
#define BAND_BLOCKS      2
/* Of estimates: made up. */
#define BAND_START_CYCLES 5000.0
#define BAND_L2_BYTES     24.0 /* a cycle */

struct band_job {
    CUtensorMap x, y;
    const uint4 *filters;
    const float *bias; /* k, or NULL */
    int n, k, oh, ow, pad[2];
    int images, groups, across; /* strips of a tile: across, one above the other, and images */
    int width, box;             /* of the inputs: pixels of a row, and from image to image */
    int bytes;                  /* that the engine brings of an image */
    int tiles_x, tiles_y;       /* of an image */
    int tiles, columns;         /* of 32 channels; 32 channels each */
    struct convoy_unary act;
    struct convoy_overflow overflow;
};

/* What follows from the filter's side. */
template <int FILTER> struct band_filter {
    static constexpr int STEPS = (BAND_OUTPUTS + FILTER - 1 + 3) / 4; /* of 4 inputs */
    static constexpr int PAIRS = (FILTER + 1) / 2;                    /* of the filter's rows */
    static constexpr int CELLS = PAIRS * STEPS * 32;                  /* of 16 bytes, for 8 channels */
};

/* Where a tile begins. */
struct band_origin {
    int n, y, x;

    __device__ __forceinline__ band_origin(const struct band_job &job, int tile, int rows)
    {
        int line = tile / job.tiles_x;
        n = line / job.tiles_y;
        x = (tile - line * job.tiles_x) * job.across * BAND_OUTPUTS;
        y = (line - n * job.tiles_y) * job.groups * rows;
        n *= job.images;
    }
};

static __device__ __forceinline__ char *band_place(const struct band_job &job, char *shared, int turn)
{
    return shared + turn % BAND_PLACES * job.images * job.box * BAND_BYTES;
}

/* Asks for the inputs of a tile; one thread. */
static __device__ __forceinline__ void band_fill(const struct band_job &job, char *place, int column,
                                                 const band_origin &at, uint64_t *barrier)
{
    int images = job.n - at.n < job.images ? job.n - at.n : job.images;
    for (int i = 0; i < images; i++)
        convoy_copy_patch(place + i * job.box * BAND_BYTES, &job.x, column, at.x - job.pad[1],
                          at.y - job.pad[0], at.n + i, barrier);
    convoy_barrier_expect(barrier, images * job.bytes);
}

/* Strip `strip` of a tile: its image and where in that image it is, in strips; image -1: there is none. */
struct band_strip {
    int image, group, x;

    __device__ __forceinline__ band_strip(const struct band_job &job, int strip)
    {
        int line = strip / job.across;
        x = strip - line * job.across;
        image = line / job.groups;
        group = line - image * job.groups;
        if (image < job.images)
            return;
        image = -1;
        group = x = 0;
    }
};

/* Where the cell of pixel `pixel` of an image lies, in bytes. */
static __device__ __forceinline__ int band_cell(const struct band_job &job, int image, int pixel, int cell)
{
    return (image * job.box + pixel) * BAND_BYTES + convoy_swizzled_cell<BAND_BYTES>(pixel, cell) * 16;
}

/* The sums of 16 strips and 8 channels: those of row y and of channels 2 q and 2 q + 1 are sum[y][q], as d of
 * mma.cuh. from: where this lane's inputs of its two strips begin. begin: is called once, early. */
template <int FILTER, int ROWS, typename BEGIN>
static __device__ __forceinline__ void
band_multiply(const struct band_job &job, const char *place, const int (&from)[2],
              const uint32_t (&filter)[band_filter<FILTER>::PAIRS][band_filter<FILTER>::STEPS][4],
              const unsigned (&bytes)[2], float (&sum)[ROWS][4][4], BEGIN begin)
{
    constexpr int STEPS = band_filter<FILTER>::STEPS;
    uint32_t a[STEPS][4][2], last[4][2]; /* of each step: channels, strips; the third step of the row above */
#pragma unroll
    for (int row = 0; row < ROWS + FILTER - 1; row++) {
        if (row == 2)
            begin();
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                /* In units of 4 pixels, 256 bytes: of two, one has the cells' halves exchanged. */
                int units = row * (job.width / 4) + step;
                const uint4 cell = *reinterpret_cast<const uint4 *>(place + (from[half] ^ (units % 2 * 32)) +
                                                                    units * (4 * BAND_BYTES));
                if (STEPS == 3 && step == 2)
#pragma unroll
                    for (int q = 0; q < 4; q++)
                        last[q][half] = a[STEPS - 1][q][half];
                a[step][0][half] = cell.x;
                a[step][1][half] = cell.y;
                a[step][2][half] = cell.z;
                a[step][3][half] = cell.w;
            }
#pragma unroll
        for (int y = 0; y < ROWS; y++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int tap = row - y;
                if (tap < 0 || tap >= FILTER)
                    continue;
                const uint32_t inputs[4] = {a[0][q][0], a[0][q][1], a[1][q][0], a[1][q][1]};
                convoy_mma_half(sum[y][q], inputs, convoy_pick_bytes(filter[tap / 2][0][q], bytes[tap % 2]),
                                convoy_pick_bytes(filter[tap / 2][1][q], bytes[tap % 2]));
            }
        if constexpr (STEPS == 3) {
            /* The third steps of two rows of the filter are one product, that of its last row is half a one.
             */
#pragma unroll
            for (int y = 0; y < ROWS; y++)
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    const int tap = row - y;
                    if (tap < 0 || tap >= FILTER || (tap % 2 == 0 && tap != FILTER - 1))
                        continue;
                    const uint32_t second = convoy_pick_bytes(filter[tap / 2][2][q], bytes[tap % 2]);
                    if (tap % 2 == 1) {
                        const uint32_t inputs[4] = {last[q][0], last[q][1], a[2][q][0], a[2][q][1]};
                        convoy_mma_half(sum[y][q], inputs, convoy_pick_bytes(filter[tap / 2][2][q], bytes[0]),
                                        second);
                    } else {
                        const uint32_t inputs[4] = {a[2][q][0], a[2][q][1], a[2][q][0], a[2][q][1]};
                        convoy_mma_half(sum[y][q], inputs, second, 0);
                    }
                }
        }
    }
}

/* Bias and activation; rounds and stores to shared memory, ROWS rows of 4 outputs for each strip. */
template <int ROWS>
static __device__ __forceinline__ void band_finish(const struct band_job &job, char *place,
                                                   const band_origin &at, int column, int lane,
                                                   const float (&sum)[ROWS][4][4])
{
    int cell = (int)threadIdx.x / 32, c = column + cell * NHWC_CELL;
    float bias[NHWC_CELL];
    nhwc_load_vector(job.bias, c, job.k, 0.0f, bias);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const band_strip strip(job, lane / 4 + half * 8);
        if (strip.image < 0)
            continue;
        int x = strip.x * BAND_OUTPUTS + lane % 4, n = at.n + strip.image;
        bool there = n < job.n && at.x + x < job.ow;
        uint32_t over = 0;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int y = strip.group * ROWS + row;
            float values[NHWC_CELL];
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                values[e] = sum[row][e / 2][half * 2 + e % 2] + bias[e];
            nhwc_activate(job.act, values);
            const uint4 packed = nhwc_pack(values);
            if (there && at.y + y < job.oh)
                nhwc_collect_over(packed, &over);
            int pixel = y * job.across * BAND_OUTPUTS + x;
            *reinterpret_cast<uint4 *>(place + band_cell(job, strip.image, pixel, cell)) = packed;
        }
        nhwc_tell(job.overflow, nhwc_any_over(over), n);
    }
}

/* The pixels behind each box, which the last strip of a row reads for nothing: zeros, for NaN would not be
 * nothing. */
static __device__ __forceinline__ void band_clear(const struct band_job &job, char *shared)
{
    int pixels = job.box - job.bytes / BAND_BYTES, cells = pixels * (BAND_BYTES / 16);
    for (int i = (int)threadIdx.x; i < BAND_PLACES * job.images * cells; i += BAND_WARPS * 32)
        reinterpret_cast<uint4 *>(shared + ((i / cells + 1) * job.box - pixels) * BAND_BYTES)[i % cells] =
            make_uint4(0, 0, 0, 0);
}

template <int FILTER, int ROWS>
__global__ void __launch_bounds__(BAND_WARPS * 32, BAND_BLOCKS)
    nhwc_banded(CONVOY_PARAMETER(struct band_job) job)
{
    using side = band_filter<FILTER>;
    char *shared = nhwc_shared();
    uint64_t *full =
        reinterpret_cast<uint64_t *>(band_place(job, shared, 1) + job.images * job.box * BAND_BYTES);
    int lane = (int)threadIdx.x % 32, cell = (int)threadIdx.x / 32;
    int column = (int)blockIdx.x % job.columns * BAND_CHANNELS;
    int first = (int)blockIdx.x / job.columns, step = (int)gridDim.x / job.columns;
    convoy_let_next_begin();
    if (threadIdx.x == 0)
        for (int i = 0; i < BAND_PLACES; i++)
            convoy_barrier_make(&full[i], 1);
    band_clear(job, shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        convoy_prefetch_map(&job.x);
        convoy_wait_for_previous();
        for (int i = 0; i < BAND_PLACES && first + i * step < job.tiles; i++)
            band_fill(job, band_place(job, shared, i), column, band_origin(job, first + i * step, ROWS),
                      &full[i]);
    }
    uint32_t filter[side::PAIRS][side::STEPS][4];
#pragma unroll
    for (int i = 0; i < side::PAIRS * side::STEPS; i++) {
        const uint4 word = __ldg(job.filters + (column / NHWC_CELL + cell) * side::CELLS + i * 32 + lane);
        filter[i / side::STEPS][i % side::STEPS][0] = word.x;
        filter[i / side::STEPS][i % side::STEPS][1] = word.y;
        filter[i / side::STEPS][i % side::STEPS][2] = word.z;
        filter[i / side::STEPS][i % side::STEPS][3] = word.w;
    }
    /* The columns of a lane are of the first channel of a pair or of the second. */
    const unsigned bytes[2] = {lane / 4 % 2 == 0 ? 0x4410u : 0x1044u, lane / 4 % 2 == 0 ? 0x4432u : 0x3244u};
    int from[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const band_strip strip(job, lane / 4 + half * 8);
        from[half] = band_cell(job, strip.image < 0 ? 0 : strip.image,
                               strip.group * ROWS * job.width + strip.x * BAND_OUTPUTS + lane % 4, cell);
    }
    int turn = 0;
    for (int tile = first; tile < job.tiles; tile += step, turn++) {
        const band_origin at(job, tile, ROWS);
        char *place = band_place(job, shared, turn);
        float sum[ROWS][4][4] = {};
        convoy_barrier_wait(&full[turn % BAND_PLACES], turn / BAND_PLACES % 2);
        /* Meanwhile the results before this tile have been read from the other place. */
        auto fill_other = [&]() {
            if (threadIdx.x != 0 || turn == 0)
                return;
            convoy_store_wait<0>();
            if (tile + step < job.tiles)
                band_fill(job, band_place(job, shared, turn + 1), column, band_origin(job, tile + step, ROWS),
                          &full[(turn + 1) % BAND_PLACES]);
        };
        band_multiply<FILTER, ROWS>(job, place, from, filter, bytes, sum, fill_other);
        __syncthreads(); /* all have read the place */
        band_finish<ROWS>(job, place, at, column, lane, sum);
        convoy_wgmma_publish();
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int i = 0; i < job.images && at.n + i < job.n; i++)
                convoy_store_patch(&job.y, place + i * job.box * BAND_BYTES, column, at.x, at.y, at.n + i);
            convoy_store_end();
        }
    }
    if (threadIdx.x == 0)
        convoy_store_wait<0>(); /* shared memory stays until it was read */
}

/* ---- Tiles ---- */

/* How a layer is cut. */
struct band_tiles {
    int images, groups, across; /* as of the job */
    int width, height;          /* of the box of an image's inputs: at most 72 x 118, as 16 strips go */
    int box;                    /* its pixels, with some behind that a strip may look at, a multiple of 8 */
    int tiles_x, tiles_y, tiles;
    double cycles; /* of a multiprocessor, for a tile of 32 channels */
};

static int products_of(int filter)
{
    return filter == 7 ? 11 : filter;
}

static struct band_tiles tiles_as(const struct convoy_conv_shape *s, int rows, int images, int groups,
                                  int across)
{
    struct band_tiles t = {};
    t.images = images;
    t.groups = groups;
    t.across = across;
    t.tiles_x = (int)convoy_div_up(s->ow, across * BAND_OUTPUTS);
    t.tiles_y = (int)convoy_div_up(s->oh, groups * rows);
    t.tiles = (int)convoy_div_up(s->n, images) * t.tiles_y * t.tiles_x;
    int outputs = t.tiles_x == 1 ? s->ow : across * BAND_OUTPUTS;
    t.width = (int)convoy_div_up(outputs + s->s - 1, 4) * 4;
    t.height = groups * rows + s->r - 1;
    t.box = (int)convoy_div_up(t.width * t.height + 4, 8) * 8;
    double products = rows * 4.0 * products_of(s->r) * 8,
           copies = images * t.box * BAND_BYTES / BAND_L2_BYTES;
    t.cycles = (products > copies ? products + copies / 4 : copies + products / 4) + 300;
    return t;
}

/* Of all that fit, the one that takes the least time: with halos that are small, and few strips of no use. */
static struct band_tiles tiles_of(const struct convoy_conv_shape *s, int rows)
{
    struct band_tiles best = {};
    int all_across = (int)convoy_div_up(s->ow, BAND_OUTPUTS), all_groups = (int)convoy_div_up(s->oh, rows);
    for (int pieces = 1; pieces <= all_across; pieces++) {
        int across = (int)convoy_div_up(all_across, pieces);
        for (int groups = 1; groups <= all_groups && groups * across <= BAND_STRIPS; groups++)
            for (int images = 1; images * groups * across <= BAND_STRIPS && images <= s->n; images++) {
                if (images > 1 && (across < all_across || groups < all_groups))
                    break;
                struct band_tiles t = tiles_as(s, rows, images, groups, across);
                if (t.images * t.box * BAND_BYTES > BAND_PLACE_BYTES)
                    continue;
                if (best.tiles == 0 || t.tiles * t.cycles < best.tiles * best.cycles)
                    best = t;
            }
        if (across == 1)
            break;
    }
    return best;
}

static int columns_of(const struct convoy_conv_shape *s)
{
    return (int)convoy_div_up(s->c, BAND_CHANNELS);
}

/* ---- Launch ---- */

template <int FILTER, int ROWS> static cudaError_t launch_as(const struct band_job *job, cudaStream_t stream)
{
    int blocks = NHWC_SMS * BAND_BLOCKS / job->columns; /* for 32 channels */
    blocks = blocks < 1 ? 1 : blocks < job->tiles ? blocks : job->tiles;
    int shared_bytes = BAND_PLACES * job->images * job->box * BAND_BYTES + BAND_PLACES * 8 + 1024;
    return convoy_launch_early(nhwc_banded<FILTER, ROWS>, dim3((unsigned)(blocks * job->columns)),
                               dim3(BAND_WARPS * 32), (size_t)shared_bytes, stream, *job);
}

template <int ROWS>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    const struct band_tiles t = tiles_of(s, ROWS);
    struct band_job job = {};
    const struct convoy_map_images x = nhwc_images_of(s, operands->x.data, BAND_CHANNELS, 0);
    const struct convoy_map_images y =
        nhwc_plain_images(operands->y, s->n, s->oh, s->ow, nhwc_columns_of(s), s->nhwc.y_pixel);
    job.filters = reinterpret_cast<const uint4 *>(operands->weights);
    job.bias = s->bias ? operands->bias : nullptr;
    job.n = s->n;
    job.k = s->k;
    job.oh = s->oh;
    job.ow = s->ow;
    job.pad[0] = s->pad[0];
    job.pad[1] = s->pad[1];
    job.images = t.images;
    job.groups = t.groups;
    job.across = t.across;
    job.width = t.width;
    job.box = t.box;
    job.bytes = t.width * t.height * BAND_BYTES;
    job.tiles_x = t.tiles_x;
    job.tiles_y = t.tiles_y;
    job.tiles = t.tiles;
    job.columns = columns_of(s);
    job.act = s->act;
    job.overflow = operands->overflow;
    cudaError_t error = convoy_map_patches(&job.x, &x, BAND_CHANNELS, t.width, t.height);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.y, &y, BAND_CHANNELS, t.across * BAND_OUTPUTS, t.groups * ROWS);
    if (error != cudaSuccess)
        return error;
    return s->r == 7   ? launch_as<7, ROWS>(&job, stream)
           : s->r == 5 ? launch_as<5, ROWS>(&job, stream)
                       : launch_as<3, ROWS>(&job, stream);
}

/* ---- Filters ---- */

static int steps_of(int filter)
{
    return (int)convoy_div_up(BAND_OUTPUTS + filter - 1, 4);
}

static size_t packed_floats(const struct convoy_conv_shape *s)
{
    return (size_t)columns_of(s) * BAND_WARPS * convoy_div_up(s->r, 2) * steps_of(s->r) * 32 * 4;
}

/* For each 8 channels, pair of rows, step and lane: what its column (lane / 4: an output and a channel) has
 * of pixel lane % 4 of that step, in both rows, of each pair of the channels. */
static void pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    int pairs = (int)convoy_div_up(s->r, 2), steps = steps_of(s->r);
    for (int cell = 0; cell < columns_of(s) * BAND_WARPS; cell++)
        for (int i = 0; i < pairs * steps * 32 * 4 * 2; i++) {
            int row = i % 2 + i / (steps * 32 * 8) * 2, q = i / 2 % 4, lane = i / 8 % 32,
                step = i / 256 % steps;
            int c = cell * NHWC_CELL + q * 2 + lane / 4 % 2, tap = step * 4 + lane % 4 - lane / 8;
            bool there = c < s->c && row < s->r && tap >= 0 && tap < s->s;
            *to++ = convoy_half(there ? weights[(c * s->r + row) * s->s + tap] : 0.0f);
        }
}

/* ---- The list ---- */

template <int ROWS> static bool takes(const struct convoy_conv_shape *s)
{
    return s->nhwc.on && !s->nhwc.images && s->nhwc.input == CONVOY_NHWC_AS_IS && s->nhwc.window == 0 &&
           s->groups == s->c && s->k == s->c && s->pool == 1 && !s->residual &&
           s->compute_type >= CONVOY_COMPUTE_FP16 && s->nhwc.y_pixel % 8 == 0 && s->nhwc.pixel % 8 == 0 &&
           s->nhwc.row % 8 == 0 && s->nhwc.image % 8 == 0 &&
           (convoy_is_square(s, 3, 1) || convoy_is_square(s, 5, 1) || convoy_is_square(s, 7, 1)) &&
           nhwc_outputs_of(s) < INT32_MAX / BAND_STRIPS && convoy_has_wgmma() && tiles_of(s, ROWS).tiles > 0;
}

template <int ROWS> static float estimate(const struct convoy_conv_shape *s)
{
    const struct band_tiles t = tiles_of(s, ROWS);
    double each = (double)convoy_div_up((int64_t)t.tiles * columns_of(s), CONVOY_ESTIMATE_SMS * BAND_BLOCKS);
    double least = 2.0 * s->n * s->c * ((double)s->h * s->w + (double)s->oh * s->ow);
    return nhwc_estimate(each * BAND_BLOCKS * t.cycles + BAND_START_CYCLES,
                         least * 1.1 / CONVOY_ESTIMATE_BYTES_PER_US);
}

#define KERNEL(ROWS)                                                                                         \
    {"nhwc_banded:" #ROWS, CONVOY_COMPUTE_FP16, takes<ROWS>, estimate<ROWS>, packed_floats, pack,            \
     convoy_no_scratch,    launch<ROWS>,        true},

const struct convoy_conv_kernel convoy_conv_nhwc_banded[CONVOY_NHWC_BANDED_KERNELS] = {KERNEL(4) KERNEL(7)};
