/* What a graph computes, by its definition in engine/graph/graph.h: nested loops in double, one image at a
 * time. For the tests of passes that must not change it. */
#ifndef CONVOY_TESTS_UNIT_GRAPH_REFERENCE_H
#define CONVOY_TESTS_UNIT_GRAPH_REFERENCE_H

#include "engine/graph/build.h"
#include "tests/unit/engine/activation_reference.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The element of a tensor of `shape` that broadcasts to index `at` of `out`. */
static int64_t broadcast_index(const struct convoy_shape *shape, const struct convoy_shape *out, int64_t at)
{
    int64_t index = 0, step = 1;
    for (int axis = out->rank - 1; axis >= 0; axis--) {
        int own = axis - (out->rank - shape->rank);
        int64_t here = at % out->dims[axis];
        at /= out->dims[axis];
        if (own < 0)
            continue;
        if (shape->dims[own] > 1)
            index += here * step;
        step *= shape->dims[own];
    }
    return index;
}

static double reference_binary(enum convoy_binary_kind kind, double a, double b)
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
        return a > b ? a : b;
    case CONVOY_MIN:
        return a < b ? a : b;
    case CONVOY_POWER:
        return pow(a, b);
    case CONVOY_EQUAL:
        return a == b;
    case CONVOY_LESS:
        return a < b;
    case CONVOY_LESS_EQUAL:
        return a <= b;
    case CONVOY_KEEP:
        return b != 0 ? a : 0;
    }
    return NAN;
}

static void reference_conv(const struct convoy_conv *conv, const struct convoy_shape *in, const double *x,
                           const struct convoy_shape *filter, const double *w, const double *bias,
                           const struct convoy_shape *out, double *y)
{
    int64_t per_group = filter->dims[1], outputs = filter->dims[0] / conv->groups;
    for (int64_t k = 0; k < out->dims[1]; k++)
        for (int64_t i = 0; i < out->dims[2]; i++)
            for (int64_t j = 0; j < out->dims[3]; j++) {
                double sum = bias != NULL ? bias[k] : 0;
                for (int64_t c = 0; c < per_group; c++)
                    for (int64_t r = 0; r < filter->dims[2]; r++)
                        for (int64_t s = 0; s < filter->dims[3]; s++) {
                            int64_t h = i * conv->stride[0] - conv->pad[0] + r * conv->dilation[0];
                            int64_t v = j * conv->stride[1] - conv->pad[1] + s * conv->dilation[1];
                            int64_t channel = k / outputs * per_group + c;
                            if (h >= 0 && h < in->dims[2] && v >= 0 && v < in->dims[3])
                                sum += x[(channel * in->dims[2] + h) * in->dims[3] + v] *
                                       w[((k * per_group + c) * filter->dims[2] + r) * filter->dims[3] + s];
                        }
                y[(k * out->dims[2] + i) * out->dims[3] + j] = sum;
            }
}

static void reference_pool(const struct convoy_pool *pool, const struct convoy_shape *in, const double *x,
                           const struct convoy_shape *out, double *y)
{
    for (int64_t c = 0; c < out->dims[1]; c++)
        for (int64_t i = 0; i < out->dims[2]; i++)
            for (int64_t j = 0; j < out->dims[3]; j++) {
                double sum = 0, most = -INFINITY;
                int64_t inside = 0, padded = 0;
                for (int64_t r = 0; r < pool->window[0]; r++)
                    for (int64_t s = 0; s < pool->window[1]; s++) {
                        int64_t h = i * pool->stride[0] - pool->pad[0] + r * pool->dilation[0];
                        int64_t v = j * pool->stride[1] - pool->pad[1] + s * pool->dilation[1];
                        padded += h < in->dims[2] + pool->pad[2] && v < in->dims[3] + pool->pad[3];
                        if (h < 0 || h >= in->dims[2] || v < 0 || v >= in->dims[3])
                            continue;
                        inside++;
                        sum += x[(c * in->dims[2] + h) * in->dims[3] + v];
                        most = fmax(most, x[(c * in->dims[2] + h) * in->dims[3] + v]);
                    }
                double count = (double)(pool->count_include_pad ? padded : inside);
                y[(c * out->dims[2] + i) * out->dims[3] + j] =
                    pool->kind == CONVOY_POOL_MAX ? most : sum / count;
            }
}

static void reference_pad(const struct convoy_node *node, const struct convoy_shape *in, const double *x,
                          const struct convoy_shape *out, double *y)
{
    for (int64_t at = 0; at < convoy_shape_elements(out); at++) {
        int64_t rest = at, from = 0, step = 1;
        bool inside = true;
        for (int axis = out->rank - 1; axis >= 0; axis--) {
            int64_t index = rest % out->dims[axis] - node->pad.before[axis];
            rest /= out->dims[axis];
            inside &= index >= 0 && index < in->dims[axis];
            from += index * step;
            step *= in->dims[axis];
        }
        y[at] = inside ? x[from] : 0;
    }
}

