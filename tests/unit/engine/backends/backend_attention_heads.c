/* Attention whose queries and keys are normalised, each row of a head by itself, and whose heads come before
 * windows. */
#include "tests/unit/engine/backends/backend_rows.h"

TestSuite(backend_attention_heads, .init = open_rows, .fini = close_backend, .timeout = 300);

enum normalized {
    LAYER_NORM, /* of queries and keys, with scales and shifts of their own, as timm's qk_norm has it */
    RMS_NORM,
    QUERIES_ALONE,
    WITH_ROWS_BETWEEN, /* keys are turned behind a reshape, as PyTorch's new exporter turns them */
    LENGTHS,           /* rows of the same length, but for what keeps zeros apart */
    WITHOUT_NUMBERS,   /* layer normalisation without scale and shift */
    BOTH,              /* so the keys; the queries' rows get the same length */
    SHIFTED,           /* rows of the same length, moved then */
    APART,             /* queries and keys have layers of their own */
    BY_TURNS,          /* each head has its queries, keys and values side by side */
    SCALED_BEFORE,     /* what is normalised is multiplied first */
    TWICE,
    BUT_THE_FIRST, /* row */
    OVER_ROWS      /* together with the channels */
};

static int add_normalized(struct convoy_graph *graph, int x, enum normalized how, bool queries)
{
    int64_t rows = shape_of(graph, x)->dims[2];
    int scale = add_constant(graph, FIXED(1), 0), first = x;
    graph->tensors[scale].data[0] = 0.1F;
    if (how == SCALED_BEFORE)
        x = add_binary(graph, x, scale, CONVOY_MUL);
    if (how == TWICE)
        x = add_normalize(graph, x, true);
    if (how == BUT_THE_FIRST)
        x = add_slice(graph, x, 2, 1, rows - 1);
    x = add_normalize(graph, x,
                      how == RMS_NORM || how == LENGTHS || how == SHIFTED || (how == BOTH && queries));
    struct convoy_normalize *normalize = &graph->nodes[graph->node_count - 1].normalize;
    if (how == LENGTHS)
        normalize->epsilon = queries ? 0.5F : 1e-3F;
    if (how == OVER_ROWS)
        normalize->axis = 2;
    if ((how >= LENGTHS && how <= SHIFTED) || how == OVER_ROWS) {
        graph->nodes[graph->node_count - 1].input_count = how == SHIFTED ? 2 : 1;
        normalize->has_scale = false;
        normalize->has_shift = how == SHIFTED;
    }
    if (how == BUT_THE_FIRST)
        x = add_concat(graph, 2, (const int[]){add_slice(graph, first, 2, 0, 1), x}, 2);
    return x;
}

/* What comes behind the result of heads, [1, heads, T, D], in a block whose rows are x; returns the network's
 * output. */
static int add_rest(struct convoy_graph *graph, int x, int heads)
{
    const struct convoy_shape rows = *shape_of(graph, x);
    int y = add_reshape(graph, add_transpose(graph, heads, (const int[]){0, 2, 1, 3}), rows);
    y = add_binary(graph, x, add_rows_dense(graph, y, rows.dims[2]), CONVOY_ADD);
    return add_classifier(graph, add_normalize(graph, y, false));
}

