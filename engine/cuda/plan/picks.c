#include "engine/cuda/plan/picks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 64 /* that are picked */

static int64_t rows_of(const struct convoy_graph *graph, int tensor)
{
    const struct convoy_shape *shape = &graph->tensors[tensor].shape;
    return convoy_shape_elements(shape) / shape->dims[shape->rank - 1];
}

/* Tensors of rows of channels, as many rows each. */
static bool as_many_rows(const struct convoy_graph *graph, const enum convoy_cuda_channels *channels, int a,
                         int b)
{
    return channels[a] == CONVOY_CUDA_CHANNELS_LAST && channels[b] == CONVOY_CUDA_CHANNELS_LAST &&
           rows_of(graph, a) == rows_of(graph, b);
}

/* A constant of one number for each channel of the last axis. */
static bool for_channels(const struct convoy_graph *graph, int constant, int64_t c)
{
    const struct convoy_tensor *tensor = &graph->tensors[constant];
    const struct convoy_shape *shape = &tensor->shape;
    return tensor->data != NULL && shape->rank > 0 && shape->dims[shape->rank - 1] == c &&
           convoy_shape_elements(shape) == c;
}

int convoy_cuda_row_inputs(const struct convoy_graph *graph, const struct convoy_cuda_group *group,
                           const enum convoy_cuda_channels *channels, int inputs[2])
{
    const struct convoy_node *node = &graph->nodes[group->anchor];
    const struct convoy_shape *y = &graph->tensors[group->output].shape;
    int a = node->inputs[0], b = node->input_count > 1 ? node->inputs[1] : -1;
    int64_t c = y->rank > 0 ? y->dims[y->rank - 1] : 0;
    inputs[0] = group->rows != NULL ? group->rows->base : a;
    if (group->rows != NULL)
        return !group->rows->copies && group->rows->in_order;
    if (group->attention != NULL || group->residual >= 0 || a == graph->input)
        return 0;
    switch (node->op) {
    case CONVOY_OP_RESHAPE:
    case CONVOY_OP_TRANSPOSE:
        return as_many_rows(graph, channels, a, group->output) &&
               convoy_cuda_is_pixel_view(graph, node, channels);
    case CONVOY_OP_DENSE:
    case CONVOY_OP_ACTIVATION:
        return as_many_rows(graph, channels, a, group->output);
    case CONVOY_OP_NORMALIZE:
        return as_many_rows(graph, channels, a, group->output) && node->normalize.axis == y->rank - 1 &&
               c <= CONVOY_NHWC_NORMALIZE_CHANNELS;
    case CONVOY_OP_BINARY:
        break;
    default:
        return 0;
    }
    if (for_channels(graph, a, c) || for_channels(graph, b, c)) {
        inputs[0] = graph->tensors[a].data != NULL ? b : a;
        return inputs[0] != graph->input && (node->binary == CONVOY_ADD || node->binary == CONVOY_MUL) &&
               as_many_rows(graph, channels, inputs[0], group->output);
    }
    inputs[1] = b;
    return b != graph->input && a != b && node->binary <= CONVOY_MIN &&
                   as_many_rows(graph, channels, a, group->output) &&
                   as_many_rows(graph, channels, b, group->output) &&
                   graph->tensors[a].shape.rank == y->rank && graph->tensors[b].shape.rank == y->rank
               ? 2
               : 0;
}

/* Copies of some whole rows, each once, and nothing else. */
static bool selects(const struct convoy_graph *graph, const struct convoy_cuda_rows *rows)
{
    if (rows == NULL || !rows->copies || rows->pieces != 1 || rows->add != NULL)
        return false;
    const struct convoy_shape *base = &graph->tensors[rows->base].shape;
    int64_t all = rows_of(graph, rows->base);
    bool fits =
        rows->width == base->dims[base->rank - 1] && 2 * rows->count <= all && rows->count <= MOST_ROWS;
    for (int64_t i = 0; i < rows->count && fits; i++) {
        fits = rows->pieces_of[i] >= 0;
        for (int64_t k = 0; k < i && fits; k++)
            fits = rows->pieces_of[k] != rows->pieces_of[i];
    }
    return fits;
}

