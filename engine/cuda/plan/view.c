#include "engine/cuda/plan/view.h"

#include <stdlib.h>

#define MOST_DEPTH 128  /* nodes behind each other */
#define VISIT      1024 /* units of work, for each node that is looked at */

bool convoy_cuda_scalar_operand(const struct convoy_graph *graph, const struct convoy_node *node, int *x,
                                double *factor)
{
    if (node->op != CONVOY_OP_BINARY || (node->binary != CONVOY_MUL && node->binary != CONVOY_DIV))
        return false;
    for (int side = 0; side < (node->binary == CONVOY_DIV ? 1 : 2); side++) {
        const struct convoy_tensor *other = &graph->tensors[node->inputs[1 - side]];
        *x = node->inputs[side];
        if (other->data == NULL || convoy_shape_elements(&other->shape) != 1 ||
            graph->tensors[*x].shape.rank != graph->tensors[node->output].shape.rank)
            continue;
        *factor = node->binary == CONVOY_DIV ? 1 / (double)other->data[0] : (double)other->data[0];
        return true;
    }
    return false;
}

/* If the node adds a constant to an activation of the result's shape: which one, and the constant. */
static bool sum_operand(const struct convoy_graph *graph, const struct convoy_node *node, int *x,
                        int *constant)
{
    if (node->op != CONVOY_OP_BINARY || node->binary != CONVOY_ADD)
        return false;
    int side = graph->tensors[node->inputs[0]].data != NULL ? 1 : 0;
    *x = node->inputs[side];
    *constant = node->inputs[1 - side];
    return graph->tensors[*constant].data != NULL &&
           graph->tensors[*x].shape.rank == graph->tensors[node->output].shape.rank &&
           convoy_shape_elements(&graph->tensors[*x].shape) ==
               convoy_shape_elements(&graph->tensors[node->output].shape);
}

bool convoy_cuda_add_broadcast(const struct convoy_tensor *constant, const struct convoy_shape *shape,
                               int64_t row, double scale, float *to)
{
    const struct convoy_shape *c = &constant->shape;
    int skip = shape->rank - c->rank;
    int64_t stride[CONVOY_MAX_RANK] = {0}, next = 1, last = shape->dims[shape->rank - 1];
    if (skip < 0 || (shape->batch_axis >= skip && c->dims[shape->batch_axis - skip] != 1))
        return false;
    for (int i = shape->rank - 1; i >= skip; i--) {
        stride[i] = c->dims[i - skip] == 1 ? 0 : next;
        next *= c->dims[i - skip];
        if (c->dims[i - skip] != 1 && c->dims[i - skip] != shape->dims[i])
            return false;
    }
    int64_t count = convoy_shape_elements(shape) / last;
    for (int64_t r = 0; r < count; r++) {
        int64_t rest = r, at = 0;
        for (int i = shape->rank - 2; i >= 0; i--) {
            at += rest % shape->dims[i] * stride[i];
            rest /= shape->dims[i];
        }
        for (int64_t e = 0; e < last; e++)
            to[r * row + e] += (float)(scale * (double)constant->data[at + e * stride[shape->rank - 1]]);
    }
    return true;
}

