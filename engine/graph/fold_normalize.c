/* Normalisations that are written in several nodes, with d = x - mean(x):
 *
 * - layer: d / sqrt(mean(d d) + epsilon), as exporters write it before opset 17 (Ba et al., Layer
 *   Normalization, 2016);
 * - RMS: x / sqrt(mean(x x) + epsilon), which has an operator from opset 23 on (Zhang and Sennrich, Root Mean
 *   Square Layer Normalization, 2019);
 * - length: x / max(sqrt(n mean(x x)), least), division by the Euclidean length, which is RMS with a scale of
 *   1 / sqrt(n).
 *
 * Behind the first two follow a product with a constant and a sum with one. A mean over neighbouring axes is
 * an average POOL between two RESHAPEs (engine/onnx/reduce.c). */
#include "engine/graph/build.h"
#include "engine/graph/fold.h"
#include "engine/graph/fold_match.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reshapes behind each other that are looked through: exporters write a few, and a file with tens of
 * thousands behind as many roots would be walked through for each. */
#define MOST_RESHAPES 16

/* A run of neighbouring axes of a tensor. */
struct run {
    int axis, axis_end;
};

static int through_reshapes(struct convoy_graph *graph, int tensor, int until)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    for (int i = 0; i < MOST_RESHAPES && tensor != until && node != NULL && node->op == CONVOY_OP_RESHAPE;
         i++) {
        tensor = node->inputs[0];
        node = fold_producer(graph, tensor);
    }
    return tensor;
}

/* Whether the pool leaves one value of all along an axis of the image (0: height, 1: width), or all as they
 * are. */
static bool takes_all_or_none(const struct convoy_pool *pool, int axis, int64_t in, int64_t out)
{
    if (pool->pad[axis] != 0 || pool->pad[axis + 2] != 0)
        return false;
    return out == 1 ? pool->window[axis] == in && (in == 1 || pool->dilation[axis] == 1)
                    : pool->window[axis] == 1 && pool->stride[axis] == 1 && out == in;
}

/* The run of axes of `shape` with so many elements of an image before it and in it; false where there is
 * none, or the batch is not before it. */
static bool find_run(const struct convoy_shape *shape, int64_t before, int64_t length, struct run *run)
{
    int64_t elements = 1;
    int axis = 0;
    while (axis < shape->rank && (elements < before || axis <= shape->batch_axis))
        elements *= shape->dims[axis++];
    if (elements != before)
        return false;
    while (axis < shape->rank && shape->dims[axis] == 1 && length > 1)
        axis++;
    *run = (struct run){axis, axis};
    for (elements = 1; run->axis_end < shape->rank && elements < length; run->axis_end++)
        elements *= shape->dims[run->axis_end];
    return elements == length && length > 1;
}

/* Whether `tensor` is x with these axes reduced to 1, so that it is broadcast back along them. */
static bool keeps_other_axes(const struct convoy_shape *tensor, const struct convoy_shape *x, struct run run)
{
    if (tensor->rank != x->rank || tensor->batch_axis != x->batch_axis)
        return false;
    for (int i = 0; i < x->rank; i++)
        if (tensor->dims[i] != (i >= run.axis && i < run.axis_end ? 1 : x->dims[i]))
            return false;
    return true;
}

/* Whether `tensor` is the mean of x over a run of axes. */
static bool is_mean_of(struct convoy_graph *graph, int tensor, int x, struct run *run)
{
    const struct convoy_node *node = fold_producer(graph, through_reshapes(graph, tensor, x));
    if (node == NULL || node->op != CONVOY_OP_POOL || node->pool.kind != CONVOY_POOL_AVERAGE ||
        through_reshapes(graph, node->inputs[0], x) != x)
        return false;
    const struct convoy_shape *in = &graph->tensors[node->inputs[0]].shape;
    const struct convoy_shape *out = &graph->tensors[node->output].shape;
    const struct convoy_shape *shape = &graph->tensors[x].shape;
    if (in->rank != 4 || out->rank != 4 || (shape->batch_axis >= 0) != (in->batch_axis >= 0) ||
        !takes_all_or_none(&node->pool, 0, in->dims[2], out->dims[2]) ||
        !takes_all_or_none(&node->pool, 1, in->dims[3], out->dims[3]))
        return false;
    int64_t before = in->dims[0] * in->dims[1], length = 1;
    if (out->dims[2] == 1)
        length *= in->dims[2];
    else
        before *= in->dims[2];
    if (out->dims[3] == 1)
        length *= in->dims[3];
    return find_run(shape, before, length, run) &&
           keeps_other_axes(&graph->tensors[tensor].shape, shape, *run);
}

