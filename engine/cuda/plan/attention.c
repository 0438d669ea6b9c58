#include "engine/cuda/plan/attention.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ELEMENTS (INT64_C(1) << 24)

/* What a tensor shows of another one, for one image. */
struct view {
    int base;
    int64_t before, count; /* parts before the images; elements */
    int32_t *map;          /* for each element: which one of the base */
    double scale;          /* by which it is multiplied */
};

static int64_t parts_before(const struct convoy_shape *shape)
{
    int64_t before = 1;
    for (int i = 0; i < shape->batch_axis; i++)
        before *= shape->dims[i];
    return before;
}

static bool scalar_operand(const struct convoy_graph *graph, const struct convoy_node *node, int *x,
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

static bool start_view(const struct convoy_graph *graph, int tensor, struct view *view)
{
    const struct convoy_shape *shape = &graph->tensors[tensor].shape;
    *view = (struct view){tensor, parts_before(shape), convoy_shape_elements(shape), NULL, 1};
    if (shape->batch_axis < 0 || view->count > MOST_ELEMENTS)
        return false;
    view->map = malloc((size_t)view->count * sizeof(view->map[0]));
    for (int64_t i = 0; view->map != NULL && i < view->count; i++)
        view->map[i] = (int32_t)i;
    return view->map != NULL;
}

/* Takes elements of a box of the view: axis i of the result goes from first[i] in steps of 1 along `axes`. */
static bool take(struct view *view, const struct convoy_shape *from, const struct convoy_shape *to,
                 const int *axes, const int64_t *first)
{
    int64_t stride[CONVOY_MAX_RANK] = {0}, next = 1, count = convoy_shape_elements(to);
    if (from->rank != to->rank || from->batch_axis < 0 || from->dims[from->batch_axis] != 1 ||
        to->batch_axis < 0 || view->before != parts_before(from))
        return false;
    int32_t *map = malloc((size_t)count * sizeof(map[0]));
    if (map == NULL)
        return false;
    for (int i = from->rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= from->dims[i];
    }
    for (int64_t e = 0; e < count; e++) {
        int64_t rest = e, at = 0;
        for (int i = to->rank - 1; i >= 0; i--) {
            at += (rest % to->dims[i] + first[axes[i]]) * stride[axes[i]];
            rest /= to->dims[i];
        }
        map[e] = view->map[at];
    }
    free(view->map);
    view->map = map;
    view->count = count;
    view->before = parts_before(to);
    return true;
}

/* Sees the tensor as a view of what is no view itself. view->map is to be freed in any case. */
static bool trace(const struct convoy_graph *graph, int tensor, struct view *view)
{
    int producer = graph->tensors[tensor].producer, x = -1;
    const struct convoy_node *node = producer < 0 ? NULL : &graph->nodes[producer];
    const struct convoy_shape *to = &graph->tensors[tensor].shape;
    const int along[CONVOY_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t first[CONVOY_MAX_RANK] = {0};
    double factor;
    if (node == NULL)
        return start_view(graph, tensor, view);
    if (scalar_operand(graph, node, &x, &factor)) {
        bool traced = trace(graph, x, view);
        view->scale *= factor;
        return traced;
    }
    const struct convoy_shape *from = &graph->tensors[node->inputs[0]].shape;
    switch (node->op) {
    case CONVOY_OP_RESHAPE:
        return trace(graph, node->inputs[0], view);
    case CONVOY_OP_TRANSPOSE:
        return trace(graph, node->inputs[0], view) && take(view, from, to, node->perm, first);
    case CONVOY_OP_PAD:
        for (int i = 0; i < from->rank; i++) {
            if (node->pad.before[i] > 0 || node->pad.after[i] > 0)
                return start_view(graph, tensor, view);
            first[i] = -node->pad.before[i];
        }
        return trace(graph, node->inputs[0], view) && take(view, from, to, along, first);
    default:
        return start_view(graph, tensor, view);
    }
}

static bool add_bias(struct convoy_cuda_attention *attention, const struct convoy_graph *graph, int constant,
                     const struct convoy_shape *y)
{
    const struct convoy_tensor *c = &graph->tensors[constant];
    struct convoy_nhwc_attention *s = &attention->shape;
    int64_t count = convoy_shape_elements(y), row = s->keys + s->keys % 2;
    if (y->rank < 3 || c->shape.rank > y->rank || y->dims[y->rank - 1] != s->keys ||
        y->dims[y->rank - 2] != s->queries || count > MOST_ELEMENTS)
        return false;
    int skip = y->rank - c->shape.rank;
    if (y->batch_axis >= skip && c->shape.dims[y->batch_axis - skip] != 1)
        return false;
    if (attention->bias == NULL)
        attention->bias = calloc((size_t)(count / s->keys * row), sizeof(float));
    for (int64_t e = 0; attention->bias != NULL && e < count; e++) {
        int64_t rest = e, at = 0, stride = 1;
        for (int i = y->rank - 1; i >= skip; i--) {
            if (c->shape.dims[i - skip] != 1)
                at += rest % y->dims[i] * stride;
            stride *= c->shape.dims[i - skip];
            rest /= y->dims[i];
        }
        attention->bias[e / s->keys * row + e % s->keys] += c->data[at];
    }
    s->bias_query = row;
    return attention->bias != NULL;
}

/* From the softmax back to the product of queries and keys: its scale and what is added. */
static const struct convoy_node *product_before(const struct convoy_graph *graph, int tensor,
                                                const int *readers, double *scale,
                                                struct convoy_cuda_attention *attention)
{
    for (;;) {
        int producer = graph->tensors[tensor].producer, x;
        double factor;
        if (producer < 0 || readers[tensor] != 1)
            return NULL;
        const struct convoy_node *node = &graph->nodes[producer];
        if (node->op == CONVOY_OP_MATMUL)
            return node;
        if (node->op == CONVOY_OP_RESHAPE) {
            tensor = node->inputs[0];
        } else if (scalar_operand(graph, node, &x, &factor)) {
            *scale *= factor;
            tensor = x;
        } else if (node->op == CONVOY_OP_BINARY && node->binary == CONVOY_ADD && *scale == 1) {
            int side = graph->tensors[node->inputs[0]].data != NULL ? 0 : 1;
            x = node->inputs[1 - side];
            if (graph->tensors[node->inputs[side]].data == NULL ||
                convoy_shape_elements(&graph->tensors[x].shape) !=
                    convoy_shape_elements(&graph->tensors[tensor].shape) ||
                !add_bias(attention, graph, node->inputs[side], &graph->tensors[tensor].shape))
                return NULL;
            tensor = x;
        } else {
            return NULL;
        }
    }
}

static const struct convoy_node *only_reader(const struct convoy_graph *graph, int tensor, const int *readers)
{
    if (readers[tensor] != 1)
        return NULL;
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].inputs[k] == tensor)
                return &graph->nodes[i];
    return NULL;
}

