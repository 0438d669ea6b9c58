/* The graph: what a network computes, as every backend gets it. engine/onnx/onnx.h makes one from an ONNX
 * file.
 *
 * A graph is a list of nodes in topological order over float32 tensors with known shapes. Constants are
 * folded, batch normalisation is folded into the convolution or dense layer before it where there is one, and
 * each operation has one form here where ONNX has several. A graph says what is computed, never
 * how: layouts, fusions and kernels belong to the backend, which lowers the graph to a plan of its own.
 *
 * Ownership: a graph owns all its tensors, nodes and names; convoy_graph_free() frees them. A backend keeps
 * no pointer into a graph after load() returned, unless it says so (keeps_graph of engine/backend.h).
 * Threads: a graph is immutable once built; any thread may read it. */
#ifndef CONVOY_ENGINE_GRAPH_GRAPH_H
#define CONVOY_ENGINE_GRAPH_GRAPH_H

#include "engine/base/error.h"
#include "engine/base/input_type.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_MAX_RANK        8
#define CONVOY_MAX_NODE_INPUTS 64 /* Concat alone takes more than three */
#define CONVOY_MAX_OUTPUTS     16

/* A tensor's dimensions for one image. With batch_axis >= 0 the tensor holds N images and
 * dims[batch_axis] is multiplied by N; with -1 it does not depend on the batch (constants, and every tensor
 * of a graph that was read without a batch axis). Row-major, the last dimension contiguous; images are NCHW.
 */
struct convoy_shape {
    int rank;
    int batch_axis;
    int64_t dims[CONVOY_MAX_RANK];
};

struct convoy_tensor {
    char *name;                /* ONNX name, or a made one */
    struct convoy_shape shape; /* elements for one image: convoy_shape_elements() */
    float *data;               /* a constant's values, owned by the graph; NULL for activations */
    int producer;              /* index of the node that computes it; -1 for the input and constants */
};

enum convoy_op {
    CONVOY_OP_CONV,   /* inputs: x [N,C,H,W], weight const [K,C/groups,R,S], optional bias const [K] */
    CONVOY_OP_DENSE,  /* inputs: x [rows,M], weight const [K,M], optional bias const [K]; y = x W^T + b */
    CONVOY_OP_MATMUL, /* numpy matmul of a and b, any rank >= 1; one of the two may be a constant */
    CONVOY_OP_SCALE_SHIFT, /* inputs: x [N,C,...], scale const [C], shift const [C]: a batch norm left over */
    CONVOY_OP_ACTIVATION,  /* one input, elementwise, see struct convoy_activation */
    CONVOY_OP_POOL,        /* one input [N,C,H,W], see struct convoy_pool */
    CONVOY_OP_BINARY,      /* two inputs, numpy broadcasting; either may be a constant, never both */
    CONVOY_OP_PAD,         /* one input; zeros around (or cropping where negative) */
    CONVOY_OP_RESHAPE,     /* one input; same elements in the same order, in the output's shape */
    CONVOY_OP_TRANSPOSE,   /* one input, see perm */
    CONVOY_OP_CONCAT,  /* one or more inputs, see axis; constants among them only where there is no batch */
    CONVOY_OP_SOFTMAX, /* one input; over the axes [axis, axis_end) taken together; or its logarithm */
    /* inputs: x, optional scale const, optional shift const (both of the lengths of the axes); see
     * struct convoy_normalize */
    CONVOY_OP_NORMALIZE,
    CONVOY_OP_TOP, /* one input; the first of the numbers along an axis, see struct convoy_top */
    CONVOY_OP_COUNT
};

enum convoy_activation_kind {
    CONVOY_RELU,         /* max(x, 0) */
    CONVOY_LEAKY_RELU,   /* x < 0 ? alpha x : x */
    CONVOY_SIGMOID,      /* 1 / (1 + exp(-x)) */
    CONVOY_TANH,         /* tanh x */
    CONVOY_CLIP,         /* min(max(x, alpha), beta); -INFINITY and INFINITY where a bound is absent */
    CONVOY_HARD_SIGMOID, /* max(0, min(1, alpha x + beta)) */
    CONVOY_HARD_SWISH,   /* x * max(0, min(1, x / 6 + 0.5)) */
    CONVOY_SWISH,        /* x / (1 + exp(-x)), also called SiLU */
    CONVOY_EXP,          /* exp x */
    CONVOY_LOG,          /* ln x */
    CONVOY_SQRT,         /* the square root of x */
    CONVOY_ABS,          /* |x| */
    CONVOY_ERF,          /* the error function of x */
    CONVOY_GELU,         /* x (1 + erf(x / sqrt 2)) / 2 */
    CONVOY_GELU_TANH,    /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
    CONVOY_ELU,          /* x < 0 ? alpha (exp(x) - 1) : x */
    CONVOY_SOFTPLUS,     /* ln(1 + exp(x)) */
    CONVOY_MISH,         /* x tanh(ln(1 + exp(x))) */
    CONVOY_ROUND,        /* to the nearest whole number, halves to the even one */
    CONVOY_FLOOR,        /* the largest whole number that is not above x */
    CONVOY_CEIL,         /* the smallest whole number that is not below x */
    CONVOY_SIGN,         /* -1, 0 or 1 */
    CONVOY_POW,          /* x^alpha */
    CONVOY_THRESHOLDED,  /* x > alpha ? x : 0 */
    CONVOY_SIN,          /* sin x */
    CONVOY_COS,          /* cos x */
    CONVOY_ATAN          /* the angle, between -pi/2 and pi/2, whose tangent is x */
};