/* d of d d. */
static int squared(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    if (node == NULL)
        return -1;
    if (node->op == CONVOY_OP_BINARY && node->binary == CONVOY_MUL && node->inputs[0] == node->inputs[1])
        return node->inputs[0];
    return node->op == CONVOY_OP_ACTIVATION && node->activation.kind == CONVOY_POW &&
                   node->activation.alpha == 2
               ? node->inputs[0]
               : -1;
}

/* The tensor under the root, without epsilon, of sqrt(tensor + epsilon); -1 where the divisor is none. */
static int under_root(struct convoy_graph *graph, int divisor, float *epsilon)
{
    const struct convoy_node *root = fold_producer(graph, divisor);
    if (root == NULL || root->op != CONVOY_OP_ACTIVATION || root->activation.kind != CONVOY_SQRT)
        return -1;
    const struct convoy_node *sum = fold_producer(graph, root->inputs[0]);
    if (sum == NULL || sum->op != CONVOY_OP_BINARY || sum->binary != CONVOY_ADD)
        return -1;
    for (int k = 0; k < 2; k++) {
        const struct convoy_tensor *constant = &graph->tensors[sum->inputs[k]];
        if (constant->data == NULL || convoy_shape_elements(&constant->shape) != 1 ||
            !(constant->data[0] >= 0 && constant->data[0] < INFINITY) ||
            graph->tensors[sum->inputs[1 - k]].shape.rank != graph->tensors[sum->output].shape.rank)
            continue;
        *epsilon = constant->data[0];
        return sum->inputs[1 - k];
    }
    return -1;
}

/* The divisor of x / divisor, or of x (1 / divisor); *x is the other operand. */
static int divisor_of(struct convoy_graph *graph, const struct convoy_node *node, int *x)
{
    if (node->op != CONVOY_OP_BINARY)
        return -1;
    if (node->binary == CONVOY_DIV) {
        *x = node->inputs[0];
        return node->inputs[1];
    }
    for (int k = 0; k < 2 && node->binary == CONVOY_MUL; k++) {
        const struct convoy_node *factor = fold_producer(graph, node->inputs[k]);
        if (factor == NULL || factor->op != CONVOY_OP_BINARY || factor->binary != CONVOY_DIV ||
            !fold_is_number(graph, factor->inputs[0], 1))
            continue;
        *x = node->inputs[1 - k];
        return factor->inputs[1];
    }
    return -1;
}

/* x of x - mean(x) over the same axes; -1 where d is something else. */
static int centred(struct convoy_graph *graph, int d, struct run run)
{
    const struct convoy_node *node = fold_producer(graph, d);
    struct run other;
    if (node == NULL || node->op != CONVOY_OP_BINARY || node->binary != CONVOY_SUB ||
        !is_mean_of(graph, node->inputs[1], node->inputs[0], &other) || other.axis != run.axis ||
        other.axis_end != run.axis_end)
        return -1;
    return node->inputs[0];
}

/* Whether `mean` is that of the squares of x over a run of axes. */
static bool is_mean_of_squares(struct convoy_graph *graph, int mean, int x, struct run *run)
{
    const struct convoy_node *pool = fold_producer(graph, through_reshapes(graph, mean, -1));
    if (pool == NULL || pool->op != CONVOY_OP_POOL)
        return false;
    /* The squares stand behind the reshapes that the mean needs. */
    int squares = through_reshapes(graph, pool->inputs[0], -1);
    return squared(graph, squares) == x && is_mean_of(graph, mean, squares, run);
}

/* Floats of constants that are looked at, and of scales that are made, in all of a graph: each of a hostile
 * file's nodes could divide by the same repeated length. */
#define MOST_FLOATS (INT64_C(1) << 26)

