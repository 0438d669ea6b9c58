/* Squeeze and excitation: the gates of an image's channels, in one launch: the mean of each channel over the
 * image, a dense layer to few numbers, and one back to a gate for each channel.
 *
 * Source of the layers: Hu, Shen, Albanie, Sun and Wu, Squeeze-and-Excitation Networks, 2018.
 *
 * A cluster of up to 8 blocks makes the gates of an image: each block sums a part of its pixels and sends the
 * sums to all, each then computes a part of the squeezed numbers and sends them to all, and a part of the
 * gates. Of many images a block makes one each. Sums are float32 in a fixed order, so the gates of an image
 * are the same in any company, if the batch has as many blocks for each image. The gates are multiplied where
 * they are read (gate.cuh).
 *
 * Floor: the tensor once through memory, and for few images three meetings of a cluster. Predicted: 5 us for
 * one image (pooling and two 1 x 1 convolutions, which it replaces, are three launches of 3 to 5 us),
 * memory's time for 256. Not measured yet. */
#include "kernels/device/cluster.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"
#include "kernels/nhwc/nhwc_common.h"

#define THREADS      512
#define WARPS        (THREADS / 32)
#define LANES        4 /* of a gate's sum */
#define MANY_BLOCKS  2 /* for each multiprocessor: an image has no more blocks then */
#define MAX_CHANNELS 4096
#define MAX_SQUEEZED 1024

