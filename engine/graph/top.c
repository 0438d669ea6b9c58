#include "engine/graph/top.h"

struct convoy_top_rows convoy_top_rows(const struct convoy_top *top, const struct convoy_shape *x,
                                       const struct convoy_shape *out, int64_t images)
{
    struct convoy_top_rows rows = {
        .outer = 1, .length = x->dims[top->axis], .inner = 1, .count = out->dims[top->axis], .top = *top};
    for (int i = 0; i < x->rank; i++)
        if (i != top->axis)
            *(i < top->axis ? &rows.outer : &rows.inner) *= x->dims[i] * (i == x->batch_axis ? images : 1);
    return rows;
}

/* Does the number a at place i come before b at place k? */
static bool is_before(const struct convoy_top *top, float a, int64_t i, float b, int64_t k)
{
    bool a_is_nan = a != a, b_is_nan = b != b;
    if (a_is_nan != b_is_nan)
        return a_is_nan;
    if (!a_is_nan && a != b)
        return top->smallest ? a < b : a > b;
    return top->last ? i > k : i < k;
}

/* The place of the first number of a row behind that at place `behind`; of all where that is -1. */
static int64_t next_place(const struct convoy_top_rows *rows, const float *x, int64_t behind)
{
    int64_t best = -1, step = rows->inner;
    for (int64_t i = 0; i < rows->length; i++)
        if ((behind < 0 || is_before(&rows->top, x[behind * step], behind, x[i * step], i)) &&
            (best < 0 || is_before(&rows->top, x[i * step], i, x[best * step], best)))
            best = i;
    return best;
}

void convoy_top(const struct convoy_top_rows *rows, const float *x, float *y)
{
    for (int64_t o = 0; o < rows->outer; o++)
        for (int64_t i = 0; i < rows->inner; i++) {
            const float *from = x + o * rows->length * rows->inner + i;
            float *to = y + o * rows->count * rows->inner + i;
            int64_t place = -1;
            for (int64_t k = 0; k < rows->count; k++) {
                place = next_place(rows, from, place);
                to[k * rows->inner] = rows->top.places ? (float)place : from[place * rows->inner];
            }
        }
}