/* The other operand of a product with a constant of ones, which repeats it along axes; else the tensor. */
static int before_repetition(struct convoy_graph *graph, int tensor, int64_t *floats_left)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    if (node == NULL || node->op != CONVOY_OP_BINARY || node->binary != CONVOY_MUL)
        return tensor;
    int side = graph->tensors[node->inputs[0]].data != NULL ? 1 : 0;
    const struct convoy_tensor *ones = &graph->tensors[node->inputs[1 - side]];
    if (ones->data == NULL ||
        graph->tensors[node->inputs[side]].shape.rank != graph->tensors[tensor].shape.rank)
        return tensor;
    int64_t count = convoy_shape_elements(&ones->shape);
    if (count > *floats_left)
        return tensor;
    *floats_left -= count;
    for (int64_t i = 0; i < count; i++)
        if (ones->data[i] != 1)
            return tensor;
    return node->inputs[side];
}

/* The largest of what a length may be raised to: below it a length is that of nothing. */
#define MOST_LEAST 1e-6F

/* The mean whose `count`-fold root, `*least` at least, the divisor is; -1 where the divisor is none. */
static int under_length(struct convoy_graph *graph, int divisor, int64_t *floats_left, float *least,
                        float *count)
{
    int length = before_repetition(graph, divisor, floats_left);
    const struct convoy_node *node = fold_producer(graph, length);
    *least = 0;
    if (node != NULL && node->op == CONVOY_OP_ACTIVATION && node->activation.kind == CONVOY_CLIP &&
        node->activation.alpha >= 0 && node->activation.alpha <= MOST_LEAST &&
        node->activation.beta == INFINITY) {
        *least = node->activation.alpha;
        node = fold_producer(graph, node->inputs[0]);
    }
    if (node == NULL || node->op != CONVOY_OP_ACTIVATION || node->activation.kind != CONVOY_SQRT)
        return -1;
    const struct convoy_node *sum = fold_producer(graph, node->inputs[0]);
    for (int k = 0; k < 2 && sum != NULL && sum->op == CONVOY_OP_BINARY && sum->binary == CONVOY_MUL; k++) {
        const struct convoy_tensor *constant = &graph->tensors[sum->inputs[k]];
        if (constant->data == NULL || convoy_shape_elements(&constant->shape) != 1 ||
            graph->tensors[sum->inputs[1 - k]].shape.rank != graph->tensors[sum->output].shape.rank)
            continue;
        *count = constant->data[0];
        return sum->inputs[1 - k];
    }
    return -1;
}

static int64_t run_length(const struct convoy_shape *shape, struct run run)
{
    int64_t length = 1;
    for (int axis = run.axis; axis < run.axis_end; axis++)
        length *= shape->dims[axis];
    return length;
}

/* Division by the length. Where that is near `least`, at most MOST_LEAST, it is no maximum but a sum. */
static int become_division_by_length(struct convoy_graph *graph, struct convoy_node *node,
                                     int64_t *floats_left)
{
    struct run run;
    float least, count;
    int x = -1, divisor = divisor_of(graph, node, &x);
    int mean = divisor >= 0 ? under_length(graph, divisor, floats_left, &least, &count) : -1;
    if (mean < 0 || graph->tensors[x].data != NULL ||
        graph->tensors[node->output].shape.rank != graph->tensors[x].shape.rank ||
        !is_mean_of_squares(graph, mean, x, &run))
        return 0;
    const struct convoy_shape shape = graph->tensors[x].shape;
    int64_t length = run_length(&shape, run);
    float epsilon = least * least / (float)length;
    if (count != (float)length || (least > 0 && epsilon < FLT_MIN)) /* it must keep zeros from becoming NaN */
        return 0;
    if (length > *floats_left)
        return 0;
    *floats_left -= length;
    struct convoy_shape axes = {.rank = run.axis_end - run.axis, .batch_axis = -1};
    memcpy(axes.dims, &shape.dims[run.axis], (size_t)axes.rank * sizeof axes.dims[0]);
    float *data = malloc((size_t)length * sizeof *data);
    for (int64_t i = 0; data != NULL && i < length; i++)
        data[i] = (float)(1 / sqrt((double)length));
    int scale = data != NULL ? convoy_graph_add_tensor(graph, "scale", &axes, data) : -ENOMEM;
    if (scale < 0)
        return -ENOMEM;
    node->op = CONVOY_OP_NORMALIZE;
    node->input_count = 2;
    node->inputs[0] = x;
    node->inputs[1] = scale;
    node->normalize = (struct convoy_normalize){
        .axis = run.axis, .axis_end = run.axis_end, .epsilon = epsilon, .rms = true, .has_scale = true};
    return 0;
}

