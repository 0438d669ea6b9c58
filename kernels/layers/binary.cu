/* Elementwise arithmetic on two tensors, with broadcasting, and an activation.
 *
 * The host joins dimensions that are contiguous in all tensors. What is left of nearly every network is one
 * of three:
 * - both dense (a residual): 16 bytes a thread from each;
 * - one dense and the other repeated over planes or along rows, that is of the form period x inner: element i
 *   takes number i / inner % period (a bias or scale for each channel, a row vector, a single number); 16
 *   bytes a thread where four neighbours share one number or take four neighbours;
 * - everything else: a thread an element, a division for each dimension.
 * y may be one of the dense inputs: an element is read and written by one thread.
 * Floor: 12 bytes an element, 8 with broadcasting.
 * Predicted: 90 % of it; 60 % for the general strides.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/strided_box.cuh"
#include "kernels/device/unary.cuh"

#define THREADS 256

enum { A, B, Y }; /* the box's tensors */

struct binary_job {
    enum convoy_binary_operator op;
    bool swapped; /* the dense operand is b */
    struct convoy_unary act;
};

__device__ static float apply(const struct binary_job &job, float dense, float other)
{
    float a = job.swapped ? other : dense;
    float b = job.swapped ? dense : other;
    float v = 0;
    switch (job.op) {
    case CONVOY_BINARY_ADD:
        v = a + b;
        break;
    case CONVOY_BINARY_SUB:
        v = a - b;
        break;
    case CONVOY_BINARY_MUL:
        v = a * b;
        break;
    case CONVOY_BINARY_DIV:
        v = a / b;
        break;
    case CONVOY_BINARY_MAX:
        v = convoy_larger(a, b);
        break;
    case CONVOY_BINARY_MIN:
        v = -convoy_larger(-a, -b);
        break;
    case CONVOY_BINARY_POWER:
        v = powf(a, b);
        break;
    case CONVOY_BINARY_EQUAL:
        v = a == b ? 1.0f : 0.0f;
        break;
    case CONVOY_BINARY_LESS:
        v = a < b ? 1.0f : 0.0f;
        break;
    case CONVOY_BINARY_LESS_EQUAL:
        v = a <= b ? 1.0f : 0.0f;
        break;
    case CONVOY_BINARY_KEEP:
        v = b != 0.0f ? a : 0.0f;
        break;
    }
    return convoy_apply_unary(job.act, v);
}

__device__ static float4 apply(const struct binary_job &job, float4 dense, float4 other)
{
    return make_float4(apply(job, dense.x, other.x), apply(job, dense.y, other.y),
                       apply(job, dense.z, other.z), apply(job, dense.w, other.w));
}

/* ---- Both dense ---- */

__global__ void __launch_bounds__(THREADS) binary_dense(struct binary_job job, int64_t count, int64_t fours,
                                                        const float *a, const float *b, float *y)
{
    int64_t first = convoy_first();
    int64_t step = convoy_step();
    for (int64_t i = first; i < fours; i += step)
        ((float4 *)y)[i] = apply(job, ((const float4 *)a)[i], ((const float4 *)b)[i]);
    for (int64_t i = 4 * fours + first; i < count; i += step)
        y[i] = apply(job, a[i], b[i]);
}

/* ---- One repeated ---- */

enum repeated { ONES, PLANES /* inner is a multiple of 4 */, ROWS /* inner is 1, period a multiple of 4 */ };

template <enum repeated repeated>
__global__ void __launch_bounds__(THREADS)
    binary_repeated(struct binary_job job, int64_t pieces, int64_t period, int64_t inner, const float *dense,
                    const float *other, float *y)
{
    for (int64_t i = convoy_first(); i < pieces; i += convoy_step()) {
        if (repeated == ONES) {
            y[i] = apply(job, dense[i], other[i / inner % period]);
        } else if (repeated == PLANES) {
            float v = other[4 * i / inner % period];
            ((float4 *)y)[i] = apply(job, ((const float4 *)dense)[i], make_float4(v, v, v, v));
        } else {
            ((float4 *)y)[i] =
                apply(job, ((const float4 *)dense)[i], ((const float4 *)other)[i % (period / 4)]);
        }
    }
}

