/* Which layers that read the same tensor the CUDA backend computes in one convolution, and which means of
 * windows it takes behind a convolution of 1 x 1 in place of before it. On the emulated device. */
#include "tests/unit/engine/cuda/tune/cuda_times.h"

TestSuite(cuda_siblings, .init = make_folder, .fini = remove_folder, .timeout = 300);

static int relu(struct convoy_graph *graph, int x)
{
    return add_act(graph, x, CONVOY_RELU, 0, 0);
}

static int conv(struct convoy_graph *graph, int x, int64_t maps, int64_t side)
{
    return add_conv(graph, x, maps, side, side, side == 3 ? CONV3 : CONV1, true);
}

static void end(struct convoy_graph *graph, int y)
{
    /* Where y lay over something that is read behind it, this would tell. */
    y = relu(graph, conv(graph, y, 24, 3));
    add_output(graph, conv(graph, y, 5, 1));
}

/* How many layers are in the step of another one. */
static int count_inside(const struct convoy_net_info *info)
{
    int count = 0;
    for (uint32_t i = 0; i < info->layer_count; i++)
        count += strncmp(info->layers[i].kernel, "in ", 3) == 0;
    return count;
}

/* Loads the network, tunes, checks answers of some numbers of rows, and how many layers are so. */
static void visit(struct convoy_graph *graph, int form, int expected, enum convoy_tuning tune)
{
    struct convoy_net_info info;
    open_tuning(tune, tune == CONVOY_TUNING_OFF ? NULL : folder.path);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
    tune_all();
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    cr_expect_eq(count_inside(last), expected, "form %d: %d", form, count_inside(last));
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows += 2)
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    cr_expect_eq(last->weight_bytes, memory_now().weights);
    unload_all(net, graph);
    close_backend();
}

/* Three layers of 1 x 1, behind the second and third of which are others; the first and those are
 * concatenated. */
enum form {
    INCEPTION,
    NOT_CONCATENATED,
    SECOND,      /* the first is concatenated behind one of the others */
    NO_BIAS,     /* one has none */
    ODD,         /* maps of one that are no whole cells */
    LAST_ODD,    /* of the one whose place is behind the others */
    OTHER_ACT,   /* of one */
    ADDED,       /* one adds something */
    STRIDE,      /* of one */
    THREE,       /* one has 3 x 3 */
    IS_OUTPUT,   /* one is an output of the network, too */
    TWO_WHOLES,  /* two are the first in concatenations */
    TWICE,       /* the concatenation's result is what others like them read */
    PASSED_ON,   /* it is a part of another concatenation */
    ADDED_UP,    /* the second and another one, which are added to each other */
    OTHER_ALPHA, /* of the same activation */
    FORMS
};
static const int joined[FORMS] = {2, 2, 1, 2, 1, 2, 1, 1, 1, 1, 2, 1, 4, 2, 3, 0};

static int block(struct convoy_graph *graph, int x, enum form form)
{
    struct convoy_conv stride = CONV1;
    stride.stride[0] = stride.stride[1] = 2;
    int side = form == THREE ? 3 : 1;
    bool apart = form == STRIDE;
    int first = conv(graph, x, form == LAST_ODD ? 20 : 24, 1);
    first = form == OTHER_ALPHA ? add_act(graph, first, CONVOY_LEAKY_RELU, 0.1F, 0) : relu(graph, first);
    int second = form == ODD       ? conv(graph, x, 12, 1)
                 : form == NO_BIAS ? add_conv(graph, x, 16, 1, 1, CONV1, false)
                                   : conv(graph, x, 16, 1);
    second = form == OTHER_ACT     ? add_act(graph, second, CONVOY_SIGMOID, 0, 0)
             : form == OTHER_ALPHA ? add_act(graph, second, CONVOY_LEAKY_RELU, 0.5F, 0)
                                   : relu(graph, second);
    int third = apart ? add_conv(graph, x, 40, 1, 1, stride, true) : conv(graph, x, 40, side);
    if (form == ADDED)
        third = add_binary(graph, conv(graph, x, 40, 3), third, CONVOY_ADD);
    third = relu(graph, third);
    if (form == IS_OUTPUT)
        add_output(graph, second);
    if (form == NOT_CONCATENATED || form == LAST_ODD || apart) {
        first = conv(graph, first, 32, 3);
        third = apart
                    ? add_conv(graph, third, 32, 2, 2,
                               (struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}}, true)
                    : conv(graph, third, 32, 3);
        if (apart) {
            add_output(graph, third);
            third = first;
        }
        return relu(graph, add_binary(graph, add_binary(graph, first, conv(graph, second, 32, 3), CONVOY_ADD),
                                      third, CONVOY_ADD));
    }
    if (form == ADDED_UP)
        second = add_binary(graph, second, relu(graph, conv(graph, x, 16, 1)), CONVOY_ADD);
    if (form == TWO_WHOLES) {
        int other = add_concat(graph, 2, (int[]){second, relu(graph, conv(graph, x, 8, 3))}, 1);
        return add_concat(graph, 3, (int[]){first, conv(graph, other, 8, 3), conv(graph, third, 16, 3)}, 1);
    }
    second = relu(graph, conv(graph, second, 32, 3));
    third = relu(graph, conv(graph, relu(graph, conv(graph, third, 24, 3)), 8, 3));
    return form == SECOND ? add_concat(graph, 3, (int[]){second, first, third}, 1)
                          : add_concat(graph, 3, (int[]){first, second, third}, 1);
}

