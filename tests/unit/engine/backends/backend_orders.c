/* Rows of channels in another order than memory's: what works row by row does not mind, and whatever else
 * reads them, or adds rows in two orders, gets them in order. */
#include "tests/unit/engine/backends/backend_rows.h"

TestSuite(backend_orders, .init = open_rows, .fini = close_backend, .timeout = 300);

static const int to_rows[] = {0, 2, 3, 1}, to_planes[] = {0, 3, 1, 2}, swap[] = {1, 0, 2};

/* N x 6 x 9 x C. */
static struct convoy_graph *start(int64_t channels, int *x)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 9));
    *x = add_transpose(graph, add_conv(graph, graph->input, channels, 1, 1, CONV1, true), to_rows);
    return graph;
}

static int mean_of_rows(struct convoy_graph *graph, int x)
{
    const struct convoy_shape s = *shape_of(graph, x);
    int64_t rows = convoy_shape_elements(&s) / s.dims[s.rank - 1];
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {rows, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    x = add_reshape(graph, x, SHAPE(1, 1, rows, s.dims[s.rank - 1]));
    return add_pool(graph, x, pool, false);
}

/* What is in windows is summed, scaled and normalised there; the sum and the mean of all do not mind. */
Test(backend_orders, row_by_row)
{
    int x;
    struct convoy_graph *graph = start(24, &x);
    int y = add_dense(graph, add_windows(graph, x, 3), 24, true);
    y = add_normalize(graph, add_act(graph, y, CONVOY_SOFTPLUS, 0, 0), false);
    y = add_binary(graph, y, add_constant(graph, FIXED(24), 1), CONVOY_MUL);
    int z = add_act(graph, add_dense(graph, add_windows(graph, x, 3), 24, false), CONVOY_RELU, 0, 0);
    y = add_binary(graph, y, z, CONVOY_MUL);
    add_output(graph, add_classifier(graph, mean_of_rows(graph, y)));
    check_layers(graph, 0, 0);
}

/* The results of sums are in the order of what was added, and back in the image's at the end. */
Test(backend_orders, sums_within_windows)
{
    int x;
    struct convoy_graph *graph = start(24, &x);
    int y = add_dense(graph, add_windows(graph, x, 3), 24, true);
    int z = add_binary(graph, y, add_dense(graph, y, 24, true), CONVOY_ADD); /* by the layer */
    add_output(graph, add_image(graph, z, 3, 6, 9));
    z = add_binary(graph, z, y, CONVOY_MUL); /* by a kernel of its own */
    add_output(graph, add_binary(graph, add_image(graph, z, 3, 6, 9), x, CONVOY_ADD));
    check_layers(graph, 0, 0);
}

/* One row that is read of what was in windows before: of the image, not of the windows. */
Test(backend_orders, a_row_of_windows)
{
    int x;
    struct convoy_graph *graph = start(24, &x);
    int y = add_dense(graph, add_windows(graph, x, 3), 24, true);
    y = add_reshape(graph, add_image(graph, y, 3, 6, 9), SHAPE(1, 54, 24));
    add_output(graph, add_classifier(graph, add_slice(graph, y, 1, 20, 1)));
    check_layers(graph, 0, 0);
}

/* Rows in two orders: both are put in order. */
Test(backend_orders, sums_of_two_orders)
{
    int x;
    struct convoy_graph *graph = start(24, &x);
    int windows = add_dense(graph, add_windows(graph, x, 3), 16, true);
    int rolled = add_dense(graph, add_reshape(graph, add_roll(graph, x, 1, -2), SHAPE(54, 24)), 16, true);
    int sum = add_binary(graph, windows, rolled, CONVOY_ADD);
    add_output(graph, sum);
    check_layers(graph, 0, 0);
}

/* A convolution, a pooling of windows, a softmax in planes, and an output read rows of windows. */
Test(backend_orders, readers_that_need_them_in_order)
{
    int x;
    struct convoy_graph *graph = start(24, &x);
    int y = add_dense(graph, add_windows(graph, x, 3), 16, true);
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {3, 1}, .stride = {2, 1}, .dilation = {1, 1}};
    add_output(graph, y);
    add_output(graph, add_pool(graph, add_reshape(graph, y, SHAPE(1, 1, 54, 16)), pool, false));
    int image = add_transpose(graph, add_reshape(graph, y, SHAPE(1, 6, 9, 16)), to_planes);
    add_output(graph, add_conv(graph, image, 8, 3, 3, CONV3, true));
    add_output(graph, add_softmax(graph, add_reshape(graph, y, SHAPE(6, 9, 16)), 1, 2));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Rows of an image that become its columns. */
Test(backend_orders, turned_images)
{
    int x;
    struct convoy_graph *graph = start(24, &x);
    int y = add_transpose(graph, add_normalize(graph, x, false), (const int[]){0, 2, 1, 3});
    y = add_rows_dense(graph, add_act(graph, y, CONVOY_GELU, 0, 0), 16);
    add_output(graph, add_classifier(graph, y));
    check_layers(graph, 0, 0);
}

/* T x N x C, with channels that fill no pixel: to planes and from there, and as rows within which images are.
 */
Test(backend_orders, images_within_rows)
{
    int x;
    struct convoy_graph *graph = start(20, &x);
    struct convoy_shape within = {.rank = 3, .batch_axis = 1, .dims = {54, 1, 20}};
    int y = add_transpose(graph, add_reshape(graph, x, SHAPE(1, 54, 20)), swap);
    y = add_reshape(graph, add_dense(graph, add_reshape(graph, y, SHAPE(54, 20)), 20, true), within);
    int z = add_softmax(graph, y, 0, 1); /* over rows: of planes */
    z = add_normalize(graph, z, false);
    z = add_binary(graph, z, y, CONVOY_ADD);
    add_output(graph, add_transpose(graph, z, swap));
    add_output(graph, z);
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Windows that go beyond the image, by zeros, and are cut back to it. */
Test(backend_orders, windows_with_padding)
{
    int x;
    struct convoy_graph *graph = start(24, &x);
    int padded = add_activation(graph, SHAPE(1, 8, 12, 24));
    struct convoy_node *node = add_node(graph, CONVOY_OP_PAD, padded, 1, &x);
    node->pad.after[1] = 2;
    node->pad.before[2] = 1;
    node->pad.after[2] = 2;
    int y = add_windows(graph, add_roll(graph, padded, 2, 5), 4);
    y = add_image(graph, add_dense(graph, y, 24, true), 4, 8, 12);
    y = add_slice(graph, add_slice(graph, y, 1, 0, 6), 2, 1, 9);
    add_output(graph, add_classifier(graph, add_binary(graph, x, y, CONVOY_ADD)));
    check_layers(graph, 0, 0);
}

/* Channels that are taken apart, rows of constants, the same rows twice. */
Test(backend_orders, pieces_of_rows)
{
    int x;
    struct convoy_graph *graph = start(32, &x);
    x = add_reshape(graph, x, SHAPE(1, 54, 32));
    x = add_binary(graph, x, add_constant(graph, FIXED(1, 54, 32), 1), CONVOY_ADD);
    int parts[3] = {add_slice(graph, x, 2, 8, 16), add_slice(graph, x, 2, 16, 16), -1};
    parts[2] = parts[0];
    int y = add_concat(graph, 3, parts, 1);
    y = add_rows_dense(graph, y, 16);
    int z =
        add_concat(graph, 2, (const int[]){add_slice(graph, y, 1, 3, 7), add_slice(graph, y, 1, 1, 7)}, 2);
    add_output(graph, add_rows_dense(graph, z, 24));
    check_layers(graph, 0, 0);
}

/* Rows of two tensors, one behind the other and side by side: no copy of one tensor's. */
Test(backend_orders, rows_of_two_tensors)
{
    int x;
    struct convoy_graph *graph = start(16, &x);
    x = add_reshape(graph, x, SHAPE(1, 54, 16));
    int pair[2] = {x, add_rows_dense(graph, x, 16)};
    add_output(graph, add_rows_dense(graph, add_concat(graph, 2, pair, 1), 8));
    add_output(graph, add_rows_dense(graph, add_concat(graph, 2, pair, 2), 8));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Windows `down` and `across` apart. */
static struct convoy_graph *patches(int64_t rows, int64_t columns, int64_t h, int64_t w, int64_t down,
                                    int64_t across)
{
    struct convoy_conv side_by_side = {.groups = 1, .stride = {down, across}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, h, w));
    int x = add_conv(graph, graph->input, 24, rows, columns, side_by_side, true);
    add_output(graph, add_act(graph, x, CONVOY_GELU, 0, 0));
    return graph;
}

/* A first layer whose windows do not overlap; remainders of images are left out. */
Test(backend_orders, patches_of_images)
{
    struct convoy_graph *graph = patches(14, 14, 30, 43, 14, 14);
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 3, CONVOY_COMPUTE_FP16, &info);
    check_rows(graph, net, &info, CONVOY_LAYOUT_U8_HWC, 3, TOLERANCE);
    backend->unload(device, net);
    check_layers(graph, 0, 0);
    check_layers(patches(16, 16, 32, 32, 16, 16), 0, 0);
    check_layers(patches(9, 11, 20, 33, 9, 11), 0, 0);
    check_graph_as(patches(16, 12, 36, 40, 12, 12), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(patches(12, 10, 40, 40, 12, 14), CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Rows by windows that are a part of a concatenation of images, too: there they are in order. */
Test(backend_orders, windows_in_a_concatenation)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 8, 8));
    int a = add_act(graph, add_conv(graph, graph->input, 32, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    int x = add_act(graph, add_conv(graph, a, 32, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, 32, 64)), (const int[]){0, 2, 1});
    x = add_reshape(graph, x, SHAPE(1, 4, 2, 4, 2, 32));
    x = add_transpose(graph, x, (const int[]){0, 1, 3, 2, 4, 5});
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, 64, 32)), (const int[]){0, 2, 1});
    x = add_act(graph, add_reshape(graph, x, SHAPE(1, 32, 8, 8)), CONVOY_SIGMOID, 0, 0);
    int both = add_concat(graph, 2, (const int[]){a, x}, 1);
    add_output(graph, add_conv(graph, both, 16, 1, 1, CONV1, true));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}