static struct convoy_graph *normalized_heads(int64_t heads, int64_t D, enum normalized how)
{
    struct convoy_conv patches = {.groups = 1, .stride = {5, 5}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 15, 15));
    int64_t T = 9, C = heads * D;
    const int by_heads[] = {0, 2, 1, 3};
    int x = add_conv(graph, graph->input, C, 5, 5, patches, true), part[3];
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, C, T)), (const int[]){0, 2, 1});
    int packed = how == APART ? -1 : add_rows_dense(graph, x, 3 * C);
    for (int i = 0; i < 3; i++) {
        int y = how == APART      ? add_rows_dense(graph, x, C)
                : how == BY_TURNS ? add_reshape(graph, packed, SHAPE(1, T, heads, 3 * D))
                                  : add_slice(graph, packed, 2, i * C, C);
        y = how == BY_TURNS ? add_slice(graph, y, 3, i * D, D) : add_reshape(graph, y, SHAPE(1, T, heads, D));
        part[i] = add_transpose(graph, y, by_heads);
        if (i < 1 || (i < 2 && how != QUERIES_ALONE))
            part[i] = add_normalized(graph, part[i], how, i == 0);
    }
    if (how == WITH_ROWS_BETWEEN)
        part[1] = add_reshape(graph, part[1], SHAPE(heads, T, D));
    part[1] = how == WITH_ROWS_BETWEEN ? add_transpose(graph, part[1], (const int[]){0, 2, 1})
                                       : add_transpose(graph, part[1], (const int[]){0, 1, 3, 2});
    part[1] = add_reshape(graph, part[1], SHAPE(1, heads, D, T));
    int scale = add_constant(graph, FIXED(1), 0), s = add_activation(graph, SHAPE(1, heads, T, T));
    graph->tensors[scale].data[0] = 0.3F;
    part[1] = add_binary(graph, part[1], scale, CONVOY_MUL);
    add_node(graph, CONVOY_OP_MATMUL, s, 2, part);
    int y = add_activation(graph, SHAPE(1, heads, T, D));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){add_softmax(graph, s, 3, 4), part[2]});
    add_output(graph, add_rest(graph, x, y));
    return graph;
}

Test(backend_attention_heads, that_are_normalised)
{
    for (enum normalized how = LAYER_NORM; how <= APART; how++)
        check_kernels(normalized_heads(3, 16, how), 1, 0, 0, 0);
    check_kernels(normalized_heads(1, 24, LAYER_NORM), 1, 0, 0, 2); /* one head is a tensor of rows */
    for (enum normalized how = BY_TURNS; how <= OVER_ROWS; how++)
        check_layers(normalized_heads(3, 16, how), 0, -1);
}

enum added { NOTHING, BIAS, FACTORS, FACTORS_OF_WINDOWS };

/* Hiera's: all windows of a head, then those of the next one. */
static struct convoy_graph *heads_of_windows(int64_t heads, int64_t windows, enum added added)
{
    struct convoy_conv patches = {.groups = 1, .stride = {3, 3}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 12, 12));
    int64_t D = 16, C = heads * D, T = 16 / windows;
    const struct convoy_shape rows = SHAPE(1, 16, C);
    int x = add_conv(graph, graph->input, C, 3, 3, patches, true), part[3];
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, C, 16)), (const int[]){0, 2, 1});
    int y = add_reshape(graph, add_rows_dense(graph, x, 3 * C), SHAPE(1, windows, T, 3, heads, D));
    y = add_transpose(graph, y, (const int[]){3, 0, 4, 1, 2, 5});
    for (int i = 0; i < 3; i++)
        part[i] = add_reshape(graph, add_slice(graph, y, 0, i, 1), SHAPE(1, heads, windows, T, D));
    part[1] = add_transpose(graph, part[1], (const int[]){0, 1, 2, 4, 3});
    int s = add_activation(graph, SHAPE(1, heads, windows, T, T));
    add_node(graph, CONVOY_OP_MATMUL, s, 2, part);
    if (added == BIAS)
        s = add_binary(graph, s, add_constant(graph, FIXED(1, heads, windows, T, T), 2), CONVOY_ADD);
    if (added == FACTORS)
        s = add_binary(graph, s, add_constant(graph, FIXED(1, heads, 1, 1, 1), 1), CONVOY_MUL);
    if (added == FACTORS_OF_WINDOWS)
        s = add_binary(graph, s, add_constant(graph, FIXED(1, 1, windows, 1, 1), 1), CONVOY_MUL);
    y = add_activation(graph, SHAPE(1, heads, windows, T, D));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){add_softmax(graph, s, 4, 5), part[2]});
    y = add_reshape(graph, add_transpose(graph, y, (const int[]){0, 2, 3, 1, 4}), rows);
    y = add_binary(graph, x, add_rows_dense(graph, y, C), CONVOY_ADD);
    add_output(graph, add_classifier(graph, add_normalize(graph, y, false)));
    return graph;
}

