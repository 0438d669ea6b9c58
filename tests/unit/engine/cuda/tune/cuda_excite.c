/* Which squeeze and excitation the CUDA backend makes gates of in one launch, which convolutions multiply by
 * them, and which means come of sums that an inverted residual leaves. On the emulated device. */
#include "tests/unit/engine/cuda/tune/cuda_times.h"

#define GATES   "nhwc_excite"
#define GATED   "nhwc_gated"
#define EXCITED "nhwc_excited:"

/* What follows is of gates that are made apart, but where a test says otherwise. */
static void begin(void)
{
    make_folder();
    setenv("CONVOY_GATES", "layers", 1);
}

TestSuite(cuda_excite, .init = begin, .fini = remove_folder, .timeout = 300);

/* Whose gates are made by one launch, and multiplied by the convolution behind; whose are multiplied alone;
 * made alone; neither. */
enum form {
    PLAIN,
    HARD,     /* the activations of MobileNetV3 */
    RESIDUAL, /* of what the convolution behind adds */
    TURNED,   /* the gates are the first factor */
    NO_BIAS,
    OTHER,   /* the gates are of another tensor, which nothing else reads when they are made */
    PADDED,  /* the window is more than the plane */
    SMALLER, /* and less */
    ONE_LAYER,
    BETWEEN_READ_TWICE, /* what the first of the two layers made */
    THREE_BEHIND,       /* the convolution behind has 3 x 3 */
    READ_TWICE,         /* the product */
    IS_OUTPUT,          /* the product */
    ODD,                /* channels that are no whole cells */
    ACTIVATED,          /* the product */
    PART,               /* the product is a part of a concatenation */
    LARGEST,            /* of the plane, in place of the mean */
    OTHER_COUNT,        /* two layers behind a mean, to other channels */
    TRANSPOSED,         /* what the convolution behind adds, which kernels in 16 bits do not add */
    LAST,               /* the convolution behind makes the network's output */
    FORMS
};
static const bool makes[FORMS] = {true, true, true, true, true, true, false, false, false, false,
                                  true, true, true, true, true, true, false, false, true,  true};
/* Whose gates the convolution behind makes itself. */
static const bool excites[FORMS] = {
    [PLAIN] = true, [HARD] = true, [RESIDUAL] = true, [TURNED] = true, [NO_BIAS] = true, [LAST] = true};
static const bool multiplies[FORMS] = {true,  true,  true,  true,  true,  true,  true, true,  true,  true,
                                       false, false, false, false, false, false, true, false, false, true};

/* Adds the gates of *x. */
static int squeeze(struct convoy_graph *graph, int *x, int64_t channels, enum form form)
{
    bool bias = form != NO_BIAS;
    struct convoy_pool plane = {.kind = form == LARGEST ? CONVOY_POOL_MAX : CONVOY_POOL_AVERAGE,
                                .window = {12, 12},
                                .stride = {1, 1},
                                .dilation = {1, 1}};
    if (form == PADDED) {
        plane.window[0]++;
        plane.pad[0] = 1;
    }
    if (form == SMALLER) {
        plane.window[0]--;
        plane.stride[0]++;
    }
    int y = add_pool(graph, *x, plane, false);
    if (form == OTHER)
        for (int i = 0; i < 3; i++)
            *x = add_act(graph, add_conv(graph, *x, channels, 1, 1, CONV1, true), CONVOY_RELU, 0, 0);
    if (form != ONE_LAYER)
        y = add_act(graph, add_conv(graph, y, 12, 1, 1, CONV1, bias), CONVOY_RELU, 0, 0);
    if (form == BETWEEN_READ_TWICE)
        add_output(graph, add_conv(graph, y, 3, 1, 1, CONV1, true));
    y = add_conv(graph, y, channels, 1, 1, CONV1, bias);
    return form == HARD ? add_act(graph, y, CONVOY_HARD_SIGMOID, 1.0F / 6, 0.5F)
                        : add_act(graph, y, CONVOY_SIGMOID, 0, 0);
}