/* ---- Any ---- */

__global__ void __launch_bounds__(THREADS)
    binary_walk(struct binary_job job, struct convoy_box box, int64_t count, const float *a, const float *b,
                float *y)
{
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int64_t place[2];
        convoy_box_places(box, i, place);
        y[i] = apply(job, a[place[A]], b[place[B]]);
    }
}

/* ---- The host's side ---- */

static struct convoy_box box_of(const struct convoy_broadcast *broadcast)
{
    struct convoy_box box = {};
    box.rank = broadcast->rank;
    int64_t stride = 1;
    for (int i = broadcast->rank - 1; i >= 0; i--) {
        box.dims[i] = broadcast->dims[i];
        box.stride[A][i] = broadcast->a_stride[i];
        box.stride[B][i] = broadcast->b_stride[i];
        box.stride[Y][i] = stride;
        stride *= broadcast->dims[i];
    }
    convoy_box_simplify(&box);
    return box;
}

static bool is_dense(const struct convoy_box *box, int tensor)
{
    for (int i = 0; i < box->rank; i++)
        if (box->stride[tensor][i] != box->stride[Y][i])
            return false;
    return true;
}

/* Is the tensor's element i number i / inner % period? Its box is then, from the right: a repeated dimension
 * or none, a contiguous one or none, a repeated one or none. */
static bool is_repeated(const struct convoy_box *box, int tensor, int64_t *period, int64_t *inner)
{
    int d = box->rank - 1;
    *inner = 1;
    *period = 1;
    if (d >= 0 && box->stride[tensor][d] == 0)
        *inner = box->dims[d--];
    if (d >= 0 && box->stride[tensor][d] == 1)
        *period = box->dims[d--];
    if (d >= 0 && box->stride[tensor][d] == 0)
        d--;
    return d < 0;
}

static cudaError_t launch_repeated(const struct binary_job &job, int64_t count, int64_t period, int64_t inner,
                                   const float *dense, const float *other, float *y, cudaStream_t stream)
{
    unsigned blocks = convoy_grid(convoy_div_up(count, 4), THREADS);
    if (convoy_aligned(dense, y) && inner % 4 == 0)
        return convoy_launch(binary_repeated<PLANES>, blocks, THREADS, 0, stream, job, count / 4, period,
                             inner, dense, other, y);
    if (convoy_aligned(dense, y) && convoy_aligned(other, other) && inner == 1 && period % 4 == 0)
        return convoy_launch(binary_repeated<ROWS>, blocks, THREADS, 0, stream, job, count / 4, period, inner,
                             dense, other, y);
    return convoy_launch(binary_repeated<ONES>, convoy_grid(count, THREADS), THREADS, 0, stream, job, count,
                         period, inner, dense, other, y);
}

cudaError_t convoy_launch_binary(const struct convoy_broadcast *broadcast, const float *a, const float *b,
                                 float *y, cudaStream_t stream)
{
    struct convoy_box box = box_of(broadcast);
    int64_t count = convoy_box_count(&box);
    struct binary_job job = {broadcast->op, false, broadcast->act};
    int64_t period, inner;
    if (is_dense(&box, A) && is_dense(&box, B)) {
        int64_t fours = convoy_aligned(a, b) && convoy_aligned(y, y) ? count / 4 : 0;
        return convoy_launch(binary_dense, convoy_grid(fours ? fours : count, THREADS), THREADS, 0, stream,
                             job, count, fours, a, b, y);
    }
    if (is_dense(&box, A) && is_repeated(&box, B, &period, &inner))
        return launch_repeated(job, count, period, inner, a, b, y, stream);
    if (is_dense(&box, B) && is_repeated(&box, A, &period, &inner)) {
        job.swapped = true;
        return launch_repeated(job, count, period, inner, b, a, y, stream);
    }
    return convoy_launch(binary_walk, convoy_grid(count, THREADS), THREADS, 0, stream, job, box, count, a, b,
                         y);
}
