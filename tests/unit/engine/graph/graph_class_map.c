/* Class activation maps: found where a network has them, refused with the reason where not, and what the
 * graph computes then against the definition in class_map.h. */
#include "tests/unit/engine/graph/graph_by_hand.h"

#include "engine/graph/class_map.h"

#include <errno.h>

enum { CHANNELS = 6, HEIGHT = 5, WIDTH = 4, CLASSES = 7, POSITIONS = HEIGHT * WIDTH };

static int features(struct convoy_graph *graph, int channels)
{
    int w = constant(graph, DIMS(channels, 3, 3, 3)), b = constant(graph, DIMS(channels));
    int y = activation(graph, DIMS(1, channels, HEIGHT, WIDTH));
    node(graph, CONVOY_OP_CONV, graph->input, w, b, y)->conv =
        (struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}};
    return function(graph, CONVOY_RELU, y);
}

static int reshape(struct convoy_graph *graph, int x, int rank, const int64_t *dims)
{
    int y = activation(graph, rank, dims);
    node(graph, CONVOY_OP_RESHAPE, x, -1, -1, y);
    return y;
}

static int pool(struct convoy_graph *graph, enum convoy_pool_kind kind, int x, int64_t height, int64_t width)
{
    const struct convoy_shape *in = &graph->tensors[x].shape;
    int y = activation(graph, DIMS(1, in->dims[1], in->dims[2] / height, in->dims[3] / width));
    node(graph, CONVOY_OP_POOL, x, -1, -1, y)->pool = (struct convoy_pool){
        .kind = kind, .window = {height, width}, .stride = {height, width}, .dilation = {1, 1}};
    return y;
}

static int average(struct convoy_graph *graph, int x)
{
    return pool(graph, CONVOY_POOL_AVERAGE, x, HEIGHT, WIDTH);
}

static int dense(struct convoy_graph *graph, int x, int64_t classes)
{
    int w = constant(graph, DIMS(classes, graph->tensors[x].shape.dims[1])),
        b = constant(graph, DIMS(classes));
    int y = activation(graph, DIMS(1, classes));
    node(graph, CONVOY_OP_DENSE, x, w, b, y);
    return y;
}

static int dense_of_pooled(struct convoy_graph *graph, int pooled)
{
    return dense(graph, reshape(graph, pooled, DIMS(1, CHANNELS)), CLASSES);
}

static void end(struct convoy_graph *graph, int output)
{
    graph->outputs[graph->output_count++] = output;
    cr_assert(convoy_graph_finish(graph, NULL) == 0);
}

/* What output `which` is on a picture of random numbers. */
static double *run(struct convoy_graph *graph, int which)
{
    double x[3 * POSITIONS];
    int first = graph->outputs[0];
    state = 11;
    for (int i = 0; i < 3 * POSITIONS; i++)
        x[i] = 4 * any();
    graph->outputs[0] = graph->outputs[which];
    double *y = reference_run(graph, x);
    graph->outputs[0] = first;
    return y;
}

/* The maps by their definition: of the features, which `bare` computes, and the weight (NULL: the identity).
 */
static void holds(struct convoy_graph *graph, struct convoy_graph *bare, const float *weight, int classes)
{
    double *scores = run(graph, 0), *seen = run(bare, 0);
    int64_t weights = graph->weight_bytes;
    cr_assert(convoy_class_map_outputs(graph, NULL) == 0);
    cr_expect(graph->output_count == 2);
    cr_expect(graph->weight_bytes == weights + (weight != NULL ? classes * CHANNELS * 4 : 0));
    const struct convoy_shape *shape = &graph->tensors[graph->outputs[1]].shape;
    cr_assert(shape->rank == 4 && shape->dims[0] == 1 && shape->batch_axis == 0 &&
              shape->dims[1] == classes && shape->dims[2] == HEIGHT && shape->dims[3] == WIDTH);
    double *again = run(graph, 0), *maps = run(graph, 1);
    for (int k = 0; k < classes; k++) {
        cr_expect(fabs(scores[k] - again[k]) < 1e-12, "class %d: %g became %g", k, scores[k], again[k]);
        for (int i = 0; i < POSITIONS; i++) {
            double expected = weight == NULL ? seen[k * POSITIONS + i] : 0;
            for (int c = 0; c < CHANNELS && weight != NULL; c++)
                expected += (double)weight[k * CHANNELS + c] * seen[c * POSITIONS + i];
            cr_expect(fabs(maps[k * POSITIONS + i] - expected) < 1e-9, "[%d][%d]: %g instead of %g", k, i,
                      maps[k * POSITIONS + i], expected);
        }
    }
    free(scores);
    free(seen);
    free(again);
    free(maps);
    convoy_graph_free(graph);
    convoy_graph_free(bare);
}

