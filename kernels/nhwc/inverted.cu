/* An inverted residual (MobileNetV2: Sandler et al., 2018) in one launch: 1 x 1 to more channels, a depthwise
 * convolution, 1 x 1 to few, with x added or not. Compute capability 9.0 alone.
 *
 * What lies between is several times as large as x and y; layer by layer it goes through memory four times.
 * Here a warpgroup makes a patch of 8 x 8 outputs of one image (of 7 x 7 where a side has 9 to 14), all maps,
 * 64 channels of the middle after 64:
 *
 * 1. The first layer multiplies the pixels that the patch reads, all channels of them, which the copy engine
 * brought once, by 64 of its maps. The results are rounded to fp16 and lie in shared memory, pixel by pixel;
 * those outside of the image are zeros.
 * 2. The depthwise layer is a product, too: of the pixels of two taps by two diagonal matrices, one above the
 * other. 7 of 8 products are by zeros, but of 3 x 3 a warp makes 128 results with 5 instructions, without
 * converting what it reads, and the sums are float32; each pixel is loaded once for the taps of a column.
 * With two channels a thread in float32, and a block for each patch, launches took 1.2 to 3.4 times as long.
 * 3. Its results, rounded to fp16, are in registers as the left side of the last layer's product wants them,
 * whose sums stay in registers until all channels of the middle have been added.
 *
 * Up to four warpgroups of a block make a patch each and wait for each other nowhere but at the weights,
 * which they share: while one waits for its products, another one has instructions. The weights of 64
 * channels come as one piece, through a ring; where all of them fit they stay. Blocks are persistent.
 *
 * Pixels that two patches read are computed twice: 100 for 64 outputs of 3 x 3, 289 for stride 2, which have
 * four times as many pixels behind them.
 *
 * Without a first layer (a separable convolution) a chunk of x goes to the middle as it is. Predicted for 256
 * images of 32 x 112 x 112 to 16 maps 150 us, on an H200 it takes 293 (325 with more instructions), the two
 * layers 315; for one image 4.5.
 *
 * Where others come before the last layer (EfficientNet), the depthwise layer's results are stored instead,
 * and their sums over a patch where squeeze and excitation wants them.
 *
 * Patches of few images are fewer than multiprocessors. Then several blocks divide the chunks of a patch, and
 * in a cluster send their sums of the last layer to each other; each finishes some of the outputs. Predicted
 * for one image of 96 x 14 x 14 with 576 channels inside: 8.5 us in place of 21; on an H200 it takes 10.3. */
#include "kernels/nhwc/inverted_parts.cuh"
#include "kernels/nhwc/inverted_sums.cuh"

#include <string.h>

/* ---- On the device ---- */

/* What a block has of the chunks, and which of the blocks with the same ones it is. */
struct inv_part {
    int number, begin, chunks;
    unsigned block, blocks;

    __device__ __forceinline__ explicit inv_part(const struct inv_job &job)
        : number((int)(blockIdx.x % (unsigned)job.parts)), begin(job.chunks * number / job.parts),
          chunks(job.chunks * (number + 1) / job.parts - begin), block(blockIdx.x / (unsigned)job.parts),
          blocks(gridDim.x / (unsigned)job.parts)
    {
    }
};

struct inv_barriers {
    uint64_t *full, *empty, *x; /* of each piece of weights; of this warpgroup's patches of x */
};

/* Asks for the weights that a block needs as its item-th ones, whose place nothing reads any more; one
 * thread.
 */
static __device__ __forceinline__ void inv_ask(const struct inv_job &job, const struct inv_part &part,
                                               char *shared, const struct inv_barriers &barriers, int item)
{
    int slot = item % job.stages;
    convoy_barrier_expect(barriers.full + slot, job.stage_bytes);
    convoy_copy_row(shared + job.ring + slot * job.stage_bytes,
                    job.weights + (int64_t)(part.begin + item % part.chunks) * job.stage_bytes,
                    job.stage_bytes, barriers.full + slot);
}