struct excite_job {
    int64_t pixels, x_pixel, y_pixel;
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

/* The sum of 8 numbers times 8 weights, added to `sum`. */
static __device__ __forceinline__ float multiply_cell(const convoy_fp16 *weights, const float *values,
                                                      float sum)
{
    float w[NHWC_CELL];
    nhwc_unpack(__ldg(reinterpret_cast<const uint4 *>(weights)), w);
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        sum = fmaf(w[e], values[e], sum);
    return sum;
}

template <int COUNT> static __device__ __forceinline__ float sum_of_lanes(float sum)
{
#pragma unroll
    for (int apart = COUNT / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    return sum;
}

static __device__ __forceinline__ float finish(const struct excite_job &job, int layer, int row, float sum)
{
    float values[1][2] = {{sum + (job.bias[layer] != nullptr ? __ldg(job.bias[layer] + row) : 0.0f), 0.0f}};
    nhwc_activate_all(job.act[layer], values);
    return values[0][0];
}

/* Sums this block's pixels, and sends the sums to all blocks: a thread for a cell of every lanes-th pixel. */
static __device__ __forceinline__ void
sum_pixels(const struct excite_job &job, const struct excite_shared &shared, const convoy_fp16 *x, int rank)
{
    int together = job.cells < THREADS ? job.cells : THREADS, lanes = THREADS / together;
    int lane = (int)threadIdx.x / together, cell = (int)threadIdx.x - lane * together;
    int64_t begin = job.pixels * rank / job.blocks, end = job.pixels * (rank + 1) / job.blocks;
    for (int first = 0; first < job.cells; first += together) {
        float sum[NHWC_CELL] = {};
        int cells = job.cells - first < together ? job.cells - first : together;
        if (lane < lanes && cell < cells) {
            const convoy_fp16 *from = x + (int64_t)(first + cell) * NHWC_CELL;
#pragma unroll 4
            for (int64_t p = begin + lane; p < end; p += lanes) {
                float values[NHWC_CELL];
                nhwc_load(from + p * job.x_pixel, values);
#pragma unroll
                for (int e = 0; e < NHWC_CELL; e++)
                    sum[e] += values[e];
            }
        }
        float4 *own = reinterpret_cast<float4 *>(shared.own) + threadIdx.x * 2;
        own[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
        own[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < cells * NHWC_CELL; i += THREADS) {
            float total = 0;
            for (int other = 0; other < lanes; other++)
                total += shared.own[other * together * NHWC_CELL + i];
            float *place = shared.parts + (rank * job.cells + first) * NHWC_CELL + i;
            for (int block = 0; block < job.blocks; block++)
                convoy_cluster_store(place, block, total);
        }
        __syncthreads();
    }
}

__global__ void __launch_bounds__(THREADS)
    nhwc_excite(CONVOY_PARAMETER(struct excite_job) job, const convoy_fp16 *x, convoy_fp16 *y)
{
    CONVOY_DYNAMIC_SHARED(float, memory);
    const struct excite_shared shared(job, memory);
    int rank = (int)blockIdx.x % job.blocks, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int64_t n = (int)blockIdx.x / job.blocks;
    convoy_let_next_begin();
    for (int i = job.squeezed + (int)threadIdx.x; i < job.squeezed_cells * NHWC_CELL; i += THREADS)
        shared.squeezed[i] = 0;
    convoy_cluster_sync(); /* all blocks have begun: they may be written to */
    convoy_wait_for_previous();
    sum_pixels(job, shared, x + n * job.pixels * job.x_pixel, rank);
    convoy_cluster_sync();

    for (int i = (int)threadIdx.x; i < job.cells * NHWC_CELL; i += THREADS) {
        float total = 0;
        for (int block = 0; block < job.blocks; block++)
            total += shared.parts[block * job.cells * NHWC_CELL + i];
        shared.means[i] = i < job.c ? total / (float)job.pixels : 0.0f; /* what fills up a pixel is not 0 */
    }
    __syncthreads();
    for (int row = rank + warp * job.blocks; row < job.squeezed; row += WARPS * job.blocks) {
        float sum = 0;
        for (int cell = lane; cell < job.cells; cell += 32)
            sum = multiply_cell(job.weights[0] + ((int64_t)row * job.cells + cell) * NHWC_CELL,
                                shared.means + cell * NHWC_CELL, sum);
        sum = finish(job, 0, row, sum_of_lanes<32>(sum));
        if (lane < job.blocks)
            convoy_cluster_store(shared.squeezed + row, lane, sum);
    }
    convoy_cluster_sync();

    int cells = (job.cells + job.blocks - 1) / job.blocks, first = rank * cells * NHWC_CELL;
    int count = cells * NHWC_CELL; /* of this block; a multiple of a warp's 8 */
    for (int i = (int)threadIdx.x / LANES; i < count; i += THREADS / LANES) {
        int row = first + i, part = (int)threadIdx.x % LANES;
        float sum = 0;
        for (int cell = part; cell < job.squeezed_cells && row < job.c; cell += LANES)
            sum = multiply_cell(job.weights[1] + ((int64_t)row * job.squeezed_cells + cell) * NHWC_CELL,
                                shared.squeezed + cell * NHWC_CELL, sum);
        sum = sum_of_lanes<LANES>(sum);
        if (part > 0 || row >= job.cells * NHWC_CELL)
            continue;
        float gate = row < job.c ? finish(job, 1, row, sum) : 0.0f;
        nhwc_tell(job.overflow, nhwc_is_over(gate), n);
        y[n * job.y_pixel + row] = (convoy_fp16)(convoy_half2(gate, 0.0f) & 0xffffu);
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
    return s->c <= MAX_CHANNELS && s->squeezed <= MAX_SQUEEZED &&
           s->n * CONVOY_PORTABLE_CLUSTER <= INT32_MAX && s->act[0].kind < CONVOY_UNARY_NHWC_KINDS &&
           s->act[1].kind < CONVOY_UNARY_NHWC_KINDS && convoy_has_clusters();
}

cudaError_t convoy_launch_nhwc_excite(const struct convoy_nhwc_excite *s, const convoy_fp16 *x,
                                      const void *weights, const float *squeeze_bias,
                                      const float *excite_bias, convoy_fp16 *y,
                                      struct convoy_overflow overflow, cudaStream_t stream)
{
    struct excite_job job = {};
    job.pixels = s->pixels;
    job.x_pixel = s->x_pixel;
    job.y_pixel = s->y_pixel;
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
