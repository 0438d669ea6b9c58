#include "engine/cpu/loops.h"

#include "engine/graph/evaluate.h"

#include <math.h>
#include <string.h>

/* Advances index over the first `axes` axes, the last of them fastest; false after the last. */
static bool next_index(int64_t *index, const int64_t *dims, int axes)
{
    for (int axis = axes - 1; axis >= 0; axis--) {
        if (++index[axis] < dims[axis])
            return true;
        index[axis] = 0;
    }
    return false;
}

/* One row for one kind, so that the compiler makes straight code of it, and vectors where both operands are
 * contiguous or one of them is a single number. */
static inline void combine_row_as(enum convoy_binary_kind kind, int64_t count, const float *a,
                                  int64_t a_stride, const float *b, int64_t b_stride, float *y)
{
    if (a_stride == 1 && b_stride == 1) {
        for (int64_t i = 0; i < count; i++)
            y[i] = convoy_binary_apply(kind, a[i], b[i]);
    } else if (a_stride == 1 && b_stride == 0) {
        float number = b[0];
        for (int64_t i = 0; i < count; i++)
            y[i] = convoy_binary_apply(kind, a[i], number);
    } else {
        for (int64_t i = 0; i < count; i++)
            y[i] = convoy_binary_apply(kind, a[i * a_stride], b[i * b_stride]);
    }
}

static void combine_row(const struct convoy_cpu_broadcast *p, const float *a, const float *b, float *y)
{
    int last = p->rank - 1;
    int64_t count = p->dims[last], a_stride = p->a_stride[last], b_stride = p->b_stride[last];
    switch (p->kind) {
    case CONVOY_ADD:
        combine_row_as(CONVOY_ADD, count, a, a_stride, b, b_stride, y);
        return;
    case CONVOY_SUB:
        combine_row_as(CONVOY_SUB, count, a, a_stride, b, b_stride, y);
        return;
    case CONVOY_MUL:
        combine_row_as(CONVOY_MUL, count, a, a_stride, b, b_stride, y);
        return;
    case CONVOY_DIV:
        combine_row_as(CONVOY_DIV, count, a, a_stride, b, b_stride, y);
        return;
    case CONVOY_KEEP:
        combine_row_as(CONVOY_KEEP, count, a, a_stride, b, b_stride, y);
        return;
    default:
        combine_row_as(p->kind, count, a, a_stride, b, b_stride, y);
        return;
    }
}

void convoy_cpu_broadcast(const struct convoy_cpu_broadcast *p, const float *a, const float *b, float *y)
{
    int last = p->rank - 1;
    int64_t index[CONVOY_MAX_RANK] = {0};
    do {
        const float *a_row = a;
        const float *b_row = b;
        for (int axis = 0; axis < last; axis++) {
            a_row += index[axis] * p->a_stride[axis];
            b_row += index[axis] * p->b_stride[axis];
        }
        combine_row(p, a_row, b_row, y);
        y += p->dims[last];
    } while (next_index(index, p->dims, last));
}

#define GATES 16 /* values that are computed before the first of them is written: y may be x */

/* `blocks` of `width` values, GATES at most. Kind and width are constants where this is called, so that the
 * compiler makes vectors of it. */
static inline void gate_blocks(enum convoy_binary_kind kind, int64_t blocks, int width, const float *x,
                               const float *gate, float *y)
{
    float gates[GATES], values[GATES];
    for (int i = 0; i < width; i++)
        gates[i] = gate[i];
    for (int64_t m = 0; m < blocks; m++, x += width, y += width) {
        for (int i = 0; i < width; i++)
            values[i] = convoy_binary_apply(kind, x[i], gates[i]);
        for (int i = 0; i < width; i++)
            y[i] = values[i];
    }
}

/* A plane of which every value has the same gate. */
static inline void gate_plane(enum convoy_binary_kind kind, int64_t count, const float *x, float gate,
                              float *y)
{
    float gates[GATES];
    int64_t whole = count / GATES;
    for (int i = 0; i < GATES; i++)
        gates[i] = gate;
    gate_blocks(kind, whole, GATES, x, gates, y);
    for (int64_t i = whole * GATES; i < count; i++)
        y[i] = convoy_binary_apply(kind, x[i], gate);
}

/* `places` of `inner` values that have the same gates. */
static inline void gate_as(enum convoy_binary_kind kind, int64_t places, int64_t inner, const float *x,
                           const float *gate, float *y)
{
    if (inner == 1)
        gate_plane(kind, places, x, gate[0], y);
    else if (inner == 8)
        gate_blocks(kind, places, 8, x, gate, y);
    else if (inner == 16)
        gate_blocks(kind, places, 16, x, gate, y);
    else
        for (int64_t m = 0; m < places; m++, x += inner, y += inner)
            for (int64_t i = 0; i < inner; i++)
                y[i] = convoy_binary_apply(kind, x[i], gate[i]);
}