/* Asks for what comes into the place of the item before this one, once all warpgroups have given it back. */
static __device__ __forceinline__ void inv_ask_again(const struct inv_job &job, const struct inv_part &part,
                                                     char *shared, const struct inv_barriers &barriers,
                                                     int item, int items)
{
    int before = item - 1, next = before + job.stages;
    if (before < 0 || next >= items)
        return;
    convoy_barrier_wait(barriers.empty + before % job.stages, before / job.stages % 2);
    inv_ask(job, part, shared, barriers, next);
}

/* Which piece of weights a warpgroup is at: of all, its place, the phase of that place's barriers. */
struct inv_turn {
    int item, slot, phase;

    __device__ __forceinline__ void go_on(int stages)
    {
        item++;
        if (++slot < stages)
            return;
        slot = 0;
        phase ^= 1;
    }
};

/* The round-th patch of a warpgroup; false: there is none. */
template <typename TILE, int STRIDE>
static __device__ __forceinline__ bool inv_find(const struct inv_job &job, const struct inv_part &part,
                                                int round, int group, struct inv_place *place)
{
    unsigned tile = (round * part.blocks + part.block) * (unsigned)job.groups + (unsigned)group;
    int line = tensor_divide((int)tile, job.by_across), n = tensor_divide(line, job.by_down);
    place->n = n;
    place->x = ((int)tile - line * job.across) * job.side;
    place->y = (line - n * job.down) * job.side;
    place->top = place->y * STRIDE - TILE::PAD;
    place->left = place->x * STRIDE - TILE::PAD;
    place->down = job.inside && place->top < 0 ? -place->top : 0;
    place->right = job.inside && place->left < 0 ? -place->left : 0;
    place->top += place->down;
    place->left += place->right;
    return tile < (unsigned)job.tiles;
}

/* Asks for x of a warpgroup's round-th patch, if there is one; one thread. */
template <typename TILE, int STRIDE>
static __device__ __forceinline__ void inv_ask_x(const struct inv_job &job, const struct inv_part &part,
                                                 char *own, const struct inv_barriers &barriers, int round,
                                                 int group)
{
    struct inv_place place;
    if (!inv_find<TILE, STRIDE>(job, part, round, group, &place))
        return;
    char *x = own + round % job.buffers * job.x_bytes;
    uint64_t *barrier = barriers.x + round % job.buffers;
    convoy_barrier_expect(barrier, job.x_panels * job.box_w * job.box_h * job.x_row);
    for (int panel = 0; panel < job.x_panels; panel++)
        convoy_copy_patch(x + panel * job.pieces * NHWC_PIECE * job.x_row, &job.x, panel * job.x_channels,
                          place.left, place.top, place.n, barrier);
}

/* Biases of the layers inside, for each channel of all chunks. */
static __device__ __forceinline__ void inv_load_biases(const struct inv_job &job, float *biases)
{
    int channels = job.chunks * INV_CHANNELS;
    for (int i = (int)threadIdx.x; i < channels * 2; i += (int)blockDim.x) {
        int layer = i >= channels, channel = i - layer * channels;
        const float *bias = job.bias[layer];
        biases[i] = bias != nullptr && channel < job.mid ? __ldg(bias + channel) : 0.0f;
    }
}