static struct convoy_graph *bare(int channels)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    end(graph, features(graph, channels));
    return graph;
}

/* The weight of a dense layer behind the features: the same random numbers come at the same place. */
static float *weight_of(const struct convoy_graph *graph)
{
    struct convoy_class_map map;
    cr_assert(convoy_class_map_find(graph, &map, NULL) == 0);
    cr_assert(map.height == HEIGHT && map.width == WIDTH && map.classes == CLASSES && map.weight >= 0);
    float *copy = malloc(sizeof *copy * CLASSES * CHANNELS);
    memcpy(copy, graph->tensors[map.weight].data, sizeof *copy * CLASSES * CHANNELS);
    return copy;
}

Test(graph_class_map, of_a_dense_layer)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    end(graph, dense_of_pooled(graph, average(graph, features(graph, CHANNELS))));
    float *weight = weight_of(graph);
    holds(graph, bare(CHANNELS), weight, CLASSES);
    free(weight);
}

Test(graph_class_map, through_a_sigmoid_and_reshapes)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int y = dense_of_pooled(graph, average(graph, features(graph, CHANNELS)));
    y = reshape(graph, function(graph, CONVOY_SIGMOID, reshape(graph, y, DIMS(1, CLASSES, 1, 1))),
                DIMS(1, CLASSES, 1));
    end(graph, y);
    float *weight = weight_of(graph);
    holds(graph, bare(CHANNELS), weight, CLASSES);
    free(weight);
}

Test(graph_class_map, through_softmax)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int y = dense_of_pooled(graph, average(graph, features(graph, CHANNELS))), z = like(graph, y);
    struct convoy_node *softmax = node(graph, CONVOY_OP_SOFTMAX, y, -1, -1, z);
    softmax->softmax.axis = 1;
    softmax->softmax.axis_end = 2;
    end(graph, z);
    free(weight_of(graph));
    cr_assert(convoy_class_map_outputs(graph, NULL) == 0);
    cr_expect(graph->ends_in_softmax && graph->output_count == 2);
    convoy_graph_free(graph);
}

Test(graph_class_map, of_a_dense_layer_that_is_a_convolution)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int x = average(graph, features(graph, CHANNELS));
    int w = constant(graph, DIMS(CLASSES, CHANNELS, 1, 1)), b = constant(graph, DIMS(CLASSES));
    int y = activation(graph, DIMS(1, CLASSES, 1, 1));
    node(graph, CONVOY_OP_CONV, x, w, b, y)->conv =
        (struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}};
    end(graph, reshape(graph, y, DIMS(1, CLASSES)));
    float *weight = weight_of(graph);
    holds(graph, bare(CHANNELS), weight, CLASSES);
    free(weight);
}

Test(graph_class_map, of_channels_that_are_the_classes)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    end(graph, reshape(graph, average(graph, features(graph, CHANNELS)), DIMS(1, CHANNELS)));
    holds(graph, bare(CHANNELS), NULL, CHANNELS);
}

Test(graph_class_map, of_features_that_were_flattened)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int x = reshape(graph, features(graph, CHANNELS), DIMS(1, CHANNELS, POSITIONS, 1));
    end(graph, dense_of_pooled(graph, pool(graph, CONVOY_POOL_AVERAGE, x, POSITIONS, 1)));
    float *weight = weight_of(graph);
    holds(graph, bare(CHANNELS), weight, CLASSES);
    free(weight);
}

static int transpose(struct convoy_graph *graph, int x, const int perm[4])
{
    const struct convoy_shape *in = &graph->tensors[x].shape;
    int y =
        activation(graph, DIMS(in->dims[perm[0]], in->dims[perm[1]], in->dims[perm[2]], in->dims[perm[3]]));
    memcpy(node(graph, CONVOY_OP_TRANSPOSE, x, -1, -1, y)->perm, perm, 4 * sizeof *perm);
    return y;
}

