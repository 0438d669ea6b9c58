/* Plain loops for operators that oneDNN lacks or defines differently from graph.h. All tensors are float32,
 * row-major unless a layout is named. Each loop runs on the calling thread and allocates nothing; plan.c
 * divides some among several. */
#ifndef CONVOY_ENGINE_CPU_LOOPS_H
#define CONVOY_ENGINE_CPU_LOOPS_H

#include "engine/graph/graph.h"

/* y[i...] = a[i...] op b[i...] over dims; a stride of 0 repeats an operand along that axis. */
struct convoy_cpu_broadcast {
    enum convoy_binary_kind kind;
    int rank;
    int64_t dims[CONVOY_MAX_RANK], a_stride[CONVOY_MAX_RANK], b_stride[CONVOY_MAX_RANK];
};
void convoy_cpu_broadcast(const struct convoy_cpu_broadcast *p, const float *a, const float *b, float *y);

/* y[i] = activation(x[i]), for `count` elements; y may be x. */
struct convoy_cpu_unary {
    struct convoy_activation activation;
    int64_t count;
};
void convoy_cpu_unary(const struct convoy_cpu_unary *p, const float *x, float *y);

/* NORMALIZE along the middle of outer x length x inner. scale and shift have `length` numbers, or are NULL.
 */
struct convoy_cpu_normalize {
    int64_t outer, length, inner;
    float epsilon;
    bool rms, has_scale, has_shift;
};
void convoy_cpu_normalize(const struct convoy_cpu_normalize *p, const float *x, const float *scale,
                          const float *shift, float *y);

/* One value per channel over an image in any channel-blocked layout (N, C / inner, H W, inner; planar is
 * inner = 1, interleaved inner = C): y[o][m][i] = x[o][m][i] op gate[o % gate_outer][i]. y may be x. Computes
 * places first to end of the outer x middle that there are. */
struct convoy_cpu_gate {
    enum convoy_binary_kind kind;
    int64_t outer, middle, inner, gate_outer;
};
void convoy_cpu_gate(const struct convoy_cpu_gate *p, int64_t first, int64_t end, const float *x,
                     const float *gate, float *y);

/* y has dims; y[i...] = x[i - before...] where that lies inside x, else 0. */
struct convoy_cpu_pad {
    int rank;
    int64_t x_dims[CONVOY_MAX_RANK], y_dims[CONVOY_MAX_RANK], before[CONVOY_MAX_RANK];
};
void convoy_cpu_pad(const struct convoy_cpu_pad *p, const float *x, float *y);

/* Pooling of `planes` planes of height x width into out_height x out_width, as graph.h defines it. A window
 * that touches no input gives 0. */
struct convoy_cpu_pool {
    struct convoy_pool pool;
    int64_t planes, height, width, out_height, out_width;
};
void convoy_cpu_pool(const struct convoy_cpu_pool *p, const float *x, float *y);

/* Softmax (or its logarithm) along the middle of outer x length x inner: NaN wherever one number of those
 * along it is NaN. */
struct convoy_cpu_softmax {
    int64_t outer, length, inner;
    bool log;
};
void convoy_cpu_softmax(const struct convoy_cpu_softmax *p, const float *x, float *y);

#endif
