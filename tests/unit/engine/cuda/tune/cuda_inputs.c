/* Which normalisations the convolution behind them computes while it reads its inputs. Gates: cuda_excite.c.
 * On the emulated device. */
#include "tests/unit/engine/cuda/tune/cuda_times.h"

#define NAME "nhwc_scaled"

TestSuite(cuda_inputs, .init = make_folder, .fini = remove_folder, .timeout = 300);

/* Left to the convolution; by itself. */
enum form {
    PLAIN,
    NOT_ACTIVATED,
    CONCATENATED, /* of a part of another one's pixels */
    RESIDUAL,     /* of what the convolution behind adds: what is normalised */
    ODD,          /* channels that are no whole cells */
    IN_A_ROW,     /* two of them: the first one by itself */
    OTHER_ACT,
    THREE_BEHIND, /* the convolution behind has 3 x 3 */
    STRIDE,       /* of the convolution behind */
    READ_TWICE,
    IS_OUTPUT,
    OF_INPUT,   /* of the network's own input */
    TRANSPOSED, /* what the convolution behind adds, which kernels in 16 bits do not add */
    FORMS
};
#define LEFT IN_A_ROW /* the last one that is */

static int scale_shift(struct convoy_graph *graph, int x, bool relu)
{
    int64_t channels = shape_of(graph, x)->dims[1];
    struct convoy_shape vector = {.rank = 1, .dims = {channels}, .batch_axis = -1};
    int y = add_activation(graph, *shape_of(graph, x));
    int inputs[3] = {x, add_constant(graph, vector, 1.5F), add_constant(graph, vector, 0.5F)};
    add_node(graph, CONVOY_OP_SCALE_SHIFT, y, 3, inputs);
    return relu ? add_act(graph, y, CONVOY_RELU, 0, 0) : y;
}

static int relu(struct convoy_graph *graph, int x)
{
    return add_act(graph, x, CONVOY_RELU, 0, 0);
}

static struct convoy_graph *network(enum form form)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, form == OF_INPUT ? 72 : 16, 12, 12));
    struct convoy_conv stride = CONV1;
    stride.stride[0] = stride.stride[1] = 2;
    int64_t channels = form == ODD ? 70 : 72;
    int x = form == OF_INPUT ? graph->input
                             : relu(graph, add_conv(graph, graph->input, channels, 3, 3, CONV3, true));
    int before = x;
    if (form == CONCATENATED) {
        int others = relu(graph, add_conv(graph, x, 24, 3, 3, CONV3, true));
        before = add_concat(graph, 2, (int[]){x, others}, 1);
    }
    if (form == IN_A_ROW)
        before = scale_shift(graph, before, true);
    int y = scale_shift(graph, before, form != NOT_ACTIVATED && form != OTHER_ACT);
    if (form == OTHER_ACT)
        y = add_act(graph, y, CONVOY_TANH, 0, 0);
    if (form == READ_TWICE)
        add_output(graph, add_conv(graph, y, 3, 3, 3, CONV3, true));
    if (form == IS_OUTPUT)
        add_output(graph, y);
    y = form == THREE_BEHIND ? add_conv(graph, y, channels, 3, 3, CONV3, true)
                             : add_conv(graph, y, channels, 1, 1, form == STRIDE ? stride : CONV1, true);
    if (form == RESIDUAL || form == TRANSPOSED)
        y = add_binary(graph, y, form == RESIDUAL ? x : turn_planes(graph, x), CONVOY_ADD);
    /* Where y lay over what is read, or that were overwritten before it is read, this would tell. */
    y = relu(graph, add_conv(graph, y, 24, 3, 3, CONV3, true));
    add_output(graph, add_conv(graph, y, 5, 1, 1, CONV1, true));
    return graph;
}

/* Loads the network, tunes, checks answers of every number of rows, and how many layers are in such a
 * convolution, itself counted. */
static void visit(enum form form, int expected, enum convoy_tuning tune)
{
    random_state = 1;
    struct convoy_graph *graph = network(form);
    struct convoy_net_info info;
    int count = 0;
    open_tuning(tune, tune == CONVOY_TUNING_OFF ? NULL : folder.path);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
    tune_all();
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    for (uint32_t i = 0; i < last->layer_count; i++)
        count += strstr(last->layers[i].kernel, NAME) != NULL; /* or "in" it */
    cr_expect_eq(count, expected, "form %d: %d", (int)form, count);
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    cr_expect_eq(last->weight_bytes, memory_now().weights);
    unload_all(net, graph);
    close_backend();
}

Test(cuda_inputs, what_is_left_to_a_convolution)
{
    for (enum form form = PLAIN; form < FORMS; form++)
        visit(form, form <= LEFT ? 2 : 0, CONVOY_TUNING_OFF);
}

Test(cuda_inputs, layer_by_layer)
{
    setenv("CONVOY_INPUTS", "layers", 1);
    visit(PLAIN, 0, CONVOY_TUNING_OFF);
}

/* The tuner times the kernels that change their inputs under a key of their own. */
Test(cuda_inputs, tuned)
{
    visit(RESIDUAL, 2, CONVOY_TUNING_FORCE);
    char *text = read_times();
    cr_expect_not_null(
        strstr(text, "x72x12x12 w72x1x1 g1 s1,1 d1,1 p0,0 y12x12 b1 r1 a0 m1 u0 f2 nhwc scaled"), "%s", text);
    free(text);
}

/* Normalised they are 70,000, which fp16 does not hold. The convolution would make minus infinity of that,
 * and its ReLU 0: the row is told of, and runs again in float32. */
Test(cuda_inputs, numbers_that_fp16_does_not_hold)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 10, 12));
    struct convoy_net_info info;
    int x = relu(graph, add_conv(graph, graph->input, 72, 3, 3, CONV3, true));
    int y = scale_shift(graph, x, false);
    fill(graph, graph->nodes[graph->node_count - 1].inputs[2], 70000);
    y = add_conv(graph, y, 24, 1, 1, CONV1, true);
    const struct convoy_node *conv = &graph->nodes[graph->node_count - 1];
    fill(graph, conv->inputs[1], -1e-4F);
    fill(graph, conv->inputs[2], 600);
    add_output(graph, relu(graph, y));
    check_untuned(graph, &info);
    cr_assert_not_null(strstr(info.layers[2].kernel, NAME), "%s", info.layers[2].kernel);
}