/* Element of the base for channel 0 of a row of a matrix, from matrices of queries or keys x channels; keys
 * come transposed. */
struct side {
    struct view view;
    int64_t channels, across; /* of the base; from channel to channel */
    int rows;
    int64_t row; /* elements from row to row */
};

static int64_t place_of(const struct convoy_cuda_attention *attention, const struct side *side, int64_t b,
                        int64_t row)
{
    return side->view.map[b * side->rows * attention->shape.d + row * side->row];
}

static bool is_whole(const struct convoy_cuda_attention *attention, const struct side *side, int64_t matrices)
{
    int d = attention->shape.d;
    for (int64_t b = 0; b < matrices; b++)
        for (int64_t row = 0; row < side->rows; row++) {
            int64_t first = place_of(attention, side, b, row);
            if (first % 8 != 0 || first % side->channels + d > side->channels ||
                first % side->channels != place_of(attention, side, b, 0) % side->channels)
                return false;
            for (int c = 1; c < d; c++)
                if (side->view.map[b * side->rows * d + row * side->row + c * side->across] != first + c)
                    return false;
        }
    return true;
}

/* Do `heads` matrices that follow each other have the same pixels, and channels at equal distances? */
static bool has_heads(const struct convoy_cuda_attention *attention, const struct side *side,
                      int64_t matrices, int64_t heads, int64_t *step)
{
    int64_t c = side->channels, first = place_of(attention, side, 0, 0) % c;
    *step = heads > 1 ? place_of(attention, side, 1, 0) % c - first : 0;
    for (int64_t b = 0; b < matrices; b++) {
        if (place_of(attention, side, b, 0) % c != first + b % heads * *step)
            return false;
        for (int64_t row = 0; row < side->rows; row++)
            if (place_of(attention, side, b, row) / c != place_of(attention, side, b - b % heads, row) / c)
                return false;
    }
    return true;
}

