/* A bottleneck in one launch: 1 x 1, 3 x 3 and 1 x 1 with x added, for few images. Compute capability 9.0
 * alone.
 *
 * Launched one after the other, each of the three layers waits for the one before it, for its first inputs
 * and for the end of its tiles; with few images that is most of the time. Here the blocks of a cluster make a
 * patch of up to 8 x 8 outputs of one image, all maps, and each block a part of the maps of every layer:
 *
 * 1. The first layer computes the patch with a border of one pixel, which the second one reads. Pixels come
 * as boxes of 64 channels; one block of the cluster asks for a box, and the copy engine writes it into all.
 * Pixels outside of the image are zeros in the result: it is the second layer's padding.
 * 2. Each block sends its maps, rounded to fp16, into the shared memory of all, by the bulk copy engine,
 * which counts the bytes at the receiver's barrier. So all have all maps, slab by slab, and the second layer
 * reads them from there: a tap is the same matrix from another pixel on, because 8 neighbouring outputs of a
 * line are 8 neighbouring pixels of the patch (conv_patch.cu).
 * 3. The second layer's results are exchanged in the same way; the third one adds x, which came meanwhile to
 * where the outputs will lie, and the copy engine writes them.
 *
 * Rows of the products are pixels, columns are maps. The weights of all three layers are one stream, which a
 * thread requests as far ahead as its ring has room: the first ones before the kernel before this one has
 * ended, and on over the ends of layers; what the ring has no room for comes to the L2 cache meanwhile. Two
 * warpgroups multiply. Inside, each sums every other chunk of 64 channels of a tap, and they add their sums;
 * in the last layer each makes half of the maps. Each sum has the same order whatever the cluster.
 *
 * Two pieces of 64 pixels hold the 10 x 10 of a patch with its border. Where the image is at most 14 x 14,
 * patches of up to 7 x 7 (or one of 8 x 8) need no more than 8 x 8 pixels of it, one piece is enough, and no
 * pixel outside of the image is read: all 49 of 7 x 7.
 *
 * Predicted for resnet50's four sizes with one image: 7.5, 8, 9 and 16 us. Measured on an
 * H100: 8.3, 10.0, 12.9 and 25.6, where its three layers take 12.0, 13.9, 14.8 and 16.5 (docs/kernels.md says
 * where the time goes). */
#include "kernels/bottleneck.h"

#include "kernels/nhwc/bottleneck_ends.cuh"

#include <string.h>

/* The three layers of the threads that multiply. */
template <int MAPS, int PIECES>
static __device__ __forceinline__ void neck_multiply(const struct neck_job &job, char *shared,
                                                     const struct neck_barriers &barriers,
                                                     const struct neck_place &place, char *results)
{
    using tile = neck_tile<MAPS, PIECES>;
    constexpr int HALF = tile::NT / 2;
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP), pair = (int)threadIdx.x % 4 * 2;
    char *slab = shared + place.rank * tile::SLAB;
    char *mid_slab = shared + job.room.x + place.rank * tile::MID_SLAB;
    const float *biases = reinterpret_cast<const float *>(shared + job.room.bias);

    const float *bias = biases + group * HALF * 8 + pair;
    struct neck_turn turn = {0, 0};
    {
        float sum[PIECES][tile::NT][4] = {}, mine[PIECES * HALF][4];
        convoy_wait_for_previous(); /* x does not come earlier; and this thread tells of what fp16 does not
                                       hold */
        neck_first<tile, PIECES>(job, shared, barriers, group, turn, sum);
        neck_add_groups<PIECES, tile::NT>(shared + job.room.x, group, sum, mine);
        neck_add_bias<HALF>(bias, mine);
        nhwc_activate_all(job.act[0], mine);
        neck_put_first<tile, PIECES>(job, slab, place, group, mine);
    }
    neck_exchange(job, slab + (place.box_y * NECK_PITCH + place.box_x) * tile::ROW_BYTES,
                  neck_first_rows(job) * tile::ROW_BYTES, place.rank, barriers.arrived(0));
    {
        float sum[1][tile::NT][4] = {}, mine[HALF][4];
        neck_second<tile>(job, shared, barriers, group, turn, sum[0]);
        neck_add_groups<1, tile::NT>(results, group, sum, mine);
        convoy_wgmma_publish();
        __syncwarp();
        convoy_barrier_arrive_if(threadIdx.x % 32 == 0, barriers.results_free());
        neck_add_bias<HALF>(bias + MAPS, mine);
        nhwc_activate_all(job.act[1], mine);
        neck_put_second<tile>(job, mid_slab, place, group, mine);
    }
    neck_exchange(job, mid_slab, neck_second_rows(job) * tile::ROW_BYTES, place.rank, barriers.arrived(1));
    if (job.cluster > 1)
        convoy_cluster_leave(); /* all that others send is here */
    for (int pass = 0; pass < job.passes; pass++) {
        float sum[tile::OUT_NT][4] = {};
        neck_third<tile>(job, shared, barriers, group, turn, sum);
        neck_add_bias<tile::OUT_NT>(biases + 2 * MAPS + pass * tile::OUT + group * tile::OUT_NT * 8 + pair,
                                    sum);
        convoy_barrier_wait(barriers.results_full(), pass % 2);
        neck_add_residual<tile>(job, results, group, sum);
        nhwc_activate_all(job.act[2], sum);
        neck_put_results<tile>(job, results, place, group, sum);
        convoy_wgmma_publish();
        neck_meet();
        if (threadIdx.x == 0) {
            int map = neck_first_map<tile>(job, place.rank, pass);
            for (int panel = 0; panel < tile::PANELS; panel++)
                convoy_store_patch(&job.y, results + panel * NECK_PANEL_BYTES, map + panel * NECK_CHUNK,
                                   place.x, place.y, place.n);
            convoy_store_end();
            convoy_store_wait<0>(); /* shared memory stays until it was read */
        }
        neck_meet();
        convoy_barrier_arrive_if(pass + 1 < job.passes && threadIdx.x % 32 == 0, barriers.results_free());
    }
}