template <int SIDE, int STRIDE, int NT>
static __global__ void __launch_bounds__(inv_tile<SIDE, STRIDE, NT>::GROUPS *CONVOY_WARPGROUP, 1)
    nhwc_inverted(CONVOY_PARAMETER(struct inv_job) job)
{
    using tile = inv_tile<SIDE, STRIDE, NT>;
    char *shared = nhwc_shared();
    uint64_t *first = reinterpret_cast<uint64_t *>(shared + job.barriers);
    float *biases = reinterpret_cast<float *>(shared + job.biases);
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP), lane = (int)threadIdx.x % 32;
    bool leads = threadIdx.x % CONVOY_WARPGROUP == 0;
    const struct inv_barriers barriers = {first, first + INV_STAGES,
                                          first + 2 * INV_STAGES + group * INV_BUFFERS};
    char *own = shared + group * job.group_bytes, *middle = own + job.own,
         *table = shared + job.tables + group * job.table_bytes;
    const struct inv_part part(job);
    bool stays = job.stages == job.chunks && job.parts == 1; /* the weights, once they are there */
    int rounds = (int)(((unsigned)job.tiles - part.block * (unsigned)job.groups - 1) /
                       (part.blocks * (unsigned)job.groups)) +
                 1;
    int items = stays ? job.chunks : rounds * part.chunks;
    convoy_let_next_begin();
    if (threadIdx.x == 0) {
        for (int i = 0; i < job.stages; i++) {
            convoy_barrier_make(barriers.full + i, 1);
            convoy_barrier_make(barriers.empty + i, job.groups * (CONVOY_WARPGROUP / 32));
        }
        for (int i = 0; i < job.groups * INV_BUFFERS; i++)
            convoy_barrier_make(first + 2 * INV_STAGES + i, 1);
    }
    inv_load_biases(job, biases);
    if (NT > 0 && job.parts > 1)
        convoy_cluster_sync(); /* all blocks have begun: they may be written to later */
    if (!job.inside && group == 0)
        inv_make_table<tile>(job, 0, 0, table);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int item = 0; item < job.stages && item < items; item++)
            inv_ask(job, part, shared, barriers, item);
    if (leads) {
        convoy_prefetch_map(&job.x);
        convoy_wait_for_previous();
        for (int round = 0; round < job.buffers; round++)
            inv_ask_x<tile, STRIDE>(job, part, own, barriers, round, group);
        convoy_prefetch_map(&job.y);
    }
    __syncwarp();
    convoy_wait_for_previous(); /* this thread, too, writes what others read */
    const struct inv_diagonal diagonal;
    struct inv_turn turn = {0, 0, 0};
    for (int round = 0; round < rounds; round++) {
        struct inv_place place;
        if (!convoy_uniform(
                inv_find<tile, STRIDE>(job, part, round, group, &place))) { /* a block's last round */
            for (int chunk = 0; chunk < part.chunks && !stays; chunk++) {
                convoy_barrier_wait(barriers.full + turn.slot, turn.phase);
                __syncwarp(); /* all have looked at this phase before the next one can come */
                convoy_barrier_arrive_if(lane == 0, barriers.empty + turn.slot);
                turn.go_on(job.stages);
            }
            break;
        }
        const char *x = own + round % job.buffers * job.x_bytes;
        float sum[NT > 0 ? NT : 4][4] = {};
        convoy_barrier_wait(barriers.x + round % job.buffers, round / job.buffers % 2);
        if (leads)
            convoy_store_wait<0>(); /* results of the patch before were read: the middle's place is free */
        __syncwarp();
        nhwc_group_sync(group);
        if (job.inside) {
            inv_clear<tile>(job, place, middle);
            inv_make_table<tile>(job, place.down, place.right, table);
        }
        unsigned inside = job.separable ? 0 : inv_find_inside(job, place); /* of x the copy engine knows it */
        for (int chunk = 0, chunks = convoy_uniform(part.chunks); chunk < chunks; chunk++) {
            const char *weights = shared + job.ring + turn.slot * job.stage_bytes;
            const char *project = weights + job.expand_bytes;
            const float *bias = biases + (part.begin + chunk) * INV_CHANNELS;
            const inv_bias<INV_CHANNELS / 8> first_bias(bias);
            convoy_barrier_wait(barriers.full + turn.slot, stays ? 0 : turn.phase);
            if (NT > 0 && job.separable)
                inv_take<tile>(job, place, x + (part.begin + chunk) * job.x_panel * 16, middle);
            else
                for (int piece = 0, pieces = convoy_uniform(job.pieces); piece < pieces; piece++)
                    inv_expand(job, x, weights, first_bias, middle, table, inside, place.n, piece);
            nhwc_group_sync(group);
            uint32_t words[INV_CHANNELS / 16][4] = {};
            bool both = (part.begin + chunk) * INV_CHANNELS + INV_CHANNELS / 2 < job.mid;
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (half == 0 || both)
                    inv_depthwise<tile, SIDE, STRIDE>(job, middle, project + tile::PROJECT_BYTES,
                                                      bias + job.chunks * INV_CHANNELS, diagonal, half,
                                                      reinterpret_cast<uint32_t(&)[2][4]>(words[half * 2]));
            if constexpr (NT > 0) {
                nhwc_group_sync(group); /* the middle's place is free */
                if (both)
                    inv_project<INV_CHANNELS / 16>(words, project, sum);
                else
                    inv_project<INV_CHANNELS / 32>(words, project, sum);
                inv_look(job, place, words);
            } else {
                inv_look(job, place, words);
                if (job.sums_out != nullptr)
                    inv_keep_outputs(job, place, words);
                char *results = middle + tile::MIDDLE_BYTES + chunk % 2 * tile::RESULT_BYTES;
#pragma unroll
                for (int i = 0; i < INV_CHANNELS / 16; i++)
                    inv_store(job, results, i, words[i]);
                convoy_wgmma_publish();
                nhwc_group_sync(group); /* and the middle's place is free */
                if (leads) {
                    convoy_store_patch(&job.y, results, (part.begin + chunk) * INV_CHANNELS, place.x, place.y,
                                       place.n);
                    convoy_store_end();
                    convoy_store_wait<1>(); /* the other place is free behind the next barrier */
                }
                __syncwarp();
                if (job.sums_out != nullptr)
                    inv_sum(job, place, results, (part.begin + chunk) * INV_CHANNELS);
            }
            if (!stays) {
                convoy_barrier_arrive_if(lane == 0, barriers.empty + turn.slot);
                if (threadIdx.x == 0)
                    inv_ask_again(job, part, shared, barriers, turn.item, items);
                __syncwarp();
            }
            turn.go_on(job.stages);
        }
        if constexpr (NT > 0) {
            if (job.parts > 1) {
                inv_add_parts<tile, NT>(job, part.number, x, reinterpret_cast<float *>(shared + job.sums),
                                        place, sum);
                break; /* a block makes one patch then */
            }
            inv_finish<tile, NT>(job, x, middle, place, sum);
            convoy_wgmma_publish();
        }
        nhwc_group_sync(group); /* and x was read */
        if (leads) {
            if constexpr (NT > 0) {
                for (int panel = 0; panel * INV_CHANNELS < job.k; panel++)
                    convoy_store_patch(&job.y, middle + panel * tile::RESULT_BYTES, panel * INV_CHANNELS,
                                       place.x, place.y, place.n);
                convoy_store_end();
            }
            inv_ask_x<tile, STRIDE>(job, part, own, barriers, round + job.buffers, group);
        }
        __syncwarp();
    }
    if (leads)
        convoy_store_wait<0>(); /* shared memory stays until it was read */
}