static void become_normalize(struct convoy_graph *graph, struct convoy_node *node)
{
    struct convoy_normalize normalize = {0};
    struct run run;
    int x = -1, divisor = divisor_of(graph, node, &x);
    int mean = divisor >= 0 ? under_root(graph, divisor, &normalize.epsilon) : -1;
    if (mean < 0 || graph->tensors[x].data != NULL ||
        graph->tensors[node->output].shape.rank != graph->tensors[x].shape.rank ||
        !is_mean_of_squares(graph, mean, x, &run))
        return;
    int whole = centred(graph, x, run);
    normalize.rms = whole < 0;
    normalize.axis = run.axis;
    normalize.axis_end = run.axis_end;
    node->op = CONVOY_OP_NORMALIZE;
    node->input_count = 1;
    node->inputs[0] = whole >= 0 ? whole : x;
    node->normalize = normalize;
}

/* Whether the constant has one number for each element of the axes that are normalised, and no other. */
static bool fits_axes(const struct convoy_shape *constant, const struct convoy_shape *x,
                      const struct convoy_normalize *normalize)
{
    if (constant->rank > x->rank || constant->rank < x->rank - normalize->axis)
        return false;
    for (int i = 0; i < constant->rank; i++) {
        int axis = x->rank - constant->rank + i;
        if (constant->dims[i] != (axis >= normalize->axis && axis < normalize->axis_end ? x->dims[axis] : 1))
            return false;
    }
    return true;
}

/* The constant as the node's scale or shift, in the shape of the axes. A constant that others read keeps the
 * shape it has. */
static bool give_constant(struct convoy_graph *graph, struct convoy_node *node, int constant,
                          const int *readers)
{
    const struct convoy_normalize *normalize = &node->normalize;
    const struct convoy_shape *x = &graph->tensors[node->inputs[0]].shape;
    struct convoy_shape axes = {.rank = normalize->axis_end - normalize->axis, .batch_axis = -1};
    struct convoy_shape *shape = &graph->tensors[constant].shape;
    if (graph->tensors[constant].data == NULL || !fits_axes(shape, x, normalize) ||
        (readers[constant] != 1 && shape->rank != axes.rank))
        return false;
    memcpy(axes.dims, &x->dims[normalize->axis], (size_t)axes.rank * sizeof axes.dims[0]);
    *shape = axes;
    node->inputs[node->input_count++] = constant;
    return true;
}

/* Takes the product or sum of the NORMALIZE with a constant into it. */
static void absorb(struct convoy_graph *graph, struct convoy_node *node, int *readers)
{
    if (node->op != CONVOY_OP_BINARY || (node->binary != CONVOY_MUL && node->binary != CONVOY_ADD))
        return;
    for (int k = 0; k < 2; k++) {
        int y = node->inputs[k], producer = graph->tensors[y].producer;
        struct convoy_node *target = producer >= 0 ? &graph->nodes[producer] : NULL;
        if (target == NULL || target->op != CONVOY_OP_NORMALIZE || readers[y] != 1 ||
            target->normalize.has_shift || (node->binary == CONVOY_MUL && target->normalize.has_scale) ||
            graph->tensors[node->output].shape.rank != graph->tensors[y].shape.rank ||
            !give_constant(graph, target, node->inputs[1 - k], readers))
            continue;
        if (node->binary == CONVOY_MUL)
            target->normalize.has_scale = true;
        else
            target->normalize.has_shift = true;
        target->output = node->output;
        graph->tensors[target->output].producer = producer;
        readers[y]--;
        node->output = -1;
        return;
    }
}

int convoy_fold_normalize(struct convoy_graph *graph)
{
    int64_t floats_left = MOST_FLOATS;
    int status = 0;
    for (int i = 0; i < graph->node_count && status == 0; i++) {
        struct convoy_node *node = &graph->nodes[i];
        if (node->output >= 0)
            become_normalize(graph, node);
        if (node->output >= 0 && node->op == CONVOY_OP_BINARY)
            status = become_division_by_length(graph, node, &floats_left);
    }
    return status;
}

void convoy_fold_normalize_scales(struct convoy_graph *graph, int *readers)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].output >= 0)
            absorb(graph, &graph->nodes[i], readers);
}