/* As a mean over the first axes of an image is read whose channels are the last. */
static int channels_last(struct convoy_graph *graph, int x, const int perm[4])
{
    x = reshape(graph, transpose(graph, x, perm), DIMS(1, 1, POSITIONS, CHANNELS));
    return reshape(graph, pool(graph, CONVOY_POOL_AVERAGE, x, POSITIONS, 1), DIMS(1, CHANNELS));
}

Test(graph_class_map, of_features_with_the_channels_last)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int x = channels_last(graph, features(graph, CHANNELS), (const int[]){0, 2, 3, 1});
    end(graph, dense(graph, x, CLASSES));
    float *weight = weight_of(graph);
    cr_assert_eq(convoy_class_map_outputs(graph, NULL), 0);
    /* The reference knows no transposes: what is seen is which features the maps are of. */
    const struct convoy_node *maps = &graph->nodes[graph->tensors[graph->outputs[1]].producer];
    cr_assert(maps->op == CONVOY_OP_CONV &&
              graph->nodes[graph->tensors[maps->inputs[0]].producer].op == CONVOY_OP_ACTIVATION);
    cr_expect_eq(memcmp(graph->tensors[maps->inputs[1]].data, weight, sizeof *weight * CLASSES * CHANNELS),
                 0);
    free(weight);
    convoy_graph_free(graph);
}

Test(graph_class_map, of_averages_that_are_turned_round)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int x = average(graph, features(graph, CHANNELS));
    end(graph, dense_of_pooled(graph, transpose(graph, x, (const int[]){0, 2, 3, 1})));
    free(weight_of(graph));
    convoy_graph_free(graph);
}

Test(graph_class_map, what_other_outputs_need_is_dropped)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int x = features(graph, CHANNELS);
    graph->outputs[graph->output_count++] = dense_of_pooled(graph, average(graph, x));
    graph->outputs[graph->output_count++] = function(graph, CONVOY_TANH, x);
    end(graph, function(graph, CONVOY_ABS, x));
    int nodes = graph->node_count;
    cr_assert(convoy_class_map_outputs(graph, NULL) == 0);
    cr_expect(graph->node_count == nodes - 2 + 1);
    convoy_graph_free(graph);
}

/* The graph has no maps, the reason contains `words`, and the graph is as it was. */
static void refused(struct convoy_graph *graph, const char *words)
{
    struct convoy_error error = {0};
    struct convoy_class_map map;
    int nodes = graph->node_count, outputs = graph->output_count;
    cr_assert(convoy_class_map_find(graph, &map, &error) == -ENOTSUP);
    cr_expect(strstr(error.message, words) != NULL, "'%s' lacks '%s'", error.message, words);
    cr_expect(convoy_class_map_outputs(graph, &error) == -ENOTSUP);
    cr_expect(graph->node_count == nodes && graph->output_count == outputs);
    convoy_graph_free(graph);
}

static struct convoy_graph *with_dense_of(int (*make)(struct convoy_graph *graph, int x), int64_t elements)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int x = make(graph, features(graph, CHANNELS));
    end(graph, dense(graph, reshape(graph, x, DIMS(1, elements)), CLASSES));
    return graph;
}

static int nothing(struct convoy_graph *graph, int x)
{
    (void)graph;
    return x;
}

static int greatest(struct convoy_graph *graph, int x)
{
    return pool(graph, CONVOY_POOL_MAX, x, HEIGHT, WIDTH);
}

static int columns(struct convoy_graph *graph, int x)
{
    return pool(graph, CONVOY_POOL_AVERAGE, x, HEIGHT, 1);
}

/* A part of the rows or columns, and no step further. */
static int part(struct convoy_graph *graph, int x, int64_t height, int64_t width)
{
    int y = activation(graph, DIMS(1, CHANNELS, 1, 1));
    node(graph, CONVOY_OP_POOL, x, -1, -1, y)->pool = (struct convoy_pool){.kind = CONVOY_POOL_AVERAGE,
                                                                           .window = {height, width},
                                                                           .stride = {HEIGHT, WIDTH},
                                                                           .dilation = {1, 1}};
    return y;
}

static int some_rows(struct convoy_graph *graph, int x)
{
    return part(graph, x, HEIGHT - 2, WIDTH);
}

