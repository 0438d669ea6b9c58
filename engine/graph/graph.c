#include "engine/graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t convoy_shape_elements(const struct convoy_shape *shape)
{
    int64_t elements = 1;
    for (int axis = 0; axis < shape->rank; axis++)
        elements *= shape->dims[axis];
    return elements;
}

bool convoy_same_shape(const struct convoy_shape *a, const struct convoy_shape *b)
{
    return a->rank == b->rank && a->batch_axis == b->batch_axis &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

const char *convoy_shape_text(const struct convoy_shape *shape, char *text, size_t capacity)
{
    size_t used = 0;
    if (capacity == 0)
        return text;
    text[0] = '\0';
    for (int axis = -1; axis <= shape->rank && used < capacity; axis++) {
        int written = 0;
        if (axis < 0)
            written = snprintf(text, capacity, "[");
        else if (axis == shape->rank)
            written = snprintf(text + used, capacity - used, "]");
        else if (axis != shape->batch_axis)
            written =
                snprintf(text + used, capacity - used, "%s%" PRId64, axis > 0 ? "," : "", shape->dims[axis]);
        else if (shape->dims[axis] == 1)
            written = snprintf(text + used, capacity - used, "%sN", axis > 0 ? "," : "");
        else
            written = snprintf(text + used, capacity - used, "%s%" PRId64 "N", axis > 0 ? "," : "",
                               shape->dims[axis]);
        used += (size_t)written;
    }
    return text;
}

const char *convoy_op_name(enum convoy_op op)
{
    static const char *const names[CONVOY_OP_COUNT] = {
        [CONVOY_OP_CONV] = "conv",
        [CONVOY_OP_DENSE] = "dense",
        [CONVOY_OP_MATMUL] = "matmul",
        [CONVOY_OP_SCALE_SHIFT] = "scale_shift",
        [CONVOY_OP_ACTIVATION] = "activation",
        [CONVOY_OP_POOL] = "pool",
        [CONVOY_OP_BINARY] = "binary",
        [CONVOY_OP_PAD] = "pad",
        [CONVOY_OP_RESHAPE] = "reshape",
        [CONVOY_OP_TRANSPOSE] = "transpose",
        [CONVOY_OP_CONCAT] = "concat",
        [CONVOY_OP_SOFTMAX] = "softmax",
        [CONVOY_OP_NORMALIZE] = "normalize",
        [CONVOY_OP_TOP] = "top",
    };
    return (unsigned)op < CONVOY_OP_COUNT ? names[op] : "?";
}

void convoy_graph_free(struct convoy_graph *graph)
{
    if (graph == NULL)
        return;
    for (int i = 0; i < graph->tensor_count; i++) {
        free(graph->tensors[i].name);
        free(graph->tensors[i].data);
    }
    for (int i = 0; i < graph->node_count; i++)
        free(graph->nodes[i].name);
    free(graph->tensors);
    free(graph->nodes);
    free(graph);
}
