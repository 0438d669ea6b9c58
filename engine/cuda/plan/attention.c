#include "engine/cuda/plan/attention.h"

#include <stdlib.h>
#include <string.h>

static bool add_bias(struct convoy_cuda_attention *attention, const struct convoy_graph *graph, int constant,
                     const struct convoy_shape *y)
{
    struct convoy_nhwc_attention *s = &attention->shape;
    int64_t count = convoy_shape_elements(y), row = s->keys + s->keys % 2;
    if (y->rank < 3 || y->dims[y->rank - 1] != s->keys || y->dims[y->rank - 2] != s->queries ||
        count > CONVOY_CUDA_VIEW_ELEMENTS)
        return false;
    if (attention->bias == NULL)
        attention->bias = calloc((size_t)(count / s->keys * row), sizeof(float));
    s->bias_query = row;
    return attention->bias != NULL &&
           convoy_cuda_add_broadcast(&graph->tensors[constant], y, row, 1, attention->bias);
}

/* Does the node multiply each matrix of products by a constant of its own? Then their factors are taken in.
 */
static bool takes_factors(struct convoy_cuda_attention *attention, const struct convoy_graph *graph,
                          const struct convoy_node *node, int *x)
{
    struct convoy_shape matrices = graph->tensors[node->output].shape;
    int side = graph->tensors[node->inputs[0]].data != NULL ? 0 : 1;
    const struct convoy_tensor *constant = &graph->tensors[node->inputs[side]];
    const struct convoy_shape *c = &constant->shape;
    *x = node->inputs[1 - side];
    if (node->op != CONVOY_OP_BINARY || node->binary != CONVOY_MUL || constant->data == NULL ||
        attention->head_scale != NULL || matrices.rank < 3 || c->rank < 2 || c->dims[c->rank - 1] != 1 ||
        c->dims[c->rank - 2] != 1 || convoy_shape_elements(&matrices) > CONVOY_CUDA_VIEW_ELEMENTS ||
        convoy_shape_elements(&graph->tensors[*x].shape) != convoy_shape_elements(&matrices))
        return false;
    matrices.dims[matrices.rank - 1] = matrices.dims[matrices.rank - 2] = 1;
    attention->head_scale = calloc((size_t)convoy_shape_elements(&matrices) + 1, sizeof(float));
    return attention->head_scale != NULL &&
           convoy_cuda_add_broadcast(constant, &matrices, 1, 1, attention->head_scale);
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
        } else if (convoy_cuda_scalar_operand(graph, node, &x, &factor)) {
            *scale *= factor;
            tensor = x;
        } else if (takes_factors(attention, graph, node, &x)) {
            tensor = x;
        } else if (node->op == CONVOY_OP_BINARY && node->binary == CONVOY_ADD && *scale == 1 &&
                   attention->head_scale == NULL) {
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

/* The product of the softmax's shares, as they are or with their matrices counted along other axes, with
 * values. */
static const struct convoy_node *product_behind(const struct convoy_graph *graph, int shares,
                                                const int *readers)
{
    const struct convoy_node *node = only_reader(graph, shares, readers);
    if (node != NULL && node->op == CONVOY_OP_RESHAPE) {
        shares = node->output;
        node = only_reader(graph, shares, readers);
    }
    return node != NULL && node->op == CONVOY_OP_MATMUL && node->inputs[0] == shares &&
                   node->inputs[1] != shares
               ? node
               : NULL;
}

/* Matrices of rows x channels, or, turned, of channels x rows, as a view of a tensor of rows or of an image.
 */
struct side {
    struct convoy_cuda_view view;
    int64_t channels; /* of the base */
    int64_t plane;    /* numbers of a channel of an image; 0: the base has rows of channels */
    int rows, d;
    bool turned;
    int64_t heads,
        windows; /* of which the matrices of each head follow each other; 0: those of each window */
};

/* The number of the base, as rows of channels, that is a channel of a row of matrix b; -1: none. */
static int64_t place_of(const struct side *side, int64_t b, int64_t row, int64_t channel)
{
    if (side->heads > 0)
        b = b % side->heads * side->windows + b / side->heads;
    int64_t at = side->turned ? (b * side->d + channel) * side->rows + row
                              : (b * side->rows + row) * side->d + channel;
    int64_t unit = side->view.unit, from = side->view.map[at / unit];
    if (from < 0)
        return -1;
    from = from * unit + at % unit;
    return side->plane > 0 ? from % side->plane * side->channels + from / side->plane : from;
}

static bool is_whole(const struct side *side, int64_t matrices)
{
    for (int64_t b = 0; b < matrices; b++)
        for (int64_t row = 0; row < side->rows; row++) {
            int64_t first = place_of(side, b, row, 0),
                    step = side->turned || side->plane > 0 ? 1 : side->view.unit;
            if (first < 0 || first % 8 != 0 || first % side->channels + side->d > side->channels ||
                first % side->channels != place_of(side, b, 0, 0) % side->channels)
                return false;
            for (int64_t c = step; c < side->d; c += step)
                if (place_of(side, b, row, c) != first + c)
                    return false;
        }
    return true;
}

/* Do `heads` matrices that follow each other have the same pixels, and channels at equal distances? */
static bool has_heads(const struct side *side, int64_t matrices, int64_t heads, int64_t *step)
{
    int64_t c = side->channels, first = place_of(side, 0, 0, 0) % c, head = 0;
    *step = heads > 1 ? place_of(side, 1, 0, 0) % c - first : 0;
    for (int64_t b = 0; b < matrices; b++) {
        if (place_of(side, b, 0, 0) % c != first + head * *step)
            return false;
        for (int64_t row = 0; row < side->rows; row++)
            if (place_of(side, b, row, 0) / c != place_of(side, b - head, row, 0) / c)
                return false;
        head = head + 1 < heads ? head + 1 : 0;
    }
    return true;
}

/* Windows of the same numbers share them. */
static void fold_bias(struct convoy_cuda_attention *attention)
{
    struct convoy_nhwc_attention *s = &attention->shape;
    int64_t matrix = s->queries * s->bias_query, window = matrix * s->heads;
    bool same = attention->bias != NULL;
    for (int64_t i = 1; i < s->windows && same; i++)
        same = memcmp(attention->bias, attention->bias + i * window, (size_t)window * sizeof(float)) == 0;
    s->bias_head = attention->bias != NULL ? matrix : 0;
    s->bias_window = same || attention->bias == NULL ? 0 : window;
}

/* One factor a head, whatever the window. */
static bool fold_factors(struct convoy_cuda_attention *attention)
{
    const struct convoy_nhwc_attention *s = &attention->shape;
    for (int64_t i = 0; attention->head_scale != NULL && i < (int64_t)s->windows * s->heads; i++)
        if (attention->head_scale[i] != attention->head_scale[i % s->heads])
            return false;
    return true;
}

/* Are the channels of each head the next d of a pixel of rows, seen from the first one, or, where these are
 * taken by themselves, from the head before? */
static bool has_whole_heads(const struct convoy_cuda_attention *attention, const struct side *side, int i,
                            int64_t step)
{
    int64_t d = attention->shape.d;
    return side->plane == 0 &&
           (attention->alike ? side->channels % d == 0 && attention->channel[i] % d == 0 && step % d == 0
                             : attention->shape.heads == 1 || step == d);
}

/* Are the matrices those of as many heads as there are for each of so many windows: of each window, or of all
 * windows one head after the other (Hiera's)? Of biases and factors the former order alone is known. */
static bool has_windows(struct convoy_cuda_attention *attention, struct side *sides, int64_t matrices,
                        int64_t windows, bool one_after_the_other)
{
    struct convoy_nhwc_attention *s = &attention->shape;
    struct convoy_nhwc_rows_of_heads *to[] = {&s->q, &s->k, &s->v, &s->y};
    int64_t heads = matrices / windows;
    bool fits = heads * windows == matrices &&
                (!one_after_the_other || (attention->bias == NULL && attention->head_scale == NULL));
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES && fits; i++) {
        sides[i].heads = one_after_the_other ? heads : 0;
        sides[i].windows = windows;
        fits = has_heads(&sides[i], matrices, heads, &to[i]->head);
    }
    return fits;
}

