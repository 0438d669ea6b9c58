/* How convoy_onnx_load() reads a file. */
#ifndef CONVOY_ENGINE_ONNX_OPTIONS_H
#define CONVOY_ENGINE_ONNX_OPTIONS_H

#include "engine/graph/graph.h"

/* A graph input that is given a constant value (the conformance cases feed weights as inputs). */
struct convoy_onnx_binding {
    const char *name;
    struct convoy_shape shape;
    const void *data; /* float32 or int64, row-major; read during the call only */
    bool is_int64;
};

struct convoy_onnx_options {
    /* Keep the input's first dimension as it is written instead of taking it for the batch. */
    bool no_batch;
    /* Read opsets 1 to 6 too, for operators that have not changed since (some conformance cases are that
     * old). */
    bool old_opsets;
    /* Shape to use for the one remaining input where the file leaves dimensions open (rank 0: none given). */
    struct convoy_shape input_shape;
    /* What the model's configuration says of an input that is an image; AUTO and 0 where it says nothing. */
    enum convoy_image_axes axes;
    int64_t height, width;
    const struct convoy_onnx_binding *bindings;
    int binding_count;
};

#endif
