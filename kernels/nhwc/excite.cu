/* Squeeze and excitation: the gates of an image's channels, in one launch: the mean of each channel over the
 * image, a dense layer to few numbers, and one back to a gate for each channel.
 *
 * Source of the layers: Hu, Shen, Albanie, Sun and Wu, Squeeze-and-Excitation Networks, 2018.
 *
 * A cluster of up to 8 blocks makes the gates of an image: each block sums a part of its pixels and sends the
 * sums to all, each then computes a part of the squeezed numbers and sends them to all, and a part of the
 * gates. Of many images a block makes one each. Sums are float32 in a fixed order, so the gates of an image
 * are the same in any company, if the batch has as many blocks for each image. The gates are multiplied where
 * they are read (inputs.cuh). Where the kernel before has summed patches of the image (inverted_sums.cuh),
 * each block adds all of these and reads no pixel.
 *
 * Floor: the tensor once through memory, and for few images three meetings of a cluster. Predicted: 5 us for
 * one image (pooling and two 1 x 1 convolutions, which it replaces, are three launches of 3 to 5 us). On an
 * H200 9 us each in profiles of one image of efficientnet_b0; of 256 images 80 us for 144 x 56 x 56 and 10 of
 * sums, 28 and 23 for 1,152 x 7 x 7 with 48 squeezed. What bounds the latter are the weights, which are read
 * for each image: 960 channels with 240 squeezed take 54 us. Clusters of 4 or 8 blocks that read them once
 * for 8 images were slower for all of these networks together (efficientnet_b0 4.78 and 4.86 ms, 4.67
 * without; mobilenet_v3_large 2.39 and 2.35, 2.33 without). */
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/nhwc/excite_layers.cuh"

#define THREADS      512
#define WARPS        (THREADS / 32)
#define MANY_BLOCKS  2 /* for each multiprocessor: an image has no more blocks then */
#define MAX_CHANNELS 4096

struct excite_job {
    int64_t pixels, x_pixel, y_pixel;
    int patches; /* 0: x is summed here */
    int c, cells, squeezed, squeezed_cells, blocks;
    struct convoy_unary act[2];
    const convoy_fp16 *weights[2];
    const float *bias[2];
    struct convoy_overflow overflow;
};

/* ---- Weights ---- */

static int64_t padded(int64_t count)
{
    return (count + NHWC_CELL - 1) / NHWC_CELL * NHWC_CELL;
}

size_t convoy_nhwc_excite_bytes(const struct convoy_nhwc_excite *s)
{
    return (size_t)(s->squeezed * padded(s->c) + s->c * padded(s->squeezed)) * sizeof(convoy_fp16);
}

void convoy_nhwc_excite_pack(const struct convoy_nhwc_excite *s, const float *squeeze, const float *excite,
                             void *packed)
{
    const float *const from[2] = {squeeze, excite};
    const int64_t rows[2] = {s->squeezed, s->c}, columns[2] = {s->c, s->squeezed};
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    for (int layer = 0; layer < 2; layer++)
        for (int64_t row = 0; row < rows[layer]; row++)
            for (int64_t i = 0; i < padded(columns[layer]); i++)
                *to++ = i < columns[layer] ? convoy_half(from[layer][row * columns[layer] + i]) : 0;
}

/* ---- On the device ---- */

/* What lies in shared memory: the threads' sums of some cells; each block's sums of all channels; their
 * means; the squeezed numbers. */
struct excite_shared {
    float *own, *parts, *means, *squeezed;

    __device__ __forceinline__ excite_shared(const struct excite_job &job, float *shared)
        : own(shared), parts(own + THREADS * NHWC_CELL), means(parts + job.blocks * job.cells * NHWC_CELL),
          squeezed(means + job.cells * NHWC_CELL)
    {
    }
};

static size_t shared_bytes(const struct excite_job *job)
{
    return (size_t)(THREADS + (job->blocks + 1) * job->cells + job->squeezed_cells) * NHWC_CELL *
           sizeof(float);
}

/* Sums this block's pixels, and sends the sums to all blocks; or (SUMMED) makes means of the sums of all
 * patches. x: of the image. */