static bool divide(struct convoy_cuda_attention *attention, struct side *sides, int64_t matrices)
{
    struct convoy_nhwc_attention *s = &attention->shape;
    struct convoy_nhwc_rows_of_heads *to[] = {&s->q, &s->k, &s->v, &s->y};
    int64_t windows = 1;
    while (!has_windows(attention, sides, matrices, windows, false) &&
           !has_windows(attention, sides, matrices, windows, true))
        if (++windows > matrices)
            return false;
    int64_t heads = matrices / windows;
    s->heads = (int)heads;
    s->windows = (int)windows;
    fold_bias(attention);
    if (!fold_factors(attention))
        return false;
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES; i++) {
        const struct side *side = &sides[i];
        attention->tensor[i] = side->view.base;
        attention->channel[i] = place_of(side, 0, 0, 0) % side->channels;
        if (i < 2 && attention->normalize[i] >= 0 && !has_whole_heads(attention, side, i, to[i]->head))
            return false;
        attention->rows[i] = malloc((size_t)(s->windows * side->rows) * sizeof(int32_t));
        if (attention->rows[i] == NULL)
            return false;
        for (int w = 0; w < s->windows; w++)
            for (int row = 0; row < side->rows; row++)
                attention->rows[i][w * side->rows + row] =
                    (int32_t)(place_of(side, w * heads, row, 0) / side->channels);
    }
    return true;
}