void convoy_cpu_gate(const struct convoy_cpu_gate *p, int64_t first, int64_t end, const float *x,
                     const float *gate, float *y)
{
    x += first * p->inner;
    y += first * p->inner;
    while (first < end) {
        int64_t o = first / p->middle, next = (o + 1) * p->middle;
        int64_t places = (next < end ? next : end) - first;
        const float *g = gate + (o % p->gate_outer) * p->inner;
        if (p->kind == CONVOY_MUL)
            gate_as(CONVOY_MUL, places, p->inner, x, g, y);
        else if (p->kind == CONVOY_ADD)
            gate_as(CONVOY_ADD, places, p->inner, x, g, y);
        else
            gate_as(p->kind, places, p->inner, x, g, y);
        first += places;
        x += places * p->inner;
        y += places * p->inner;
    }
}

void convoy_cpu_pad(const struct convoy_cpu_pad *p, const float *x, float *y)
{
    int last = p->rank - 1;
    int64_t x_stride[CONVOY_MAX_RANK];
    x_stride[last] = 1;
    for (int axis = last; axis > 0; axis--)
        x_stride[axis - 1] = x_stride[axis] * p->x_dims[axis];

    /* The stretch of each row of y that comes from x. */
    int64_t from = p->before[last] > 0 ? p->before[last] : 0;
    int64_t to = p->before[last] + p->x_dims[last];
    if (to > p->y_dims[last])
        to = p->y_dims[last];

    int64_t index[CONVOY_MAX_RANK] = {0};
    do {
        int64_t offset = 0;
        bool inside = from < to;
        for (int axis = 0; axis < last; axis++) {
            int64_t i = index[axis] - p->before[axis];
            inside = inside && i >= 0 && i < p->x_dims[axis];
            offset += i * x_stride[axis];
        }
        memset(y, 0, (size_t)p->y_dims[last] * sizeof(*y));
        if (inside)
            memcpy(y + from, x + offset + from - p->before[last], (size_t)(to - from) * sizeof(*y));
        y += p->y_dims[last];
    } while (next_index(index, p->y_dims, last));
}

void convoy_cpu_unary(const struct convoy_cpu_unary *p, const float *x, float *y)
{
    float alpha = p->activation.alpha;
    switch (p->activation.kind) {
    case CONVOY_RELU:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = x[i] < 0 ? 0 : x[i];
        return;
    case CONVOY_CLIP:
        for (int64_t i = 0; i < p->count; i++) {
            float above = x[i] < alpha ? alpha : x[i];
            y[i] = above > p->activation.beta ? p->activation.beta : above;
        }
        return;
    case CONVOY_LOG:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = logf(x[i]);
        return;
    case CONVOY_ERF:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = erff(x[i]);
        return;
    case CONVOY_SOFTPLUS:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = (x[i] < 0 ? 0 : x[i]) + log1pf(expf(-fabsf(x[i])));
        return;
    case CONVOY_FLOOR:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = floorf(x[i]);
        return;
    case CONVOY_CEIL:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = ceilf(x[i]);
        return;
    case CONVOY_SIGN:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = x[i] > 0 ? 1 : x[i] < 0 ? -1 : x[i];
        return;
    case CONVOY_THRESHOLDED:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = x[i] > alpha ? x[i] : 0;
        return;
    case CONVOY_SIN:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = sinf(x[i]);
        return;
    case CONVOY_COS:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = cosf(x[i]);
        return;
    case CONVOY_ATAN:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = atanf(x[i]);
        return;
    case CONVOY_POW:
        for (int64_t i = 0; i < p->count; i++)
            y[i] = powf(x[i], alpha);
        return;
    default: /* of rows with NaN alone */
        for (int64_t i = 0; i < p->count; i++)
            y[i] = (float)convoy_activation_apply(&p->activation, (double)x[i]);
        return;
    }
}

/* Sums of few rows of LANES numbers, which the compiler keeps in vectors, added up in double. */
#define LANES 16
#define BLOCK 64 /* rows between two additions in double */

struct moments {
    double sum, squares;
};

/* The sum of x - centre and of its square. */
static struct moments moments_of(const float *x, int64_t count, float centre)
{
    struct moments total = {0, 0};
    int64_t at = 0;
    while (at + LANES <= count) {
        float sum[LANES] = {0}, squares[LANES] = {0};
        for (int row = 0; row < BLOCK && at + LANES <= count; row++, at += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                float value = x[at + lane] - centre;
                sum[lane] += value;
                squares[lane] += value * value;
            }
        for (int lane = 0; lane < LANES; lane++) {
            total.sum += (double)sum[lane];
            total.squares += (double)squares[lane];
        }
    }
    for (; at < count; at++) {
        double value = (double)x[at] - (double)centre;
        total.sum += value;
        total.squares += value * value;
    }
    return total;
}

