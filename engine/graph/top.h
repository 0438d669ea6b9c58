/* The first numbers of rows in order: what ArgMax, ArgMin and TopK find. One definition for constants and for
 * the CPU backend; kernels/layers/top.cu is the GPU's. */
#ifndef CONVOY_ENGINE_GRAPH_TOP_H
#define CONVOY_ENGINE_GRAPH_TOP_H

#include "engine/graph/graph.h"

/* Rows along the middle of outer x length x inner. */
struct convoy_top_rows {
    int64_t outer, length, inner;
    int64_t count; /* of each row, 1 to length */
    struct convoy_top top;
};

/* The rows of x, of which `out` is the TOP; dimensions are multiplied by `images` along the batch. */
struct convoy_top_rows convoy_top_rows(const struct convoy_top *top, const struct convoy_shape *x,
                                       const struct convoy_shape *out, int64_t images);

/* Writes outer x count x inner values, or places. Works on the calling thread, in count passes over x. */
void convoy_top(const struct convoy_top_rows *rows, const float *x, float *y);

#endif