/* Is each row that the node normalises, seen from the side as it was before tracing, a row of a head? */
static bool normalizes_rows(struct convoy_cuda_tracer *tracer, int tensor, int64_t unit, int normalize,
                            const struct side *side, int64_t matrices)
{
    const struct convoy_graph *graph = tracer->graph;
    int y = graph->nodes[normalize].output, *through = tracer->normalize;
    const struct convoy_shape *shape = &graph->tensors[y].shape;
    struct side seen = {.channels = side->d, .rows = side->rows, .d = side->d, .turned = side->turned};
    tracer->normalize = NULL;
    bool rows = shape->dims[shape->rank - 1] == side->d &&
                convoy_cuda_view_trace(tracer, tensor, unit, &seen.view) && seen.view.base == y &&
                is_whole(&seen, matrices);
    tracer->normalize = through;
    convoy_cuda_view_free(&seen.view);
    return rows;
}

static bool trace_side(struct convoy_cuda_tracer *tracer, int tensor, struct side *side)
{
    int64_t unit = convoy_cuda_view_unit(tracer, tensor);
    int64_t matrices =
        convoy_shape_elements(&tracer->graph->tensors[tensor].shape) / ((int64_t)side->rows * side->d);
    return unit > 0 && (side->turned ? side->rows : side->d) % unit == 0 &&
           convoy_cuda_view_trace(tracer, tensor, unit, &side->view) &&
           tracer->channels[side->view.base] != CONVOY_CUDA_CHANNELS_NONE &&
           (tracer->normalize == NULL || *tracer->normalize < 0 ||
            normalizes_rows(tracer, tensor, unit, *tracer->normalize, side, matrices));
}

#define MOST_FACTORS 16 /* behind each other: each softmax of a hostile file walks through them */

/* What the tensor is a multiple of, and by what it is multiplied. */
static int before_factors(const struct convoy_graph *graph, int tensor, double *scale)
{
    int x, producer = graph->tensors[tensor].producer;
    double factor;
    for (int i = 0; i < MOST_FACTORS && producer >= 0 &&
                    convoy_cuda_scalar_operand(graph, &graph->nodes[producer], &x, &factor);
         i++) {
        *scale *= factor;
        tensor = x;
        producer = graph->tensors[tensor].producer;
    }
    return tensor;
}

/* By what one number the node multiplies what it normalises; 0: it does something else with that. */
static double factor_of_rows(const struct convoy_graph *graph, const struct convoy_node *node)
{
    const float *numbers = node->normalize.has_scale ? graph->tensors[node->inputs[1]].data : NULL;
    const struct convoy_shape *y = &graph->tensors[node->output].shape;
    if (node->normalize.has_shift)
        return 0;
    for (int64_t i = 1; numbers != NULL && i < y->dims[y->rank - 1]; i++)
        if (numbers[i] != numbers[0])
            return 0;
    return numbers != NULL ? (double)numbers[0] : 1;
}

/* Are queries and keys, where they are normalised, that in the same way, but for one factor? Then factors are
 * part of the scale. */