static int64_t common(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

static int64_t last_of(const struct convoy_graph *graph, int tensor)
{
    const struct convoy_shape *shape = &graph->tensors[tensor].shape;
    return shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
}

/* Does the tensor's shape say where its images are? */
static bool as_shaped(const struct convoy_cuda_tracer *tracer, int tensor)
{
    const struct convoy_shape *shape = &tracer->graph->tensors[tensor].shape;
    return shape->batch_axis >= 0 && tracer->before[tensor] == convoy_cuda_before_images(shape);
}

/* The node through which the tensor is seen; NULL: it is its own base. Such a node moves units of an image
 * within the image. */
static const struct convoy_node *seen_through(const struct convoy_cuda_tracer *tracer, int tensor)
{
    const struct convoy_graph *graph = tracer->graph;
    int producer = graph->tensors[tensor].producer, x, constant;
    double factor;
    if (producer < 0 || tracer->depth > MOST_DEPTH || tracer->ends[tensor])
        return NULL;
    const struct convoy_node *node = &graph->nodes[producer];
    const struct convoy_shape *y = &graph->tensors[tensor].shape;
    switch (node->op) {
    case CONVOY_OP_RESHAPE:
        return graph->tensors[node->inputs[0]].data == NULL && tracer->before[node->inputs[0]] >= 0 ? node
                                                                                                    : NULL;
    case CONVOY_OP_BINARY:
        return convoy_cuda_scalar_operand(graph, node, &x, &factor) ||
                       (tracer->adds && sum_operand(graph, node, &x, &constant))
                   ? node
                   : NULL;
    case CONVOY_OP_NORMALIZE:
        if (tracer->normalize == NULL || node->normalize.axis != y->rank - 1 ||
            node->normalize.axis_end != y->rank || tracer->channels[tensor] == CONVOY_CUDA_CHANNELS_LAST)
            return NULL;
        return as_shaped(tracer, node->inputs[0]) && as_shaped(tracer, tensor) ? node : NULL;
    case CONVOY_OP_TRANSPOSE: /* from channels first: in 16 bits that moves nothing, and is no view */
        if (tracer->channels[node->inputs[0]] == CONVOY_CUDA_CHANNELS_FIRST &&
            tracer->channels[tensor] == CONVOY_CUDA_CHANNELS_LAST)
            return NULL;
        break;
    case CONVOY_OP_PAD:
        if (y->batch_axis < 0 || node->pad.before[y->batch_axis] != 0 || node->pad.after[y->batch_axis] != 0)
            return NULL;
        break;
    case CONVOY_OP_CONCAT:
        if (node->axis == y->batch_axis)
            return NULL;
        break;
    default:
        return NULL;
    }
    for (int i = 0; i < node->input_count; i++)
        if (graph->tensors[node->inputs[i]].data != NULL || !as_shaped(tracer, node->inputs[i]))
            return NULL;
    return as_shaped(tracer, tensor) ? node : NULL;
}

/* The activation that a node of one input, a normalisation, or a sum or product with a constant, reads. */
static int operand(const struct convoy_graph *graph, const struct convoy_node *node)
{
    return graph->tensors[node->inputs[0]].data != NULL ? node->inputs[1] : node->inputs[0];
}

static int64_t unit_before(struct convoy_cuda_tracer *tracer, int tensor)
{
    tracer->depth++;
    int64_t unit = convoy_cuda_view_unit(tracer, tensor);
    tracer->depth--;
    return unit;
}

int64_t convoy_cuda_view_unit(struct convoy_cuda_tracer *tracer, int tensor)
{
    const struct convoy_graph *graph = tracer->graph;
    const struct convoy_node *node = seen_through(tracer, tensor);
    int64_t last = last_of(graph, tensor);
    int rank = graph->tensors[tensor].shape.rank;
    if (node == NULL || (tracer->left -= VISIT) < 0)
        return last;
    int64_t unit = unit_before(tracer, operand(graph, node));
    if (node->op == CONVOY_OP_RESHAPE || node->op == CONVOY_OP_BINARY || node->op == CONVOY_OP_NORMALIZE)
        return unit;
    if (node->op == CONVOY_OP_TRANSPOSE)
        return node->perm[rank - 1] == rank - 1 ? common(unit, last) : 1;
    unit = common(unit, last);
    if (node->op == CONVOY_OP_PAD)
        return common(common(unit, node->pad.before[rank - 1]), last_of(graph, node->inputs[0]));
    for (int i = 0; i < node->input_count; i++) {
        if (i > 0)
            unit = common(unit, unit_before(tracer, node->inputs[i]));
        unit = common(unit, last_of(graph, node->inputs[i]));
    }
    return unit;
}

static bool start_view(struct convoy_cuda_tracer *tracer, int tensor, int64_t unit,
                       struct convoy_cuda_view *view)
{
    const struct convoy_shape *shape = &tracer->graph->tensors[tensor].shape;
    int64_t elements = convoy_shape_elements(shape);
    *view = (struct convoy_cuda_view){.base = tensor, .unit = unit, .count = elements / unit, .scale = 1};
    if (shape->batch_axis < 0 || tracer->before[tensor] < 0 || elements % unit != 0 ||
        elements > CONVOY_CUDA_VIEW_ELEMENTS || (tracer->left -= view->count) < 0)
        return false;
    view->map = malloc(((size_t)view->count + 1) * sizeof(view->map[0]));
    for (int64_t i = 0; view->map != NULL && i < view->count; i++)
        view->map[i] = (int32_t)i;
    return view->map != NULL;
}

/* The dimensions of a tensor of units. False: a unit is no part of its last axis. */
static bool in_units(const struct convoy_shape *shape, int64_t unit, int64_t *dims)
{
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape->dims[i];
    if (shape->rank < 1 || dims[shape->rank - 1] % unit != 0)
        return false;
    dims[shape->rank - 1] /= unit;
    return true;
}

/* Takes units of a box: axis axes[i] of the view becomes axis i of `to`, whose first is at first[axes[i]];
 * outside of the box there are zeros. */
static bool take(struct convoy_cuda_tracer *tracer, struct convoy_cuda_view *view, const int64_t *dims,
                 const struct convoy_shape *to, const int64_t *to_dims, const int *axes, const int64_t *first)
{
    int64_t stride[CONVOY_MAX_RANK] = {0}, next = 1, count = 1, unit = view->unit;
    int64_t at[CONVOY_MAX_RANK] = {0};
    int rank = to->rank;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= dims[i];
        count *= to_dims[i];
    }
    if (count * unit > CONVOY_CUDA_VIEW_ELEMENTS || (tracer->left -= count) < 0)
        return false;
    int32_t *map = malloc(((size_t)count + 1) * sizeof(map[0]));
    float *add = view->add != NULL ? calloc((size_t)(count * unit) + 1, sizeof(add[0])) : NULL;
    if (map == NULL || (view->add != NULL && add == NULL)) {
        free(map);
        free(add);
        return false;
    }
    for (int64_t e = 0; e < count; e++) {
        int64_t from = 0;
        bool inside = true;
        for (int i = 0; i < rank; i++) {
            int64_t place = at[i] + first[axes[i]];
            inside = inside && place >= 0 && place < dims[axes[i]];
            from += place * stride[axes[i]];
        }
        map[e] = inside ? view->map[from] : -1;
        for (int64_t k = 0; add != NULL && inside && k < unit; k++)
            add[e * unit + k] = view->add[from * unit + k];
        for (int i = rank - 1; i >= 0 && ++at[i] == to_dims[i]; i--)
            at[i] = 0;
    }
    free(view->map);
    free(view->add);
    view->map = map;
    view->add = add;
    view->count = count;
    return true;
}

