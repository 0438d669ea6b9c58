/* Layer and RMS normalisation in many nodes become one, and what only looks like them stays. */
#include "tests/unit/engine/graph/graph_by_hand.h"

#include "engine/graph/fold.h"

/* What is written, and how it differs from layer normalisation. */
struct written {
    int64_t dims[4];
    int axis, axis_end;         /* of both means */
    int other_axis;             /* of the second mean, where it is another; else 0 */
    bool rms, reciprocal, swap; /* 1 / root; the constants of epsilon, scale and shift on the left */
    float epsilon;
    bool epsilon_inside; /* added to the squares, not to their mean */
    bool epsilon_behind; /* added to the root */
    bool second_mean;    /* the squares are of x - another mean of x */
    bool read_twice;     /* the centred values are read once more, at the end */
    int reshapes;        /* behind the second mean */
    int scale_rank;      /* of the constants behind; 0: none */
    int scale_axis;      /* along which they vary */
};

static int along(struct convoy_graph *graph, const struct written *w)
{
    int64_t dims[4] = {1, 1, 1, 1};
    dims[w->scale_axis - (4 - w->scale_rank)] = w->dims[w->scale_axis];
    return constant(graph, w->scale_rank, dims);
}

static int either(struct convoy_graph *graph, enum convoy_binary_kind kind, int x, int c, bool swap)
{
    return swap ? binary(graph, kind, c, x) : binary(graph, kind, x, c);
}

static struct convoy_graph *build(const struct written *w)
{
    struct convoy_graph *graph = start(4, w->dims);
    int x = function(graph, CONVOY_TANH, graph->input), d = x;
    if (!w->rms)
        d = binary(graph, CONVOY_SUB, x, mean(graph, x, w->axis, w->axis_end));
    int e = w->second_mean ? binary(graph, CONVOY_SUB, x, mean(graph, x, w->axis, w->axis_end)) : d;
    int squares = binary(graph, CONVOY_MUL, e, e);
    if (w->epsilon_inside)
        squares = either(graph, CONVOY_ADD, squares, number(graph, w->epsilon), w->swap);
    int root = mean(graph, squares, w->other_axis > 0 ? w->other_axis : w->axis,
                    w->other_axis > 0 ? w->other_axis + 1 : w->axis_end);
    for (int i = 0; i < w->reshapes; i++) {
        const struct convoy_shape shape = graph->tensors[root].shape;
        int same = activation(graph, shape.rank, shape.dims);
        node(graph, CONVOY_OP_RESHAPE, root, -1, -1, same);
        root = same;
    }
    if (!w->epsilon_inside && !w->epsilon_behind)
        root = either(graph, CONVOY_ADD, root, number(graph, w->epsilon), w->swap);
    root = function(graph, CONVOY_SQRT, root);
    if (w->epsilon_behind)
        root = either(graph, CONVOY_ADD, root, number(graph, w->epsilon), w->swap);
    int y = w->reciprocal ? binary(graph, CONVOY_MUL, d, binary(graph, CONVOY_DIV, number(graph, 1), root))
                          : binary(graph, CONVOY_DIV, d, root);
    if (w->scale_rank > 0) {
        y = either(graph, CONVOY_MUL, y, along(graph, w), w->swap);
        y = either(graph, CONVOY_ADD, y, along(graph, w), w->swap);
    }
    finish(graph, w->read_twice ? binary(graph, CONVOY_MUL, y, d) : y);
    return graph;
}

static int normalizes(const struct convoy_graph *graph)
{
    int count = 0;
    for (int i = 0; i < graph->node_count; i++)
        count += graph->nodes[i].op == CONVOY_OP_NORMALIZE;
    return count;
}

/* Behind the tanh one NORMALIZE is left, with scale and shift where they are written. */
static void becomes_one(const struct written *w)
{
    struct convoy_graph *graph = build(w);
    cr_assert(graph->node_count == 2 && graph->nodes[1].op == CONVOY_OP_NORMALIZE, "%d nodes",
              graph->node_count);
    const struct convoy_normalize *normalize = &graph->nodes[1].normalize;
    cr_expect(normalize->axis == w->axis && normalize->axis_end == w->axis_end && normalize->rms == w->rms &&
              normalize->epsilon == w->epsilon);
    cr_expect(normalize->has_scale == (w->scale_rank > 0) && normalize->has_shift == (w->scale_rank > 0));
    for (int k = 1; k < graph->nodes[1].input_count; k++)
        cr_expect(graph->tensors[graph->nodes[1].inputs[k]].shape.rank == w->axis_end - w->axis);
    convoy_graph_free(graph);
}