template <int MAPS, int PIECES>
static __global__ void __launch_bounds__(NECK_THREADS, MAPS <= 32 ? 2 : 1)
    nhwc_bottleneck(CONVOY_PARAMETER(struct neck_job) job)
{
    using tile = neck_tile<MAPS, PIECES>;
    char *shared = nhwc_shared();
    const struct neck_barriers barriers = {reinterpret_cast<uint64_t *>(shared + job.room.barriers),
                                           job.room.x_stages, job.room.w_stages};
    const struct neck_place place = neck_place_of<PIECES>(job);
    char *results = shared + (place.rank < job.cluster / 2 ? job.room.results_high : job.room.results);
    int warp = convoy_uniform((int)threadIdx.x / 32);
    bool weights = warp == NECK_CONSUMERS / 32 && threadIdx.x % 32 == 0;
    convoy_let_next_begin();
    neck_make_barriers<tile>(job, barriers);
    if (PIECES == 1 && warp < NECK_CONSUMERS / 32)
        neck_clear<tile>(job, shared);
    __syncthreads();
    if (job.cluster > 1)
        convoy_cluster_arrive(); /* this block has begun, and its barriers are there */
    /* Weights and biases do not depend on the kernel before this one. */
    if (weights) {
        neck_fill_weights<tile>(job, shared, barriers, place.rank, 0, barriers.w_stages);
        neck_prefetch_weights<tile>(job, barriers.w_stages, place.rank);
    } else if (warp < NECK_CONSUMERS / 32) {
        neck_copy_bias<tile>(job, reinterpret_cast<float *>(shared + job.room.bias), place.rank);
    }
    __syncwarp();
    if (job.cluster > 1)
        convoy_cluster_wait();

    if (warp < NECK_CONSUMERS / 32) {
        neck_multiply<MAPS, PIECES>(job, shared, barriers, place, results);
    } else {
        if (weights)
            neck_fill_weights<tile>(job, shared, barriers, place.rank, barriers.w_stages, job.stages);
        if (threadIdx.x == NECK_CONSUMERS + 32) {
            convoy_prefetch_map(&job.x);
            convoy_prefetch_map(&job.residual);
            convoy_prefetch_map(&job.y);
            convoy_wait_for_previous();
            neck_fill_x<tile>(job, shared, barriers, place);
            neck_fill_residual<tile>(job, results, barriers, place);
        }
        __syncwarp();
        if (job.cluster > 1)
            convoy_cluster_leave();
    }
    __syncwarp();
    if (job.cluster > 1)
        convoy_cluster_wait(); /* what this block sent has arrived, too */
}

/* ---- Launch ---- */