template <bool SUMMED>
static __device__ __forceinline__ void sum_image(const struct excite_job &job,
                                                 const struct excite_shared &shared, const void *x, int rank)
{
    const excite_lanes<THREADS> lanes(job.cells);
    int64_t begin = SUMMED ? 0 : job.pixels * rank / job.blocks;
    int64_t end = SUMMED ? job.patches : job.pixels * (rank + 1) / job.blocks;
    for (int first = 0; first < job.cells; first += lanes.together) {
        int left = job.cells - first, cells = left < lanes.together ? left : lanes.together;
        lanes.template sum<SUMMED>(shared.own, x, SUMMED ? job.c : job.x_pixel, first, cells, begin, end);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < cells * NHWC_CELL; i += THREADS) {
            float total = lanes.total(shared.own, i);
            if constexpr (SUMMED) {
                shared.means[first * NHWC_CELL + i] = total / (float)job.pixels;
                continue;
            }
            float *place = shared.parts + (rank * job.cells + first) * NHWC_CELL + i;
            for (int block = 0; block < job.blocks; block++)
                convoy_cluster_store(place, block, total);
        }
        __syncthreads();
    }
}

/* Adds what all blocks sent. */
static __device__ __forceinline__ void add_blocks(const struct excite_job &job,
                                                  const struct excite_shared &shared)
{
    for (int i = (int)threadIdx.x; i < job.cells * NHWC_CELL; i += THREADS) {
        float total = 0;
        for (int block = 0; block < job.blocks; block++)
            total += shared.parts[block * job.cells * NHWC_CELL + i];
        shared.means[i] = i < job.c ? total / (float)job.pixels : 0.0f; /* what fills up a pixel is not 0 */
    }
    __syncthreads();
}

/* Which rows of the layers a block has. */
struct excite_rows {
    int begin[2], end[2];

    __device__ __forceinline__ excite_rows(const struct excite_job &job, int rank)
    {
        int cells = (job.cells + job.blocks - 1) / job.blocks; /* a multiple of a warp's 8 rows */
        begin[0] = job.squeezed * rank / job.blocks;
        end[0] = job.squeezed * (rank + 1) / job.blocks;
        begin[1] = cells * rank * NHWC_CELL;
        end[1] = begin[1] + cells * NHWC_CELL;
    }
};

/* Brings weights near while the kernel before still runs, which does not write them. */
static __device__ __forceinline__ void fetch_weights(const struct excite_job &job,
                                                     const struct excite_rows &rows)
{
    constexpr int SECTOR = 32 / (int)sizeof(convoy_fp16);
    const int64_t lengths[2] = {job.cells * NHWC_CELL, job.squeezed_cells * NHWC_CELL};
    const int counts[2] = {job.squeezed, job.c};
    for (int layer = 0; layer < 2; layer++) {
        int end = rows.end[layer] < counts[layer] ? rows.end[layer] : counts[layer];
        for (int64_t i = rows.begin[layer] * lengths[layer] + (int)threadIdx.x * SECTOR;
             i < end * lengths[layer]; i += THREADS * SECTOR)
            convoy_prefetch_constant(reinterpret_cast<const float *>(job.weights[layer] + i));
    }
}

/* A cell of a layer's weights, of which a row has so many cells. */
static __device__ __forceinline__ uint4 weights_of(const struct excite_job &job, int layer, int row,
                                                   int cells, int cell)
{
    return __ldg(
        reinterpret_cast<const uint4 *>(job.weights[layer] + ((int64_t)row * cells + cell) * NHWC_CELL));
}

