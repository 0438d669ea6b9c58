/* A 1 x 1 convolution that makes the gates of its inputs itself (squeeze and excitation), for few images: the
 * launch that would make them takes longer than its work. The blocks of a cluster divide the channels
 * (conv_split.cuh), and so both dense layers: each makes the means of its own channels, its part of all
 * squeezed numbers' sums, which it sends to all, and the gates of its own channels. A tile has outputs of one
 * image. Weights of both layers come into shared memory while the kernel before still runs.
 *
 * Source of the layers: excite.cu's. Sums are float32 in a fixed order. */
#ifndef CONVOY_KERNELS_NHWC_EXCITED_CUH
#define CONVOY_KERNELS_NHWC_EXCITED_CUH

#include "kernels/nhwc/conv_split.cuh"
#include "kernels/nhwc/excite_layers.cuh"
#include "kernels/nhwc/inputs.cuh"

struct excited_job {
    const convoy_fp16 *weights; /* of each chunk: squeezed x DEPTH, then DEPTH x squeezed */
    const float *bias[2];
    struct convoy_unary act[2];
    const void *x;   /* images, or sums of their patches */
    int64_t x_pixel; /* numbers from pixel to pixel */
    int patches;     /* 0: x are images */
    int squeezed, cells;
    int pixels, image_tiles; /* of an image */
    int most;                /* chunks of a block */
};

/* Numbers of a chunk's weights. */
template <int DEPTH> static __host__ __device__ __forceinline__ int excited_chunk(int cells)
{
    return 2 * DEPTH * cells * NHWC_CELL;
}

/* What lies behind the barriers of conv_split.cuh's tile: the weights of the block's chunks; what each block
 * of the cluster adds to the squeezed numbers; these; means and gates of the block's channels. */
template <typename TILE, int DEPTH> struct excited_shared {
    convoy_fp16 *weights;
    float *parts, *squeezed, *means;
    convoy_fp16 *gates;

    static constexpr int BEGIN = TILE::BARRIERS + 256;

    __device__ __forceinline__ excited_shared(const struct excited_job &job, char *shared, int splits)
        : weights(reinterpret_cast<convoy_fp16 *>(shared + BEGIN)),
          parts(reinterpret_cast<float *>(weights + job.most * excited_chunk<DEPTH>(job.cells))),
          squeezed(parts + splits * job.cells * NHWC_CELL), means(squeezed + job.cells * NHWC_CELL),
          gates(reinterpret_cast<convoy_fp16 *>(means + job.most * DEPTH))
    {
    }

    static size_t bytes(int most, int cells, int splits)
    {
        return (size_t)(TILE::SHARED_BYTES + most * excited_chunk<DEPTH>(cells) * (int)sizeof(convoy_fp16) +
                        (splits + 1) * cells * NHWC_CELL * (int)sizeof(float) +
                        most * DEPTH * (int)(sizeof(float) + sizeof(convoy_fp16)));
    }
};

/* Times gates in shared memory, of one image. */
template <int ROWS, int DEPTH> struct nhwc_excited : nhwc_changed<ROWS, DEPTH> {
    using base = nhwc_changed<ROWS, DEPTH>;
    const convoy_fp16 *gates; /* from the channels of chunk `begin` on */
    int begin_chunk, image_end;
    uint4 gate;

    __device__ __forceinline__ void load(const struct nhwc_job &, int chunk)
    {
        gate =
            *reinterpret_cast<const uint4 *>(gates + (chunk - begin_chunk) * DEPTH + this->cell * NHWC_CELL);
    }

    __device__ __forceinline__ void change(const struct nhwc_job &, char *rows)
    {
#pragma unroll
        for (int i = 0; i < base::COUNT; i++) {
            uint4 *place = this->place(rows, i), x = *place;
            x = make_uint4(nhwc_times(x.x, gate.x), nhwc_times(x.y, gate.y), nhwc_times(x.z, gate.z),
                           nhwc_times(x.w, gate.w));
            nhwc_collect_over(x, &this->over[i]);
            *place = x;
        }
        convoy_wgmma_publish();
    }

    /* Rows behind the image's last one are of the next image, and no outputs of this tile. */
    __device__ __forceinline__ void tell(const struct nhwc_job &job)
    {
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            if (nhwc_any_over(this->over[i]) && this->first + this->row + i * base::APART < image_end)
                nhwc_tell(job.overflow, true, this->image(job, i));
    }
};