/* Everything that does not depend on operands. False: shared memory does not suffice. */
template <int MAPS, int BLOCKS, int PIECES>
static bool neck_describe(const struct convoy_bottleneck_shape *s, struct neck_job *job)
{
    neck_count(s, MAPS, job);
    job->h = s->h;
    job->w = s->w;
    job->c = s->c;
    job->mid = s->mid;
    job->side_y = neck_side(s->h);
    job->side_x = neck_side(s->w);
    job->down = (int)convoy_div_up(s->h, job->side_y);
    job->across = (int)convoy_div_up(s->w, job->side_x);
    job->box_h = neck_box(s->h, PIECES == 1);
    job->box_w = neck_box(s->w, PIECES == 1);
    job->box_bytes = job->box_h * job->box_w * NECK_ROW_BYTES;
    return neck_make_room<neck_tile<MAPS, PIECES>, BLOCKS>(job, &job->room);
}

template <int MAPS, int BLOCKS, int PIECES>
static cudaError_t neck_launch_pieces(const struct convoy_bottleneck_shape *s,
                                      const struct convoy_bottleneck_operands *operands, cudaStream_t stream)
{
    struct neck_job job = {};
    if (!neck_describe<MAPS, BLOCKS, PIECES>(s, &job))
        return cudaErrorInvalidValue;
    neck_take(*s, *operands, &job);
    memcpy(job.act, s->act, sizeof job.act);
    const struct convoy_map_images x =
        nhwc_plain_images(operands->x, s->n, s->h, s->w, (int)convoy_nhwc_channels(s->c), s->x_pixel);
    const struct convoy_map_images y =
        nhwc_plain_images(operands->y, s->n, s->h, s->w, (int)convoy_nhwc_channels(s->c), s->y_pixel);
    cudaError_t error = convoy_map_patches(&job.x, &x, NHWC_PATCH, job.box_w, job.box_h);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.residual, &x, NHWC_PATCH, job.side_x, job.side_y);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.y, &y, NHWC_PATCH, job.side_x, job.side_y);
    if (error != cudaSuccess)
        return error;
    return convoy_launch_as(convoy_launch_form{(unsigned)job.cluster, true}, nhwc_bottleneck<MAPS, PIECES>,
                            dim3((unsigned)(neck_patches(s) * job.cluster)), dim3(NECK_THREADS),
                            (size_t)job.room.bytes, stream, job);
}

template <int MAPS, int BLOCKS>
static cudaError_t neck_launch(const struct convoy_bottleneck_shape *s,
                               const struct convoy_bottleneck_operands *operands, cudaStream_t stream)
{
    return neck_is_small(s) ? neck_launch_pieces<MAPS, BLOCKS, 1>(s, operands, stream)
                            : neck_launch_pieces<MAPS, BLOCKS, 2>(s, operands, stream);
}

/* ---- The list ---- */

/* From times of resnet50's four sizes with 1 and 8 images on an H100 (convoy-kernels --bottlenecks): of 32
 * times 26 are within 20 % of the estimate, and all between 0.7 and 1.3 of it. NECK_START_CYCLES is from the
 * end of the kernel before to the end of this one, without what its stages of weights take: at least
 * NECK_TURN_CYCLES each, whatever they multiply, or as long as they need to come at NECK_STAGE_BYTES a cycle,
 * of which all blocks together get NECK_STAGES_BYTES. A cluster of blocks lies in one processing cluster of
 * NECK_GPC multiprocessors. */
#define NECK_START_CYCLES 10500.0
#define NECK_TURN_CYCLES  340.0
#define NECK_STAGE_BYTES  28.0
#define NECK_STAGES_BYTES 2000.0
#define NECK_GPC          18

/* Clusters that run at a time, of an H100. */
static inline int neck_clusters_at_a_time(int cluster, int blocks)
{
    int whole = CONVOY_ESTIMATE_SMS / NECK_GPC, rest = CONVOY_ESTIMATE_SMS % NECK_GPC;
    return neck_most(1, whole * (NECK_GPC * blocks / cluster) + rest * blocks / cluster);
}

