/* Elementwise functions and normalisations, against the reference in double precision. */
#include "tests/unit/engine/backends/backend_harness.h"

#define TOLERANCE 1e-5

TestSuite(backend_functions, .init = open_backend, .fini = close_backend, .timeout = 300);

/* Functions with steps, or of positive numbers alone, are not asked about what a convolution leaves near a
 * step or near 0. */
Test(backend_functions, functions)
{
    static const struct {
        enum convoy_activation_kind kind;
        float alpha;
        bool of_positive, has_steps;
    } kinds[] = {{CONVOY_EXP, 0, false, false},           {CONVOY_LOG, 0, true, false},
                 {CONVOY_SQRT, 0, true, false},           {CONVOY_ABS, 0, false, false},
                 {CONVOY_ERF, 0, false, false},           {CONVOY_GELU, 0, false, false},
                 {CONVOY_GELU_TANH, 0, false, false},     {CONVOY_ELU, 0.7f, false, false},
                 {CONVOY_SOFTPLUS, 0, false, false},      {CONVOY_MISH, 0, false, false},
                 {CONVOY_ROUND, 0, false, true},          {CONVOY_FLOOR, 0, false, true},
                 {CONVOY_CEIL, 0, false, true},           {CONVOY_SIGN, 0, false, true},
                 {CONVOY_POW, -0.75f, true, false},       {CONVOY_POW, 3, false, false},
                 {CONVOY_THRESHOLDED, 0.3f, false, true}, {CONVOY_SIN, 0, false, false},
                 {CONVOY_COS, 0, false, false},           {CONVOY_ATAN, 0, false, false}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        for (int conv = 0; conv < (kinds[i].has_steps ? 1 : 2); conv++) {
            struct convoy_graph *graph = new_graph(SHAPE(1, 3, 5, 7));
            int four = add_constant(graph, FIXED(1), 1);
            graph->tensors[four].data[0] = 4;
            int x = conv ? add_conv(graph, graph->input, 18, 3, 3, CONV3, true)
                         : add_binary(graph, graph->input, four, CONVOY_MUL);
            if (kinds[i].of_positive)
                x = add_act(graph, x, CONVOY_CLIP, 0.25f, 9);
            int y = add_act(graph, x, kinds[i].kind, kinds[i].alpha, 0);
            add_output(graph, y);
            add_output(graph, add_act(graph, y, CONVOY_RELU, 0, 0)); /* something behind it */
            check_graph(graph, TOLERANCE);
        }
    /* Far from 0, where exponentials overflow and differences vanish; halves, which round to even. */
    static const enum convoy_activation_kind far[] = {CONVOY_GELU,     CONVOY_GELU_TANH, CONVOY_ELU,
                                                      CONVOY_SOFTPLUS, CONVOY_MISH,      CONVOY_ERF};
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 3, 5, 7));
        int much = add_constant(graph, FIXED(1), 1);
        graph->tensors[much].data[0] = 80;
        add_output(graph, add_act(graph, add_binary(graph, graph->input, much, CONVOY_MUL), far[i], 1.5f, 0));
        check_graph(graph, TOLERANCE);
    }
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 5, 7));
    int zero = add_constant(graph, FIXED(1), 1);
    graph->tensors[zero].data[0] = 0;
    int halves = add_constant(graph, FIXED(3, 5, 7), 1);
    for (int i = 0; i < 105; i++)
        graph->tensors[halves].data[i] = 0.5f * (float)(i - 50);
    int x = add_binary(graph, add_binary(graph, graph->input, zero, CONVOY_MUL), halves, CONVOY_ADD);
    add_output(graph, add_act(graph, x, CONVOY_ROUND, 0, 0));
    add_output(graph, add_act(graph, x, CONVOY_FLOOR, 0, 0));
    add_output(graph, add_act(graph, x, CONVOY_SIGN, 0, 0));
    check_graph(graph, 0);
}

static void check_normalize(struct convoy_shape shape, struct convoy_normalize normalize)
{
    struct convoy_graph *graph = new_graph(shape);
    int inputs[3] = {graph->input}, count = 1;
    struct convoy_shape middle = {.rank = 0, .batch_axis = -1};
    for (int axis = normalize.axis; axis < normalize.axis_end; axis++)
        middle.dims[middle.rank++] = shape.dims[axis];
    if (normalize.has_scale)
        inputs[count++] = add_constant(graph, middle, 2);
    if (normalize.has_shift)
        inputs[count++] = add_constant(graph, middle, 1);
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_NORMALIZE, y, count, inputs)->normalize = normalize;
    add_output(graph, add_act(graph, y, CONVOY_LEAKY_RELU, 0.1f, 0));
    check_graph(graph, TOLERANCE);
}

