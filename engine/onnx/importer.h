/* What the files of the ONNX reader share: the values that nodes exchange while a model is read, and the
 * calls an operator (ops_*.c) uses to read its inputs and attributes and to put nodes into the graph.
 *
 * A value is one of three things: an activation (a tensor of the graph), a constant of floats (a tensor of
 * the graph with data), or ints: whole numbers that never reach the graph but steer it (shapes, axes, pads).
 * An int may depend on the batch, because exporters compute shapes from the input's: it is fixed + batch * N.
 *
 * All functions that return int return 0 or a negative errno with the importer's error filled in. */
#ifndef CONVOY_ENGINE_ONNX_IMPORTER_H
#define CONVOY_ENGINE_ONNX_IMPORTER_H

#include "engine/graph/build.h"
#include "engine/onnx/onnx.h"

#include <onnx/onnx.pb-c.h>

struct onnx_int {
    int64_t fixed, batch; /* fixed + batch * N */
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
    int node;                  /* the file's node that computes it, or -1 */
    bool needed;               /* an output depends on it */
    struct convoy_shape shape; /* of activations, floats and ints */
    int tensor;                /* in the graph: activations and floats */
    struct onnx_int *ints;     /* owned by the importer; NULL for 0 elements */
    Onnx__TensorProto *initializer;
};

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
    struct convoy_graph *graph;

    struct onnx_value *values; /* never moves once names are registered */
    int value_count, value_capacity;
    int *slots; /* hash table of indices into values, -1 where free */
    uint32_t slot_count;
    uint64_t hash_seed; /* random: names come from the file, which may be hostile */

    /* The node that is being read. */
    const Onnx__NodeProto *node;
    int node_index;
    const char *op;                                    /* its operator, a literal */
    struct onnx_value *inputs[CONVOY_MAX_NODE_INPUTS]; /* NULL where left out */
    int input_count;
};

/* --- importer.c --- */

/* Builds the graph from the model, by the options; on failure the sentence lacks the file's name. */
int onnx_import(struct onnx_importer *importer);

/* --- names.c: the table of values by name --- */

int onnx_names_reserve(struct onnx_importer *importer, size_t names);
struct onnx_value *onnx_find(const struct onnx_importer *importer, const char *name);
/* Adds a name; NULL if it is there already. Room was made by onnx_names_reserve(). */
struct onnx_value *onnx_add_name(struct onnx_importer *importer, const char *name);

/* --- attributes.c: attributes and inputs that are numbers --- */

const Onnx__AttributeProto *onnx_attribute(const struct onnx_importer *importer, const char *name);
int onnx_attribute_int(struct onnx_importer *importer, const char *name, int64_t absent, int64_t *value);
int onnx_attribute_float(struct onnx_importer *importer, const char *name, float absent, float *value);
/* The text lives as long as the model. */
int onnx_attribute_string(struct onnx_importer *importer, const char *name, const char *absent,
                          const char **value);
/* *count is -1 where the attribute is absent; else values[0 .. *count) is filled; more than capacity is
 * refused. */
int onnx_attribute_ints(struct onnx_importer *importer, const char *name, int64_t *values, int capacity,
                        int *count);

/* Input `index` as numbers that do not depend on the batch. *count is -1 where the input is left out. */
int onnx_input_ints(struct onnx_importer *importer, int index, int64_t *values, int capacity, int *count);
/* Input `index` as one number; absent where it is left out. Takes floats and ints. */
int onnx_input_scalar(struct onnx_importer *importer, int index, double absent, double *value);
/* Ints from input `index`, or from the attribute where the opset is older than `since`. */
int onnx_ints_of_either_form(struct onnx_importer *importer, int64_t since, int index, const char *attribute,
                             int64_t *values, int capacity, int *count);
/* Input `index`, which must be there and be an activation, or a constant of floats; else a sentence. */
int onnx_need_activation(struct onnx_importer *importer, int index, const struct onnx_value **value);
int onnx_need_floats(struct onnx_importer *importer, int index, const char *what,
                     const struct onnx_value **value);
const float *onnx_floats(const struct onnx_importer *importer, const struct onnx_value *value);
/* Makes an axis counted from the end one counted from the front, in [0, limit), or refuses it. */
int onnx_settle_axis(struct onnx_importer *importer, int64_t axis, int limit, int *settled);

/* --- emit.c: results --- */

