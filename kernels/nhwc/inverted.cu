/* An inverted residual (MobileNetV2: Sandler et al., 2018) in one launch: 1 x 1 to more channels, a depthwise
 * convolution, 1 x 1 to few, with x added or not. Compute capability 9.0 alone.
 *
 * What lies between is several times as large as x and y; layer by layer it goes through memory four times.
 * Here a block makes a patch of 8 x 8 outputs of one image, all maps, 64 channels of the middle after 64:
 *
 * 1. The first layer multiplies the pixels that the patch reads, all channels of them, which the copy engine
 * brought once, by 64 of its maps. The results are rounded to fp16 and lie in shared memory, pixel by pixel;
 * those outside of the image are zeros.
 * 2. The depthwise layer is computed by each thread for two channels and a line of 8 outputs, in float32. A
 * warp has a line, its lanes the channels, so all its accesses are to neighbouring words.
 * 3. Its results, rounded to fp16, are the left side of the last layer's product, whose sums stay in
 * registers until all channels of the middle have been added.
 *
 * Two warpgroups: they share the first layer's pixels, 64 by 64, and halve the last one's maps. The weights
 * of 64 channels come as one piece; a thread asks for the next ones as soon as a place is free. Pixels that
 * two patches read are computed twice: 100 for 64 outputs of 3 x 3, 289 for stride 2, which have four times
 * as many pixels behind them.
 *
 * Where others come before the last layer (EfficientNet), the depthwise layer's results are stored instead.
 *
 * Predicted, not measured: 900 cycles for 64 channels of a patch, one after the other, so 0.5 ms
 * for all 16 of mobilenet_v2 with 256 images on an H100, of 3.65 ms that the network takes layer by layer. */
#include "kernels/nhwc/conv_wgmma.cuh"
#include "kernels/nhwc/inverted_job.cuh"

#include <string.h>

struct inv_barriers {
    uint64_t *x_full, *full; /* full: of each piece of weights */
};

struct inv_place {
    int n, y, x; /* the patch's first output */
};

static __device__ __forceinline__ void inv_tell(const struct inv_job &job, int layer, bool over, int n)
{
    nhwc_tell(convoy_overflow{job.overflow, job.marks[layer]}, over, n);
}

/* Where map `map` and the next one lie in row `row` of panels of 64 maps. */
static __device__ __forceinline__ uint32_t *inv_word_at(char *panels, int panel_bytes, int row, int map)
{
    return reinterpret_cast<uint32_t *>(
        panels + map / INV_CHANNELS * panel_bytes + row * INV_ROW_BYTES +
        convoy_swizzled_cell<INV_ROW_BYTES>(row, map % INV_CHANNELS / 8) * 16 + map % 8 * 2);
}

static __device__ __forceinline__ float2 inv_bias(const float *bias, int map, int maps)
{
    return bias != nullptr && map < maps ? __ldg(reinterpret_cast<const float2 *>(bias + map))
                                         : make_float2(0.0f, 0.0f);
}

/* Asks for the weights of a piece of the middle, whose place nothing reads any more; one thread. */
static __device__ __forceinline__ void inv_ask(const struct inv_job &job, char *shared,
                                               const struct inv_barriers &barriers, int chunk)
{
    int slot = chunk % job.stages;
    convoy_barrier_expect(barriers.full + slot, job.stage_bytes);
    convoy_copy_row(shared + job.ring + slot * job.stage_bytes,
                    job.weights + (int64_t)chunk * job.stage_bytes, job.stage_bytes, barriers.full + slot);
}

/* The first weights, which do not depend on the kernel before this one, and x, which does; one thread. */
template <typename TILE>
static __device__ __forceinline__ void inv_begin(const struct inv_job &job, char *shared,
                                                 const struct inv_barriers &barriers,
                                                 const struct inv_place &place, int stride)
{
    convoy_prefetch_map(&job.x);
    for (int chunk = 0; chunk < job.stages; chunk++)
        inv_ask(job, shared, barriers, chunk);
    convoy_wait_for_previous();
    convoy_barrier_expect(barriers.x_full, job.panels * TILE::PIXELS * INV_ROW_BYTES);
    for (int panel = 0; panel < job.panels; panel++)
        convoy_copy_patch(shared + panel * TILE::PANEL_BYTES, &job.x, panel * INV_CHANNELS,
                          place.x * stride - TILE::PAD, place.y * stride - TILE::PAD, place.n,
                          barriers.x_full);
    convoy_prefetch_map(&job.y);
}