Test(backend_functions, normalisations)
{
    for (int form = 0; form < 8; form++) {
        struct convoy_normalize normalize = {.epsilon = 1e-5f,
                                             .rms = form / 4 == 1,
                                             .has_scale = form % 2 == 1,
                                             .has_shift = form / 2 % 2 == 1};
        normalize.axis = 2;
        normalize.axis_end = 3;
        check_normalize(SHAPE(1, 5, 37), normalize);  /* rows */
        check_normalize(SHAPE(1, 3, 600), normalize); /* longer than what is added up in one go */
        check_normalize(SHAPE(1, 2, 1500), normalize);
        normalize.axis = 1;
        check_normalize(SHAPE(1, 4, 9), normalize); /* two axes taken together */
        normalize.axis_end = 2;
        check_normalize(SHAPE(1, 20, 6, 5), normalize); /* channels of images */
        normalize.epsilon = 0.5f;
        check_normalize(SHAPE(1, 24), normalize);
    }
}

/* What is not kept may be infinite or no number. */
Test(backend_functions, keeping_where_a_condition_holds)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 4, 6));
    int zero = add_constant(graph, FIXED(1), 1);
    graph->tensors[zero].data[0] = 0;
    int positive = add_binary(graph, zero, graph->input, CONVOY_LESS);
    int root = add_act(graph, graph->input, CONVOY_SQRT, 0, 0); /* of negative numbers it is none */
    int mask = add_constant(graph, FIXED(6), 1);
    for (int i = 0; i < 6; i++)
        graph->tensors[mask].data[i] = (float)(i % 2);
    int kept = add_binary(graph, root, positive, CONVOY_KEEP);
    add_output(graph, kept);
    add_output(graph, add_binary(graph, kept, mask, CONVOY_KEEP));
    check_graph(graph, TOLERANCE);
}

/* Of whole numbers, so that many are equal, and of numbers that are not. Places are compared exactly. */
static void check_top(struct convoy_shape shape, int axis, int64_t count)
{
    for (int form = 0; form < 8; form++) {
        struct convoy_graph *graph = new_graph(shape);
        struct convoy_top top = {
            .axis = axis, .smallest = form % 2 == 1, .last = form / 2 % 2 == 1, .places = form / 4 == 1};
        int few = add_constant(graph, FIXED(1), 1);
        graph->tensors[few].data[0] = 4;
        int whole = add_act(graph, add_binary(graph, graph->input, few, CONVOY_MUL), CONVOY_ROUND, 0, 0);
        add_output(graph, add_top(graph, whole, count, top));
        add_output(graph, add_top(graph, graph->input, count, top));
        add_output(graph, add_act(graph, add_top(graph, whole, 1, top), CONVOY_LEAKY_RELU, 0.5f, 0));
        check_graph(graph, 0);
    }
}

Test(backend_functions, first_numbers_and_their_places)
{
    check_top(SHAPE(1, 10), 1, 1);
    check_top(SHAPE(1, 1000), 1, 5);
    check_top(SHAPE(1, 3, 7), 2, 7); /* all: sorted */
    check_top(SHAPE(1, 5, 3, 4), 1, 2);
    check_top(SHAPE(1, 2, 70, 3), 2, 40);
    check_top(SHAPE(1, 4, 1), 2, 1);
}

/* The images are not one after the other. */
Test(backend_functions, first_numbers_where_the_batch_is_in_the_middle)
{
    for (int axis = 0; axis < 3; axis += 2) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 6, 5));
        int x = add_activation(graph, (struct convoy_shape){.rank = 3, .batch_axis = 1, .dims = {6, 1, 5}});
        struct convoy_node *node = add_node(graph, CONVOY_OP_TRANSPOSE, x, 1, &graph->input);
        memcpy(node->perm, (const int[]){1, 0, 2}, 3 * sizeof(int));
        add_output(graph, add_top(graph, x, 3, (struct convoy_top){.axis = axis, .places = true}));
        check_graph(graph, 0);
    }
}
