/* NaN in gives NaN where ONNX Runtime does: in each element that is computed from one that is NaN. */
#include "tests/unit/engine/backends/backend_harness.h"

#include <time.h>

#define CHANNELS 3
#define SIDE     6
#define ELEMENTS (CHANNELS * SIDE * SIDE)
#define ROWS     40
#define MOST     512 /* elements of an output */

TestSuite(backend_nan, .init = open_backend, .fini = close_backend, .timeout = 120);

static _Alignas(64) float input[ROWS][(ELEMENTS + 15) / 16 * 16];
static _Alignas(64) float output[ROWS][MOST];

static struct convoy_graph *begin(void)
{
    return new_graph(SHAPE(1, CHANNELS, SIDE, SIDE));
}

static int at(int c, int h, int w)
{
    return (c * SIDE + h) * SIDE + w;
}

/* Runs `rows` random rows, of which those that nan_row() names have NaN at nan_at. */
static uint32_t run_rows(struct convoy_graph *graph, int y, uint32_t rows, bool (*nan_row)(uint32_t row),
                         int nan_at)
{
    struct convoy_net_info info;
    struct convoy_job_times times = {0};
    add_output(graph, y);
    struct convoy_net *net = load(graph, ROWS, &info);
    cr_assert_leq(info.outputs_per_row, MOST);
    random_state = 7;
    for (uint32_t row = 0; row < rows; row++) {
        for (int i = 0; i < ELEMENTS; i++)
            input[row][i] = random_value() * 2;
        if (nan_row(row))
            input[row][nan_at] = NAN;
    }
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = rows,
                             .input = input,
                             .input_stride = sizeof input[0],
                             .output = output[0],
                             .output_stride = sizeof output[0],
                             .times = &times};
    run(net, &job);
    backend->unload(device, net);
    convoy_graph_free(graph);
    return info.outputs_per_row;
}

static bool the_first(uint32_t row)
{
    return row == 0;
}

static void expect_nan_at(const char *what, uint32_t elements, bool (*expected)(int element))
{
    for (uint32_t i = 0; i < elements; i++)
        cr_expect_eq(isnan(output[0][i]) != 0, expected((int)i), "%s: element %u is %g", what, i,
                     (double)output[0][i]);
}

static bool at_the_place(int element)
{
    return element == at(1, 2, 3);
}

