/* Graphs made by hand, of one image each and of random numbers, for tests of folding: finish() runs them by
 * the plain reference before and after. */
#ifndef CONVOY_TESTS_GRAPH_BY_HAND_H
#define CONVOY_TESTS_GRAPH_BY_HAND_H

#include "tests/unit/engine/graph/graph_reference.h"

#include "engine/graph/finish.h"

static uint64_t state;

static inline float any(void)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (float)((double)(state >> 40) / (1 << 23) - 1); /* [-1, 1) */
}

static inline struct convoy_shape shape_of(int batch_axis, int rank, const int64_t *dims)
{
    struct convoy_shape shape = {.rank = rank, .batch_axis = batch_axis};
    for (int axis = 0; axis < rank; axis++)
        shape.dims[axis] = dims[axis];
    return shape;
}

#define DIMS(...)                                                                                            \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                             \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static inline int activation(struct convoy_graph *graph, int rank, const int64_t *dims)
{
    struct convoy_shape shape = shape_of(0, rank, dims);
    return convoy_graph_add_tensor(graph, "t", &shape, NULL);
}

static inline int constant(struct convoy_graph *graph, int rank, const int64_t *dims)
{
    struct convoy_shape shape = shape_of(-1, rank, dims);
    int64_t elements = convoy_shape_elements(&shape);
    float *data = malloc(sizeof *data * (size_t)elements);
    for (int64_t i = 0; i < elements; i++)
        data[i] = any() + 1.5F; /* never near zero, for quotients */
    return convoy_graph_add_tensor(graph, "c", &shape, data);
}

static inline struct convoy_node *node(struct convoy_graph *graph, enum convoy_op op, int a, int b, int c,
                                       int output)
{
    int inputs[3] = {a, b, c};
    return convoy_graph_add_node(graph, op, NULL, NULL, inputs, 1 + (b >= 0) + (c >= 0), output);
}

static inline struct convoy_graph *start(int rank, const int64_t *dims)
{
    state = 7;
    struct convoy_graph *graph = convoy_graph_new();
    graph->input = activation(graph, rank, dims);
    return graph;
}

static inline void finish(struct convoy_graph *graph, int output)
{
    graph->outputs[graph->output_count++] = output;
    int64_t inputs = convoy_shape_elements(&graph->tensors[graph->input].shape);
    int64_t outputs = convoy_shape_elements(&graph->tensors[output].shape);
    double *x = malloc(sizeof *x * (size_t)inputs);
    for (int64_t i = 0; i < inputs; i++)
        x[i] = 4 * any();
    double *before = reference_run(graph, x);
    cr_assert(convoy_graph_finish(graph, NULL) == 0);
    double *after = reference_run(graph, x);
    for (int64_t i = 0; i < outputs; i++)
        cr_assert(fabs(before[i] - after[i]) <= 1e-5 * (1 + fabs(before[i])), "[%d]: %g became %g", (int)i,
                  before[i], after[i]);
    free(x);
    free(before);
    free(after);
}

static inline int number(struct convoy_graph *graph, float value)
{
    int index = constant(graph, DIMS(1));
    graph->tensors[index].data[0] = value;
    return index;
}

static inline int like(struct convoy_graph *graph, int x)
{
    struct convoy_shape shape = graph->tensors[x].shape;
    return convoy_graph_add_tensor(graph, "t", &shape, NULL);
}

static inline int binary(struct convoy_graph *graph, enum convoy_binary_kind kind, int a, int b)
{
    int y = like(graph, graph->tensors[a].data != NULL ? b : a);
    node(graph, CONVOY_OP_BINARY, a, b, -1, y)->binary = kind;
    return y;
}

static inline int function(struct convoy_graph *graph, enum convoy_activation_kind kind, int x)
{
    int y = like(graph, x);
    node(graph, CONVOY_OP_ACTIVATION, x, -1, -1, y)->activation.kind = kind;
    return y;
}

/* Of the axes from axis to before axis_end, as the importer writes ReduceMean: a pool between two reshapes.
 */
static inline int mean(struct convoy_graph *graph, int x, int axis, int axis_end)
{
    struct convoy_shape shape = graph->tensors[x].shape, kept = shape;
    int64_t parts[3] = {1, 1, 1};
    for (int i = 1; i < shape.rank; i++) {
        parts[i < axis ? 0 : i < axis_end ? 1 : 2] *= shape.dims[i];
        kept.dims[i] = i >= axis && i < axis_end ? 1 : shape.dims[i];
    }
    int image = activation(graph, DIMS(1, parts[0], parts[1], parts[2]));
    int pooled = activation(graph, DIMS(1, parts[0], 1, parts[2]));
    int result = convoy_graph_add_tensor(graph, "mean", &kept, NULL);
    node(graph, CONVOY_OP_RESHAPE, x, -1, -1, image);
    node(graph, CONVOY_OP_POOL, image, -1, -1, pooled)->pool = (struct convoy_pool){
        .kind = CONVOY_POOL_AVERAGE, .window = {parts[1], 1}, .stride = {1, 1}, .dilation = {1, 1}};
    node(graph, CONVOY_OP_RESHAPE, pooled, -1, -1, result);
    return result;
}

#endif