static bool add_constant(struct convoy_cuda_tracer *tracer, const struct convoy_node *node,
                         struct convoy_cuda_view *view)
{
    const struct convoy_graph *graph = tracer->graph;
    const struct convoy_shape *y = &graph->tensors[node->output].shape;
    int x, constant;
    if (!sum_operand(graph, node, &x, &constant))
        return false;
    if (view->add == NULL)
        view->add = calloc((size_t)(view->count * view->unit) + 1, sizeof(view->add[0]));
    return view->add != NULL &&
           convoy_cuda_add_broadcast(&graph->tensors[constant], y, y->dims[y->rank - 1], 1, view->add);
}

/* Puts a view of an input of a concatenation to its place in the whole, `outer` times `width` units of
 * `inner`. */
static bool put(const struct convoy_cuda_view *part, struct convoy_cuda_view *whole, int64_t outer,
                int64_t width, int64_t inner, int64_t from, int64_t length)
{
    int64_t unit = whole->unit;
    if (part->add != NULL && whole->add == NULL)
        whole->add = calloc((size_t)(whole->count * unit) + 1, sizeof(whole->add[0]));
    if (part->add != NULL && whole->add == NULL)
        return false;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t e = 0; e < length * inner; e++) {
            int64_t at = o * length * inner + e, to = (o * width + from) * inner + e;
            whole->map[to] = part->map[at];
            for (int64_t k = 0; part->add != NULL && k < unit; k++)
                whole->add[to * unit + k] = part->add[at * unit + k];
        }
    return true;
}

static bool shows_nothing(const struct convoy_cuda_view *view)
{
    for (int64_t i = 0; i < view->count; i++)
        if (view->map[i] >= 0)
            return false;
    return true;
}

static bool trace_before(struct convoy_cuda_tracer *tracer, int tensor, int64_t unit,
                         struct convoy_cuda_view *view)
{
    tracer->depth++;
    bool traced = convoy_cuda_view_trace(tracer, tensor, unit, view);
    tracer->depth--;
    return traced;
}

/* A normalisation is seen through where that is all there is to what lies before it. */
static bool trace_normalized(struct convoy_cuda_tracer *tracer, const struct convoy_node *node, int64_t unit,
                             struct convoy_cuda_view *view)
{
    int *through = tracer->normalize;
    tracer->normalize = NULL;
    bool plain = trace_before(tracer, node->inputs[0], unit, view) && view->scale == 1 && view->add == NULL;
    tracer->normalize = through;
    if (plain) {
        *through = (int)(node - tracer->graph->nodes);
        return true;
    }
    convoy_cuda_view_free(view);
    return start_view(tracer, node->output, unit, view);
}