static struct convoy_graph *network(enum form form)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 12, 12));
    int64_t channels = form == ODD ? 70 : 72;
    int x = add_act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    int wide = add_act(graph, add_conv(graph, x, channels, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    int gates = squeeze(graph, &wide, form == OTHER_COUNT ? 7 : channels, form);
    int y = form == OTHER_COUNT ? wide
            : form == TURNED    ? add_binary(graph, gates, wide, CONVOY_MUL)
                                : add_binary(graph, wide, gates, CONVOY_MUL);
    if (form == OTHER_COUNT)
        add_output(graph, gates);
    if (form == ACTIVATED)
        y = add_act(graph, y, CONVOY_RELU, 0, 0);
    if (form == READ_TWICE)
        add_output(graph, add_conv(graph, y, 3, 1, 1, CONV1, true));
    if (form == IS_OUTPUT)
        add_output(graph, y);
    if (form == PART)
        y = add_concat(graph, 2, (int[]){y, x}, 1);
    y = form == THREE_BEHIND ? add_conv(graph, y, 16, 3, 3, CONV3, true)
                             : add_conv(graph, y, 16, 1, 1, CONV1, true);
    if (form == LAST) {
        add_output(graph, y);
        return graph;
    }
    if (form == RESIDUAL || form == TRANSPOSED)
        y = add_binary(graph, y, form == RESIDUAL ? x : turn_planes(graph, x), CONVOY_ADD);
    /* Where y lay over what the gates multiply, or that were overwritten before it is read, this would tell.
     */
    y = add_act(graph, add_conv(graph, y, 24, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    add_output(graph, add_conv(graph, y, 5, 1, 1, CONV1, true));
    return graph;
}

/* How many layers are named so, in whatever launch they are. */
static int count_layers(const struct convoy_net_info *info, const char *name, bool inside)
{
    int count = 0;
    for (uint32_t i = 0; i < info->layer_count; i++) {
        const char *at = strstr(info->layers[i].kernel, name);
        count += at != NULL && (at != info->layers[i].kernel) == inside;
    }
    return count;
}

/* Loads the network, tunes, checks answers of every number of rows, and which kernels there are. */
static void visit(enum form form, bool made, bool multiplied, enum convoy_tuning tune)
{
    random_state = 1;
    struct convoy_graph *graph = network(form);
    struct convoy_net_info info;
    open_tuning(tune, tune == CONVOY_TUNING_OFF ? NULL : folder.path);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
    tune_all();
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    cr_expect_eq(count_layers(last, GATES, false), made ? 1 : 0, "form %d", (int)form);
    cr_expect_eq(count_layers(last, GATES, true), made ? 2 : 0, "form %d", (int)form);
    cr_expect_eq(count_layers(last, GATED, false), multiplied ? 1 : 0, "form %d", (int)form);
    cr_expect_eq(count_layers(last, GATED, true), multiplied ? 1 : 0, "form %d", (int)form);
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    cr_expect_eq(last->weight_bytes, memory_now().weights);
    unload_all(net, graph);
    close_backend();
}

Test(cuda_excite, what_is_one)
{
    for (enum form form = PLAIN; form < FORMS; form++)
        visit(form, makes[form], multiplies[form], CONVOY_TUNING_OFF);
}

/* The mean, both layers and the product are in the launch of the convolution, or none of them. */
static void check_excited(const struct convoy_net_info *info, bool excited, int form)
{
    cr_expect_eq(count_layers(info, EXCITED, false), excited ? 1 : 0, "form %d", form);
    cr_expect_eq(count_layers(info, EXCITED, true), excited ? 4 : 0, "form %d", form);
}

Test(cuda_excite, which_convolution_makes_its_gates)
{
    unsetenv("CONVOY_GATES");
    for (enum form form = PLAIN; form < FORMS; form++) {
        struct convoy_net_info info;
        random_state = 1;
        check_untuned(network(form), &info);
        check_excited(&info, excites[form], (int)form);
    }
}

/* On a clock on which fewer launches are faster, and on one on which more are; each time it is remembered
 * which way was the fastest. */
Test(cuda_excite, the_tuner_chooses_who_makes_gates)
{
    unsetenv("CONVOY_GATES");
    for (int own = 0; own < 2; own++)
        for (int again = 0; again < 2; again++) {
            struct convoy_net_info info;
            random_state = 1;
            struct convoy_graph *graph = network(RESIDUAL);
            setenv("CONVOY_EMULATED_CLOCK", own ? "launches" : "kernels", 1);
            open_tuning(again ? CONVOY_TUNING_ON : CONVOY_TUNING_FORCE, folder.path);
            struct convoy_net *net = load_as(graph, 1, CONVOY_COMPUTE_FP16, &info);
            uint64_t before = calls("cudaEventElapsedTime");
            tune_all();
            const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
            check_excited(last, own, own);
            cr_expect_eq(calls("cudaEventElapsedTime") == before, again, "%d", own);
            check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, 1, TOLERANCE_FP16);
            cr_expect_eq(last->weight_bytes, memory_now().weights);
            unload_all(net, graph);
            close_backend();
            char *text = read_times(), line[160];
            snprintf(line, sizeof(line), "\t%s", own ? "nhwc_excited:" : "layers\tconv n1 x72x12x12 w16x1x1");
            cr_expect_not_null(strstr(text, line), "%s", text);
            cr_expect_not_null(strstr(text, " nhwc excited 12 of 0\n"), "%s", text);
            free(text);
        }
}

Test(cuda_excite, layer_by_layer)
{
    setenv("CONVOY_EXCITE", "layers", 1);
    visit(PLAIN, false, true, CONVOY_TUNING_OFF);
    setenv("CONVOY_INPUTS", "layers", 1);
    visit(PLAIN, false, false, CONVOY_TUNING_OFF);
}

/* The tuner times the kernels that multiply by gates, under a key of their own. */
Test(cuda_excite, tuned)
{
    visit(RESIDUAL, true, true, CONVOY_TUNING_FORCE);
    char *text = read_times();
    cr_expect_not_null(
        strstr(text, "x72x12x12 w16x1x1 g1 s1,1 d1,1 p0,0 y12x12 b1 r1 a0 m1 u0 f2 nhwc gated"), "%s", text);
    free(text);
}

/* What follows an inverted residual's first two layers: gates of what they make, and then none; gates of
 * their product, which is no sum of that kernel; other gates of the same. */
enum again { ONCE, OF_PRODUCT, OF_SAME };

/* Small, and written before sums are read that are still wanted, in whose place it would fit. */
static int add_beside(struct convoy_graph *graph, int x, int64_t channels)
{
    struct convoy_pool plane = {
        .kind = CONVOY_POOL_MAX, .window = {12, 12}, .stride = {1, 1}, .dilation = {1, 1}};
    int y = add_pool(graph, x, plane, false);
    for (int i = 0; i < 3; i++)
        y = add_conv(graph, y, channels, 1, 1, CONV1, true);
    return y;
}

static struct convoy_graph *inverted_network(enum form form, enum again again)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 12, 12));
    struct convoy_conv depthwise = CONV3;
    depthwise.groups = 72;
    int x = add_act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    int wide = add_act(graph, add_conv(graph, x, 72, 1, 1, CONV1, true), CONVOY_RELU, 0, 0);
    wide = add_act(graph, add_conv(graph, wide, 72, 3, 3, depthwise, true), CONVOY_RELU, 0, 0);
    int beside = add_beside(graph, x, 24);
    int y = add_binary(graph, wide, squeeze(graph, &wide, 72, form), CONVOY_MUL);
    if (again == OF_PRODUCT)
        y = add_binary(graph, y, squeeze(graph, &y, 72, PLAIN), CONVOY_MUL);
    if (again == OF_SAME) {
        beside = add_binary(graph, beside, add_beside(graph, y, 24), CONVOY_ADD);
        int other = add_binary(graph, wide, squeeze(graph, &wide, 72, form), CONVOY_MUL);
        y = add_binary(graph, y, other, CONVOY_ADD);
    }
    y = add_act(graph, add_conv(graph, add_conv(graph, y, 16, 1, 1, CONV1, true), 24, 3, 3, CONV3, true),
                CONVOY_RELU, 0, 0);
    y = add_binary(graph, y, beside, CONVOY_ADD);
    add_output(graph, add_conv(graph, y, 5, 1, 1, CONV1, true));
    return graph;
}