/* The means of a block's channels, from `channel` on: `cells` of 8. own: room for a cell of each thread. */
template <int THREADS, bool SUMMED>
static __device__ __forceinline__ void excited_means(const struct excited_job &job, float *own, float *means,
                                                     int n, int channel, int cells)
{
    const excite_lanes<THREADS> lanes(cells);
    int64_t end = SUMMED ? job.patches : job.pixels;
    for (int first = 0; first < cells; first += lanes.together) {
        int left = cells - first, count = left < lanes.together ? left : lanes.together;
        lanes.template sum<SUMMED>(own, job.x, job.x_pixel, channel / NHWC_CELL + first, count, n * end,
                                   (n + 1) * end);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < count * NHWC_CELL; i += THREADS)
            means[first * NHWC_CELL + i] = lanes.total(own, i) / (float)job.pixels;
        __syncthreads();
    }
}

/* This block's part of all squeezed numbers, sent to all blocks: 8 threads for a number. */
template <int THREADS, typename SHARED, int DEPTH>
static __device__ __forceinline__ void excited_squeeze(const struct excited_job &job, const SHARED &shared,
                                                       int count, int rank, int splits)
{
    constexpr int LANES = DEPTH / NHWC_CELL;
    int cell = (int)threadIdx.x % LANES, numbers = job.cells * NHWC_CELL;
    for (int first = 0; first < numbers; first += THREADS / LANES) { /* whole warps */
        int row = first + (int)threadIdx.x / LANES;
        float sum = 0;
        for (int chunk = 0; chunk < count && row < numbers; chunk++) {
            const convoy_fp16 *weights =
                shared.weights + chunk * excited_chunk<DEPTH>(job.cells) + row * DEPTH + cell * NHWC_CELL;
            sum = excite_multiply(*reinterpret_cast<const uint4 *>(weights),
                                  shared.means + chunk * DEPTH + cell * NHWC_CELL, sum);
        }
        sum = excite_sum_of_lanes<LANES>(sum);
        if (row < numbers && cell < splits)
            convoy_cluster_store(shared.parts + rank * numbers + row, cell, sum);
    }
}

/* The squeezed numbers, of what all blocks sent; 0 where there is none. */
template <int THREADS, typename SHARED>
static __device__ __forceinline__ void excited_join(const struct excited_job &job, const SHARED &shared,
                                                    int splits)
{
    int numbers = job.cells * NHWC_CELL;
    for (int row = (int)threadIdx.x; row < numbers; row += THREADS) {
        float sum = 0;
        for (int block = 0; block < splits; block++)
            sum += shared.parts[block * numbers + row];
        shared.squeezed[row] = row < job.squeezed ? excite_finish(job.act[0], job.bias[0], row, sum) : 0.0f;
    }
}

/* The gates of a block's channels, from `channel` on; 0 for those that are not there. */
template <int THREADS, typename SHARED, int DEPTH>
static __device__ __forceinline__ void excited_gates(const struct excited_job &job, const SHARED &shared,
                                                     const struct convoy_overflow &overflow, int n,
                                                     int channel, int channels, int count)
{
    int part = (int)threadIdx.x % EXCITE_LANES;
    for (int i = (int)threadIdx.x / EXCITE_LANES; i < count * DEPTH; i += THREADS / EXCITE_LANES) {
        const convoy_fp16 *weights = shared.weights + (i / DEPTH) * excited_chunk<DEPTH>(job.cells) +
                                     (DEPTH + i % DEPTH) * job.cells * NHWC_CELL;
        float sum = 0;
        for (int cell = part; cell < job.cells; cell += EXCITE_LANES)
            sum = excite_multiply(*reinterpret_cast<const uint4 *>(weights + cell * NHWC_CELL),
                                  shared.squeezed + cell * NHWC_CELL, sum);
        sum = excite_sum_of_lanes<EXCITE_LANES>(sum);
        if (part > 0)
            continue;
        bool is = channel + i < channels;
        uint32_t over = 0,
                 word = nhwc_word(is ? excite_finish(job.act[1], job.bias[1], channel + i, sum) : 0.0f, 0.0f,
                                  &over);
        nhwc_tell(overflow, nhwc_any_over(over), n);
        shared.gates[i] = (convoy_fp16)(word & 0xffffu);
    }
}