static void find_alike(const struct convoy_graph *graph, struct convoy_cuda_attention *attention,
                       double *scale)
{
    double factors = 1;
    const struct convoy_normalize *other = NULL;
    for (int i = 0; i < 2; i++) {
        if (attention->normalize[i] < 0)
            continue;
        const struct convoy_node *node = &graph->nodes[attention->normalize[i]];
        if (other != NULL && (node->normalize.epsilon != other->epsilon || node->normalize.rms != other->rms))
            return;
        other = &node->normalize;
        factors *= factor_of_rows(graph, node);
    }
    attention->alike = factors != 0;
    *scale *= attention->alike ? factors : 1;
}

/* Keys come transposed: what was transposed is easier to follow, by whole rows. */
static int before_transposition(const struct convoy_graph *graph, int keys, double *scale)
{
    double product = 1;
    int tensor = before_factors(graph, keys, &product), producer = graph->tensors[tensor].producer;
    const struct convoy_node *node = producer >= 0 ? &graph->nodes[producer] : NULL;
    int rank = graph->tensors[tensor].shape.rank;
    bool swaps =
        node != NULL && node->op == CONVOY_OP_TRANSPOSE && graph->tensors[node->inputs[0]].data == NULL;
    for (int i = 0; i < rank && swaps; i++)
        swaps = node->perm[i] == (i < rank - 2 ? i : 2 * rank - 3 - i);
    if (!swaps)
        return -1;
    *scale *= product;
    return node->inputs[0];
}

static bool trace_keys(struct convoy_cuda_tracer *tracer, int keys, struct side *side, double *scale)
{
    int turned = before_transposition(tracer->graph, keys, scale);
    side->turned = turned < 0;
    return trace_side(tracer, turned < 0 ? keys : turned, side);
}

/* The tensor of rows, or the image, that shows all of the result, and nothing else does: its map is turned
 * around. */
static bool trace_result(struct convoy_cuda_tracer *tracer, int tensor, const int *readers, struct side *side)
{
    const struct convoy_graph *graph = tracer->graph;
    struct convoy_cuda_view *view = &side->view;
    int to = -1, image = -1;
    for (const struct convoy_node *next = only_reader(graph, tensor, readers);
         next != NULL && (next->op == CONVOY_OP_RESHAPE || next->op == CONVOY_OP_TRANSPOSE);
         next = only_reader(graph, next->output, readers))
        if (tracer->channels[next->output] == CONVOY_CUDA_CHANNELS_LAST)
            to = next->output;
        else if (tracer->channels[next->output] == CONVOY_CUDA_CHANNELS_FIRST)
            image = next->output;
    to = to < 0 ? image : to;
    int64_t unit = to < 0 ? 0 : convoy_cuda_view_unit(tracer, to);
    if (unit < 1 || side->d % unit != 0 || !convoy_cuda_view_trace(tracer, to, unit, view) ||
        view->base != tensor)
        return false;
    int32_t *turned = malloc(((size_t)view->count + 1) * sizeof(turned[0]));
    if (turned == NULL)
        return false;
    for (int64_t i = 0; i < view->count; i++)
        turned[view->map[i]] = (int32_t)i;
    free(view->map);
    view->map = turned;
    view->base = to;
    return true;
}

static bool trace_sides(struct convoy_cuda_tracer *tracer, const struct convoy_node *product,
                        const struct convoy_node *values, const int *readers, double *scale,
                        struct convoy_cuda_attention *attention, struct side *sides)
{
    tracer->normalize = &attention->normalize[0];
    bool traced = trace_side(tracer, product->inputs[0], &sides[0]);
    tracer->normalize = &attention->normalize[1];
    traced = traced && trace_keys(tracer, product->inputs[1], &sides[1], scale);
    tracer->normalize = NULL;
    return traced && trace_side(tracer, values->inputs[1], &sides[2]) && sides[2].view.scale == 1 &&
           trace_result(tracer, values->output, readers, &sides[3]);
}

