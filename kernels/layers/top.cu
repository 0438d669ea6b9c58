/* The first `count` numbers of rows in order, or their places: ArgMax, ArgMin, TopK.
 *
 * A warp takes a row. In each of `count` passes its lanes look for the number that comes first among those
 * behind the one found last, and shuffles find the first of theirs. Nothing is kept but that one, so a row of
 * any length needs no memory; the passes after the first find it in the caches. For the few numbers that a
 * classifier asks for this is a reading of the row for each.
 * Floor: 4 bytes an element; 256 rows of 1,000 are 0.3 us: a launch.
 * Predicted: 3 us for one of 1,000, a launch and 32 loads a lane.
 * Not timed on a GPU yet. */
#include "kernels/device/grid.cuh"
#include "kernels/kernels.h"

#define THREADS 256
#define LANES   32

struct found {
    float value;
    int place; /* -1: none */
};

/* Does a come before b, which may be none? */
__device__ static bool is_before(const struct convoy_top_shape *s, struct found a, struct found b)
{
    if (a.place < 0 || b.place < 0)
        return b.place < 0 && a.place >= 0;
    bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
    if (a_is_nan != b_is_nan)
        return a_is_nan;
    if (!a_is_nan && a.value != b.value)
        return s->smallest ? a.value < b.value : a.value > b.value;
    return s->last ? a.place > b.place : a.place < b.place;
}

__global__ void __launch_bounds__(THREADS) top_rows(struct convoy_top_shape s, const float *x, float *y)
{
    int lane = (int)threadIdx.x % LANES;
    int64_t step = convoy_step() / LANES;
    for (int64_t row = convoy_first() / LANES; row < s.outer * s.inner; row += step) {
        const float *from = x + row / s.inner * s.length * s.inner + row % s.inner;
        float *to = y + row / s.inner * s.count * s.inner + row % s.inner;
        struct found last = {0, -1};
        for (int64_t k = 0; k < s.count; k++) {
            struct found best = {0, -1};
            for (int i = lane; i < s.length; i += LANES) {
                struct found here = {from[i * s.inner], i};
                if ((last.place < 0 || is_before(&s, last, here)) && is_before(&s, here, best))
                    best = here;
            }
#pragma unroll
            for (int offset = LANES / 2; offset > 0; offset /= 2) {
                struct found other = {__shfl_xor_sync(0xffffffffu, best.value, offset),
                                      __shfl_xor_sync(0xffffffffu, best.place, offset)};
                if (is_before(&s, other, best))
                    best = other;
            }
            last = best;
            if (lane == 0)
                to[k * s.inner] = s.places ? (float)best.place : best.value;
        }
    }
}

cudaError_t convoy_launch_top(const struct convoy_top_shape *shape, const float *x, float *y,
                              cudaStream_t stream)
{
    return convoy_launch(top_rows, convoy_grid(shape->outer * shape->inner, THREADS / LANES), THREADS, 0,
                         stream, *shape, x, y);
}
