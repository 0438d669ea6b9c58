/* What tests of networks of rows of channels share. */
#ifndef CONVOY_TESTS_UNIT_BACKEND_ROWS_H
#define CONVOY_TESTS_UNIT_BACKEND_ROWS_H

#include "tests/unit/engine/backends/backend_harness.h"

#define TOLERANCE 4e-3 /* of the largest output of a row, as in backend_fp16.c */

static int overflows; /* times that the log told of numbers that fp16 does not hold: float32 had to compute */

static inline void count_overflows(void *context, const char *level, const char *text)
{
    (void)context;
    overflows += strcmp(level, "warn") == 0 && strstr(text, "fp16") != NULL;
}

static inline void open_rows(void)
{
    struct convoy_open_options options = {.streams = 3, .log = count_overflows};
    by_largest = true;
    overflows = 0;
    open_backend_with(&options);
}

static inline int add_transpose(struct convoy_graph *graph, int x, const int *perm)
{
    struct convoy_shape shape = *shape_of(graph, x);
    for (int i = 0; i < shape.rank; i++) {
        shape.dims[i] = shape_of(graph, x)->dims[perm[i]];
        if (perm[i] == shape_of(graph, x)->batch_axis)
            shape.batch_axis = i;
    }
    int y = add_activation(graph, shape);
    memcpy(add_node(graph, CONVOY_OP_TRANSPOSE, y, 1, &x)->perm, perm, (size_t)shape.rank * sizeof(perm[0]));
    return y;
}

/* Along the last axis. */
static inline int add_normalize(struct convoy_graph *graph, int x, bool rms)
{
    const struct convoy_shape *shape = shape_of(graph, x);
    int axis = shape->rank - 1;
    int64_t channels = shape->dims[axis];
    int inputs[3] = {x, add_constant(graph, FIXED(channels), 1), add_constant(graph, FIXED(channels), 1)};
    int y = add_activation(graph, *shape_of(graph, x));
    add_node(graph, CONVOY_OP_NORMALIZE, y, rms ? 2 : 3, inputs)->normalize =
        (struct convoy_normalize){.axis = axis,
                                  .axis_end = axis + 1,
                                  .epsilon = 1e-3f,
                                  .rms = rms,
                                  .has_scale = true,
                                  .has_shift = !rms};
    return y;
}

/* Rows of T x C for each image, whatever the tensor's shape, to as many of K, and back to the shape. */
static inline int add_rows_dense(struct convoy_graph *graph, int x, int64_t K)
{
    struct convoy_shape shape = *shape_of(graph, x);
    int64_t channels = shape.dims[shape.rank - 1];
    int rows = add_reshape(graph, x, SHAPE(convoy_shape_elements(&shape) / channels, channels));
    shape.dims[shape.rank - 1] = K;
    return add_reshape(graph, add_dense(graph, rows, K, true), shape);
}

/* Crops: `first` of axis `axis` and `count` from there on. */
static inline int add_slice(struct convoy_graph *graph, int x, int axis, int64_t first, int64_t count)
{
    struct convoy_shape shape = *shape_of(graph, x);
    int64_t all = shape.dims[axis];
    shape.dims[axis] = count;
    int y = add_activation(graph, shape);
    struct convoy_node *node = add_node(graph, CONVOY_OP_PAD, y, 1, &x);
    node->pad.before[axis] = -first;
    node->pad.after[axis] = first + count - all;
    return y;
}

/* torch.roll by so many, to the left if negative. */
static inline int add_roll(struct convoy_graph *graph, int x, int axis, int64_t by)
{
    int64_t all = shape_of(graph, x)->dims[axis], left = by < 0 ? -by : all - by;
    int parts[2] = {add_slice(graph, x, axis, left, all - left), add_slice(graph, x, axis, 0, left)};
    return add_concat(graph, 2, parts, axis);
}

/* N x H x W x C into windows of side x side: rows of all windows, one window after the other. */
static inline int add_windows(struct convoy_graph *graph, int x, int64_t side)
{
    const struct convoy_shape s = *shape_of(graph, x);
    int64_t h = s.dims[1], w = s.dims[2], c = s.dims[3];
    x = add_reshape(graph, x, SHAPE(1, h / side, side, w / side, side, c));
    x = add_transpose(graph, x, (const int[]){0, 1, 3, 2, 4, 5});
    return add_reshape(graph, x, SHAPE(h * w, c));
}

/* And back to N x h x w x C. */
static inline int add_image(struct convoy_graph *graph, int x, int64_t side, int64_t h, int64_t w)
{
    int64_t c = shape_of(graph, x)->dims[shape_of(graph, x)->rank - 1];
    x = add_reshape(graph, x, SHAPE(1, h / side, w / side, side, side, c));
    x = add_transpose(graph, x, (const int[]){0, 1, 3, 2, 4, 5});
    return add_reshape(graph, x, SHAPE(1, h, w, c));
}

/* Checks the network in fp16, and, where the device has 16 bits, channels last, that so many of its layers
 * are attention, so many need planes, so many are sums by themselves, and so many copy rows (-1: any). */
static inline void check_kernels(struct convoy_graph *graph, int attention, int planes, int sums, int copies)
{
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 2, CONVOY_COMPUTE_FP16, &info);
    int nhwc = 0, found[4] = {0};
    for (uint32_t i = 0; i < info.layer_count; i++) {
        const char *kernel = info.layers[i].kernel;
        bool here = strncmp(kernel, "nhwc", 4) == 0 || strncmp(kernel, "in nhwc", 7) == 0;
        nhwc += here;
        found[0] += strcmp(kernel, "nhwc_attention") == 0;
        found[1] += !here && strcmp(kernel, "view") != 0;
        found[2] += strncmp(kernel, "nhwc_binary", 11) == 0;
        found[3] += strcmp(kernel, "nhwc_gather") == 0;
    }
    backend->unload(device, net);
    const int expected[4] = {attention, planes, sums, copies};
    for (int i = 0; i < 4 && nhwc > 0; i++)
        cr_assert(expected[i] < 0 || found[i] == expected[i],
                  "layers of attention, in planes, of sums, of copies: number %d is %d, not %d", i, found[i],
                  expected[i]);
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

static inline void check_layers(struct convoy_graph *graph, int attention, int planes)
{
    check_kernels(graph, attention, planes, -1, -1);
}

static inline int add_classifier(struct convoy_graph *graph, int x)
{
    return add_dense(graph, add_flatten(graph, x), 11, true);
}

#endif
