/* Division by the Euclidean length becomes one NORMALIZE, and what only looks like it stays. */
#include "tests/unit/engine/graph/graph_by_hand.h"

#include "engine/graph/fold.h"

/* What is written, and how it differs from x / max(sqrt(n mean(x x)), least). */
struct written {
    int axis;        /* of [1,3,4,5] */
    float least;     /* below 0: no maximum */
    float most;      /* of the length */
    float count;     /* 0: n */
    float ones;      /* of what repeats the length; 0: nothing does */
    bool other;      /* the squares are of another tensor */
    bool behind;     /* the factor is behind the root */
    bool reciprocal; /* x (1 / length) */
    bool swap;       /* constants on the left */
};

static int either(struct convoy_graph *graph, enum convoy_binary_kind kind, int x, int c, bool swap)
{
    return swap ? binary(graph, kind, c, x) : binary(graph, kind, x, c);
}

static struct convoy_graph *build(const struct written *w)
{
    static const int64_t dims[] = {1, 3, 4, 5};
    struct convoy_graph *graph = start(4, dims);
    int some = constant(graph, 4, dims); /* some rows are zeros, along any axis */
    for (int i = 0; i < 60; i++)
        graph->tensors[some].data[i] = i / 20 == 1 || i / 5 % 4 == 2 || i % 5 == 3 ? 0 : 1;
    int x = function(graph, CONVOY_TANH, binary(graph, CONVOY_MUL, graph->input, some));
    int square = w->other ? function(graph, CONVOY_ABS, graph->input) : x;
    int length = mean(graph, binary(graph, CONVOY_MUL, square, square), w->axis, w->axis + 1);
    float count = w->count > 0 ? w->count : (float)dims[w->axis];
    if (!w->behind)
        length = either(graph, CONVOY_MUL, length, number(graph, count), w->swap);
    length = function(graph, CONVOY_SQRT, length);
    if (w->behind)
        length = either(graph, CONVOY_MUL, length, number(graph, count), w->swap);
    if (w->least >= 0) {
        int y = like(graph, length);
        node(graph, CONVOY_OP_ACTIVATION, length, -1, -1, y)->activation =
            (struct convoy_activation){CONVOY_CLIP, w->least, w->most};
        length = y;
    }
    if (w->ones > 0) {
        struct convoy_shape ones = shape_of(-1, DIMS(1, 1, 1, 1)), whole = graph->tensors[x].shape;
        ones.dims[w->axis] = dims[w->axis];
        int c = constant(graph, 4, ones.dims), y = convoy_graph_add_tensor(graph, "t", &whole, NULL);
        for (int64_t i = 0; i < dims[w->axis]; i++)
            graph->tensors[c].data[i] = w->ones;
        node(graph, CONVOY_OP_BINARY, w->swap ? c : length, w->swap ? length : c, -1, y)->binary = CONVOY_MUL;
        length = y;
    }
    int y = like(graph, x);
    int divisor = w->reciprocal ? binary(graph, CONVOY_DIV, number(graph, 1), length) : length;
    node(graph, CONVOY_OP_BINARY, x, divisor, -1, y)->binary = w->reciprocal ? CONVOY_MUL : CONVOY_DIV;
    finish(graph, y);
    return graph;
}

static const struct written plain = {.axis = 3, .least = 1e-12F, .most = INFINITY, .ones = 1};

static void becomes_one(const struct written *w)
{
    struct convoy_graph *graph = build(w);
    const struct convoy_node *end = &graph->nodes[graph->node_count - 1];
    cr_assert(graph->node_count == 3 && end->op == CONVOY_OP_NORMALIZE, "%d nodes", graph->node_count);
    const struct convoy_tensor *scale = &graph->tensors[end->inputs[1]];
    int64_t n = graph->tensors[graph->input].shape.dims[w->axis];
    cr_expect(end->normalize.rms && end->normalize.has_scale && !end->normalize.has_shift &&
              end->normalize.axis == w->axis && end->normalize.axis_end == w->axis + 1 &&
              end->input_count == 2);
    cr_expect(scale->shape.rank == 1 && scale->shape.dims[0] == n);
    for (int64_t i = 0; i < n; i++)
        cr_expect(fabs(scale->data[i] - 1 / sqrt((double)n)) < 1e-7);
    cr_expect(fabs((double)end->normalize.epsilon - 1e-24 / (double)n) < 1e-29);
    convoy_graph_free(graph);
}

Test(graph_fold_length, in_every_form)
{
    for (int bits = 0; bits < 8; bits++)
        for (int axis = 1; axis < 4; axis++) {
            struct written w = plain;
            w.axis = axis;
            w.ones = (bits & 1) != 0;
            w.swap = (bits & 2) != 0;
            w.reciprocal = (bits & 4) != 0;
            becomes_one(&w);
        }
}

static void stays(const char *what, struct written w)
{
    struct convoy_graph *graph = build(&w);
    for (int i = 0; i < graph->node_count; i++)
        cr_expect(graph->nodes[i].op != CONVOY_OP_NORMALIZE, "%s", what);
    convoy_graph_free(graph);
}

Test(graph_fold_length, not_what_only_looks_like_it)
{
    struct written w = plain;
    w.least = 1e-3F;
    stays("a length that is raised much", w);
    w.least = 0x1p-126F;
    stays("a length whose square is nothing", w);
    w = plain;
    w.most = 0.5F;
    stays("a length that is bounded above", w);
    w = plain;
    w.count = 4;
    stays("a sum of other numbers", w);
    w = plain;
    w.ones = 2;
    stays("a length that is multiplied", w);
    w = plain;
    w.other = true;
    stays("the length of another tensor", w);
    w = plain;
    w.behind = true;
    stays("a factor behind the root", w);
}

/* Many nodes that divide by one repeated length do not make folding look at it as often. */
Test(graph_fold_length, a_length_that_is_repeated_for_many)
{
    enum { SIDE = 1024, DIVISIONS = 70 };
    struct convoy_graph *graph = start(DIMS(1, 1, SIDE, SIDE));
    int length = mean(graph, binary(graph, CONVOY_MUL, graph->input, graph->input), 3, 4);
    length = function(graph, CONVOY_SQRT, binary(graph, CONVOY_MUL, length, number(graph, SIDE)));
    int ones = constant(graph, DIMS(1, 1, SIDE, SIDE)), folded = 0;
    for (int64_t i = 0; i < SIDE * SIDE; i++)
        graph->tensors[ones].data[i] = 1;
    int repeated = like(graph, graph->input);
    node(graph, CONVOY_OP_BINARY, length, ones, -1, repeated)->binary = CONVOY_MUL;
    for (int i = 0; i < DIVISIONS; i++)
        binary(graph, CONVOY_DIV, graph->input, repeated);
    for (int i = 0; i < graph->node_count; i++)
        graph->tensors[graph->nodes[i].output].producer = i;
    cr_assert_eq(convoy_fold_normalize(graph), 0);
    for (int i = 0; i < graph->node_count; i++)
        folded += graph->nodes[i].op == CONVOY_OP_NORMALIZE;
    cr_expect(folded == 63, "%d", folded); /* of 2^20 + 2^10 floats each, in 2^26 */
    convoy_graph_free(graph);
}