/* scale and shift: NULL, or a number for each element of the axes. */
static void reference_normalize(const struct convoy_normalize *normalize, const struct convoy_shape *in,
                                const double *x, const double *scale, const double *shift, double *y)
{
    int64_t outer = 1, length = 1, inner = 1;
    for (int axis = 0; axis < in->rank; axis++)
        *(axis < normalize->axis ? &outer : axis < normalize->axis_end ? &length : &inner) *= in->dims[axis];
    for (int64_t at = 0; at < outer * inner; at++) {
        const int64_t first = at / inner * length * inner + at % inner;
        double mean = 0, squares = 0;
        for (int64_t k = 0; k < length && !normalize->rms; k++)
            mean += x[first + k * inner] / (double)length;
        for (int64_t k = 0; k < length; k++)
            squares += (x[first + k * inner] - mean) * (x[first + k * inner] - mean);
        for (int64_t k = 0; k < length; k++)
            y[first + k * inner] = (x[first + k * inner] - mean) /
                                       sqrt(squares / (double)length + (double)normalize->epsilon) *
                                       (scale != NULL ? scale[k] : 1) +
                                   (shift != NULL ? shift[k] : 0);
    }
}

/* Computes the first output for an input of one image; the caller frees it. */
static double *reference_run(const struct convoy_graph *graph, const double *input)
{
    double **values = calloc((size_t)graph->tensor_count, sizeof *values);
    for (int t = 0; t < graph->tensor_count; t++) {
        int64_t elements = convoy_shape_elements(&graph->tensors[t].shape);
        values[t] = calloc((size_t)elements, sizeof **values);
        for (int64_t i = 0; i < elements; i++)
            values[t][i] = graph->tensors[t].data != NULL ? graph->tensors[t].data[i]
                           : t == graph->input            ? input[i]
                                                          : NAN;
    }
    for (int n = 0; n < graph->node_count; n++) {
        const struct convoy_node *node = &graph->nodes[n];
        const struct convoy_shape *in = &graph->tensors[node->inputs[0]].shape;
        const struct convoy_shape *out = &graph->tensors[node->output].shape;
        const struct convoy_shape *second =
            node->input_count > 1 ? &graph->tensors[node->inputs[1]].shape : in;
        const double *a = values[node->inputs[0]];
        const double *b = node->input_count > 1 ? values[node->inputs[1]] : NULL;
        const double *c = node->input_count > 2 ? values[node->inputs[2]] : NULL;
        double *y = values[node->output];
        int64_t elements = convoy_shape_elements(out);
        switch (node->op) {
        case CONVOY_OP_CONV:
            reference_conv(&node->conv, in, a, second, b, c, out, y);
            break;
        case CONVOY_OP_POOL:
            reference_pool(&node->pool, in, a, out, y);
            break;
        case CONVOY_OP_PAD:
            reference_pad(node, in, a, out, y);
            break;
        case CONVOY_OP_DENSE:
            for (int64_t i = 0; i < elements; i++) {
                int64_t row = i / out->dims[1], k = i % out->dims[1];
                y[i] = c != NULL ? c[k] : 0;
                for (int64_t m = 0; m < in->dims[1]; m++)
                    y[i] += a[row * in->dims[1] + m] * b[k * in->dims[1] + m];
            }
            break;
        case CONVOY_OP_SCALE_SHIFT:
            for (int64_t i = 0; i < elements; i++) {
                int64_t channel = i / (elements / (out->dims[0] * out->dims[1])) % out->dims[1];
                y[i] = a[i] * b[channel] + c[channel];
            }
            break;
        case CONVOY_OP_ACTIVATION:
            for (int64_t i = 0; i < elements; i++)
                y[i] = reference_activation(&node->activation, a[i]);
            break;
        case CONVOY_OP_BINARY:
            for (int64_t i = 0; i < elements; i++)
                y[i] = reference_binary(node->binary, a[broadcast_index(in, out, i)],
                                        b[broadcast_index(second, out, i)]);
            break;
        case CONVOY_OP_NORMALIZE:
            reference_normalize(&node->normalize, in, a, node->normalize.has_scale ? b : NULL,
                                !node->normalize.has_shift  ? NULL
                                : node->normalize.has_scale ? c
                                                            : b,
                                y);
            break;
        case CONVOY_OP_RESHAPE:
            memcpy(y, a, sizeof *y * (size_t)elements);
            break;
        default:
            cr_assert(false, "the reference does not know %s", convoy_op_name(node->op));
        }
    }
    int64_t elements = convoy_shape_elements(&graph->tensors[graph->outputs[0]].shape);
    double *result = malloc(sizeof *result * (size_t)elements);
    memcpy(result, values[graph->outputs[0]], sizeof *result * (size_t)elements);
    for (int t = 0; t < graph->tensor_count; t++)
        free(values[t]);
    free(values);
    return result;
}

#endif