/* ---- Launch ---- */

template <int SIDE, int STRIDE, int NT>
static cudaError_t inv_launch_as(const struct convoy_bottleneck_shape *s,
                                 const struct convoy_bottleneck_operands *operands, cudaStream_t stream)
{
    struct inv_job job = {};
    if (!inv_describe<SIDE, STRIDE, NT>(s, &job))
        return cudaErrorInvalidValue;
    neck_take(*s, *operands, &job);
    for (int layer = 0; layer < CONVOY_BOTTLENECK_LAYERS; layer++)
        inv_acts(s->act[layer], &job.act[layer]);
    for (int layer = 0; layer < 2; layer++)
        job.looks[layer] = inv_looks(*s, layer, job.act[layer]);
    const struct convoy_map_images x =
        nhwc_plain_images(operands->x, s->n, s->h, s->w, (int)convoy_nhwc_channels(s->c), s->x_pixel);
    const struct convoy_map_images y =
        nhwc_plain_images(operands->y, s->n, s->oh, s->ow, NT == 0 ? s->mid : s->k, s->y_pixel);
    cudaError_t error = convoy_map_patches(&job.x, &x, job.x_channels, job.box_w, job.box_h);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.y, &y, INV_CHANNELS, job.side, job.side);
    if (error != cudaSuccess)
        return error;
    job.out = operands->y;
    job.out_pixel = s->y_pixel;
    job.sums_out = operands->sums;
    int64_t blocks = convoy_div_up(job.tiles, job.groups);
    blocks = blocks < NHWC_SMS ? blocks : NHWC_SMS;
    return convoy_launch_as(convoy_launch_form{NT > 0 ? (unsigned)job.parts : 1, true},
                            nhwc_inverted<SIDE, STRIDE, NT>, dim3((unsigned)(blocks * job.parts)),
                            dim3((unsigned)(job.groups * CONVOY_WARPGROUP)), (size_t)job.bytes, stream, job);
}