/* inside: how many layers the kernel of the inverted residual also computes. */
static void visit_inverted(enum form form, enum again again, int inside)
{
    struct convoy_net_info info;
    random_state = 1;
    setenv("CONVOY_BOTTLENECK", "nhwc_inverted", 1);
    check_untuned(inverted_network(form, again), &info);
    cr_expect_eq(count_layers(&info, "nhwc_inverted", false), 1, "form %d", (int)form);
    cr_expect_eq(count_layers(&info, "nhwc_inverted", true), inside, "form %d", (int)form);
}

Test(cuda_excite, means_of_sums)
{
    visit_inverted(PLAIN, ONCE, 2); /* the first layer and the mean */
    visit_inverted(PLAIN, OF_PRODUCT, 2);
    visit_inverted(PLAIN, OF_SAME, 3);
    visit_inverted(LARGEST, ONCE, 1);
    visit_inverted(SMALLER, ONCE, 1);
    visit_inverted(ONE_LAYER, ONCE, 1);
    setenv("CONVOY_EXCITE", "layers", 1);
    visit_inverted(PLAIN, ONCE, 1);
}

/* Sums of an inverted residual stay until the convolution that makes gates of them has read them. */
Test(cuda_excite, gates_of_sums_in_the_convolution)
{
    unsetenv("CONVOY_GATES");
    setenv("CONVOY_BOTTLENECK", "nhwc_inverted", 1);
    static const int inside[] = {[ONCE] = 3, [OF_PRODUCT] = 4, [OF_SAME] = 0};
    for (enum again again = ONCE; again <= OF_SAME; again++) {
        struct convoy_net_info info;
        random_state = 1;
        check_untuned(inverted_network(PLAIN, again), &info);
        cr_expect_eq(count_layers(&info, EXCITED, false), inside[again] > 0 ? 1 : 0, "%d", (int)again);
        cr_expect_eq(count_layers(&info, EXCITED, true), inside[again], "%d", (int)again);
    }
}

