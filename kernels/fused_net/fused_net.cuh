/* whole_net: all layers of a network, or its first ones, in one launch.
 *
 * Idea (beyond the reports): between the layers of a small network there is more waiting and traffic than in
 * them. Here an image stays on the chip: a block, or a cluster of blocks, keeps all tensors that are alive in
 * shared memory, as planes of cells with their padding around them, and runs layer after layer on the tensor
 * cores (fused_steps.cuh), from planes to planes. Every address that a layer needs is in a table made on the
 * host (fused_planner.cu), so any filter, stride, padding and way around is the same code. In fp16 a cell is
 * eight channels, otherwise four: a tensor is rounded when it is written, where `tensor` rounds when it
 * reads.
 *
 * In a cluster each block computes a part of the places and maps of a layer and writes what it has computed
 * into the shared memory of all that will read it, neighbours of the next layer's filter included; a barrier
 * of the cluster ends the layer. The weights of the next layer are copied to shared memory meanwhile. A large
 * dense layer is divided by places, so that no block needs more of its input than it made itself, and its
 * weights pass through all of the cluster's multiprocessors.
 *
 * With many images a block takes one after the other by itself, and several blocks on a multiprocessor fill
 * each other's gaps.
 *
 * Floor, batch 1: launch and a barrier for each layer, about 0.5 us each, and the weights once through the
 * L2 cache (ece408's dense layer in fp16: 5.6 MB, 1.3 us at 4.2 TB/s; of 16 multiprocessors at 64 bytes a
 * cycle 3.2 us; several teams of blocks share it). Many images: for 16 outputs x 8 maps x 16 numbers of fp16
 * the tensor cores take 6 cycles of a quarter of a multiprocessor; shared memory and the L1 cache give the 4
 * wavefronts of such outputs once for all maps of a task, the 2 of the weights once for all its outputs.
 * Predicted and measured: docs/kernels.md. */
#ifndef CONVOY_KERNELS_FUSED_NET_CUH
#define CONVOY_KERNELS_FUSED_NET_CUH

#include "kernels/device/async_copy.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_words.cuh"
#include "kernels/fused_net/fused_conv.cuh"
#include "kernels/fused_net/fused_dense.cuh"
#include "kernels/fused_net/fused_wgmma.cuh"

#define FUSED_MOST_THREADS 512

/* Ends a layer. WGMMA: what was written is for products of warpgroups too, and the warp that asks for weights
 * is not waited for. */
template <bool CLUSTER, bool WGMMA>
static __device__ __forceinline__ void fused_sync(const struct fused_job &job, bool block_alone)
{
    if constexpr (WGMMA) {
        convoy_wgmma_publish();
        convoy_threads_sync(job.threads);
    } else if (CLUSTER && !block_alone) {
        convoy_cluster_sync();
    } else {
        __syncthreads();
    }
}

/* The lines of an image that this block needs, into a plane of cells with its padding. Each pixel, of PIXEL
 * numbers, goes to all cells that look at it; what they see beyond the line is zero. In PHASES a cell is
 * adjacent pixels, each once, in fp16 two to a word. */
template <int MATH, bool U8, bool PHASES, int PIXEL>
static __device__ __forceinline__ void fused_read(const struct fused_job &job, int image, int rank,
                                                  uint32_t *plane)
{
    constexpr int AHEAD = 4; /* pixels on their way at once */
    constexpr int PER_WORD = fused_pairs<MATH> ? 2 : 1;
    constexpr int COLUMNS = PHASES ? 1 : FUSED_CELL * PER_WORD / PIXEL;
    constexpr int WORDS = PIXEL < PER_WORD ? 1 : PIXEL / PER_WORD;
    constexpr bool TAP_PAIRS = PHASES && MATH == TENSOR_HALF;
    struct tensor_source source;
    source.first_c = 0;
    source.channels = job.first.c;
    const unsigned char *from =
        static_cast<const unsigned char *>(job.x.data) + (int64_t)image * job.x.image_bytes;
    int apart = job.first.dilation[1], span = job.in_span;
    int begin = job.first_row[rank] * span, end = job.end_row[rank] * span;
    for (int i = begin + threadIdx.x; i < end; i += job.threads * AHEAD) {
        uint32_t words[AHEAD][WORDS];
        int rows[AHEAD], places[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int at = min(i + k * job.threads, end - 1);
            rows[k] = tensor_divide(at, job.by_in_span);
            places[k] = at - rows[k] * span;
            int column = places[k] * (TAP_PAIRS ? 2 : 1) - job.in_left, y = rows[k] - job.in_top;
            bool row_inside = (unsigned)y < (unsigned)job.first.h;
            source.inside = row_inside && (unsigned)column < (unsigned)job.first.w;
            source.next_inside =
                TAP_PAIRS && row_inside && (unsigned)(column + apart) < (unsigned)job.first.w;
            int element = y * job.first.w + column; /* may lie outside: then it is not read */
            source.from = from + (int64_t)element * (U8 ? job.first.c : (int)sizeof(float));
#pragma unroll
            for (int word = 0; word < WORDS; word++)
                words[k][word] = tensor_word<MATH, U8>(job.first, job.x, TAP_PAIRS, source, word);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (i + k * job.threads >= end)
                continue;
            if constexpr (PHASES) {
                plane[i + k * job.threads] = words[k][0];
                continue;
            }
            uint32_t *line = plane + rows[k] * job.in_width * FUSED_CELL;
#pragma unroll
            for (int before = 0; before < COLUMNS; before++) {
                int place = places[k] - before * apart;
                if (place >= 0 && place < job.in_width)
                    fused_put<PIXEL, PER_WORD>(line + place * FUSED_CELL, before, words[k]);
            }
        }
    }
}

