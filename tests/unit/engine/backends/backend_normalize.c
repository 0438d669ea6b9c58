/* Normalisation of rows of channels in front of a product: in fp16 the kernel of the product normalises, if
 * it alone reads the result, whatever the order of the rows is. */
#include "tests/unit/engine/backends/backend_rows.h"

TestSuite(backend_normalize, .init = open_rows, .fini = close_backend, .timeout = 300);

enum form {
    PLAIN,
    RMS,
    NO_SCALE,
    NO_SHIFT,
    OFFSET,        /* means above the deviation */
    SMALL,         /* scales that fp16 holds with few bits, times weights; nothing larger is added */
    WINDOWS,       /* the product reads the rows window by window */
    RESHAPED,      /* through views */
    SUMMED,        /* with its input, behind the product */
    ACTIVATED,     /* GELU behind the product */
    IMAGE,         /* the product is a convolution of 1 x 1 */
    WIDE,          /* many channels and rows */
    TWICE,         /* two of them, behind whose scales the products have the same weights */
    READ_TWICE,    /* from here on it is a step of its own: two products read it */
    ADDED,         /* it is added to the product */
    IS_OUTPUT,     /* of the network */
    FIRST,         /* the network's first layer makes what is normalised, from the images */
    JOINED,        /* what is normalised is a concatenation, made in its place */
    MOVED_IMAGE,   /* a convolution reads the rows window by window: they are copied for it */
    REPEATED,      /* a product reads the rows twice, which are copied for it */
    ODD,           /* channels that are no whole cells */
    ACTIVATED_ROW, /* what is normalised has an activation behind it */
    FORMS
};

static int add_normalization(struct convoy_graph *graph, int x, enum form form)
{
    int y = add_normalize(graph, x, form == RMS);
    struct convoy_node *node = &graph->nodes[graph->node_count - 1];
    int64_t channels = shape_of(graph, x)->dims[shape_of(graph, x)->rank - 1];
    if (form == NO_SCALE) {
        node->normalize.has_scale = false;
        node->inputs[1] = node->inputs[2];
        node->input_count = 2;
    }
    if (form == NO_SHIFT) {
        node->normalize.has_shift = false;
        node->input_count = 2;
    }
    for (int64_t i = 0; i < channels && form == SMALL; i++) {
        graph->tensors[node->inputs[1]].data[i] *= 1e-5F;
        graph->tensors[node->inputs[2]].data[i] *= 1e-5F;
    }
    return y;
}

/* What is normalised: rows of an image's pixels, which a convolution makes. */
static int add_pixels(struct convoy_graph *graph, enum form form)
{
    int64_t channels = form == ODD ? 44 : form == WIDE ? 264 : form == FIRST ? 64 : 72;
    int x = add_conv(graph, graph->input, channels, 3, 3, CONV3, true);
    if (form == JOINED) {
        int both[] = {x, add_conv(graph, graph->input, channels, 3, 3, CONV3, true)};
        return add_transpose(graph, add_concat(graph, 2, both, 1), (const int[]){0, 2, 3, 1});
    }
    const struct convoy_node *conv = &graph->nodes[graph->node_count - 1];
    for (int64_t i = 0; i < channels && form == OFFSET; i++)
        graph->tensors[conv->inputs[2]].data[i] += 5;
    return add_transpose(graph, x, (const int[]){0, 2, 3, 1});
}

static int add_product(struct convoy_graph *graph, int x, enum form form)
{
    if (form == MOVED_IMAGE)
        x = add_reshape(graph, add_windows(graph, x, 3), SHAPE(1, 6, 6, 72));
    if (form == IMAGE || form == MOVED_IMAGE) {
        x = add_transpose(graph, x, (const int[]){0, 3, 1, 2});
        x = add_conv(graph, x, 40, 1, 1, CONV1, true);
        return add_transpose(graph, x, (const int[]){0, 2, 3, 1});
    }
    if (form == SMALL)
        return add_dense(graph, add_reshape(graph, x, SHAPE(36, 72)), 40, false);
    if (form == WINDOWS)
        x = add_windows(graph, x, 3);
    int64_t channels = shape_of(graph, x)->dims[shape_of(graph, x)->rank - 1];
    int y = add_rows_dense(graph, x, form == SUMMED || form == ADDED ? channels : form == WIDE ? 328 : 40);
    return form == WINDOWS ? add_image(graph, y, 3, 6, 6) : y;
}