Test(backend_nan, activations)
{
    static const struct {
        enum convoy_activation_kind kind;
        float alpha, beta;
    } cases[] = {{CONVOY_RELU, 0, 0},       {CONVOY_LEAKY_RELU, 0.1f, 0}, {CONVOY_SIGMOID, 0, 0},
                 {CONVOY_TANH, 0, 0},       {CONVOY_CLIP, -0.5f, 0.5f},   {CONVOY_HARD_SIGMOID, 0.2f, 0.5f},
                 {CONVOY_HARD_SWISH, 0, 0}, {CONVOY_SWISH, 0, 0},         {CONVOY_EXP, 0, 0},
                 {CONVOY_LOG, 0, 0},        {CONVOY_ABS, 0, 0},           {CONVOY_ERF, 0, 0},
                 {CONVOY_GELU, 0, 0},       {CONVOY_GELU_TANH, 0, 0},     {CONVOY_ELU, 1, 0},
                 {CONVOY_SOFTPLUS, 0, 0},   {CONVOY_MISH, 0, 0},          {CONVOY_ROUND, 0, 0},
                 {CONVOY_FLOOR, 0, 0},      {CONVOY_CEIL, 0, 0},          {CONVOY_SIGN, 0, 0},
                 {CONVOY_SIN, 0, 0},        {CONVOY_COS, 0, 0},           {CONVOY_ATAN, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct convoy_graph *graph = begin();
        int x = graph->input;
        if (cases[i].kind == CONVOY_LOG) /* of numbers that have one */
            x = add_act(graph, x, CONVOY_ABS, 0, 0);
        char what[48];
        snprintf(what, sizeof what, "kind %d", (int)cases[i].kind);
        x = add_act(graph, x, cases[i].kind, cases[i].alpha, cases[i].beta);
        expect_nan_at(what, run_rows(graph, x, 1, the_first, at(1, 2, 3)), at_the_place);
    }
}

Test(backend_nan, larger_and_smaller_of_two)
{
    for (int kind = CONVOY_MAX; kind <= CONVOY_MIN; kind++)
        for (int way = 0; way < 4; way++) {
            struct convoy_graph *graph = begin();
            int x = graph->input, z = way < 2   ? add_constant(graph, FIXED(1), 1)
                                      : way < 3 ? add_constant(graph, FIXED(1, CHANNELS, SIDE, SIDE), 1)
                                                : add_act(graph, x, CONVOY_LEAKY_RELU, 0.5f, 0);
            int y = add_binary(graph, way == 1 ? z : x, way == 1 ? x : z, (enum convoy_binary_kind)kind);
            char what[48];
            snprintf(what, sizeof what, "kind %d, way %d", kind, way);
            expect_nan_at(what, run_rows(graph, y, 1, the_first, at(1, 2, 3)), at_the_place);
        }
}

static bool nowhere(int element)
{
    (void)element;
    return false;
}

/* As IsNaN and Where are read. */
Test(backend_nan, what_is_not_equal_to_itself_is_kept_out)
{
    struct convoy_graph *graph = begin();
    int equal = add_binary(graph, graph->input, graph->input, CONVOY_EQUAL);
    uint32_t elements = run_rows(graph, equal, 1, the_first, at(1, 2, 3));
    for (uint32_t i = 0; i < elements; i++)
        cr_expect(output[0][i] == (at_the_place((int)i) ? 0 : 1), "element %u is %g", i,
                  (double)output[0][i]);
    graph = begin();
    equal = add_binary(graph, graph->input, graph->input, CONVOY_EQUAL);
    int kept = add_binary(graph, graph->input, equal, CONVOY_KEEP);
    elements = run_rows(graph, kept, 1, the_first, at(1, 2, 3));
    expect_nan_at("kept", elements, nowhere);
    for (uint32_t i = 0; i < elements; i++)
        cr_expect(output[0][i] == (at_the_place((int)i) ? 0 : input[0][i]), "element %u is %g", i,
                  (double)output[0][i]);
}

/* The 3 x 3 outputs around it, of each channel. */
static bool around_the_place(int element)
{
    int h = element / SIDE % SIDE, w = element % SIDE;
    return h >= 1 && h <= 3 && w >= 2 && w <= 4;
}

Test(backend_nan, what_follows_a_convolution)
{
    static const enum convoy_activation_kind kinds[] = {CONVOY_RELU, CONVOY_CLIP, CONVOY_HARD_SWISH,
                                                        CONVOY_SIGMOID};
    for (int i = 0; i < 4; i++) {
        struct convoy_graph *graph = begin();
        int x = add_conv(graph, graph->input, 8, 3, 3, CONV3, true);
        x = add_act(graph, x, kinds[i], 0, 6);
        expect_nan_at("convolution", run_rows(graph, x, 1, the_first, at(1, 2, 3)), around_the_place);
    }
    struct convoy_graph *graph = begin();
    int x = add_conv(graph, graph->input, CHANNELS, 3, 3, CONV3, true);
    x = add_act(graph, add_binary(graph, x, graph->input, CONVOY_ADD), CONVOY_RELU, 0, 0);
    expect_nan_at("residual", run_rows(graph, x, 1, the_first, at(1, 2, 3)), around_the_place);
}

static bool in_the_window(int element)
{
    return element == (1 * (SIDE / 2) + 1) * (SIDE / 2) + 1;
}

Test(backend_nan, pooling)
{
    for (int kind = 0; kind < 2; kind++)
        for (int place = 0; place < 4; place++) { /* in the window */
            struct convoy_graph *graph = begin();
            struct convoy_pool pool = {.kind = kind == 0 ? CONVOY_POOL_MAX : CONVOY_POOL_AVERAGE,
                                       .window = {2, 2},
                                       .stride = {2, 2},
                                       .dilation = {1, 1}};
            int y = add_pool(graph, graph->input, pool, false);
            expect_nan_at("pool", run_rows(graph, y, 1, the_first, at(1, 2 + place / 2, 2 + place % 2)),
                          in_the_window);
        }
}

static bool along_channels(int element)
{
    return element % (SIDE * SIDE) == at(0, 2, 3);
}

static bool along_the_line(int element)
{
    return element / SIDE == at(1, 2, 3) / SIDE;
}

static bool everywhere(int element)
{
    return element >= 0;
}

Test(backend_nan, softmax)
{
    for (int log = 0; log < 2; log++) {
        struct convoy_graph *graph = begin();
        int y = add_softmax(graph, graph->input, 1, 2);
        graph->nodes[graph->node_count - 1].softmax.log = log;
        expect_nan_at("along channels", run_rows(graph, y, 1, the_first, at(1, 2, 3)), along_channels);
        graph = begin();
        y = add_softmax(graph, graph->input, 3, 4);
        graph->nodes[graph->node_count - 1].softmax.log = log;
        expect_nan_at("along lines", run_rows(graph, y, 1, the_first, at(1, 2, 3)), along_the_line);
        graph = begin();
        y = add_softmax(graph, add_dense(graph, add_flatten(graph, graph->input), 10, true), 1, 2);
        graph->nodes[graph->node_count - 1].softmax.log = log;
        expect_nan_at("of a dense layer", run_rows(graph, y, 1, the_first, at(1, 2, 3)), everywhere);
    }
}

static bool each_third(uint32_t row)
{
    return row % 3 == 1;
}

static bool none(uint32_t row)
{
    return row == ROWS;
}

static int classifier(struct convoy_graph *graph)
{
    int x = add_act(graph, add_conv(graph, graph->input, 8, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    x = add_flatten(graph, add_pool(graph, x, pool, false));
    return add_softmax(graph, add_dense(graph, x, 10, true), 1, 2);
}

/* Rows with NaN in a batch change nothing of the others, not even their last bits. */
Test(backend_nan, other_rows_of_the_batch)
{
    static float clean[ROWS][MOST];
    for (uint32_t rows = 1; rows <= ROWS; rows += 13) {
        struct convoy_graph *graph = begin();
        random_state = 3;
        run_rows(graph, classifier(graph), rows, none, 0);
        memcpy(clean, output, sizeof clean);
        graph = begin();
        random_state = 3;
        uint32_t elements = run_rows(graph, classifier(graph), rows, each_third, at(0, 0, 0));
        for (uint32_t row = 0; row < rows; row++)
            for (uint32_t i = 0; i < elements; i++)
                cr_assert(each_third(row) ? isnan(output[row][i]) : output[row][i] == clean[row][i],
                          "%u rows, row %u: %g, without NaN %g", rows, row, (double)output[row][i],
                          (double)clean[row][i]);
    }
}

/* It comes before all numbers, from both ends. */
Test(backend_nan, first_of_a_row)
{
    for (int form = 0; form < 4; form++) {
        struct convoy_top top = {.axis = 1, .smallest = form % 2 == 1, .places = form / 2 == 1};
        struct convoy_graph *graph = begin();
        run_rows(graph, add_top(graph, add_flatten(graph, graph->input), 2, top), 2, the_first, 77);
        if (top.places)
            cr_expect(output[0][0] == 77 && output[0][1] != 77 && output[1][0] != 77);
        else
            cr_expect(isnan(output[0][0]) && !isnan(output[0][1]) && !isnan(output[1][0]));
    }
}

enum layers { ACTIVATION, SOFTMAX, LOG_SOFTMAX, LARGEST, LARGER, LAYERS };

static int add_layers(struct convoy_graph *graph, enum layers layers)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    int x = add_conv(graph, graph->input, 8, 3, 3, CONV3, true);
    switch (layers) {
    case SOFTMAX:
    case LOG_SOFTMAX:
        x = add_softmax(graph, x, 3, 4);
        graph->nodes[graph->node_count - 1].softmax.log = layers == LOG_SOFTMAX;
        return x;
    case LARGEST:
        return add_pool(graph, x, pool, false);
    case LARGER:
        return add_binary(graph, x, add_act(graph, x, CONVOY_SIGMOID, 0, 0), CONVOY_MAX);
    default:
        return add_act(graph, x, CONVOY_HARD_SWISH, 0, 0);
    }
}

/* A row that was computed as loops is right where no NaN is. */
Test(backend_nan, what_is_a_number_is_the_same)
{
    static float clean[MOST];
    for (int layers = ACTIVATION; layers < LAYERS; layers++) {
        struct convoy_graph *graph = begin();
        uint32_t numbers = 0;
        random_state = 3;
        uint32_t elements = run_rows(graph, add_layers(graph, (enum layers)layers), 1, none, 0);
        memcpy(clean, output[0], sizeof clean);
        graph = begin();
        random_state = 3;
        run_rows(graph, add_layers(graph, (enum layers)layers), 1, the_first, at(1, 0, 0));
        for (uint32_t i = 0; i < elements; i++) {
            numbers += !isnan(output[0][i]);
            cr_assert(isnan(output[0][i]) || fabsf(output[0][i] - clean[i]) <= 1e-5f * (1 + fabsf(clean[i])),
                      "layers %d, element %u: %g, without NaN %g", layers, i, (double)output[0][i],
                      (double)clean[i]);
        }
        cr_assert(numbers >= elements / 2 && numbers < elements, "layers %d: %u of %u are numbers", layers,
                  numbers, elements);
    }
}

/* Large weights are resident once, also where the way of rows with NaN has another layout in front of them.
 */
Test(backend_nan, weights_are_not_kept_twice)
{
    struct convoy_net_info info;
    struct convoy_graph *graph = new_graph(SHAPE(1, CHANNELS, 24, 24));
    int x = add_act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    x = add_flatten(graph, add_pool(graph, x, pool, false));
    add_output(graph, add_dense(graph, x, 200, true));
    struct convoy_net *net = load(graph, 4, &info);
    uint64_t dense = sizeof(float) * 16 * 12 * 12 * 200;
    cr_assert_geq(info.weight_bytes, dense);
    cr_assert_lt(info.weight_bytes, dense + dense / 2);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

static double seconds_of_rows(struct convoy_net *net, uint32_t outputs, const float *row, size_t row_bytes)
{
    double best = 1e9;
    float *to = aligned_bytes(outputs * sizeof(float));
    struct convoy_job_times times = {0};
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = 1,
                             .input = row,
                             .input_stride = row_bytes,
                             .output = to,
                             .output_stride = (outputs * sizeof(float) + 63) / 64 * 64,
                             .times = &times};
    for (int i = 0; i < 5; i++) {
        struct timespec from, end;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        run(net, &job);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        double took = (double)(end.tv_sec - from.tv_sec) + (double)(end.tv_nsec - from.tv_nsec) * 1e-9;
        best = took < best ? took : best;
    }
    free(to);
    return best;
}

/* A request must not cost much more because of what its numbers are. With oneDNN's reference for the dense
 * layer it would be 100 times as long. */
Test(backend_nan, a_row_with_nan_takes_a_few_times_as_long)
{
    struct convoy_net_info info;
    size_t elements = (size_t)CHANNELS * 96 * 96;
    if (strcmp(backend->name, "cpu") != 0)
        return; /* others compute such rows as all */
    struct convoy_graph *graph = new_graph(SHAPE(1, CHANNELS, 96, 96));
    int x = add_act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    x = add_flatten(graph, add_pool(graph, x, pool, false));
    add_output(graph, add_dense(graph, x, 500, true));
    struct convoy_net *net = load(graph, 4, &info);
    float *row = aligned_bytes(elements * sizeof(float));
    for (size_t i = 0; i < elements; i++)
        row[i] = random_value();
    double ordinary = seconds_of_rows(net, info.outputs_per_row, row, elements * sizeof(float));
    row[77] = NAN;
    double nan = seconds_of_rows(net, info.outputs_per_row, row, elements * sizeof(float));
    cr_assert_lt(nan, 15 * ordinary + 0.001, "%.4f s, with NaN %.4f s", ordinary, nan);
    free(row);
    backend->unload(device, net);
    convoy_graph_free(graph);
}