template <int MATH, bool U8>
static __device__ __forceinline__ void fused_read_any(const struct fused_job &job, int image, int rank,
                                                      uint32_t *plane)
{
    if (job.phases)
        fused_read<MATH, U8, true, 1>(job, image, rank, plane);
    else if (job.pixel == 1)
        fused_read<MATH, U8, false, 1>(job, image, rank, plane);
    else if (job.pixel == 2)
        fused_read<MATH, U8, false, 2>(job, image, rank, plane);
    else
        fused_read<MATH, U8, false, 4>(job, image, rank, plane);
}

/* Brings an image to the L2 cache: it is read when the one before it is done. */
static __device__ __forceinline__ void fused_ask_image(const struct fused_job &job, int image)
{
#ifdef __CUDA_ARCH__
    const char *from = static_cast<const char *>(job.x.data) + (int64_t)image * job.x.image_bytes;
    for (int64_t at = threadIdx.x * 128; at < job.x.image_bytes; at += job.threads * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
#else
    (void)job, (void)image;
#endif
}

static __device__ __forceinline__ void fused_copy(const struct fused_job &job, void *to, const void *from,
                                                  int bytes)
{
    for (int i = threadIdx.x * 16; i < bytes; i += job.threads * 16)
        convoy_copy_async<16>(static_cast<char *>(to) + i, static_cast<const char *>(from) + i, 16);
}

/* words: of whole cells. */
static __device__ __forceinline__ void fused_clear(const struct fused_job &job, uint32_t *from, int words)
{
    for (int i = threadIdx.x * FUSED_CELL; i < words; i += job.threads * FUSED_CELL)
        *reinterpret_cast<uint4 *>(from + i) = make_uint4(0, 0, 0, 0);
}

/* What the next convolution will find in shared memory: its offsets and, in a cluster, its weights, bias and
 * rows. Those of the first one stay there for all images: again is true when they have been copied before. */
template <int MATH, bool CLUSTER>
static __device__ __forceinline__ void fused_prepare(const struct fused_job &job,
                                                     const struct fused_step &step, bool again, int *offsets,
                                                     uint32_t *shared)
{
    if (step.kind != CONVOY_FUSED_CONV)
        return;
    fused_copy(job, offsets, job.offsets + step.offsets, step.offset_bytes);
    if (CLUSTER && !again) {
        constexpr int CHUNKS = 32 * sizeof(struct tensor_weights<MATH>) / 16; /* of a step of 8 maps */
        int maps = step.map_end - step.map_begin, chunks = maps * CHUNKS;
        const uint4 *weights =
            reinterpret_cast<const uint4 *>(job.weights + step.weights) + step.map_begin * CHUNKS;
        uint4 *staged = reinterpret_cast<uint4 *>(shared + step.staged);
        for (int i = threadIdx.x / 32; i < step.steps; i += job.threads / 32)
            for (int k = threadIdx.x % 32; k < chunks; k += 32)
                convoy_copy_async<16>(staged + i * chunks + k, weights + i * step.n_tiles * CHUNKS + k, 16);
        if (step.bias != FUSED_NO_BIAS)
            fused_copy(job, shared + step.staged_bias, job.weights + step.bias + step.map_begin * 8,
                       maps * 8 * 4);
        fused_copy(job, shared + step.staged_rows, job.rows + step.rows + step.tile_begin * 16,
                   (step.tile_end - step.tile_begin) * 16 * (int)sizeof(struct fused_row));
    }
    convoy_copies_end();
}

/* WGMMA: some convolutions run on warpgroups. One warpgroup more than the job has asks for their weights, and
 * leaves its registers to the others: with a warp instead of it, each had 96 of them, which were too few. */
template <int MATH, bool CLUSTER, bool WGMMA>
static __global__ void __launch_bounds__(FUSED_MOST_THREADS + (WGMMA ? CONVOY_WARPGROUP : 0), 1)
    fused_net(CONVOY_PARAMETER(struct fused_job) job)
{
    CONVOY_DYNAMIC_SHARED(uint32_t, shared);
    convoy_let_next_begin();
    int rank = CLUSTER ? convoy_cluster_rank() : 0, cluster = CLUSTER ? job.cluster : 1;
    int *offsets = reinterpret_cast<int *>(shared + job.offsets_at);
    int turn = 0, teams = CLUSTER ? job.teams : 1, stride = gridDim.x / cluster / teams;
    int number = blockIdx.x / cluster, team = number % teams;
    const struct fused_step *steps = reinterpret_cast<const struct fused_step *>(shared + job.steps_at);
    struct fused_ring ring = {};
    bool asks = WGMMA && (int)threadIdx.x >= job.threads;
    if (asks) {
        ring.make(job, shared);
    } else {
        fused_copy(job, shared + job.steps_at, job.steps + rank * job.count,
                   job.count * (int)sizeof(struct fused_step));
        convoy_copies_end();
        fused_clear(job, shared, job.words);
        convoy_copies_wait<0>();
    }
    __syncthreads();
    if (asks) {
        convoy_registers_leave<24>();
        ring.fill(job, shared, (job.n - (int)blockIdx.x + stride - 1) / stride * job.ring_chunks);
        return;
    }
    if constexpr (WGMMA)
        convoy_registers_take<112>();
    fused_prepare<MATH, CLUSTER>(job, steps[0], false, offsets, shared);
    for (int image = number / teams; image < job.n; image += stride) {
        if constexpr (fused_has_vectors<MATH, CLUSTER>)
            fused_result(job, image).clear_end(steps[job.count - 1].places);
        if (job.x.u8)
            fused_read_any<MATH, true>(job, image, rank, shared + job.in);
        else
            fused_read_any<MATH, false>(job, image, rank, shared + job.in);
        if (!CLUSTER && image + stride < job.n)
            fused_ask_image(job, image + stride);
        convoy_copies_wait<0>();
        /* What is read lies in this block's own memory; but at first all blocks have to be there. */
        fused_sync<CLUSTER, WGMMA>(job, turn > 0);
        for (int i = 0; i < job.count; i++, turn++) {
            const struct fused_step &step = steps[i];
            bool last = i + 1 == job.count;
            if (!last || image + stride < job.n)
                fused_prepare<MATH, CLUSTER>(job, steps[last ? 0 : i + 1], last,
                                             offsets + (turn + 1) % 2 * job.offset_words, shared);
            if (step.clear) {
                fused_clear(job, shared + step.out, fused_planes(step.out_words) * step.out_plane);
                fused_sync<CLUSTER, WGMMA>(job, false);
            }
            const int *at = offsets + turn % 2 * job.offset_words;
            if (WGMMA && convoy_uniform(step.wgmma) != 0)
                fused_wgmma_any(job, step, shared, at, ring);
            else if (step.kind == CONVOY_FUSED_CONV)
                fused_conv_any<MATH, CLUSTER, WGMMA>(job, step, image, shared, at);
            else if (step.kind == CONVOY_FUSED_DENSE)
                fused_dense<MATH, CLUSTER>(job, step, rank, team, fused_result(job, image).y, shared);
            else
                fused_mean<MATH>(job, step, rank, fused_result(job, image).y, shared);
            convoy_copies_wait<0>();
            fused_sync<CLUSTER, WGMMA>(job, step.block_alone);
        }
    }
    if (job.softmax > 0 && rank == 0)
        for (int image = number / teams + threadIdx.x / 32 * stride; image < job.n;
             image += job.threads / 32 * stride)
            fused_softmax(fused_result(job, image).y, job.softmax);
}

template <int MATH>
static cudaError_t fused_launch(const struct convoy_fused_plan *plan, const struct fused_job *job,
                                cudaStream_t stream)
{
    int threads = plan->kernel->threads;
    return job->cluster > 1 ? convoy_launch_as(convoy_launch_form{(unsigned)job->cluster, false},
                                               fused_net<MATH, true, false>, dim3((unsigned)plan->blocks),
                                               dim3((unsigned)threads), plan->shared_bytes, stream, *job)
                            : convoy_launch(fused_net<MATH, false, false>, dim3((unsigned)plan->blocks),
                                            dim3((unsigned)threads), plan->shared_bytes, stream, *job);
}

#endif