struct convoy_activation {
    enum convoy_activation_kind kind;
    float alpha, beta;
};

/* Pads are in the order top, left, bottom, right. auto_pad is resolved before it gets here. */
struct convoy_conv {
    int64_t groups;
    int64_t stride[2], dilation[2], pad[4];
};

enum convoy_pool_kind { CONVOY_POOL_MAX, CONVOY_POOL_AVERAGE };

/* Global pooling and ReduceMean over H and W are an average pool whose window is the whole H x W (a RESHAPE
 * follows where the dimensions are dropped). The window's last positions may lie past the padded input when
 * ceil_mode was given: the output's shape in the graph is authoritative, and positions outside input and
 * padding count for nothing. */
struct convoy_pool {
    enum convoy_pool_kind kind;
    int64_t window[2], stride[2], dilation[2], pad[4];
    bool
        count_include_pad; /* averages divide by the window including padding (not including ceil overhang) */
};

/* y = scale (x - mean) / sqrt(variance + epsilon) + shift, with the mean and variance over the axes
 * [axis, axis_end) taken together; `rms`: y = scale x / sqrt(mean of squares + epsilon) + shift. */
struct convoy_normalize {
    int axis, axis_end;
    float epsilon;
    bool rms;
    bool has_scale, has_shift; /* which inputs follow x, in this order */
};

/* Along an axis that is not the batch: the values, or the places counted from 0, of as many numbers as the
 * output has there, in order: the largest first, or the smallest; of equal ones that at the lower place, or
 * at the higher one. NaN comes before all numbers. */
struct convoy_top {
    int axis;
    bool smallest, last, places;
};

enum convoy_binary_kind {
    CONVOY_ADD,
    CONVOY_SUB,
    CONVOY_MUL,
    CONVOY_DIV,
    CONVOY_MAX, /* the larger; NaN if one is */
    CONVOY_MIN,
    CONVOY_POWER, /* a^b */
    /* 1 where it holds, else 0 */
    CONVOY_EQUAL,
    CONVOY_LESS,
    CONVOY_LESS_EQUAL,
    CONVOY_KEEP /* a where b is not 0, else 0, whatever a is */
};
#define CONVOY_BINARY_KINDS (CONVOY_KEEP + 1)

static inline float convoy_binary_apply(enum convoy_binary_kind kind, float a, float b)
{
    switch (kind) {
    case CONVOY_ADD:
        return a + b;
    case CONVOY_SUB:
        return a - b;
    case CONVOY_MUL:
        return a * b;
    case CONVOY_DIV:
        return a / b;
    case CONVOY_MAX:
        return a > b || a != a ? a : b;
    case CONVOY_MIN:
        return a < b || a != a ? a : b;
    case CONVOY_POWER:
        return powf(a, b);
    case CONVOY_EQUAL:
        return a == b ? 1.0F : 0.0F;
    case CONVOY_LESS:
        return a < b ? 1.0F : 0.0F;
    case CONVOY_LESS_EQUAL:
        return a <= b ? 1.0F : 0.0F;
    case CONVOY_KEEP:
        return b != 0 ? a : 0;
    }
    return NAN;
}

struct convoy_node {
    enum convoy_op op;
    char *name;          /* the ONNX node's name, or OP_index where it has none */
    const char *onnx_op; /* the ONNX operator it came from, for messages and profiles */
    int input_count;
    int inputs[CONVOY_MAX_NODE_INPUTS]; /* tensor indices */
    int output;                         /* tensor index */
    union {
        struct convoy_activation activation;
        struct convoy_conv conv;
        struct convoy_pool pool;
        enum convoy_binary_kind binary;
        struct {
            int64_t before[CONVOY_MAX_RANK], after[CONVOY_MAX_RANK];
        } pad;
        int perm[CONVOY_MAX_RANK]; /* output axis i is input axis perm[i] */
        int axis;                  /* CONCAT */
        struct {
            int axis, axis_end;
            bool log; /* ln of it */
        } softmax;
        struct convoy_normalize normalize;
        struct convoy_top top;
    };
};

struct convoy_graph {
    int tensor_count, node_count;
    struct convoy_tensor *tensors;
    struct convoy_node *nodes; /* topological order */
    int input;                 /* tensor index of the one input: float32; of images N x C x H x W */
    int output_count;
    int outputs[CONVOY_MAX_OUTPUTS]; /* tensor indices, in the model's order; computed by nodes (never the
                                      * input or a constant), images one after the other; one may be there
                                      * twice */
    /* The first output comes from a SOFTMAX node, or a sigmoid (through reshapes only). */
    bool ends_in_softmax, ends_in_sigmoid;
    int64_t weight_bytes; /* bytes of all constants that nodes read */
    /* How the file declares the input, for clients that send tensors. The graph converts nothing: a row is
     * float32 in N x C x H x W whatever these say. */
    enum convoy_input_type input_type;
    bool input_nhwc;
};

/* Returns the number of elements for one image (of a constant: all elements). */
int64_t convoy_shape_elements(const struct convoy_shape *shape);
/* Are rank, batch axis and all dimensions the same? */
bool convoy_same_shape(const struct convoy_shape *a, const struct convoy_shape *b);

/* Writes the shape, e.g. "[N,3,32,32]", into text, for messages. Returns text. */
const char *convoy_shape_text(const struct convoy_shape *shape, char *text, size_t capacity);

const char *convoy_op_name(enum convoy_op op);

/* Frees the graph with all that it owns. Accepts NULL. */
void convoy_graph_free(struct convoy_graph *graph);

#endif