static bool divide(struct convoy_cuda_attention *attention, const struct side *sides, int64_t matrices)
{
    struct convoy_nhwc_attention *s = &attention->shape;
    struct convoy_nhwc_rows_of_heads *to[] = {&s->q, &s->k, &s->v, &s->y};
    int64_t heads = matrices;
    for (;; heads--) {
        bool fits = matrices % heads == 0;
        for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES && fits; i++)
            fits = has_heads(attention, &sides[i], matrices, heads, &to[i]->head);
        if (fits)
            break;
        if (heads == 1)
            return false;
    }
    s->heads = (int)heads;
    s->windows = (int)(matrices / heads);
    s->bias_head = attention->bias != NULL ? s->queries * s->bias_query : 0;
    s->bias_window = s->bias_head * heads;
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES; i++) {
        const struct side *side = &sides[i];
        attention->tensor[i] = side->view.base;
        attention->channel[i] = place_of(attention, side, 0, 0) % side->channels;
        attention->rows[i] = malloc((size_t)(s->windows * side->rows) * sizeof(int32_t));
        if (attention->rows[i] == NULL)
            return false;
        for (int w = 0; w < s->windows; w++)
            for (int row = 0; row < side->rows; row++)
                attention->rows[i][w * side->rows + row] =
                    (int32_t)(place_of(attention, side, w * heads, row) / side->channels);
    }
    return true;
}

/* The tensor of rows that shows all of the result, and nothing else does: its map is turned around. */
static bool trace_result(const struct convoy_graph *graph, int tensor, const int *readers,
                         const enum convoy_cuda_channels *channels, struct view *view)
{
    int to = tensor;
    for (const struct convoy_node *next = only_reader(graph, to, readers);
         next != NULL && (next->op == CONVOY_OP_RESHAPE || next->op == CONVOY_OP_TRANSPOSE);
         next = only_reader(graph, to, readers))
        to = next->output;
    if (to == tensor || channels[to] != CONVOY_CUDA_CHANNELS_LAST || !trace(graph, to, view) ||
        view->base != tensor || view->scale != 1)
        return false;
    int32_t *turned = malloc((size_t)view->count * sizeof(turned[0]));
    if (turned == NULL)
        return false;
    for (int64_t i = 0; i < view->count; i++)
        turned[view->map[i]] = (int32_t)i;
    free(view->map);
    view->map = turned;
    view->base = to;
    return true;
}