/* The first layer for 64 pixels and 64 channels of the middle. */
template <typename TILE>
static __device__ __forceinline__ void inv_expand(const struct inv_job &job, char *shared,
                                                  const char *weights, const struct inv_place &place,
                                                  int stride, int chunk, int piece)
{
    float sum[INV_CHANNELS / 8][4] = {};
    int panels = convoy_uniform(job.panels), panel = 0;
    convoy_wgmma_begin();
#pragma unroll 1
    do {
        uint64_t a = convoy_matrix_swizzled<INV_ROW_BYTES>(shared + panel * TILE::PANEL_BYTES +
                                                           piece * NHWC_PIECE * INV_ROW_BYTES);
        uint64_t b = convoy_matrix_swizzled<INV_ROW_BYTES>(weights + panel * TILE::EXPAND_BYTES);
#pragma unroll
        for (int step = 0; step < INV_CHANNELS / 16; step++)
            nhwc_multiply<INV_CHANNELS / 8, INV_ROW_BYTES>(sum, convoy_matrix_at(a, step * 2),
                                                           convoy_matrix_at(b, step * 2));
    } while (++panel < panels);
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
    int lane = (int)threadIdx.x % 32, channel = lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < INV_CHANNELS / 8; j++) {
        const float2 bias = inv_bias(job.bias[0], chunk * INV_CHANNELS + j * 8 + channel, job.mid);
        sum[j][0] += bias.x;
        sum[j][1] += bias.y;
        sum[j][2] += bias.x;
        sum[j][3] += bias.y;
    }
    nhwc_activate_all(job.act[0], sum);
    bool over = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int pixel = piece * NHWC_PIECE + (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16 + lane / 4 + half * 8;
        if (pixel >= TILE::PIXELS)
            continue;
        int line = pixel / TILE::BOX, column = pixel - line * TILE::BOX;
        bool inside = (unsigned)(place.y * stride - TILE::PAD + line) < (unsigned)job.h &&
                      (unsigned)(place.x * stride - TILE::PAD + column) < (unsigned)job.w;
        uint32_t *to = reinterpret_cast<uint32_t *>(shared + job.middle + pixel * INV_PITCH) + lane % 4;
#pragma unroll
        for (int j = 0; j < INV_CHANNELS / 8; j++) {
            bool wrong = false;
            uint32_t word = nhwc_word(sum[j][half * 2], sum[j][half * 2 + 1], &wrong);
            over |= inside && wrong;
            to[j * 4] = inside ? word : 0;
        }
    }
    inv_tell(job, 0, over, place.n);
}

/* The depthwise layer for two channels of a line of outputs. filter: 64 channels of each tap. */
template <typename TILE, int SIDE, int STRIDE>
static __device__ __forceinline__ void inv_depthwise(const struct inv_job &job, const char *shared,
                                                     char *results, const uint32_t *filter,
                                                     const struct inv_place &place, int chunk)
{
    int lane = (int)threadIdx.x % 32, line = (int)threadIdx.x / 32;
    const float2 bias = inv_bias(job.bias[1], chunk * INV_CHANNELS + lane * 2, job.mid);
    float sum[INV_SIDE][2];
#pragma unroll
    for (int i = 0; i < INV_SIDE; i++) {
        sum[i][0] = bias.x;
        sum[i][1] = bias.y;
    }
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        float2 tap[SIDE];
#pragma unroll
        for (int s = 0; s < SIDE; s++) {
            uint32_t word = filter[(r * SIDE + s) * (INV_CHANNELS / 2) + lane];
            tap[s] = make_float2(convoy_from_half(word & 0xffffu), convoy_from_half(word >> 16));
        }
        const char *from = shared + job.middle + (line * STRIDE + r) * TILE::BOX * INV_PITCH + lane * 4;
#pragma unroll
        for (int column = 0; column < TILE::BOX; column++) {
            uint32_t word = *reinterpret_cast<const uint32_t *>(from + column * INV_PITCH);
            float x = convoy_from_half(word & 0xffffu), y = convoy_from_half(word >> 16);
#pragma unroll
            for (int s = 0; s < SIDE; s++) {
                int output = (column - s) / STRIDE;
                if (column < s || (column - s) % STRIDE != 0 || output >= INV_SIDE)
                    continue;
                sum[output][0] = fmaf(x, tap[s].x, sum[output][0]);
                sum[output][1] = fmaf(y, tap[s].y, sum[output][1]);
            }
        }
    }
    nhwc_activate_all(job.act[1], sum);
    bool over = false;