static const struct written last = {
    .dims = {1, 3, 4, 5}, .axis = 3, .axis_end = 4, .epsilon = 0.01F, .scale_rank = 1, .scale_axis = 3};

Test(graph_fold_normalize, over_the_last_axis_in_every_form)
{
    for (int bits = 0; bits < 16; bits++) {
        struct written w = last;
        w.rms = (bits & 1) != 0;
        w.reciprocal = (bits & 2) != 0;
        w.swap = (bits & 4) != 0;
        w.scale_rank = (bits & 8) != 0 ? 4 : 1;
        becomes_one(&w);
    }
    struct written plain = last;
    plain.scale_rank = 0;
    becomes_one(&plain);
}

/* Each root would walk through all of them. */
Test(graph_fold_normalize, behind_few_reshapes_but_not_behind_any_number)
{
    struct written w = last;
    w.reshapes = 4;
    becomes_one(&w);
    w.reshapes = 64;
    struct convoy_graph *graph = build(&w);
    cr_expect_eq(normalizes(graph), 0);
    convoy_graph_free(graph);
}

Test(graph_fold_normalize, over_channels_and_over_several_axes)
{
    struct written channels = last;
    channels.axis = channels.scale_axis = 1;
    channels.axis_end = 2;
    channels.scale_rank = 3; /* [C,1,1] */
    becomes_one(&channels);
    struct written all = last;
    all.axis = 1;
    all.scale_rank = 0;
    becomes_one(&all);
}

Test(graph_fold_normalize, a_second_reader_keeps_what_it_reads)
{
    struct written w = last;
    w.read_twice = true;
    struct convoy_graph *graph = build(&w);
    cr_expect(normalizes(graph) == 1 && graph->node_count > 3);
    convoy_graph_free(graph);
}

/* Epsilon elsewhere or below 0; the squares of other values, of which nothing says that they are the same. */
Test(graph_fold_normalize, not_what_only_looks_like_it)
{
    struct written inside = last, behind = last, twice = last, negative = last;
    inside.epsilon_inside = true;
    behind.epsilon_behind = true;
    twice.second_mean = true;
    negative.epsilon = -1e-9F;
    const struct written *all[] = {&inside, &behind, &twice, &negative};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct convoy_graph *graph = build(all[i]);
        cr_expect(normalizes(graph) == 0, "case %zu", i);
        convoy_graph_free(graph);
    }
}

/* Centred along one axis and divided along another: RMS normalisation of what was centred. */
Test(graph_fold_normalize, means_over_two_axes_are_no_layer_normalisation)
{
    struct written w = last;
    w.other_axis = 2;
    w.scale_rank = 0;
    struct convoy_graph *graph = build(&w);
    const struct convoy_node *end = &graph->nodes[graph->node_count - 1];
    cr_expect(normalizes(graph) == 1 && end->normalize.rms && end->normalize.axis == 2 &&
              end->normalize.axis_end == 3 && graph->node_count == 6);
    convoy_graph_free(graph);
}

/* Constants along another axis, or read by another node in a shape of its own, stay what they are. */
Test(graph_fold_normalize, constants_that_do_not_fit_stay_behind)
{
    struct written w = last;
    w.scale_axis = 2;
    w.scale_rank = 2;
    struct convoy_graph *graph = build(&w);
    cr_expect(normalizes(graph) == 1 && graph->node_count == 4);
    convoy_graph_free(graph);

    graph = start(DIMS(1, 3, 4, 5));
    int x = graph->input, shared = constant(graph, DIMS(1, 5)), y = like(graph, x);
    node(graph, CONVOY_OP_NORMALIZE, x, -1, -1, y)->normalize =
        (struct convoy_normalize){.axis = 3, .axis_end = 4, .epsilon = 0.01F};
    y = binary(graph, CONVOY_MUL, y, shared);
    finish(graph, binary(graph, CONVOY_ADD, function(graph, CONVOY_TANH, y), shared));
    cr_expect(graph->node_count == 4);
    convoy_graph_free(graph);
}
