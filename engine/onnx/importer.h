/* The state of reading one model: the values that nodes exchange, and the node that is being read.
 *
 * A value is one of three things: an activation (a tensor of the graph), a constant of floats (a tensor of
 * the graph with data), or ints: whole numbers that never reach the graph but steer it (shapes, axes, pads).
 * An int may depend on the batch, because exporters compute shapes from the input's: it is fixed + batch * N.
 * Ints with a batch axis differ from image to image; all that is known of is indices that say where an
 * image's elements are in the batch (what PyTorch makes of as_strided). Truth values are ints, 0 and 1; of
 * activations they are floats.
 *
 * What a node computes from constants of floats alone is computed while the model is read (folding.h).
 *
 * In all headers of this folder that take an importer, functions that return int return 0 or a negative errno
 * with the importer's error filled in. */
#ifndef CONVOY_ENGINE_ONNX_IMPORTER_H
#define CONVOY_ENGINE_ONNX_IMPORTER_H

#include "engine/graph/graph.h"
#include "engine/onnx/options.h"

#include <onnx/onnx.pb-c.h>

struct onnx_int {
    int64_t fixed, batch; /* fixed + batch * N */
    int64_t image;        /* + image * n for image n: in values with a batch axis alone */
};

enum onnx_kind {
    ONNX_NOTHING,     /* computed by a node that was not read (yet) */
    ONNX_INITIALIZER, /* still in the file */
    ONNX_ACTIVATION,
    ONNX_FLOATS,
    ONNX_INTS
};

struct onnx_value {
    const char *name;
    enum onnx_kind kind;
    int scope;                 /* the graph of the file that it belongs to: 0, or how deep in branches */
    int node;                  /* that graph's node that computes it, or -1 */
    bool needed;               /* an output depends on it */
    int64_t readers;           /* needed nodes and outputs of its graph that have not been read yet */
    struct convoy_shape shape; /* of activations, floats and ints */
    int tensor;                /* in the graph: activations and floats */
    /* Of activations whose batch is not the first of what its axis was merged from: in the file that axis
     * runs over outer x N x the rest, in the graph over N x outer x the rest; 1 where both are the same. See
     * shapes.h. */
    int64_t outer;
    int type; /* of ints: TensorProto.DataType, 0 where it is not known */
    /* Of activations: the TensorProto.DataType of those that are whole numbers in the file, whose arithmetic
     * is not that of float32 (integer_activations.h); 0 for floats and truth values. */
    int integer_type;
    struct onnx_int *ints; /* owned by the importer; NULL for 0 elements */
    Onnx__TensorProto *initializer;
};

/* Inputs of one node of the file. */
#define ONNX_MAX_INPUTS 1024

/* What N is. */
#define ONNX_NO_BATCH   0    /* there is none: every dimension is as written */
#define ONNX_OPEN_BATCH (-1) /* left open by the file; a positive number: what the file has for it */

struct onnx_importer {
    const struct convoy_onnx_options *options;
    struct convoy_error *error;
    char *folder;
    Onnx__ModelProto *model;
    int64_t opset;
    int64_t batch;
    /* Elements of constants before the model is refused as too large: those that are read from the file and
     * its external data, and those that are computed while it is read. A small file must not grow large. */
    int64_t stored_left, computed_left;
    int64_t work_left; /* simple operations that folding constants may still take (engine/graph/evaluate.h) */
    struct convoy_graph *graph;

    struct onnx_value *values; /* never moves once names are registered */
    int value_count, value_capacity;
    int *slots; /* hash table of indices into values, -1 where free */
    uint32_t slot_count;
    uint64_t hash_seed; /* random: names come from the file, which may be hostile */

    int scope; /* of the graph that is being read: 0 for the model's, 1 and more for branches of If */

    /* The node that is being read. */
    const Onnx__NodeProto *node;
    int node_index;
    int output;     /* which of its outputs results.h sets; 0 when reading begins */
    int64_t outer;  /* of its inputs (struct onnx_value), and so of its outputs unless it says otherwise */
    const char *op; /* its operator, a literal */
    struct onnx_value *inputs[ONNX_MAX_INPUTS]; /* NULL where left out */
    int input_count;
};

#endif