#pragma unroll
    for (int i = 0; i < INV_SIDE; i++) {
        bool wrong = false;
        *inv_word_at(results, 0, line * INV_SIDE + i, lane * 2) = nhwc_word(sum[i][0], sum[i][1], &wrong);
        over |= wrong && place.x + i < job.ow;
    }
    inv_tell(job, 1, over && place.y + line < job.oh, place.n);
}

/* Adds 64 channels of the middle to the sums of a group's maps. */
template <int NT>
static __device__ __forceinline__ void inv_project(const char *results, const char *weights, int group,
                                                   float (&sum)[NT][4])
{
    uint64_t a = convoy_matrix_swizzled<INV_ROW_BYTES>(results);
    uint64_t b = convoy_matrix_swizzled<INV_ROW_BYTES>(weights + group * NT * 8 * INV_ROW_BYTES);
    convoy_wgmma_begin();
#pragma unroll
    for (int step = 0; step < INV_CHANNELS / 16; step++)
        nhwc_multiply<NT, INV_ROW_BYTES>(sum, convoy_matrix_at(a, step * 2), convoy_matrix_at(b, step * 2));
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
}

/* Bias, x, activation; the results lie where x was, and the copy engine writes them. */
template <typename TILE, int NT>
static __device__ __forceinline__ void inv_finish(const struct inv_job &job, char *shared,
                                                  const struct inv_place &place, int group,
                                                  float (&sum)[NT][4])
{
    int lane = (int)threadIdx.x % 32;
    int first = group * NT * 8 + lane % 4 * 2;
    int row = (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16 + lane / 4; /* and the second one 8 further */
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const float2 bias = inv_bias(job.bias[2], first + j * 8, job.k);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum[j][half * 2] += bias.x;
            sum[j][half * 2 + 1] += bias.y;
            if (!job.residual || first + j * 8 >= job.k)
                continue;
            int output = row + half * 8;
            int pixel = (output / INV_SIDE + TILE::PAD) * TILE::BOX + output % INV_SIDE + TILE::PAD;
            uint32_t word = *inv_word_at(shared, TILE::PANEL_BYTES, pixel, first + j * 8);
            sum[j][half * 2] += convoy_from_half(word & 0xffffu);
            sum[j][half * 2 + 1] += convoy_from_half(word >> 16);
        }
    }
    nhwc_activate_all(job.act[2], sum);
    __syncthreads(); /* all have read x */
    bool over = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int output = row + half * 8;
        bool wrong = false;
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (first + j * 8 < job.k)
                *inv_word_at(shared, TILE::RESULT_BYTES, output, first + j * 8) =
                    nhwc_word(sum[j][half * 2], sum[j][half * 2 + 1], &wrong);
        over |= wrong && place.y + output / INV_SIDE < job.oh && place.x + output % INV_SIDE < job.ow;
    }
    inv_tell(job, 2, over, place.n);
    convoy_wgmma_publish();
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int panel = 0; panel * INV_CHANNELS < job.k; panel++)
            convoy_store_patch(&job.y, shared + panel * TILE::RESULT_BYTES, panel * INV_CHANNELS, place.x,
                               place.y, place.n);
        convoy_store_end();
        convoy_store_wait<0>(); /* shared memory stays until it was read */
    }
}