static struct convoy_graph *network(enum form form)
{
    random_state = 1;
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 8, 8));
    int x = relu(graph, conv(graph, graph->input, 48, 3));
    int y = block(graph, x, form);
    if (form == TWICE)
        y = block(graph, y, INCEPTION);
    if (form == PASSED_ON)
        y = add_concat(graph, 2, (int[]){y, relu(graph, conv(graph, y, 16, 3))}, 1);
    end(graph, y);
    return graph;
}

Test(cuda_siblings, what_is_joined)
{
    for (enum form form = INCEPTION; form < FORMS; form++)
        visit(network(form), (int)form, joined[form], CONVOY_TUNING_OFF);
}

Test(cuda_siblings, layer_by_layer)
{
    setenv("CONVOY_SIBLINGS", "layers", 1);
    visit(network(INCEPTION), INCEPTION, 0, CONVOY_TUNING_OFF);
}

/* The tuner times all of them as one layer. */
Test(cuda_siblings, tuned)
{
    visit(network(INCEPTION), INCEPTION, 2, CONVOY_TUNING_FORCE);
    char *text = read_times();
    cr_expect_not_null(strstr(text, "x48x8x8 w80x1x1 g1"), "%s", text);
    cr_expect_null(strstr(text, "x48x8x8 w24x1x1 g1"), "%s", text);
    cr_expect_eq(logged("is not tried"), 0, "%s", log_text);
    free(text);
}

/* Means of windows before a layer of 1 x 1. */
enum means {
    COUNTED, /* padding */
    NOT_COUNTED,
    WITHOUT_BIAS,
    ACTIVATED,    /* the layer, otherwise than by a ReLU */
    CONCATENATED, /* the layer */
    WIDE,         /* windows of 5 x 3, unevenly padded */
    MOVED = WIDE, /* up to here */
    MAXIMA,
    MORE_MAPS, /* than channels */
    DILATED,   /* some windows lie in the padding alone */
    ENLARGED,  /* by the layer's activation: numbers that fp16 holds may become others */
    READ_TWICE,
    STRIDED,
    SMALLER,  /* without padding */
    BETWEEN,  /* an activation */
    SUM,      /* the layer adds something */
    HUGE_BIAS /* a test of its own */
};

static struct convoy_graph *means_network(enum means form)
{
    random_state = 1;
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 8, 6));
    struct convoy_pool pool = {.kind = form == MAXIMA ? CONVOY_POOL_MAX : CONVOY_POOL_AVERAGE,
                               .window = {form == WIDE ? 5 : 3, 3},
                               .stride = {1, 1},
                               .dilation = {1, 1},
                               .pad = {1, 1, form == WIDE ? 3 : 1, 1},
                               .count_include_pad = form != NOT_COUNTED};
    if (form == DILATED) {
        pool.window[0] = 2;
        pool.dilation[0] = 9;
        pool.pad[0] = 1;
        pool.pad[2] = 8;
    }
    if (form == SMALLER)
        memset(pool.pad, 0, sizeof(pool.pad));
    if (form == STRIDED)
        pool.stride[0] = pool.stride[1] = 2;
    int x = relu(graph, conv(graph, graph->input, 40, 3));
    int y = add_pool(graph, x, pool, false);
    if (form == READ_TWICE)
        add_output(graph, conv(graph, y, 3, 1));
    if (form == BETWEEN)
        y = relu(graph, y);
    y = add_conv(graph, y, form == MORE_MAPS ? 48 : 24, 1, 1, CONV1, form != WITHOUT_BIAS);
    if (form == HUGE_BIAS)
        fill(graph, graph->nodes[graph->node_count - 1].inputs[2], 70000);
    if (form == SUM)
        y = add_binary(graph, y, conv(graph, x, 24, 3), CONVOY_ADD);
    y = form == ACTIVATED  ? add_act(graph, y, CONVOY_HARD_SWISH, 0, 0)
        : form == ENLARGED ? add_act(graph, y, CONVOY_LEAKY_RELU, 1.5F, 0)
                           : relu(graph, y);
    if (form == CONCATENATED)
        y = add_concat(graph, 2, (int[]){relu(graph, conv(graph, x, 16, 3)), y}, 1);
    end(graph, y);
    return graph;
}

Test(cuda_siblings, means_behind_a_layer)
{
    for (enum means form = COUNTED; form < HUGE_BIAS; form++)
        visit(means_network(form), (int)form, form <= MOVED ? 1 : 0, CONVOY_TUNING_OFF);
}

/* fp16 does not hold the bias, and no step would tell that a mean is as large. */
Test(cuda_siblings, means_of_numbers_that_fp16_does_not_hold)
{
    struct convoy_net_info info;
    check_untuned(means_network(HUGE_BIAS), &info);
    cr_expect_eq(count_inside(&info), 0);
}

Test(cuda_siblings, means_before_it)
{
    setenv("CONVOY_INPUTS", "layers", 1);
    visit(means_network(COUNTED), COUNTED, 0, CONVOY_TUNING_OFF);
}
