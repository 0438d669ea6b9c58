/* A graph computed node by node in double precision, straight from what graph.h says each operator means:
 * what the backends are compared with. Row-major everywhere, no fusion, no cleverness. */
#ifndef CONVOY_TESTS_BACKEND_REFERENCE_H
#define CONVOY_TESTS_BACKEND_REFERENCE_H

#include "tests/unit/engine/activation_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reference_tensor {
    int rank;
    int64_t dims[CONVOY_MAX_RANK], count;
    double *values;
};

/* Computes graph for `images` images; input holds them one after the other. Free with reference_free(). */
struct reference_tensor *reference_run(const struct convoy_graph *graph, int64_t images, const double *input);

void reference_free(const struct convoy_graph *graph, struct reference_tensor *tensors);

#endif