/* All inputs have to show the same base. What is normalised is its own, as the others may not be. */
static bool trace_concat(struct convoy_cuda_tracer *tracer, const struct convoy_node *node, int64_t unit,
                         struct convoy_cuda_view *view)
{
    const struct convoy_graph *graph = tracer->graph;
    const struct convoy_shape *y = &graph->tensors[node->output].shape;
    int64_t dims[CONVOY_MAX_RANK], outer = 1, inner = 1, from = 0;
    bool fits = in_units(y, unit, dims) && start_view(tracer, node->output, unit, view), found = false;
    int *through = tracer->normalize;
    tracer->normalize = NULL;
    for (int i = 0; i < y->rank; i++) {
        outer *= i < node->axis ? dims[i] : 1;
        inner *= i > node->axis ? dims[i] : 1;
    }
    for (int i = 0; i < node->input_count && fits; i++) {
        int64_t part_dims[CONVOY_MAX_RANK];
        struct convoy_cuda_view part = {0};
        fits = in_units(&graph->tensors[node->inputs[i]].shape, unit, part_dims) &&
               trace_before(tracer, node->inputs[i], unit, &part);
        bool nothing = fits && shows_nothing(&part);
        if (fits && !nothing) {
            fits = !found || (view->base == part.base && view->scale == part.scale);
            view->base = part.base;
            view->scale = part.scale;
            found = true;
        }
        fits = fits && put(&part, view, outer, dims[node->axis], inner, from, part_dims[node->axis]);
        if (fits)
            from += part_dims[node->axis];
        convoy_cuda_view_free(&part);
    }
    tracer->normalize = through;
    if (fits && found && from == dims[node->axis])
        return true;
    convoy_cuda_view_free(view);
    return start_view(tracer, node->output, unit, view);
}

bool convoy_cuda_view_trace(struct convoy_cuda_tracer *tracer, int tensor, int64_t unit,
                            struct convoy_cuda_view *view)
{
    const struct convoy_graph *graph = tracer->graph;
    const struct convoy_node *node = seen_through(tracer, tensor);
    const int along[CONVOY_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t first[CONVOY_MAX_RANK] = {0}, dims[CONVOY_MAX_RANK], to_dims[CONVOY_MAX_RANK];
    double factor;
    int x;
    *view = (struct convoy_cuda_view){.base = -1};
    tracer->left -= VISIT;
    if (node == NULL)
        return start_view(tracer, tensor, unit, view);
    if (node->op == CONVOY_OP_CONCAT)
        return trace_concat(tracer, node, unit, view);
    if (node->op == CONVOY_OP_NORMALIZE)
        return trace_normalized(tracer, node, unit, view);
    int input = operand(graph, node);
    const struct convoy_shape *from = &graph->tensors[input].shape, *to = &graph->tensors[tensor].shape;
    if (node->op == CONVOY_OP_RESHAPE)
        return trace_before(tracer, input, unit, view);
    if (convoy_cuda_scalar_operand(graph, node, &x, &factor)) {
        bool traced = trace_before(tracer, x, unit, view);
        view->scale *= factor;
        for (int64_t i = 0; traced && view->add != NULL && i < view->count * unit; i++)
            view->add[i] = (float)(view->add[i] * factor);
        return traced;
    }
    if (node->op == CONVOY_OP_BINARY) {
        if (trace_before(tracer, input, unit, view) && add_constant(tracer, node, view))
            return true;
        convoy_cuda_view_free(view);
        return start_view(tracer, tensor, unit, view);
    }
    /* Transpositions and paddings */
    const int *axes = node->op == CONVOY_OP_TRANSPOSE ? node->perm : along;
    bool fits = from->rank == to->rank && in_units(from, unit, dims) && in_units(to, unit, to_dims);
    if (fits && node->op == CONVOY_OP_TRANSPOSE)
        fits = unit == 1 || node->perm[to->rank - 1] == to->rank - 1;
    for (int i = 0; fits && node->op == CONVOY_OP_PAD && i < from->rank; i++) {
        bool last = i == from->rank - 1;
        fits = !last || node->pad.before[i] % unit == 0;
        first[i] = -node->pad.before[i] / (last ? unit : 1);
    }
    if (!fits)
        return start_view(tracer, tensor, unit, view);
    return trace_before(tracer, input, unit, view) && take(tracer, view, dims, to, to_dims, axes, first);
}

void convoy_cuda_view_free(struct convoy_cuda_view *view)
{
    free(view->map);
    free(view->add);
    view->map = NULL;
    view->add = NULL;
}
