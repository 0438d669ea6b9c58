#include "engine/cuda/plan/channels.h"

#define UNKNOWN (-1)

/* Axis 0 holds the batch and nothing else. */
static bool batch_alone(const struct convoy_shape *shape)
{
    return shape->batch_axis == 0 && shape->dims[0] == 1;
}

bool convoy_cuda_channels_and_pixels(const struct convoy_shape *shape, enum convoy_cuda_channels where,
                                     int64_t *channels, int64_t *pixels)
{
    if (where == CONVOY_CUDA_CHANNELS_NONE)
        return false;
    *channels = shape->dims[where == CONVOY_CUDA_CHANNELS_FIRST ? 1 : shape->rank - 1];
    *pixels = *channels > 0 ? convoy_shape_elements(shape) / *channels : 0;
    return *channels > 0;
}

int64_t convoy_cuda_before_images(const struct convoy_shape *shape)
{
    int64_t before = 1;
    for (int i = 0; i < shape->batch_axis; i++)
        before *= shape->dims[i];
    return before;
}

static bool is_activation(const struct convoy_graph *graph, int tensor)
{
    return graph->tensors[tensor].data == NULL;
}

/* The same for what a node computes; before[]: for its inputs. */
static int64_t parts_before(const struct convoy_graph *graph, const struct convoy_node *node,
                            const int64_t *before)
{
    int64_t parts = UNKNOWN;
    bool by_shape = true;
    for (int i = 0; i < node->input_count; i++) {
        int input = node->inputs[i];
        const struct convoy_shape *shape = &graph->tensors[input].shape;
        if (!is_activation(graph, input) || shape->batch_axis < 0)
            continue;
        if (before[input] == UNKNOWN || (parts != UNKNOWN && parts != before[input]))
            return UNKNOWN;
        parts = before[input];
        by_shape = by_shape && parts == convoy_cuda_before_images(shape);
    }
    /* Rows of a matrix may be T x N; such a tensor passes that on as long as its rows stay. */
    if (node->op == CONVOY_OP_RESHAPE || parts == UNKNOWN)
        return parts;
    const struct convoy_shape *y = &graph->tensors[node->output].shape;
    if (by_shape)
        return y->batch_axis >= 0 ? convoy_cuda_before_images(y) : UNKNOWN;
    return node->op == CONVOY_OP_DENSE || node->op == CONVOY_OP_ACTIVATION || node->op == CONVOY_OP_NORMALIZE
               ? parts
               : UNKNOWN;
}

static bool takes_axis(const struct convoy_node *node, int rank, int from, int to)
{
    if (node->perm[to] != from)
        return false;
    for (int i = 0, next = 0; i < rank; i++) {
        if (i == to)
            continue;
        next += next == from;
        if (node->perm[i] != next++)
            return false;
    }
    return true;
}

static enum convoy_cuda_channels transposed(const struct convoy_shape *x, const struct convoy_node *node,
                                            enum convoy_cuda_channels from)
{
    if (!batch_alone(x) || x->rank < 3)
        return CONVOY_CUDA_CHANNELS_NONE;
    if (from == CONVOY_CUDA_CHANNELS_FIRST && takes_axis(node, x->rank, 1, x->rank - 1))
        return CONVOY_CUDA_CHANNELS_LAST;
    if (from == CONVOY_CUDA_CHANNELS_LAST && takes_axis(node, x->rank, x->rank - 1, 1))
        return CONVOY_CUDA_CHANNELS_FIRST;
    return CONVOY_CUDA_CHANNELS_NONE;
}