/* Calls FUNCTION<SIDE, STRIDE, NT>(...) of a shape: NT as its maps need. */
#define INV_CALL_NT(FUNCTION, SIDE, STRIDE, s, ...)                                                          \
    ((s)->k == 0    ? FUNCTION<SIDE, STRIDE, 0>(__VA_ARGS__)                                                 \
     : (s)->k <= 32 ? FUNCTION<SIDE, STRIDE, 4>(__VA_ARGS__)                                                 \
     : (s)->k <= 64 ? FUNCTION<SIDE, STRIDE, 8>(__VA_ARGS__)                                                 \
     : (s)->k <= 96 ? FUNCTION<SIDE, STRIDE, 12>(__VA_ARGS__)                                                \
                    : FUNCTION<SIDE, STRIDE, 20>(__VA_ARGS__))
#define INV_CALL(FUNCTION, s, ...)                                                                           \
    ((s)->side == 3     ? (s)->stride == 1 ? INV_CALL_NT(FUNCTION, 3, 1, s, __VA_ARGS__)                     \
                                           : INV_CALL_NT(FUNCTION, 3, 2, s, __VA_ARGS__)                     \
         : (s)->stride == 1 ? INV_CALL_NT(FUNCTION, 5, 1, s, __VA_ARGS__)                                    \
                        : INV_CALL_NT(FUNCTION, 5, 2, s, __VA_ARGS__))

#define INV_CALL_SIDE(FUNCTION, s, ...)                                                                      \
    ((s)->side == 3     ? (s)->stride == 1 ? FUNCTION<3, 1>(__VA_ARGS__) : FUNCTION<3, 2>(__VA_ARGS__)       \
         : (s)->stride == 1 ? FUNCTION<5, 1>(__VA_ARGS__)                                                    \
                        : FUNCTION<5, 2>(__VA_ARGS__))

static cudaError_t inv_launch(const struct convoy_bottleneck_shape *s,
                              const struct convoy_bottleneck_operands *operands, cudaStream_t stream)
{
    return INV_CALL(inv_launch_as, s, s, operands, stream);
}

static bool inv_takes(const struct convoy_bottleneck_shape *s)
{
    struct inv_job job = {};
    for (int layer = convoy_bottleneck_first(s); layer < convoy_bottleneck_end(s); layer++)
        if (!inv_acts(s->act[layer], &job.act[layer]))
            return false;
    return s->depthwise && s->n > 0 && (s->side == 3 || s->side == 5) && (s->stride == 1 || s->stride == 2) &&
           (!s->separable || (s->k > 0 && s->c == s->mid)) && s->k <= INV_MAPS && s->k % 8 == 0 &&
           s->mid % 8 == 0 && s->x_pixel % 8 == 0 && s->y_pixel % 8 == 0 &&
           s->oh == (s->h - 1) / s->stride + 1 && s->ow == (s->w - 1) / s->stride + 1 && s->c <= INV_INPUTS &&
           (int64_t)s->n * convoy_div_up(s->oh, INV_SIDE - 1) * convoy_div_up(s->ow, INV_SIDE - 1) <=
               INT32_MAX / 64 &&
           convoy_has_wgmma() && INV_CALL(inv_describe, s, s, &job);
}

/* Of an image. */
static int inv_patches(const struct convoy_bottleneck_shape *s)
{
    int side = inv_patch_side(s);
    return s->k > 0 ? 0 : (int)(convoy_div_up(s->oh, side) * convoy_div_up(s->ow, side));
}

template <int SIDE, int STRIDE, int NT> static int inv_maps(void)
{
    return inv_tile<SIDE, STRIDE, NT>::MAPS;
}

/* Fitted to the eleven shapes of convoy-kernels --bottlenecks with 1, 8 and 256 images on an H100: a start,
 * and for 64 channels of a patch what they take by themselves and what they add where other warpgroups of the
 * block have theirs. Without a first layer fitted to 32 x 112 x 112 on an H200. */
#define INV_START_CYCLES 5000.0
#define INV_JOIN_CYCLES  2000.0 /* of blocks that add their sums: made up */

