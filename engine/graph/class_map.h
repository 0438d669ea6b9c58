/* Class activation maps (Zhou, Khosla, Lapedriza, Oliva, Torralba: Learning Deep Features for Discriminative
 * Localization, CVPR 2016): where in the picture a network found a class. In a network whose classes are
 *
 *     score[k] = bias[k] + sum over c of weight[k][c] * (mean over h, w of feature[c][h][w])
 *
 * the map of class k is, without the bias,
 *
 *     map[k][h][w] = sum over c of weight[k][c] * feature[c][h][w],
 *
 * whose mean over h and w is the score less the bias. It is computed as a convolution of 1 x 1 over the
 * features. Any thread. */
#ifndef CONVOY_ENGINE_GRAPH_CLASS_MAP_H
#define CONVOY_ENGINE_GRAPH_CLASS_MAP_H

#include "engine/base/limits.h"
#include "engine/graph/graph.h"

/* Values of the maps of all classes of a row together: 32 MiB. */
#define CONVOY_MAX_CLASS_MAPS (8 << 20)

/* Where the parts of the sum above lie in a graph. */
struct convoy_class_map {
    int features; /* tensor of one image: [1,C,height,width] */
    int weight;   /* constant of K x C values; -1: there is no dense layer, and the features are the maps */
    int64_t classes, height, width; /* height * width is at most CONVOY_MAX_CLASS_MAP */
};

/* Finds them behind the graph's first output, through softmax, sigmoid and reshapes. Returns 0, or -ENOTSUP
 * with a sentence that says why the network has no such maps; map is undefined then. */
int convoy_class_map_find(const struct convoy_graph *graph, struct convoy_class_map *map,
                          struct convoy_error *error);

/* Makes the graph's outputs these two: its first output, and the maps of all classes, [1,K,height,width].
 * What only other outputs depend on is dropped; indices change. Returns 0; -ENOTSUP as above, with the graph
 * unchanged; -ENOMEM. */
int convoy_class_map_outputs(struct convoy_graph *graph, struct convoy_error *error);

#endif