static bool recognise(const struct convoy_graph *graph, const struct convoy_node *softmax, const int *readers,
                      const enum convoy_cuda_channels *channels, struct convoy_cuda_attention *attention,
                      struct side *sides)
{
    struct convoy_nhwc_attention *s = &attention->shape;
    const struct convoy_shape *p = &graph->tensors[softmax->output].shape;
    const struct convoy_node *values = only_reader(graph, softmax->output, readers);
    if (softmax->softmax.log || softmax->softmax.axis != p->rank - 1 ||
        softmax->softmax.axis_end != p->rank || p->rank < 3 || values == NULL ||
        values->op != CONVOY_OP_MATMUL || values->inputs[0] != softmax->output ||
        values->inputs[1] == softmax->output)
        return false;
    s->queries = (int)p->dims[p->rank - 2];
    s->keys = (int)p->dims[p->rank - 1];
    double scale = 1;
    const struct convoy_node *product = product_before(graph, softmax->inputs[0], readers, &scale, attention);
    if (product == NULL)
        return false;
    const struct convoy_shape *q = &graph->tensors[product->inputs[0]].shape;
    const struct convoy_shape *k = &graph->tensors[product->inputs[1]].shape;
    const struct convoy_shape *v = &graph->tensors[values->inputs[1]].shape;
    int rank = q->rank;
    int64_t d = rank > 0 ? q->dims[rank - 1] : 0;
    if (rank < 3 || k->rank != rank || v->rank != p->rank || d % 8 != 0 ||
        d > CONVOY_NHWC_ATTENTION_CHANNELS || v->dims[v->rank - 1] != d || q->batch_axis < 0 ||
        q->batch_axis > rank - 3 || k->batch_axis != q->batch_axis || v->batch_axis < 0 ||
        q->dims[rank - 2] != s->queries || k->dims[rank - 1] != s->keys || k->dims[rank - 2] != d ||
        v->dims[v->rank - 2] != s->keys)
        return false;
    for (int i = 0; i < rank - 2; i++)
        if (q->dims[i] != k->dims[i])
            return false;
    s->d = (int)d;
    int64_t matrices = convoy_shape_elements(q) / (d * s->queries);
    const int inputs[3] = {product->inputs[0], product->inputs[1], values->inputs[1]};
    for (int i = 0; i < 3; i++) {
        if (!trace(graph, inputs[i], &sides[i].view) ||
            channels[sides[i].view.base] != CONVOY_CUDA_CHANNELS_LAST)
            return false;
        scale *= sides[i].view.scale;
    }
    if (sides[2].view.scale != 1 || sides[0].view.before != sides[1].view.before ||
        sides[0].view.before != sides[2].view.before || convoy_shape_elements(v) != matrices * d * s->keys ||
        !trace_result(graph, values->output, readers, channels, &sides[3].view))
        return false;
    s->scale = (float)scale;
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES; i++) {
        const struct convoy_shape *shape = &graph->tensors[sides[i].view.base].shape;
        sides[i].rows = i == 1 || i == 2 ? s->keys : s->queries;
        sides[i].channels = shape->dims[shape->rank - 1];
        sides[i].row = i == 1 ? 1 : d;
        sides[i].across = i == 1 ? s->keys : 1;
        if (sides[i].channels % 8 != 0 || !is_whole(attention, &sides[i], matrices))
            return false;
    }
    return divide(attention, sides, matrices);
}

struct convoy_cuda_attention *convoy_cuda_find_attention(const struct convoy_graph *graph, int softmax,
                                                         const int *readers,
                                                         const enum convoy_cuda_channels *channels)
{
    struct side sides[CONVOY_CUDA_ATTENTION_SIDES] = {0};
    struct convoy_cuda_attention *attention = calloc(1, sizeof(*attention));
    bool found =
        attention != NULL && recognise(graph, &graph->nodes[softmax], readers, channels, attention, sides);
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES; i++)
        free(sides[i].view.map);
    if (found)
        return attention;
    convoy_cuda_attention_free(attention);
    return NULL;
}

void convoy_cuda_attention_free(struct convoy_cuda_attention *attention)
{
    for (int i = 0; attention != NULL && i < CONVOY_CUDA_ATTENTION_SIDES; i++)
        free(attention->rows[i]);
    if (attention != NULL)
        free(attention->bias);
    free(attention);
}