template <int SIDE, int STRIDE, int NT>
static __global__ void __launch_bounds__(INV_THREADS, NT <= 6 ? 2 : 1)
    nhwc_inverted(CONVOY_PARAMETER(struct inv_job) job)
{
    using tile = inv_tile<SIDE, STRIDE, NT>;
    char *shared = nhwc_shared();
    uint64_t *first = reinterpret_cast<uint64_t *>(shared + job.barriers);
    const struct inv_barriers barriers = {first, first + 1};
    int line = (int)blockIdx.x / job.across, group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP);
    struct inv_place place;
    place.n = line / job.down;
    place.x = ((int)blockIdx.x - line * job.across) * INV_SIDE;
    place.y = (line - place.n * job.down) * INV_SIDE;
    convoy_let_next_begin();
    if (threadIdx.x == 0) {
        convoy_barrier_make(barriers.x_full, 1);
        for (int i = 0; i < job.stages; i++)
            convoy_barrier_make(barriers.full + i, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        inv_begin<tile>(job, shared, barriers, place, STRIDE);
    __syncwarp();
    float sum[NT > 0 ? NT : 1][4] = {};
    convoy_wait_for_previous(); /* x does not come earlier; and this thread writes what others read */
    convoy_barrier_wait(barriers.x_full, 0);
    for (int chunk = 0; chunk < job.chunks; chunk++) {
        int slot = chunk % job.stages;
        const char *weights = shared + job.ring + slot * job.stage_bytes;
        const char *project = weights + job.panels * tile::EXPAND_BYTES;
        convoy_barrier_wait(barriers.full + slot, chunk / job.stages % 2);
        for (int piece = group; piece < tile::PIECES; piece += INV_GROUPS)
            inv_expand<tile>(job, shared, weights, place, STRIDE, chunk, piece);
        if (NT == 0 && threadIdx.x == 0)
            convoy_store_wait<1>(); /* the results of two chunks before were read: their place is free */
        __syncthreads();            /* and nothing reads the weights of the chunk before any more */
        if (threadIdx.x == 0 && chunk > 0 && chunk - 1 + job.stages < job.chunks)
            inv_ask(job, shared, barriers, chunk - 1 + job.stages);
        char *results = shared + job.depthwise + (NT == 0 ? chunk % 2 * tile::RESULT_BYTES : 0);
        inv_depthwise<tile, SIDE, STRIDE>(job, shared, results,
                                          reinterpret_cast<const uint32_t *>(project + tile::PROJECT_BYTES),
                                          place, chunk);
        convoy_wgmma_publish();
        __syncthreads();
        if constexpr (NT > 0) {
            inv_project(results, project, group, sum);
        } else if (threadIdx.x == 0) {
            convoy_store_patch(&job.y, results, chunk * INV_CHANNELS, place.x, place.y, place.n);
            convoy_store_end();
        }
    }
    if constexpr (NT > 0)
        inv_finish<tile>(job, shared, place, group, sum);
    else if (threadIdx.x == 0)
        convoy_store_wait<0>(); /* shared memory stays until it was read */
}

/* ---- Launch ---- */

/* Of shared memory, with what it takes to begin on a multiple of 1024. */
static inline int inv_bytes(const struct inv_job *job, int stages)
{
    return job->ring + stages * job->stage_bytes + INV_BARRIERS + 1024;
}

/* Everything that does not depend on operands. False: shared memory does not suffice. */
template <int SIDE, int STRIDE, int NT>
static bool inv_describe(const struct convoy_bottleneck_shape *s, struct inv_job *job)
{
    using tile = inv_tile<SIDE, STRIDE, NT>;
    int results = (int)convoy_div_up(s->k, INV_CHANNELS) * tile::RESULT_BYTES;
    job->h = s->h;
    job->w = s->w;
    job->oh = s->oh;
    job->ow = s->ow;
    job->mid = s->mid;
    job->k = s->k;
    job->down = (int)convoy_div_up(s->oh, INV_SIDE);
    job->across = (int)convoy_div_up(s->ow, INV_SIDE);
    job->panels = (int)convoy_div_up(s->c, INV_CHANNELS);
    job->chunks = (int)convoy_div_up(s->mid, INV_CHANNELS);
    job->residual = s->residual;
    job->stage_bytes = job->panels * tile::EXPAND_BYTES + tile::PROJECT_BYTES + tile::DEPTHWISE_BYTES;
    int x = job->panels * tile::PANEL_BYTES;
    job->middle = x > results ? x : results;
    job->depthwise = job->middle + tile::MIDDLE_BYTES;
    job->ring = job->depthwise + (NT == 0 ? 2 : 1) * tile::RESULT_BYTES;
    int room = (INV_SHARED_MAX - 1024 - INV_BARRIERS - job->ring) / job->stage_bytes;
    job->stages = room < job->chunks ? room : job->chunks;
    if (job->stages > INV_STAGES)
        job->stages = INV_STAGES;
    /* One less where two blocks fit into a multiprocessor then. */
    if (job->stages == INV_STAGES && inv_bytes(job, INV_STAGES) > INV_SHARED_HALF &&
        inv_bytes(job, INV_STAGES - 1) <= INV_SHARED_HALF)
        job->stages--;
    job->barriers = job->ring + job->stages * job->stage_bytes;
    job->bytes = inv_bytes(job, job->stages);
    /* The next one is asked for while one is read. */
    return job->stages >= (job->chunks < 2 ? job->chunks : 2);
}

template <int SIDE, int STRIDE, int NT>
static cudaError_t inv_launch_as(const struct convoy_bottleneck_shape *s,
                                 const struct convoy_bottleneck_operands *operands, cudaStream_t stream)
{
    using tile = inv_tile<SIDE, STRIDE, NT>;
    struct inv_job job = {};
    if (!inv_describe<SIDE, STRIDE, NT>(s, &job))
        return cudaErrorInvalidValue;
    neck_take(*s, *operands, &job);
    const struct convoy_map_images x =
        nhwc_plain_images(operands->x, s->n, s->h, s->w, (int)convoy_nhwc_channels(s->c), s->x_pixel);
    const struct convoy_map_images y =
        nhwc_plain_images(operands->y, s->n, s->oh, s->ow, NT == 0 ? s->mid : s->k, s->y_pixel);
    cudaError_t error = convoy_map_patches(&job.x, &x, tile::BOX, tile::BOX);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.y, &y, INV_SIDE, INV_SIDE);
    if (error != cudaSuccess)
        return error;
    return convoy_launch_as(convoy_launch_form{1, true}, nhwc_inverted<SIDE, STRIDE, NT>,
                            dim3((unsigned)(s->n * job.down * job.across)), dim3(INV_THREADS),
                            (size_t)job.bytes, stream, job);
}

