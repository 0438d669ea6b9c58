/* The pieces of nhwc_patch (conv_patch.cu): boxes of channels, what a block has in shared memory and where,
 * the barriers there. */
#ifndef CONVOY_KERNELS_NHWC_CONV_PATCH_CUH
#define CONVOY_KERNELS_NHWC_CONV_PATCH_CUH

#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_copy.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/nhwc/conv_job.cuh"

#define PATCH_SIDE    8   /* outputs */
#define PATCH_TAPS    3   /* of a side of the filter */
#define PATCH_SIZES   3   /* of boxes: 4, 2 and 1 steps of 16 channels */
#define BARRIER_BYTES 512 /* room for all barriers */

/* What a launch is given: job.x is the map of boxes of 64 channels. */
struct nhwc_patch_job {
    struct nhwc_job conv;
    CUtensorMap x[PATCH_SIZES - 1]; /* in boxes of 32 and 16 */
};

/* Steps of 16 channels in boxes: as many of 4 as there are, one of 2, one of 1. */
static constexpr __host__ __device__ __forceinline__ int patch_boxes(int steps)
{
    return steps / 4 + steps / 2 % 2 + steps % 2;
}

static constexpr __host__ __device__ __forceinline__ int patch_box_steps(int steps, int box)
{
    return box < steps / 4 ? 4 : box == steps / 4 && steps / 2 % 2 == 1 ? 2 : 1;
}

static constexpr __host__ __device__ __forceinline__ int patch_box_first(int steps, int box)
{
    return box <= steps / 4 ? box * 4 : steps / 2 * 2;
}

/* TILES of 8 maps; 16 STEPS channels. */
template <int TILES, int STEPS> struct nhwc_patch_tile {
    static constexpr int NT = TILES, N = NT * 8, BUFFERS = 2, BOXES = patch_boxes(STEPS);
    static constexpr int PANEL = N, PANEL_BYTES = NHWC_PIECE * PANEL * 2;
    static constexpr int BOX = PATCH_SIDE + PATCH_TAPS - 1, STEP_BYTES = 32;
    /* Warpgroups that multiply. Six were faster than three with 32 channels and 32 maps; of 64 maps four were
     * not. Other sizes were measured with three alone. */
    static constexpr int GROUPS = TILES <= 4 && STEPS <= 4 ? 6 : 3;

    static constexpr __host__ __device__ __forceinline__ int box_bytes(int box)
    {
        return BOX * BOX * patch_box_steps(STEPS, box) * STEP_BYTES;
    }
    /* Where a box lies in its stage; of BOXES the bytes of a stage. */
    static constexpr __host__ __device__ __forceinline__ int box_at(int box)
    {
        int at = 0;
        for (int before = 0; before < box; before++)
            at += (box_bytes(before) + 1023) / 1024 * 1024;
        return at;
    }
    /* Where the weights of a tap and a box lie in shared memory. */
    static constexpr __host__ __device__ __forceinline__ int weights_at(int tap, int box)
    {
        return N * STEP_BYTES * (tap * STEPS + patch_box_first(STEPS, box));
    }

    static constexpr int STAGE_BYTES = box_at(BOXES), COPIED_BYTES = BOX * BOX * STEPS * STEP_BYTES;
    static constexpr int TAPS = PATCH_TAPS * PATCH_TAPS, WEIGHT_BYTES = weights_at(TAPS, 0);
    static constexpr int RESULT_BYTES = GROUPS * BUFFERS * PANEL_BYTES, MORE_BYTES = BARRIER_BYTES + 1024;
    static constexpr int ROOM = (CONVOY_SHARED_MAX - MORE_BYTES - WEIGHT_BYTES - RESULT_BYTES) / STAGE_BYTES;
    static constexpr int STAGES = ROOM < 6 ? ROOM : 6;
    static_assert(STAGES >= 3, "two multiply while a box comes");
    static constexpr int RING = WEIGHT_BYTES, RESULTS = RING + STAGES * STAGE_BYTES;
    static constexpr int BARRIERS = RESULTS + RESULT_BYTES, SHARED_BYTES = BARRIERS + MORE_BYTES;
    static constexpr int THREADS = (GROUPS + 1) * CONVOY_WARPGROUP;
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
 * every GROUPS BUFFERS-th piece. */
template <typename tile> struct nhwc_patch_barriers {
    static constexpr int PLACES = tile::GROUPS * tile::BUFFERS;
    static_assert((2 * tile::STAGES + 2 * PLACES + 1) * 8 <= BARRIER_BYTES, "room for all barriers");
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

#endif