static struct convoy_graph *network(enum form form)
{
    int64_t side = form == WIDE ? 13 : 6;
    struct convoy_graph *graph = new_graph(SHAPE(1, form == FIRST ? 3 : 16, side, side));
    int x = add_pixels(graph, form);
    if (form == ACTIVATED_ROW)
        x = add_act(graph, x, CONVOY_RELU, 0, 0);
    int normalized = add_normalization(graph, x, form), y = normalized;
    if (form == ACTIVATED_ROW)
        y = add_act(graph, y, CONVOY_RELU, 0, 0);
    if (form == REPEATED)
        y = add_concat(graph, 2, (const int[]){y, y}, 1);
    if (form == RESHAPED)
        y = add_reshape(graph, add_reshape(graph, y, SHAPE(1, 36, 72)), SHAPE(1, 4, 9, 72));
    y = add_product(graph, y, form);
    if (form == TWICE) { /* behind each the dense layer comes before a reshape */
        const struct convoy_node *first = &graph->nodes[graph->node_count - 2];
        const int constants[] = {first->inputs[1], first->inputs[2]};
        int other = add_product(graph, add_normalization(graph, x, form), form);
        memcpy(&graph->nodes[graph->node_count - 2].inputs[1], constants, sizeof(constants));
        y = add_binary(graph, y, other, CONVOY_ADD);
    }
    if (form == READ_TWICE)
        add_output(graph, add_classifier(graph, add_product(graph, normalized, form)));
    if (form == IS_OUTPUT)
        add_output(graph, normalized);
    if (form == SUMMED || form == ADDED)
        y = add_binary(graph, y, form == SUMMED ? x : normalized, CONVOY_ADD);
    if (form == ACTIVATED)
        y = add_act(graph, y, CONVOY_GELU, 0, 0);
    add_output(graph, form == SMALL ? y : add_classifier(graph, y));
    return graph;
}

/* Checks how many layers are kernels that normalise for their product, and how many normalise by themselves,
 * in batches of so many rows, if there are kernels for 16 bits here. */
static void check_layers_of(const struct convoy_graph *graph, uint32_t rows, int inside, int apart,
                            enum form form)
{
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, rows, CONVOY_COMPUTE_FP16, &info);
    int nhwc = 0, found[2] = {0};
    for (uint32_t i = 0; i < info.layer_count; i++) {
        nhwc += strncmp(info.layers[i].kernel, "nhwc", 4) == 0;
        found[0] += strncmp(info.layers[i].kernel, "nhwc_normalized", 15) == 0;
        found[1] += strcmp(info.layers[i].kernel, "nhwc_normalize") == 0;
    }
    backend->unload(device, net);
    cr_expect(nhwc == 0 || (found[0] == inside && found[1] == apart),
              "form %d, %u rows: %d and %d, not %d and %d", (int)form, rows, found[0], found[1], inside,
              apart);
}

/* The same, and the answers. */
static void visit(enum form form, int inside)
{
    struct convoy_graph *graph = network(form);
    check_layers_of(graph, 2, inside, inside > 0 ? 0 : 1, form);
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
    cr_expect_eq(overflows, 0, "form %d", (int)form);
}

Test(backend_normalize, the_product_normalizes)
{
    for (enum form form = PLAIN; form < READ_TWICE; form++)
        visit(form, form == TWICE ? 2 : 1);
}

Test(backend_normalize, a_step_of_its_own)
{
    for (enum form form = READ_TWICE; form < FORMS; form++)
        visit(form, 0);
    setenv("CONVOY_NORMALIZE", "layers", 1);
    visit(PLAIN, 0);
}

Test(backend_normalize, many_rows_have_a_step_of_their_own)
{
    struct convoy_graph *graph = network(PLAIN);
    check_layers_of(graph, 4, 1, 0, PLAIN);
    check_layers_of(graph, 5, 0, 1, PLAIN); /* of the largest batch */
    convoy_graph_free(graph);
}