/* Calls FUNCTION<SIDE, STRIDE, NT>(...) of a shape: NT as its maps need. */
#define INV_CALL_NT(FUNCTION, SIDE, STRIDE, s, ...)                                                          \
    ((s)->k == 0     ? FUNCTION<SIDE, STRIDE, 0>(__VA_ARGS__)                                                \
     : (s)->k <= 32  ? FUNCTION<SIDE, STRIDE, 2>(__VA_ARGS__)                                                \
     : (s)->k <= 96  ? FUNCTION<SIDE, STRIDE, 6>(__VA_ARGS__)                                                \
     : (s)->k <= 160 ? FUNCTION<SIDE, STRIDE, 10>(__VA_ARGS__)                                               \
                     : FUNCTION<SIDE, STRIDE, 20>(__VA_ARGS__))
#define INV_CALL(FUNCTION, s, ...)                                                                           \
    ((s)->side == 3     ? (s)->stride == 1 ? INV_CALL_NT(FUNCTION, 3, 1, s, __VA_ARGS__)                     \
                                           : INV_CALL_NT(FUNCTION, 3, 2, s, __VA_ARGS__)                     \
         : (s)->stride == 1 ? INV_CALL_NT(FUNCTION, 5, 1, s, __VA_ARGS__)                                    \
                        : INV_CALL_NT(FUNCTION, 5, 2, s, __VA_ARGS__))

