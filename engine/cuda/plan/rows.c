#include "engine/cuda/plan/rows.h"

#include <stdlib.h>
#include <string.h>

static int64_t channels_of(const struct convoy_cuda_tracer *tracer, int tensor)
{
    const struct convoy_shape *shape = &tracer->graph->tensors[tensor].shape;
    return shape->dims[shape->rank - 1];
}

/* Is each row a row of the base? Then the view is made one of rows. */
static bool join_pieces(struct convoy_cuda_view *view, int64_t pieces)
{
    for (int64_t i = 0; i < view->count; i++) {
        int32_t first = view->map[i - i % pieces];
        bool zeros = view->map[i] < 0 && first < 0;
        if (!zeros && (first < 0 || first % pieces != 0 || view->map[i] != first + i % pieces))
            return false;
    }
    view->count /= pieces;
    view->unit *= pieces;
    for (int64_t i = 0; i < view->count; i++)
        view->map[i] = view->map[i * pieces] < 0 ? -1 : (int32_t)(view->map[i * pieces] / pieces);
    return true;
}

/* Is each of as many rows there once? */
static bool is_permutation(const struct convoy_cuda_view *view, int64_t count)
{
    bool fits = view->count == count;
    bool *seen = calloc((size_t)count + 1, sizeof(seen[0]));
    fits = fits && seen != NULL;
    for (int64_t i = 0; i < view->count && fits; i++) {
        fits = view->map[i] >= 0 && view->map[i] < count && !seen[view->map[i]];
        if (fits)
            seen[view->map[i]] = true;
    }
    free(seen);
    return fits;
}

static bool in_order(const struct convoy_cuda_view *view)
{
    for (int64_t i = 0; i < view->count; i++)
        if (view->map[i] != i)
            return false;
    return true;
}

/* Is the same added to each row? Other code does that better. */
static bool adds_by_channel(const struct convoy_cuda_view *view, int64_t channels)
{
    for (int64_t i = channels; i < view->count * view->unit; i++)
        if (view->add[i] != view->add[i - channels])
            return false;
    return true;
}

/* Do nothing but reshapes lead from the base to the tensor? These are views as they are. */
static bool only_reshaped(const struct convoy_graph *graph, int tensor, int base)
{
    while (tensor != base) {
        const struct convoy_node *node = &graph->nodes[graph->tensors[tensor].producer];
        if (node->op != CONVOY_OP_RESHAPE)
            return false;
        tensor = node->inputs[0];
    }
    return true;
}

static bool find(struct convoy_cuda_tracer *tracer, int tensor, struct convoy_cuda_view *view,
                 struct convoy_cuda_rows *rows)
{
    const struct convoy_graph *graph = tracer->graph;
    int64_t channels = channels_of(tracer, tensor), unit = convoy_cuda_view_unit(tracer, tensor);
    if (unit < 1 || channels % unit != 0 || !convoy_cuda_view_trace(tracer, tensor, unit, view) ||
        view->base == tensor || view->base == graph->input || view->scale != 1 ||
        tracer->channels[view->base] != CONVOY_CUDA_CHANNELS_LAST)
        return false;
    int64_t of_base = channels_of(tracer, view->base);
    int64_t base_rows = convoy_shape_elements(&graph->tensors[view->base].shape) / of_base;
    bool whole = channels == of_base && join_pieces(view, channels / unit);
    bool same = whole && in_order(view) && view->count == base_rows;
    const struct convoy_node *node = &graph->nodes[graph->tensors[tensor].producer];
    rows->base = view->base;
    rows->width = view->unit;
    rows->pieces = (int)(channels / view->unit);
    rows->per_row = of_base / view->unit;
    rows->count = view->count / rows->pieces;
    rows->copies = !whole || view->add != NULL || !is_permutation(view, base_rows);
    rows->in_order = same;
    if (!rows->copies) {
        bool told = node->inputs[0] == view->base && convoy_cuda_is_pixel_view(graph, node, tracer->channels);
        return !told && !(same && only_reshaped(graph, tensor, view->base));
    }
    return channels % 8 == 0 && of_base % 8 == 0 && rows->width % 8 == 0 &&
           !(same && adds_by_channel(view, channels));
}

struct convoy_cuda_rows *convoy_cuda_find_rows(struct convoy_cuda_tracer *tracer, int tensor)
{
    struct convoy_cuda_view view = {.base = -1};
    struct convoy_cuda_rows *rows = calloc(1, sizeof(*rows));
    tracer->adds = true;
    bool found = rows != NULL && tracer->graph->tensors[tensor].shape.rank >= 2 &&
                 tracer->channels[tensor] == CONVOY_CUDA_CHANNELS_LAST && find(tracer, tensor, &view, rows);
    tracer->adds = false;
    if (found) {
        rows->pieces_of = view.map;
        rows->add = view.add;
        return rows;
    }
    convoy_cuda_view_free(&view);
    convoy_cuda_rows_free(rows);
    return NULL;
}

void convoy_cuda_rows_free(struct convoy_cuda_rows *rows)
{
    if (rows == NULL)
        return;
    free(rows->pieces_of);
    free(rows->add);
    free(rows);
}