static void normalize_row(const struct convoy_cpu_normalize *p, const float *x, const float *scale,
                          const float *shift, float *y)
{
    double length = (double)p->length;
    float mean = p->rms ? 0 : (float)(moments_of(x, p->length, 0).sum / length);
    struct moments moments = moments_of(x, p->length, mean);
    /* What the rounded mean is wrong by: the numbers may differ from it by no more. */
    float rest = p->rms ? 0 : (float)(moments.sum / length);
    double variance = moments.squares / length - (double)rest * (double)rest;
    float factor = (float)(1 / sqrt((variance > 0 ? variance : 0) + (double)p->epsilon));
    if (scale != NULL && shift != NULL) {
        for (int64_t i = 0; i < p->length; i++)
            y[i] = (x[i] - mean - rest) * factor * scale[i] + shift[i];
    } else if (scale != NULL) {
        for (int64_t i = 0; i < p->length; i++)
            y[i] = (x[i] - mean - rest) * factor * scale[i];
    } else {
        for (int64_t i = 0; i < p->length; i++)
            y[i] = (x[i] - mean - rest) * factor + (shift != NULL ? shift[i] : 0);
    }
}

/* Columns that are walked together, so that a row of them is one or two cache lines. */
#define COLUMNS 16

/* `count` columns, COLUMNS at most. */
static inline void normalize_columns(const struct convoy_cpu_normalize *p, int count, const float *x,
                                     const float *scale, const float *shift, float *y)
{
    double length = (double)p->length, mean[COLUMNS] = {0}, factor[COLUMNS] = {0};
    for (int64_t k = 0; k < p->length && !p->rms; k++)
        for (int i = 0; i < count; i++)
            mean[i] += (double)x[k * p->inner + i];
    for (int i = 0; i < count; i++)
        mean[i] /= length;
    for (int64_t k = 0; k < p->length; k++)
        for (int i = 0; i < count; i++) {
            double rest = (double)x[k * p->inner + i] - mean[i];
            factor[i] += rest * rest;
        }
    for (int i = 0; i < count; i++)
        factor[i] = 1 / sqrt(factor[i] / length + (double)p->epsilon);
    for (int64_t k = 0; k < p->length; k++) {
        float by = scale != NULL ? scale[k] : 1, plus = shift != NULL ? shift[k] : 0;
        for (int i = 0; i < count; i++)
            y[k * p->inner + i] = (float)(((double)x[k * p->inner + i] - mean[i]) * factor[i]) * by + plus;
    }
}

void convoy_cpu_normalize(const struct convoy_cpu_normalize *p, const float *x, const float *scale,
                          const float *shift, float *y)
{
    for (int64_t o = 0; o < p->outer; o++, x += p->length * p->inner, y += p->length * p->inner) {
        if (p->inner == 1)
            normalize_row(p, x, scale, shift, y);
        else
            for (int64_t i = 0; i < p->inner; i += COLUMNS) {
                if (p->inner - i >= COLUMNS) /* a constant, so that the compiler makes vectors of it */
                    normalize_columns(p, COLUMNS, x + i, scale, shift, y + i);
                else
                    normalize_columns(p, (int)(p->inner - i), x + i, scale, shift, y + i);
            }
    }
}

static float pool_window(const struct convoy_cpu_pool *p, const float *plane, int64_t oh, int64_t ow)
{
    const struct convoy_pool *pool = &p->pool;
    int64_t top = oh * pool->stride[0] - pool->pad[0];
    int64_t left = ow * pool->stride[1] - pool->pad[1];
    float greatest = -INFINITY;
    float sum = 0;
    int64_t inside = 0;
    int64_t counted = 0;
    for (int64_t r = 0; r < pool->window[0]; r++) {
        int64_t h = top + r * pool->dilation[0];
        if (h >= p->height + pool->pad[2]) /* past the padding: what ceil_mode hangs over */
            break;
        for (int64_t s = 0; s < pool->window[1]; s++) {
            int64_t w = left + s * pool->dilation[1];
            if (w >= p->width + pool->pad[3])
                break;
            counted++;
            if (h < 0 || h >= p->height || w < 0 || w >= p->width)
                continue;
            float value = plane[h * p->width + w];
            greatest = value > greatest || isnan(value) ? value : greatest;
            sum += value;
            inside++;
        }
    }
    if (inside == 0)
        return 0;
    if (pool->kind == CONVOY_POOL_MAX)
        return greatest;
    return sum / (float)(pool->count_include_pad ? counted : inside);
}

void convoy_cpu_pool(const struct convoy_cpu_pool *p, const float *x, float *y)
{
    for (int64_t plane = 0; plane < p->planes; plane++) {
        for (int64_t oh = 0; oh < p->out_height; oh++)
            for (int64_t ow = 0; ow < p->out_width; ow++)
                *y++ = pool_window(p, x, oh, ow);
        x += p->height * p->width;
    }
}

void convoy_cpu_softmax(const struct convoy_cpu_softmax *p, const float *x, float *y)
{
    for (int64_t row = 0; row < p->outer * p->inner; row++) {
        int64_t start = row / p->inner * p->length * p->inner + row % p->inner;
        float most = -INFINITY;
        double sum = 0;
        for (int64_t k = 0; k < p->length; k++)
            most = fmaxf(most, x[start + k * p->inner]);
        for (int64_t k = 0; k < p->length; k++)
            sum += exp((double)x[start + k * p->inner] - (double)most);
        for (int64_t k = 0; k < p->length; k++) {
            double above = (double)x[start + k * p->inner] - (double)most;
            y[start + k * p->inner] = (float)(p->log ? above - log(sum) : exp(above) / sum);
        }
    }
}