/* Where they are if nothing else says so. */
static enum convoy_cuda_channels by_rank(const struct convoy_shape *y)
{
    if (y->batch_axis == 0 && y->rank == 2) /* a row for each image, or several */
        return y->dims[0] == 1 ? CONVOY_CUDA_CHANNELS_FIRST : CONVOY_CUDA_CHANNELS_LAST;
    if (!batch_alone(y))
        return CONVOY_CUDA_CHANNELS_NONE;
    return y->rank == 3   ? CONVOY_CUDA_CHANNELS_LAST
           : y->rank == 4 ? CONVOY_CUDA_CHANNELS_FIRST
                          : CONVOY_CUDA_CHANNELS_NONE;
}

static enum convoy_cuda_channels reshaped(const struct convoy_shape *x, const struct convoy_shape *y,
                                          enum convoy_cuda_channels from)
{
    int64_t channels, pixels;
    if (!convoy_cuda_channels_and_pixels(x, from, &channels, &pixels))
        return by_rank(y);
    if (from == CONVOY_CUDA_CHANNELS_FIRST && pixels > 1)
        return batch_alone(y) && y->rank >= 2 && y->dims[1] == channels ? CONVOY_CUDA_CHANNELS_FIRST
                                                                        : by_rank(y);
    /* As they are, or pixels side by side in one. */
    if (from == CONVOY_CUDA_CHANNELS_LAST && y->rank > 2 && y->dims[y->rank - 1] % channels == 0)
        return CONVOY_CUDA_CHANNELS_LAST;
    /* The channels of each row divided among heads: no image. */
    if (from == CONVOY_CUDA_CHANNELS_LAST && y->rank == 4 && y->dims[2] * y->dims[3] == channels)
        return CONVOY_CUDA_CHANNELS_NONE;
    return by_rank(y);
}

/* Pooling over rows, as reductions over pixels become: [N,1,T,C] with windows of one channel. */
static bool pools_rows(const struct convoy_shape *x, const struct convoy_pool *pool,
                       enum convoy_cuda_channels from)
{
    return from == CONVOY_CUDA_CHANNELS_LAST && x->rank == 4 && x->dims[1] == 1 && pool->window[1] == 1 &&
           pool->stride[1] == 1 && pool->pad[1] == 0 && pool->pad[3] == 0;
}

static enum convoy_cuda_channels channels_of(const struct convoy_graph *graph, const struct convoy_node *node,
                                             const enum convoy_cuda_channels *channels)
{
    const struct convoy_shape *y = &graph->tensors[node->output].shape;
    const struct convoy_shape *x = &graph->tensors[node->inputs[0]].shape;
    enum convoy_cuda_channels from = channels[node->inputs[0]];
    switch (node->op) {
    case CONVOY_OP_TRANSPOSE:
        return transposed(x, node, from);
    case CONVOY_OP_RESHAPE:
        return reshaped(x, y, from);
    case CONVOY_OP_POOL:
        return pools_rows(x, &node->pool, from) ? CONVOY_CUDA_CHANNELS_LAST : by_rank(y);
    case CONVOY_OP_MATMUL: /* rows and columns: neither is a pixel */
        return CONVOY_CUDA_CHANNELS_NONE;
    case CONVOY_OP_ACTIVATION:
    case CONVOY_OP_NORMALIZE:
    case CONVOY_OP_SOFTMAX:
    case CONVOY_OP_PAD:
    case CONVOY_OP_CONCAT:
        return y->rank == x->rank && is_activation(graph, node->inputs[0]) ? from : by_rank(y);
    case CONVOY_OP_BINARY:
        for (int i = 0; i < node->input_count; i++)
            if (is_activation(graph, node->inputs[i]) &&
                convoy_shape_elements(&graph->tensors[node->inputs[i]].shape) == convoy_shape_elements(y) &&
                graph->tensors[node->inputs[i]].shape.rank == y->rank)
                return channels[node->inputs[i]];
        return by_rank(y);
    default:
        return by_rank(y);
    }
}

/* Of tensors whose images do not follow each other or are cut into windows: do whole rows of channels stay
 * that, in whatever order? */