static cudaError_t inv_launch(const struct convoy_bottleneck_shape *s,
                              const struct convoy_bottleneck_operands *operands, cudaStream_t stream)
{
    return INV_CALL(inv_launch_as, s, s, operands, stream);
}

static bool inv_takes(const struct convoy_bottleneck_shape *s)
{
    struct inv_job job = {};
    return s->depthwise && s->n > 0 && (s->side == 3 || s->side == 5) && (s->stride == 1 || s->stride == 2) &&
           s->k <= INV_GROUPS * 20 * 8 && s->k % 8 == 0 && s->mid % 8 == 0 && s->x_pixel % 8 == 0 &&
           s->y_pixel % 8 == 0 && s->oh == (s->h - 1) / s->stride + 1 &&
           s->ow == (s->w - 1) / s->stride + 1 && convoy_has_wgmma() && INV_CALL(inv_describe, s, s, &job) &&
           (int64_t)s->n * job.down * job.across <= INT32_MAX / 64;
}

/* Made up: what 64 channels of a patch take, and a start. */
#define INV_START_CYCLES 6000.0
#define INV_PIECE_CYCLES 150.0
#define INV_TAP_CYCLES   60.0

static float inv_estimate(const struct convoy_bottleneck_shape *s)
{
    struct inv_job job = {};
    (void)INV_CALL(inv_describe, s, s, &job);
    int box = (INV_SIDE - 1) * s->stride + s->side;
    double pieces = (double)convoy_div_up(box * box, NHWC_PIECE);
    double chunk = INV_PIECE_CYCLES * pieces + INV_TAP_CYCLES * s->side * s->side;
    int64_t blocks = (int64_t)s->n * job.down * job.across;
    int64_t turns = convoy_div_up(blocks, (job.bytes <= INV_SHARED_HALF ? 2 : 1) * CONVOY_ESTIMATE_SMS);
    return (float)((INV_START_CYCLES + chunk * job.chunks) * (double)turns / NHWC_CYCLES_PER_US);
}

/* ---- Weights ---- */

template <int SIDE, int STRIDE, int NT> static int inv_maps(void)
{
    return inv_tile<SIDE, STRIDE, NT>::MAPS;
}

static size_t inv_packed_bytes(const struct convoy_bottleneck_shape *s)
{
    struct inv_job job = {};
    (void)INV_CALL(inv_describe, s, s, &job);
    return (size_t)job.chunks * (size_t)job.stage_bytes;
}

static void inv_pack(const struct convoy_bottleneck_shape *s,
                     const float *const weights[CONVOY_BOTTLENECK_LAYERS], void *packed)
{
    struct inv_job job = {};
    (void)INV_CALL(inv_describe, s, s, &job);
    int maps = INV_CALL(inv_maps, s), taps = s->side * s->side;
    memset(packed, 0, (size_t)job.chunks * (size_t)job.stage_bytes);
    for (int chunk = 0; chunk < job.chunks; chunk++) {
        convoy_fp16 *to = static_cast<convoy_fp16 *>(packed) + (int64_t)chunk * job.stage_bytes / 2;
        int first = chunk * INV_CHANNELS;
        for (int panel = 0; panel < job.panels; panel++, to += INV_CHANNELS * INV_CHANNELS)
            neck_pack_chunk(weights[0], 1, 0, s->mid, s->c, first, panel * INV_CHANNELS, INV_CHANNELS, to);
        if (maps > 0)
            neck_pack_chunk(weights[2], 1, 0, s->k, s->mid, 0, first, maps, to);
        to += (int64_t)maps * INV_CHANNELS;
        for (int tap = 0; tap < taps; tap++)
            for (int i = 0; i < INV_CHANNELS && first + i < s->mid; i++)
                to[tap * INV_CHANNELS + i] = convoy_half(weights[1][(int64_t)(first + i) * taps + tap]);
    }
}

const struct convoy_bottleneck_kernel convoy_nhwc_inverted = {"nhwc_inverted",  inv_takes, inv_estimate,
                                                              inv_packed_bytes, inv_pack,  inv_launch};
