/* How much a node computes, to choose the number of threads. */
#ifndef CONVOY_ENGINE_CPU_WORK_H
#define CONVOY_ENGINE_CPU_WORK_H

#include "engine/graph/graph.h"

/* Multiply-adds of a convolution, dense layer or matrix product for one image; 0 for the rest. */
double convoy_cpu_node_work(const struct convoy_graph *graph, const struct convoy_node *node);

#endif