/* Cycles of a block, as often as blocks follow each other on a multiprocessor. */
template <int MAPS, int BLOCKS> static float neck_estimate(const struct convoy_bottleneck_shape *s)
{
    constexpr int MOST = MAPS <= 32 ? 2 : 1; /* blocks for whose registers a multiprocessor has room */
    struct neck_job job = {};
    if (neck_is_small(s))
        (void)neck_describe<MAPS, BLOCKS, 1>(s, &job); /* it fits: the kernel takes the shape */
    else
        (void)neck_describe<MAPS, BLOCKS, 2>(s, &job);
    int blocks = neck_least(MOST, (CONVOY_SHARED_MAX + 1024) / (job.room.bytes + 1024));
    int at_a_time = neck_clusters_at_a_time(job.cluster, blocks);
    int64_t clusters = neck_patches(s), turns = convoy_div_up(clusters, at_a_time);
    int64_t asking = (clusters < at_a_time ? clusters : at_a_time) * job.cluster;
    double bytes = NECK_STAGES_BYTES / (double)asking;
    double stage = neck_tile<MAPS, 1>::STAGE / (bytes < NECK_STAGE_BYTES ? bytes : NECK_STAGE_BYTES);
    double cycles = NECK_START_CYCLES + job.stages * (stage > NECK_TURN_CYCLES ? stage : NECK_TURN_CYCLES);
    return (float)(cycles * (double)turns / NHWC_CYCLES_PER_US);
}

/* Can the device run such clusters? More than 8 blocks are not what every chip has room for. */
template <int MAPS> static bool neck_cluster_runs(int cluster)
{
    if (cluster == 1)
        return true;
    if (cluster > CONVOY_CLUSTER_MAX || !convoy_has_clusters())
        return false;
#ifdef __CUDACC__
    if (cluster > CONVOY_PORTABLE_CLUSTER) {
        static signed char
            known[64]; /* of each device: 1 yes, -1 no; several threads may find out the same */
        int device = 0, count = 0;
        if (cudaGetDevice(&device) != cudaSuccess || device >= 64)
            return false;
        if (__atomic_load_n(&known[device], __ATOMIC_RELAXED) == 0) {
            const void *kernel = reinterpret_cast<const void *>(nhwc_bottleneck<MAPS, 1>);
            cudaLaunchConfig_t config = {};
            cudaLaunchAttribute attribute = {};
            config.gridDim = dim3((unsigned)cluster);
            config.blockDim = dim3(NECK_THREADS);
            config.dynamicSmemBytes = CONVOY_SHARED_MAX;
            config.attrs = &attribute;
            config.numAttrs = 1;
            attribute.id = cudaLaunchAttributeClusterDimension;
            attribute.val.clusterDim.x = (unsigned)cluster;
            attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
            bool runs = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             CONVOY_SHARED_MAX) == cudaSuccess &&
                        cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
                            cudaSuccess &&
                        cudaOccupancyMaxActiveClusters(&count, kernel, &config) == cudaSuccess && count > 0;
            if (!runs)
                (void)cudaGetLastError();
            __atomic_store_n(&known[device], (signed char)(runs ? 1 : -1), __ATOMIC_RELAXED);
        }
        return __atomic_load_n(&known[device], __ATOMIC_RELAXED) > 0;
    }
#endif
    return true;
}

template <int MAPS, int BLOCKS> static bool neck_takes(const struct convoy_bottleneck_shape *s)
{
    struct neck_job job = {};
    if (s->depthwise || s->separable || s->n <= 0 || s->x_pixel % 8 != 0 || s->y_pixel % 8 != 0 ||
        neck_patches(s) > INT32_MAX / 64 || !convoy_has_wgmma())
        return false;
    neck_count(s, MAPS, &job);
    bool fits =
        neck_is_small(s) ? neck_describe<MAPS, BLOCKS, 1>(s, &job) : neck_describe<MAPS, BLOCKS, 2>(s, &job);
    return fits && job.passes <= NECK_PASSES && neck_cluster_runs<MAPS>(job.cluster);
}

static int neck_no_sums(const struct convoy_bottleneck_shape *)
{
    return 0;
}

#define NECK(MAPS, BLOCKS)                                                                                   \
    {                                                                                                        \
        "nhwc_bottleneck:" #MAPS "x" #BLOCKS, neck_takes<MAPS, BLOCKS>, neck_estimate<MAPS, BLOCKS>,         \
            neck_packed_bytes<MAPS>, neck_pack<MAPS>, neck_no_sums, neck_launch<MAPS, BLOCKS>                \
    }

static const struct convoy_bottleneck_kernel necks[] = {NECK(16, 1), NECK(16, 2), NECK(32, 1), NECK(32, 2),
                                                        NECK(64, 1)};
static const struct convoy_bottleneck_kernel *const list[] = {&necks[0], &necks[1], &necks[2],
                                                              &necks[3], &necks[4], &convoy_nhwc_inverted};

const struct convoy_bottleneck_kernel *const *convoy_bottleneck_kernels(int *count)
{
    *count = (int)(sizeof list / sizeof list[0]);
    return list;
}