/* Leaves the queries that are picked of the rows of attention's result. False: it cannot be done. */
static bool narrow(struct convoy_cuda_attention *attention, const struct convoy_cuda_rows *pick,
                   bool *no_memory)
{
    struct convoy_nhwc_attention *s = &attention->shape;
    int32_t *to = attention->rows[CONVOY_CUDA_ATTENTION_SIDES - 1], *from = attention->rows[0];
    int64_t count = pick->count, matrix = s->queries * s->bias_query, heads = s->heads;
    if (s->windows != 1)
        return false;
    int32_t *picked = malloc(((size_t)count + 1) * sizeof(picked[0]));
    size_t floats = (size_t)(heads * count * s->bias_query);
    float *bias = attention->bias != NULL ? malloc((floats + 1) * sizeof(bias[0])) : NULL;
    *no_memory = picked == NULL || (attention->bias != NULL && bias == NULL);
    bool found = !*no_memory;
    for (int64_t i = 0; i < count && found; i++) {
        int64_t query = 0;
        while (query < s->queries && to[query] != pick->pieces_of[i])
            query++;
        found = query < s->queries;
        picked[i] = found ? from[query] : 0;
        for (int64_t h = 0; h < heads && found && bias != NULL; h++)
            memcpy(bias + (h * count + i) * s->bias_query,
                   attention->bias + h * matrix + query * s->bias_query,
                   (size_t)s->bias_query * sizeof(bias[0]));
    }
    if (!found) {
        free(picked);
        free(bias);
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        from[i] = picked[i];
        to[i] = (int32_t)i;
    }
    free(picked);
    if (bias != NULL) {
        free(attention->bias);
        attention->bias = bias;
        s->bias_head = count * s->bias_query;
    }
    s->queries = (int)count;
    return true;
}

/* What is picked of a tensor by all that read it. */
struct readers {
    const struct convoy_cuda_rows *pick;
    bool some, other; /* something reads it; something reads other rows */
};

static void note_reader(struct readers *of, const struct convoy_cuda_rows *pick)
{
    of->other = of->other || pick == NULL || (of->some && of->pick != pick);
    of->pick = pick;
    of->some = true;
}

static void note_readers(const struct convoy_graph *graph, const struct convoy_cuda_group *group,
                         const enum convoy_cuda_channels *channels, struct readers *readers)
{
    int by_row[2];
    const int *inputs;
    int rows = convoy_cuda_row_inputs(graph, group, channels, by_row);
    int count = convoy_cuda_group_inputs(graph, group, &inputs);
    for (int k = 0; k < count; k++) {
        bool whole = group->pick == NULL;
        if (selects(graph, group->rows))
            note_reader(&readers[inputs[k]], group->rows);
        else
            note_reader(&readers[inputs[k]], whole || rows == 0 ? NULL : group->pick);
    }
    if (group->residual >= 0)
        note_reader(&readers[group->residual], NULL);
}

int convoy_cuda_pick_rows(const struct convoy_graph *graph, struct convoy_cuda_groups *groups,
                          struct convoy_error *error)
{
    size_t tensors = (size_t)graph->tensor_count + 1;
    struct readers *readers = calloc(tensors, sizeof(readers[0]));
    enum convoy_cuda_channels *channels = calloc(tensors, sizeof(channels[0]));
    int64_t *before = calloc(tensors, sizeof(before[0]));
    bool no_memory = readers == NULL || channels == NULL || before == NULL;
    if (!no_memory)
        convoy_cuda_find_channels(graph, channels, before);
    for (int i = 0; i < graph->output_count && !no_memory; i++)
        note_reader(&readers[graph->outputs[i]], NULL);
    for (int i = groups->count - 1; i >= 0 && !no_memory; i--) {
        struct convoy_cuda_group *group = &groups->groups[i];
        const struct readers *of = &readers[group->output];
        int inputs[2];
        bool picks = of->some && !of->other;
        if (picks && group->attention != NULL)
            picks = narrow(group->attention, of->pick, &no_memory);
        else if (picks)
            picks = convoy_cuda_row_inputs(graph, group, channels, inputs) > 0;
        if (picks)
            group->pick = of->pick;
        note_readers(graph, group, channels, readers);
    }
    free(readers);
    free(channels);
    free(before);
    return no_memory ? convoy_fail(error, -ENOMEM, "no memory to group %d nodes", graph->node_count) : 0;
}