static float inv_estimate(const struct convoy_bottleneck_shape *s)
{
    struct inv_job job = {};
    (void)INV_CALL(inv_describe, s, s, &job);
    double pieces = job.pieces, pairs = s->side * s->side / 2 + 1, tiles = INV_CALL(inv_maps, s) / 8;
    double rounds = (double)convoy_div_up(job.tiles, (int64_t)NHWC_SMS * job.groups);
    double alone = 100.0 * pairs + 20.0 * tiles, more = 250.0 + 30.0 * pairs + 10.0 * tiles;
    alone += s->separable ? 1100.0 : 1400.0 + 650.0 * pieces + 60.0 * job.steps;
    more += s->separable ? 390.0 * pieces : 270.0 * pieces + 15.0 * job.steps;
    double chunk = alone + (job.groups - 1) * more;
    double join = s->k > 0 && job.parts > 1 ? INV_JOIN_CYCLES : 0;
    double chunks = (double)convoy_div_up(job.chunks, job.parts);
    return (float)((INV_START_CYCLES + join + rounds * chunks * chunk) / NHWC_CYCLES_PER_US);
}

/* ---- Weights ---- */

static size_t inv_packed_bytes(const struct convoy_bottleneck_shape *s)
{
    struct inv_job job = {};
    (void)INV_CALL(inv_count, s, s, &job);
    return (size_t)job.chunks * (size_t)job.stage_bytes;
}

/* 64 maps of the first layer, from `first` on, of a panel of channels from `channel` on, as the copy engine
 * would swizzle them. */
static void inv_pack_panel(const struct convoy_bottleneck_shape *s, const float *weights, int first,
                           int channel, const struct inv_job *job, convoy_fp16 *to)
{
    for (int m = 0; m < INV_CHANNELS && first + m < s->mid; m++)
        for (int i = 0; i < job->x_channels && channel + i < s->c; i++) {
            int cell = i / 8 ^ convoy_swizzle(job->x_row, m);
            to[m * job->x_channels + cell * 8 + i % 8] =
                convoy_half(weights[(int64_t)(first + m) * s->c + channel + i]);
        }
}

/* The depthwise layer's taps of 64 channels from `first` on, as inv_depthwise() reads them. */
template <int SIDE, int STRIDE>
static void inv_pack_taps(const struct convoy_bottleneck_shape *s, const float *weights, int first,
                          convoy_fp16 *to)
{
    for (int pair = 0; pair < (SIDE * SIDE + 1) / 2; pair++) {
        const inv_pair<SIDE, STRIDE> taps(pair);
        for (int tap = 0; tap < 2; tap++)
            for (int i = 0; i < INV_CHANNELS && first + i < s->mid && taps.column[tap] < SIDE; i++)
                to[((pair * 8 + i % 8) * 8 + i / 8) * 2 + tap] = convoy_half(
                    weights[((int64_t)(first + i) * SIDE + taps.line[tap]) * SIDE + taps.column[tap]]);
    }
}

static void inv_pack(const struct convoy_bottleneck_shape *s,
                     const float *const weights[CONVOY_BOTTLENECK_LAYERS], void *packed)
{
    struct inv_job job = {};
    INV_CALL(inv_count, s, s, &job);
    int maps = INV_CALL(inv_maps, s);
    memset(packed, 0, (size_t)job.chunks * (size_t)job.stage_bytes);
    for (int chunk = 0; chunk < job.chunks; chunk++) {
        convoy_fp16 *to = static_cast<convoy_fp16 *>(packed) + (int64_t)chunk * job.stage_bytes / 2;
        int first = chunk * INV_CHANNELS;
        for (int panel = 0; panel < job.x_panels && !s->separable;
             panel++, to += INV_CHANNELS * job.x_channels)
            inv_pack_panel(s, weights[0], first, panel * job.x_channels, &job, to);
        if (maps > 0)
            neck_pack_chunk(weights[2], 1, 0, s->k, s->mid, 0, first, maps, to);
        to += (int64_t)maps * INV_CHANNELS;
        INV_CALL_SIDE(inv_pack_taps, s, s, weights[1], first, to);
    }
}

const struct convoy_bottleneck_kernel convoy_nhwc_inverted = {
    "nhwc_inverted", inv_takes, inv_estimate, inv_packed_bytes, inv_pack, inv_patches, inv_launch};