static bool keeps_rows(const struct convoy_graph *graph, const struct convoy_node *node,
                       const enum convoy_cuda_channels *channels)
{
    const struct convoy_shape *x = &graph->tensors[node->inputs[0]].shape;
    const struct convoy_shape *y = &graph->tensors[node->output].shape;
    bool from_rows = channels[node->inputs[0]] == CONVOY_CUDA_CHANNELS_LAST;
    if (y->batch_axis >= y->rank - 1) /* images side by side in a row */
        return false;
    switch (node->op) {
    case CONVOY_OP_DENSE:
        return y->rank == 2;
    case CONVOY_OP_RESHAPE:
        return y->rank == 2 || (from_rows && y->rank > 2 && y->dims[y->rank - 1] % x->dims[x->rank - 1] == 0);
    case CONVOY_OP_TRANSPOSE:
        return from_rows && node->perm[y->rank - 1] == y->rank - 1;
    case CONVOY_OP_ACTIVATION:
    case CONVOY_OP_NORMALIZE:
    case CONVOY_OP_PAD:
    case CONVOY_OP_CONCAT:
        return from_rows && y->rank == x->rank;
    case CONVOY_OP_BINARY:
        for (int i = 0; i < node->input_count; i++) {
            const struct convoy_shape *side = &graph->tensors[node->inputs[i]].shape;
            if (channels[node->inputs[i]] == CONVOY_CUDA_CHANNELS_LAST && side->rank == y->rank &&
                convoy_shape_elements(side) == convoy_shape_elements(y))
                return true;
        }
        return false;
    default:
        return false;
    }
}

void convoy_cuda_find_channels(const struct convoy_graph *graph, enum convoy_cuda_channels *channels,
                               int64_t *before)
{
    for (int t = 0; t < graph->tensor_count; t++) {
        before[t] = UNKNOWN;
        channels[t] = CONVOY_CUDA_CHANNELS_NONE;
    }
    before[graph->input] = convoy_cuda_before_images(&graph->tensors[graph->input].shape);
    channels[graph->input] = by_rank(&graph->tensors[graph->input].shape);
    for (int i = 0; i < graph->node_count; i++) {
        const struct convoy_node *node = &graph->nodes[i];
        before[node->output] = parts_before(graph, node, before);
        if (before[node->output] == 1 && graph->tensors[node->output].shape.batch_axis == 0)
            channels[node->output] = channels_of(graph, node, channels);
        if (before[node->output] != UNKNOWN && channels[node->output] == CONVOY_CUDA_CHANNELS_NONE &&
            keeps_rows(graph, node, channels))
            channels[node->output] = CONVOY_CUDA_CHANNELS_LAST;
    }
}

/* A transposition of rows of channels after which those of each image are where they were. */
static bool keeps_order(const struct convoy_shape *x, const struct convoy_node *node)
{
    int last = -1;
    for (int i = 0; i < x->rank; i++) {
        if (x->dims[node->perm[i]] == 1)
            continue;
        if (node->perm[i] < last)
            return false;
        last = node->perm[i];
    }
    return true;
}

bool convoy_cuda_is_pixel_view(const struct convoy_graph *graph, const struct convoy_node *node,
                               const enum convoy_cuda_channels *channels)
{
    enum convoy_cuda_channels from = channels[node->inputs[0]], to = channels[node->output];
    int64_t c[2], pixels[2];
    if (!convoy_cuda_channels_and_pixels(&graph->tensors[node->inputs[0]].shape, from, &c[0], &pixels[0]) ||
        !convoy_cuda_channels_and_pixels(&graph->tensors[node->output].shape, to, &c[1], &pixels[1]) ||
        c[0] != c[1])
        return false;
    if (node->op == CONVOY_OP_TRANSPOSE)
        return from != to || keeps_order(&graph->tensors[node->inputs[0]].shape, node);
    return node->op == CONVOY_OP_RESHAPE && (from == to || pixels[0] == 1);
}