__global__ void __launch_bounds__(THREADS)
    nhwc_excite(CONVOY_PARAMETER(struct excite_job) job, const void *x, convoy_fp16 *y)
{
    CONVOY_DYNAMIC_SHARED(float, memory);
    const struct excite_shared shared(job, memory);
    int rank = (int)blockIdx.x % job.blocks, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int64_t n = (int)blockIdx.x / job.blocks;
    const struct excite_rows rows(job, rank);
    convoy_let_next_begin();
    if (job.blocks > 1) /* of many images others have brought them */
        fetch_weights(job, rows);
    for (int i = job.squeezed + (int)threadIdx.x; i < job.squeezed_cells * NHWC_CELL; i += THREADS)
        shared.squeezed[i] = 0;
    convoy_cluster_sync(); /* all blocks have begun: they may be written to */
    convoy_wait_for_previous();
    if (job.patches > 0) {
        sum_image<true>(job, shared, static_cast<const float *>(x) + n * job.patches * job.c, rank);
    } else {
        sum_image<false>(job, shared, static_cast<const convoy_fp16 *>(x) + n * job.pixels * job.x_pixel,
                         rank);
        convoy_cluster_sync();
        add_blocks(job, shared);
    }
    for (int row = rows.begin[0] + warp; row < rows.end[0]; row += WARPS) {
        float sum = 0;
        for (int cell = lane; cell < job.cells; cell += 32)
            sum = excite_multiply(weights_of(job, 0, row, job.cells, cell), shared.means + cell * NHWC_CELL,
                                  sum);
        sum = excite_finish(job.act[0], job.bias[0], row, excite_sum_of_lanes<32>(sum));
        if (lane < job.blocks)
            convoy_cluster_store(shared.squeezed + row, lane, sum);
    }
    convoy_cluster_sync();

    for (int row = rows.begin[1] + (int)threadIdx.x / EXCITE_LANES; row < rows.end[1];
         row += THREADS / EXCITE_LANES) {
        int part = (int)threadIdx.x % EXCITE_LANES;
        float sum = 0;
        for (int cell = part; cell < job.squeezed_cells && row < job.c; cell += EXCITE_LANES)
            sum = excite_multiply(weights_of(job, 1, row, job.squeezed_cells, cell),
                                  shared.squeezed + cell * NHWC_CELL, sum);
        sum = excite_sum_of_lanes<EXCITE_LANES>(sum);
        if (part > 0 || row >= job.cells * NHWC_CELL)
            continue;
        float gate = row < job.c ? excite_finish(job.act[1], job.bias[1], row, sum) : 0.0f;
        uint32_t over = 0, word = nhwc_word(gate, 0.0f, &over);
        nhwc_tell(job.overflow, nhwc_any_over(over), n);
        y[n * job.y_pixel + row] = (convoy_fp16)(word & 0xffffu);
    }
}

/* ---- Launch ---- */

/* Blocks for an image: as many as there is room for beside the other images. */
static int blocks_for(int64_t n)
{
    int blocks = CONVOY_PORTABLE_CLUSTER;
    while (blocks > 1 && n * blocks > (int64_t)MANY_BLOCKS * NHWC_SMS)
        blocks /= 2;
    return blocks;
}

bool convoy_nhwc_excite_takes(const struct convoy_nhwc_excite *s)
{
    return s->c <= MAX_CHANNELS && s->squeezed <= EXCITE_MAX_SQUEEZED &&
           s->n * CONVOY_PORTABLE_CLUSTER <= INT32_MAX && s->patches <= INT32_MAX &&
           (s->patches == 0 || s->c % NHWC_CELL == 0) && s->act[0].kind < CONVOY_UNARY_NHWC_KINDS &&
           s->act[1].kind < CONVOY_UNARY_NHWC_KINDS && convoy_has_clusters();
}

cudaError_t convoy_launch_nhwc_excite(const struct convoy_nhwc_excite *s, const void *x, const void *weights,
                                      const float *squeeze_bias, const float *excite_bias, convoy_fp16 *y,
                                      struct convoy_overflow overflow, cudaStream_t stream)
{
    struct excite_job job = {};
    job.pixels = s->pixels;
    job.x_pixel = s->x_pixel;
    job.y_pixel = s->y_pixel;
    job.patches = (int)s->patches;
    job.c = (int)s->c;
    job.cells = (int)convoy_div_up(s->c, NHWC_CELL);
    job.squeezed = (int)s->squeezed;
    job.squeezed_cells = (int)convoy_div_up(s->squeezed, NHWC_CELL);
    job.blocks = blocks_for(s->n);
    job.act[0] = s->act[0];
    job.act[1] = s->act[1];
    job.weights[0] = reinterpret_cast<const convoy_fp16 *>(weights);
    job.weights[1] = job.weights[0] + s->squeezed * padded(s->c);
    job.bias[0] = squeeze_bias;
    job.bias[1] = excite_bias;
    job.overflow = overflow;
    return convoy_launch_as(convoy_launch_form{(unsigned)job.blocks, true}, nhwc_excite,
                            dim3((unsigned)(s->n * job.blocks)), dim3(THREADS), shared_bytes(&job), stream,
                            job, x, y);
}