static bool recognise(struct convoy_cuda_tracer *tracer, const struct convoy_node *softmax,
                      const int *readers, struct convoy_cuda_attention *attention, struct side *sides)
{
    const struct convoy_graph *graph = tracer->graph;
    struct convoy_nhwc_attention *s = &attention->shape;
    const struct convoy_shape *scores = &graph->tensors[softmax->output].shape;
    const struct convoy_node *values = product_behind(graph, softmax->output, readers);
    if (softmax->softmax.log || softmax->softmax.axis != scores->rank - 1 ||
        softmax->softmax.axis_end != scores->rank || scores->rank < 3 || values == NULL)
        return false;
    const struct convoy_shape *p = &graph->tensors[values->inputs[0]].shape;
    s->queries = (int)scores->dims[scores->rank - 2];
    s->keys = (int)scores->dims[scores->rank - 1];
    double scale = 1;
    const struct convoy_node *product = product_before(graph, softmax->inputs[0], readers, &scale, attention);
    if (product == NULL)
        return false;
    const struct convoy_shape *q = &graph->tensors[product->inputs[0]].shape;
    const struct convoy_shape *k = &graph->tensors[product->inputs[1]].shape;
    const struct convoy_shape *v = &graph->tensors[values->inputs[1]].shape;
    int rank = q->rank;
    int64_t d = rank > 0 ? q->dims[rank - 1] : 0;
    if (rank < 3 || k->rank != rank || p->rank < 3 || v->rank != p->rank || d % 8 != 0 ||
        d > CONVOY_NHWC_ATTENTION_CHANNELS || v->dims[v->rank - 1] != d || q->batch_axis < 0 ||
        q->batch_axis > rank - 3 || k->batch_axis != q->batch_axis || v->batch_axis != p->batch_axis ||
        p->batch_axis > p->rank - 3 || p->dims[p->rank - 2] != s->queries ||
        q->dims[rank - 2] != s->queries || k->dims[rank - 1] != s->keys || k->dims[rank - 2] != d ||
        v->dims[v->rank - 2] != s->keys)
        return false;
    for (int i = 0; i < rank - 2; i++)
        if (q->dims[i] != k->dims[i])
            return false;
    s->d = (int)d;
    int64_t matrices = convoy_shape_elements(q) / (d * s->queries);
    if (convoy_shape_elements(v) != matrices * d * s->keys ||
        convoy_shape_elements(&graph->tensors[values->output].shape) != matrices * d * s->queries)
        return false;
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES; i++) {
        sides[i].rows = i == 1 || i == 2 ? s->keys : s->queries;
        sides[i].d = s->d;
    }
    if (!trace_sides(tracer, product, values, readers, &scale, attention, sides))
        return false;
    find_alike(graph, attention, &scale);
    s->scale = (float)(scale * sides[0].view.scale * sides[1].view.scale);
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES; i++) {
        const struct convoy_shape *shape = &graph->tensors[sides[i].view.base].shape;
        enum convoy_cuda_channels where = tracer->channels[sides[i].view.base];
        if (!convoy_cuda_channels_and_pixels(shape, where, &sides[i].channels, &sides[i].plane))
            return false;
        if (where == CONVOY_CUDA_CHANNELS_LAST)
            sides[i].plane = 0;
        if (sides[i].channels % 8 != 0 || !is_whole(&sides[i], matrices))
            return false;
    }
    return divide(attention, sides, matrices);
}

struct convoy_cuda_attention *convoy_cuda_find_attention(struct convoy_cuda_tracer *tracer, int softmax,
                                                         const int *readers)
{
    struct side sides[CONVOY_CUDA_ATTENTION_SIDES] = {0};
    struct convoy_cuda_attention *attention = calloc(1, sizeof(*attention));
    for (int i = 0; i < 2 && attention != NULL; i++)
        attention->normalize[i] = -1;
    bool found =
        attention != NULL && recognise(tracer, &tracer->graph->nodes[softmax], readers, attention, sides);
    for (int i = 0; i < CONVOY_CUDA_ATTENTION_SIDES; i++)
        convoy_cuda_view_free(&sides[i].view);
    if (found)
        return attention;
    convoy_cuda_attention_free(attention);
    return NULL;
}

void convoy_cuda_attention_free(struct convoy_cuda_attention *attention)
{
    for (int i = 0; attention != NULL && i < CONVOY_CUDA_ATTENTION_SIDES; i++)
        free(attention->rows[i]);
    if (attention != NULL) {
        free(attention->head_scale);
        free(attention->bias);
    }
    free(attention);
}