template <int NT, int DEPTH, int STAGES>
static __global__ void __launch_bounds__(2 * CONVOY_WARPGROUP, 1)
    nhwc_conv_excited(CONVOY_PARAMETER(struct nhwc_job) job, CONVOY_PARAMETER(struct excited_job) excite,
                      int splits)
{
    using tile = nhwc_split_tile<NT, DEPTH, STAGES>;
    using barriers_of = nhwc_barriers<tile, 1, STAGES, 1>;
    using shared_of = excited_shared<tile, DEPTH>;
    constexpr int THREADS = tile::THREADS;
    char *memory = nhwc_shared();
    const barriers_of barriers = {reinterpret_cast<uint64_t *>(memory + tile::BARRIERS)};
    uint64_t *weights_there = barriers.free(0, 0) + 1; /* behind the last one */
    const shared_of shared(excite, memory, splits);
    float *sums = reinterpret_cast<float *>(memory + tile::SUMS);
    bool fills = threadIdx.x == CONVOY_WARPGROUP, multiplies = (int)threadIdx.x < CONVOY_WARPGROUP;
    int rank = (int)blockIdx.x % splits, at = (int)blockIdx.x / splits;
    int begin = job.chunks * rank / splits, count = convoy_uniform(job.chunks * (rank + 1) / splits - begin);
    int place = at / job.tiles_n, n = place / excite.image_tiles, column = at % job.tiles_n * tile::N;
    int first = n * excite.pixels + (place - n * excite.image_tiles) * tile::M;
    int end = (n + 1) * excite.pixels, ahead = count < STAGES ? count : STAGES;
    int channel = begin * DEPTH, left = (job.c - channel) / NHWC_CELL;
    int cells = left < count * (DEPTH / NHWC_CELL) ? left : count * (DEPTH / NHWC_CELL);
    convoy_let_next_begin();
    if (threadIdx.x == 0) {
        barriers.make();
        convoy_barrier_make(weights_there, 1);
    }
    for (int i = cells * NHWC_CELL + (int)threadIdx.x; i < count * DEPTH; i += THREADS)
        shared.means[i] = 0;
    __syncthreads();
    nhwc_split_sync(splits); /* all blocks have begun: they may be written to later */
    if (fills) {
        const int chunk = excited_chunk<DEPTH>(excite.cells);
        convoy_copy_bulk(shared.weights, excite.weights + (int64_t)begin * chunk,
                         count * chunk * (int)sizeof(convoy_fp16), weights_there);
        nhwc_fill_ahead<tile, barriers_of, STAGES>(job, memory, barriers, column, begin, count);
        convoy_wait_for_previous();
        nhwc_fill_part<tile, barriers_of, DEPTH, STAGES>(job, memory, barriers, first, column, begin, 0,
                                                         ahead);
    }
    __syncwarp();

    convoy_wait_for_previous(); /* which wrote the images, their sums and the residual */
    if (excite.patches > 0)
        excited_means<THREADS, true>(excite, sums, shared.means, n, channel, cells);
    else
        excited_means<THREADS, false>(excite, sums, shared.means, n, channel, cells);
    convoy_barrier_wait(weights_there, 0);
    excited_squeeze<THREADS, shared_of, DEPTH>(excite, shared, count, rank, splits);
    nhwc_split_sync(splits);
    excited_join<THREADS>(excite, shared, splits);
    __syncthreads();
    excited_gates<THREADS, shared_of, DEPTH>(excite, shared, job.overflow, n, channel, job.c, count);
    __syncthreads();

    if (multiplies) {
        float sum[NT][4] = {};
        int lane = (int)threadIdx.x % 32;
        nhwc_excited<1, DEPTH> input;
        input.begin(job, first);
        input.gates = shared.gates;
        input.begin_chunk = begin;
        input.image_end = end;
        nhwc_multiply_part<tile, barriers_of, NT, DEPTH, STAGES>(job, memory, barriers, input, begin, count,
                                                                 sum);
        nhwc_send<NT>(sums, splits, rank, (int)threadIdx.x / 32 * 16 + lane / 4, lane, sum);
    } else if (fills) {
        nhwc_fill_part<tile, barriers_of, DEPTH, STAGES>(job, memory, barriers, first, column, begin, ahead,
                                                         count);
    }
    __syncwarp();
    nhwc_split_sync(splits);
    nhwc_finish<NT, THREADS>(job, sums, splits, rank, first, end, column);
}

#endif
