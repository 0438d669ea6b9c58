/* Softmax along the middle of outer x length x inner, or its logarithm, x - maximum - ln(sum).
 *
 * The maximum and the sum of exp(x - maximum) are found in one pass: when a larger x comes, the sum so far is
 * scaled by exp(old maximum - new maximum) (Milakov and Gimelshein, "Online normalizer calculation for
 * softmax", 2018). A second pass writes; it finds the row in the caches. Rows that are contiguous get a warp
 * each, whose lanes' maxima and sums are merged by shuffles in a fixed order; otherwise a thread takes a
 * column, and neighbours read neighbours. A row with NaN gives NaN; -infinity gives 0.
 * Floor: 8 bytes an element; 10,000 rows of 10 are 0.2 us: a launch.
 * Predicted: 3 us.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/kernels.h"

#include <float.h>

#define THREADS 256

struct running {
    float most; /* so far; finite, so that -infinity minus it is no NaN */
    float sum;  /* of exp(x - most) */
};

__device__ static void take(struct running *r, float x)
{
    if (x > r->most) {
        r->sum = r->sum * expf(r->most - x) + 1;
        r->most = x;
    } else {
        r->sum += expf(x - r->most); /* NaN comes here, and stays */
    }
}

__global__ void __launch_bounds__(THREADS)
    softmax_rows(int64_t rows, int64_t length, bool log, const float *x, float *y)
{
    int lane = (int)threadIdx.x % 32;
    int64_t step = convoy_step() / 32;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t row = convoy_first() / 32; row < rows; row += step) {
        const float *from = x + row * length;
        float *to = y + row * length;
        struct running r = {-FLT_MAX, 0};
        for (int64_t i = lane; i < length; i += 32)
            take(&r, from[i]);
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) {
            float other_most = __shfl_xor_sync(0xffffffffu, r.most, offset);
            float other_sum = __shfl_xor_sync(0xffffffffu, r.sum, offset);
            float most = other_most > r.most ? other_most : r.most;
            r.sum = r.sum * expf(r.most - most) + other_sum * expf(other_most - most);
            r.most = most;
        }
        float ln_sum = log ? logf(r.sum) : 0;
        for (int64_t i = lane; i < length; i += 32)
            to[i] = log ? from[i] - r.most - ln_sum : expf(from[i] - r.most) / r.sum;
    }
}

__global__ void __launch_bounds__(THREADS)
    softmax_columns(int64_t outer, int64_t length, int64_t inner, bool log, const float *x, float *y)
{
    for (int64_t column = convoy_first(); column < outer * inner; column += convoy_step()) {
        int64_t start = column / inner * length * inner + column % inner;
        struct running r = {-FLT_MAX, 0};
        for (int64_t i = 0; i < length; i++)
            take(&r, x[start + i * inner]);
        float ln_sum = log ? logf(r.sum) : 0;
        for (int64_t i = 0; i < length; i++) {
            float v = x[start + i * inner] - r.most;
            y[start + i * inner] = log ? v - ln_sum : expf(v) / r.sum;
        }
    }
}

cudaError_t convoy_launch_softmax(int64_t outer, int64_t length, int64_t inner, bool log, const float *x,
                                  float *y, cudaStream_t stream)
{
    if (inner == 1)
        return convoy_launch_early(softmax_rows, convoy_grid(outer, THREADS / 32), THREADS, 0, stream, outer,
                                   length, log, x, y);
    return convoy_launch(softmax_columns, convoy_grid(outer * inner, THREADS), THREADS, 0, stream, outer,
                         length, inner, log, x, y);
}