static int some_columns(struct convoy_graph *graph, int x)
{
    return part(graph, x, HEIGHT, WIDTH - 2);
}

static int bent(struct convoy_graph *graph, int x)
{
    return function(graph, CONVOY_TANH, average(graph, x));
}

Test(graph_class_map, refused_where_there_is_no_global_average)
{
    refused(with_dense_of(nothing, CHANNELS * POSITIONS), "(dense), which reads node");
    refused(with_dense_of(greatest, CHANNELS), "not a global average pooling");
    refused(with_dense_of(columns, CHANNELS * WIDTH), "not a global average pooling");
    refused(with_dense_of(some_rows, CHANNELS), "not a global average pooling");
    refused(with_dense_of(some_columns, CHANNELS), "not a global average pooling");
    refused(with_dense_of(bent, CHANNELS), "not a global average pooling");
}

static int turned(struct convoy_graph *graph, int x)
{
    return channels_last(graph, x, (const int[]){0, 3, 2, 1}); /* W before H: its map would be another's */
}

/* Rows of features, as transformers have them. */
static int rows(struct convoy_graph *graph, int x)
{
    x = reshape(graph, x, DIMS(1, 1, POSITIONS, CHANNELS));
    return reshape(graph, pool(graph, CONVOY_POOL_AVERAGE, x, POSITIONS, 1), DIMS(1, CHANNELS));
}

/* Its classes are read from a picture whose rows and columns a transpose has exchanged with the channels. */
static int exchanged(struct convoy_graph *graph, int x)
{
    return transpose(graph, pool(graph, CONVOY_POOL_AVERAGE, x, HEIGHT, 1), (const int[]){0, 3, 2, 1});
}

Test(graph_class_map, refused_where_the_features_are_no_image)
{
    refused(with_dense_of(turned, CHANNELS), "averages is no image");
    refused(with_dense_of(rows, CHANNELS), "averages is no image");
    refused(with_dense_of(exchanged, CHANNELS * WIDTH), "(transpose), not a global average pooling");
}

Test(graph_class_map, refused_where_no_dense_layer_gives_the_classes)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int y = dense_of_pooled(graph, average(graph, features(graph, CHANNELS)));
    end(graph, function(graph, CONVOY_TANH, y));
    refused(graph, "not from a dense layer behind a global average pooling");

    graph = start(DIMS(1, 3, HEIGHT, WIDTH)); /* nothing that the network found is averaged */
    end(graph, reshape(graph, average(graph, graph->input), DIMS(1, 3)));
    refused(graph, "averages of the picture itself");
}

/* A dense layer of a row for each two channels. */
Test(graph_class_map, refused_where_a_dense_layer_has_several_rows)
{
    struct convoy_graph *graph = start(DIMS(1, 3, HEIGHT, WIDTH));
    int x = reshape(graph, average(graph, features(graph, CHANNELS)), DIMS(3, CHANNELS / 3));
    int w = constant(graph, DIMS(CLASSES, CHANNELS / 3)), y = activation(graph, DIMS(3, CLASSES));
    node(graph, CONVOY_OP_DENSE, x, w, -1, y);
    end(graph, y);
    refused(graph, "not from a dense layer");
}

static struct convoy_graph *of_size(int64_t height, int64_t width, int64_t classes)
{
    struct convoy_graph *graph = start(DIMS(1, 1, height, width));
    int x = function(graph, CONVOY_TANH, graph->input);
    x = pool(graph, CONVOY_POOL_AVERAGE, x, height, width);
    end(graph, dense(graph, reshape(graph, x, DIMS(1, 1)), classes));
    return graph;
}

Test(graph_class_map, refused_where_maps_are_too_large)
{
    struct convoy_class_map map;
    struct convoy_graph *graph = of_size(64, 64, CONVOY_MAX_CLASS_MAPS / 4096);
    cr_expect(convoy_class_map_find(graph, &map, NULL) == 0);
    convoy_graph_free(graph);
    refused(of_size(64, 64, CONVOY_MAX_CLASS_MAPS / 4096 + 1),
            "maps of 64 x 64 for 2049 classes are too large");
    refused(of_size(17, 241, 1), "maps of 17 x 241 for 1 classes are too large"); /* 4,097 values */
}