Test(backend_attention_heads, before_windows)
{
    check_kernels(heads_of_windows(3, 4, NOTHING), 1, 0, 0, 0);
    check_kernels(heads_of_windows(2, 2, NOTHING), 1, 0, 0, 0);
    check_kernels(heads_of_windows(1, 4, BIAS), 1, 0, 0, 0);
    check_kernels(heads_of_windows(2, 1, FACTORS), 1, 0, 0, 0);
    check_layers(heads_of_windows(3, 4, BIAS), 0, -1);
    check_layers(heads_of_windows(3, 4, FACTORS), 0, -1);
    check_layers(heads_of_windows(2, 2, FACTORS_OF_WINDOWS), 0, -1);
}

/* Without factors and shift. */
static int add_plain_normalize(struct convoy_graph *graph, int x)
{
    int y = add_normalize(graph, x, false);
    struct convoy_node *node = &graph->nodes[graph->node_count - 1];
    node->input_count = 1;
    node->normalize.has_scale = node->normalize.has_shift = false;
    return y;
}

/* What is no row of a head: rows of two heads, or of a channel, are normalised; the product with values takes
 * halves of the rows for matrices. */
enum odd { WIDE, TURNED, HALVED_ROWS };
static struct convoy_graph *odd_heads(enum odd how)
{
    struct convoy_conv patches = {.groups = 1, .stride = {3, 3}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 6, 12));
    int64_t heads = how == HALVED_ROWS ? 2 : 4, D = 16, T = 8, C = heads * D;
    const int by_heads[] = {0, 2, 1, 3};
    int x = add_conv(graph, graph->input, C, 3, 3, patches, true), part[3];
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, C, T)), (const int[]){0, 2, 1});
    int packed = add_rows_dense(graph, x, 3 * C);
    for (int i = 0; i < 3; i++) {
        int y = add_slice(graph, packed, 2, i * C, C);
        if (i < 2 && how == WIDE) {
            y = add_reshape(graph, y, SHAPE(1, T, heads / 2, 2 * D));
            y = add_plain_normalize(graph, y);
        }
        y = add_reshape(graph, y, SHAPE(1, T, heads, D));
        if (i < 2 && how == TURNED) {
            y = add_transpose(graph, y, (const int[]){0, 2, 3, 1});
            y = add_plain_normalize(graph, y);
            part[i] = add_transpose(graph, y, (const int[]){0, 1, 3, 2});
        } else
            part[i] = add_transpose(graph, y, by_heads);
    }
    part[1] = add_transpose(graph, part[1], (const int[]){0, 1, 3, 2});
    int s = add_activation(graph, SHAPE(1, heads, T, T)), y;
    add_node(graph, CONVOY_OP_MATMUL, s, 2, part);
    s = add_softmax(graph, s, 3, 4);
    if (how == HALVED_ROWS) {
        s = add_reshape(graph, s, SHAPE(1, 2, 2, 4, 8));
        part[2] = add_reshape(graph, part[2], SHAPE(1, 1, 2, 8, D));
        y = add_activation(graph, SHAPE(1, 2, 2, 4, D));
        add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){s, part[2]});
        y = add_reshape(graph, y, SHAPE(1, 2, 8, D));
    } else {
        y = add_activation(graph, SHAPE(1, heads, T, D));
        add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){s, part[2]});
    }
    add_output(graph, add_rest(graph, x, y));
    return graph;
}

Test(backend_attention_heads, of_other_rows)
{
    for (enum odd how = WIDE; how <= HALVED_ROWS; how++)
        check_layers(odd_heads(how), 0, -1);
}