/* Fails naming the node that is being read. */
__attribute__((format(printf, 3, 4))) int onnx_fail(const struct onnx_importer *importer, int code,
                                                    const char *format, ...);
int onnx_out_of_memory(const struct onnx_importer *importer);
/* Refuses a shape with a dimension below 1 or more than 2^31-1 elements. */
int onnx_check_shape(const struct onnx_importer *importer, const struct convoy_shape *shape);
/* Counts a constant that the file holds against the model's bound, before it is decoded; each makes room for
 * some that are computed from it. */
int onnx_count_stored(struct onnx_importer *importer, const Onnx__TensorProto *tensor);
/* Memory for a constant of this shape, counted against the bound of computed ones; floats if !ints. */
int onnx_allocate(struct onnx_importer *importer, const struct convoy_shape *shape, bool ints, void **data);

/* A constant of floats (data is taken over, also on failure) as a tensor of the graph. */
int onnx_emit_constant(struct onnx_importer *importer, const char *name, const struct convoy_shape *shape,
                       float *data, int *tensor);
/* A node that computes a new tensor of this shape, which is checked; *node is there to be filled in until the
 * next call. */
int onnx_emit(struct onnx_importer *importer, enum convoy_op op, const int *inputs, int input_count,
              const struct convoy_shape *shape, struct convoy_node **node);
/* RESHAPE and TRANSPOSE of a tensor, or the tensor itself where nothing changes. */
int onnx_emit_reshape(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                      int *result);
int onnx_emit_transpose(struct onnx_importer *importer, int tensor, const int *perm, int *result);
/* BINARY of two tensors, broadcast; *result is the tensor that it computes. */
int onnx_emit_binary(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b, int *result);

/* What the node's first output is; one of these is called at the end of each operator. Data is taken over. */
int onnx_set_tensor(struct onnx_importer *importer, int tensor);
int onnx_set_value(struct onnx_importer *importer, const struct onnx_value *same);
int onnx_set_floats(struct onnx_importer *importer, const struct convoy_shape *shape, float *data);
int onnx_set_ints(struct onnx_importer *importer, const struct convoy_shape *shape, struct onnx_int *ints);

/* --- shapes.c: shapes and where the batch is in them --- */

/* Elements of the dimensions [from, to). */
int64_t onnx_product(const struct convoy_shape *shape, int from, int to);
/* numpy broadcasting of two shapes; of all but their last `keep` dimensions, which are left out of *out. */
int onnx_broadcast(const struct onnx_importer *importer, const struct convoy_shape *a,
                   const struct convoy_shape *b, int keep, struct convoy_shape *out);
/* Finds out which axis of `out` is the batch when `in` is reshaped to it, `axis` being the one expected (-1:
 * none), and refuses what would mix images. out's dimensions are for one image. */
int onnx_place_batch(const struct onnx_importer *importer, const struct convoy_shape *in, int axis,
                     struct convoy_shape *out);
/* The shape that Reshape's targets ask for. */
int onnx_reshape_targets(const struct onnx_importer *importer, const struct convoy_shape *in,
                         const struct onnx_int *targets, int count, bool allow_zero,
                         struct convoy_shape *out);

/* --- constants.c: moving the elements of constants (floats and ints alike) --- */

/* Sets the node's output to `value`, a constant, with its elements in another shape of as many elements. */
int onnx_set_reshaped(struct onnx_importer *importer, const struct onnx_value *value,
                      const struct convoy_shape *shape);
/* Sets the node's output to a constant of this shape whose element at index i is value[start + sum i * step]:
 * transposes, slices and broadcasts, all of which stay inside value. */
int onnx_set_strided(struct onnx_importer *importer, const struct onnx_value *value,
                     const struct convoy_shape *shape, int64_t start, const int64_t *steps);

/* --- the operators --- */

struct onnx_operator {
    const char *name;
    int min_inputs, max_inputs;
    int (*read)(struct onnx_importer *importer);
};

/* Tables that end with a NULL name. */
extern const struct onnx_operator onnx_image_operators[];       /* ops_conv.c */
extern const struct onnx_operator onnx_dense_operators[];       /* ops_dense.c */
extern const struct onnx_operator onnx_elementwise_operators[]; /* ops_elementwise.c */
extern const struct onnx_operator onnx_layout_operators[];      /* ops_layout.c */
extern const struct onnx_operator onnx_constant_operators[];    /* ops_constant.c */

#endif
