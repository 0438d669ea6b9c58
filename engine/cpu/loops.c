#include "engine/cpu/loops.h"

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
        for (int64_t i = 0; i < p->dims[last]; i++)
            y[i] = convoy_binary_apply(p->kind, a_row[i * p->a_stride[last]], b_row[i * p->b_stride[last]]);
        y += p->dims[last];
    } while (next_index(index, p->dims, last));
}

void convoy_cpu_gate(const struct convoy_cpu_gate *p, const float *x, const float *gate, float *y)
{
    for (int64_t o = 0; o < p->outer; o++) {
        const float *g = gate + (o % p->gate_outer) * p->inner;
        if (p->inner == 1) { /* planar: one value for a whole plane, which the compiler then vectorises */
            for (int64_t m = 0; m < p->middle; m++)
                y[m] = convoy_binary_apply(p->kind, x[m], g[0]);
        } else {
            for (int64_t m = 0; m < p->middle; m++)
                for (int64_t i = 0; i < p->inner; i++)
                    y[m * p->inner + i] = convoy_binary_apply(p->kind, x[m * p->inner + i], g[i]);
        }
        x += p->middle * p->inner;
        y += p->middle * p->inner;
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
            greatest = value > greatest ? value : greatest;
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