/* Batches of more than four rows leave gates to a launch of their own. */
Test(cuda_excite, many_rows_make_gates_apart)
{
    unsetenv("CONVOY_GATES");
    for (uint32_t rows = 4; rows <= 5; rows++) {
        struct convoy_net_info info; /* of the largest batch */
        struct convoy_graph *graph = network(PLAIN);
        open_tuning(CONVOY_TUNING_OFF, NULL);
        struct convoy_net *net = load_as(graph, rows, CONVOY_COMPUTE_FP16, &info);
        cr_expect_eq(count_layers(&info, EXCITED, false), rows == 4 ? 1 : 0, "of %u rows", rows);
        unload_all(net, graph);
        close_backend();
    }
}

/* How many gates are made in one launch where so many images are loaded. */
static int gates_of(uint32_t images, int64_t channels, int64_t squeezed)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 2, 2));
    struct convoy_net_info info;
    const struct convoy_pool plane = {
        .kind = CONVOY_POOL_AVERAGE, .window = {2, 2}, .stride = {1, 1}, .dilation = {1, 1}};
    int wide = add_conv(graph, graph->input, channels, 1, 1, CONV1, true);
    int y = add_conv(graph, add_pool(graph, wide, plane, false), squeezed, 1, 1, CONV1, true);
    y = add_act(graph, add_conv(graph, y, channels, 1, 1, CONV1, true), CONVOY_SIGMOID, 0, 0);
    add_output(graph, add_conv(graph, add_binary(graph, wide, y, CONVOY_MUL), 5, 1, 1, CONV1, true));
    open_tuning(CONVOY_TUNING_OFF, NULL);
    struct convoy_net *net = load_as(graph, images, CONVOY_COMPUTE_FP16, &info);
    int count = count_layers(&info, GATES, false);
    unload_all(net, graph);
    close_backend();
    return count;
}

/* Three launches take less than one that reads many weights for each of many images. */
Test(cuda_excite, many_images_of_many_weights)
{
    cr_expect_eq(gates_of(256, 672, 168), 1);
    cr_expect_eq(gates_of(256, 960, 240), 0);
    cr_expect_eq(gates_of(128, 960, 240), 1);
}

/* Gates of which an inverted residual makes its own use: their second layer is its first. */
Test(cuda_excite, layers_of_an_inverted_residual)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 12, 12));
    struct convoy_conv depthwise = CONV3;
    struct convoy_net_info info;
    depthwise.groups = 72;
    int x = add_act(graph, add_conv(graph, graph->input, 72, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    int y = squeeze(graph, &x, 72, PLAIN);
    graph->nodes[graph->node_count - 1].activation.kind = CONVOY_RELU; /* which that kernel takes */
    y = add_act(graph, add_conv(graph, y, 72, 3, 3, depthwise, true), CONVOY_RELU, 0, 0);
    add_output(graph, add_conv(graph, y, 24, 1, 1, CONV1, true));
    setenv("CONVOY_BOTTLENECK", "nhwc_inverted", 1);
    check_untuned(graph, &info);
    cr_expect_eq(count_layers(&info, "nhwc_inverted", false), 1);
    cr_expect_eq(count_layers(&info, GATES, false), 0);
}

/* The product is more than fp16 holds. The convolution would make minus infinity of it, and its ReLU 0: the
 * row is told of, and runs again in float32. */
static void check_large_product(const char *kernel)
{
    random_state = 1;
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 12, 12));
    struct convoy_net_info info;
    int x = add_act(graph, add_conv(graph, graph->input, 72, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    fill(graph, graph->nodes[0].inputs[2], 300);
    int gates = squeeze(graph, &x, 72, PLAIN);
    graph->nodes[graph->node_count - 1].activation.kind = CONVOY_RELU;
    fill(graph, graph->nodes[graph->node_count - 2].inputs[2], 400);
    int y = add_conv(graph, add_binary(graph, x, gates, CONVOY_MUL), 24, 1, 1, CONV1, true);
    const struct convoy_node *conv = &graph->nodes[graph->node_count - 1];
    fill(graph, conv->inputs[1], -1e-4F);
    fill(graph, conv->inputs[2], 1000);
    add_output(graph, add_act(graph, y, CONVOY_RELU, 0, 0));
    check_untuned(graph, &info);
    cr_expect_eq(count_layers(&info, kernel, false), 1, "%s", kernel);
}

Test(cuda_excite, products_that_fp16_does_not_hold)
{
    check_large_product(GATED);
    unsetenv("CONVOY_GATES");
    check_large_product(EXCITED);
}
