#include "engine/graph/evaluate.h"

#include "engine/graph/top.h"

#include <string.h>

/* What an elementwise function costs, in multiplications. */
#define FUNCTION_WORK 16

/* NaN stays NaN, which fmin() and fmax() would drop. */
static double between(double x, double least, double most)
{
    x = x < least ? least : x;
    return x > most ? most : x;
}

double convoy_activation_apply(const struct convoy_activation *activation, double x)
{
    double alpha = activation->alpha, beta = activation->beta;
    switch (activation->kind) {
    case CONVOY_RELU:
        return x < 0 ? 0 : x;
    case CONVOY_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case CONVOY_SIGMOID:
        return 1 / (1 + exp(-x));
    case CONVOY_TANH:
        return tanh(x);
    case CONVOY_CLIP:
        return between(x, alpha, beta);
    case CONVOY_HARD_SIGMOID:
        return between(alpha * x + beta, 0, 1);
    case CONVOY_HARD_SWISH:
        return x * between(x / 6 + 0.5, 0, 1);
    case CONVOY_SWISH:
        return x / (1 + exp(-x));
    case CONVOY_EXP:
        return exp(x);
    case CONVOY_LOG:
        return log(x);
    case CONVOY_SQRT:
        return sqrt(x);
    case CONVOY_ABS:
        return fabs(x);
    case CONVOY_ERF:
        return erf(x);
    case CONVOY_GELU:
        return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case CONVOY_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case CONVOY_ELU:
        return x < 0 ? alpha * expm1(x) : x;
    case CONVOY_SOFTPLUS:
        return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
    case CONVOY_MISH:
        return x * tanh((x < 0 ? 0 : x) + log1p(exp(-fabs(x))));
    case CONVOY_ROUND:
        return nearbyint(x);
    case CONVOY_FLOOR:
        return floor(x);
    case CONVOY_CEIL:
        return ceil(x);
    case CONVOY_SIGN:
        return x > 0 ? 1 : x < 0 ? -1 : x;
    case CONVOY_POW:
        return pow(x, alpha);
    case CONVOY_THRESHOLDED:
        return x > alpha ? x : 0;
    case CONVOY_SIN:
        return sin(x);
    case CONVOY_COS:
        return cos(x);
    case CONVOY_ATAN:
        return atan(x);
    }
    return NAN;
}

/* A constant: its shape and values. */
struct operand {
    const struct convoy_shape *shape;
    const float *data;
};

static struct operand operand(const struct convoy_graph *graph, int tensor)
{
    return (struct operand){&graph->tensors[tensor].shape, graph->tensors[tensor].data};
}

static int64_t product(const struct convoy_shape *shape, int from, int to)
{
    int64_t elements = 1;
    for (int axis = from; axis < to; axis++)
        elements *= shape->dims[axis];
    return elements;
}

/* Counts an index up, the last axis fastest, and `offsets` with it by their steps. */
static void advance(const struct convoy_shape *shape, int64_t *index, int count,
                    int64_t (*steps)[CONVOY_MAX_RANK], int64_t *offsets)
{
    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        for (int k = 0; k < count; k++)
            offsets[k] += steps[k][axis];
        if (++index[axis] < shape->dims[axis])
            return;
        for (int k = 0; k < count; k++)
            offsets[k] -= steps[k][axis] * shape->dims[axis];
        index[axis] = 0;
    }
}

/* Steps through `shape` as it is repeated to `out`. */
static void broadcast_steps(const struct convoy_shape *shape, const struct convoy_shape *out, int64_t *steps)
{
    int64_t step = 1;
    for (int axis = out->rank - 1; axis >= 0; axis--) {
        int own = axis - (out->rank - shape->rank);
        steps[axis] = own >= 0 && shape->dims[own] > 1 ? step : 0;
        step *= own >= 0 ? shape->dims[own] : 1;
    }
}

static void evaluate_binary(enum convoy_binary_kind kind, struct operand a, struct operand b,
                            const struct convoy_shape *out, float *y)
{
    int64_t index[CONVOY_MAX_RANK] = {0}, steps[2][CONVOY_MAX_RANK] = {{0}}, at[2] = {0, 0};
    broadcast_steps(a.shape, out, steps[0]);
    broadcast_steps(b.shape, out, steps[1]);
    int64_t elements = convoy_shape_elements(out);
    for (int64_t i = 0; i < elements; i++) {
        y[i] = convoy_binary_apply(kind, a.data[at[0]], b.data[at[1]]);
        advance(out, index, 2, steps, at);
    }
}

static void evaluate_transpose(const int *perm, struct operand x, const struct convoy_shape *out, float *y)
{
    int64_t index[CONVOY_MAX_RANK] = {0}, steps[1][CONVOY_MAX_RANK] = {{0}}, at[1] = {0};
    for (int axis = 0; axis < out->rank; axis++)
        steps[0][axis] = product(x.shape, perm[axis] + 1, x.shape->rank);
    int64_t elements = convoy_shape_elements(out);
    for (int64_t i = 0; i < elements; i++) {
        y[i] = x.data[at[0]];
        advance(out, index, 1, steps, at);
    }
}

static void evaluate_pad(const struct convoy_node *node, struct operand x, const struct convoy_shape *out,
                         float *y)
{
    int64_t index[CONVOY_MAX_RANK] = {0}, elements = convoy_shape_elements(out);
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = 0;
        bool inside = true;
        for (int axis = 0; axis < out->rank; axis++) {
            int64_t place = index[axis] - node->pad.before[axis];
            inside = inside && place >= 0 && place < x.shape->dims[axis];
            at = at * x.shape->dims[axis] + place;
        }
        y[i] = inside ? x.data[at] : 0;
        advance(out, index, 0, NULL, NULL);
    }
}

static void evaluate_concat(const struct convoy_graph *graph, const struct convoy_node *node,
                            const struct convoy_shape *out, float *y)
{
    int64_t blocks = product(out, 0, node->axis);
    for (int64_t block = 0; block < blocks; block++)
        for (int k = 0; k < node->input_count; k++) {
            struct operand x = operand(graph, node->inputs[k]);
            int64_t length = product(x.shape, node->axis, x.shape->rank);
            memcpy(y, x.data + block * length, (size_t)length * sizeof *y);
            y += length;
        }
}

/* The row and column in which a matrix of a product begins, for matrix `batch` of the output. */
static int64_t matrix_start(const struct convoy_shape *shape, const struct convoy_shape *batches,
                            int64_t batch)
{
    int64_t start = 0, step = shape->rank > 1 ? product(shape, shape->rank - 2, shape->rank) : 0;
    for (int axis = batches->rank - 1, own = shape->rank - 3; axis >= 0; axis--, own--) {
        int64_t index = batch % batches->dims[axis];
        batch /= batches->dims[axis];
        if (own < 0)
            break;
        start += shape->dims[own] > 1 ? index * step : 0;
        step *= shape->dims[own];
    }
    return start;
}

static void evaluate_matmul(struct operand a, struct operand b, const struct convoy_shape *out, float *y)
{
    int64_t rows = a.shape->rank > 1 ? a.shape->dims[a.shape->rank - 2] : 1;
    int64_t inner = a.shape->dims[a.shape->rank - 1];
    int64_t columns = b.shape->rank > 1 ? b.shape->dims[b.shape->rank - 1] : 1;
    struct convoy_shape batches = *out;
    batches.rank -= (a.shape->rank > 1) + (b.shape->rank > 1);
    int64_t count = convoy_shape_elements(&batches);
    for (int64_t batch = 0; batch < count; batch++) {
        const float *left = a.data + matrix_start(a.shape, &batches, batch);
        const float *right = b.data + matrix_start(b.shape, &batches, batch);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                double sum = 0;
                for (int64_t k = 0; k < inner; k++)
                    sum += (double)left[r * inner + k] * (double)right[k * columns + c];
                *y++ = (float)sum;
            }
    }
}

static void evaluate_dense(struct operand x, struct operand w, const float *bias,
                           const struct convoy_shape *out, float *y)
{
    int64_t rows = out->dims[0], columns = out->dims[1], inner = w.shape->dims[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < columns; k++) {
            double sum = bias != NULL ? bias[k] : 0;
            for (int64_t m = 0; m < inner; m++)
                sum += (double)x.data[r * inner + m] * (double)w.data[k * inner + m];
            *y++ = (float)sum;
        }
}

static float conv_at(const struct convoy_conv *conv, struct operand x, struct operand w, double sum,
                     const int64_t *at)
{
    const int64_t *in = x.shape->dims, *filter = w.shape->dims;
    int64_t first = at[1] / (filter[0] / conv->groups) * filter[1];
    for (int64_t c = 0; c < filter[1]; c++)
        for (int64_t r = 0; r < filter[2]; r++)
            for (int64_t s = 0; s < filter[3]; s++) {
                int64_t h = at[2] * conv->stride[0] - conv->pad[0] + r * conv->dilation[0];
                int64_t v = at[3] * conv->stride[1] - conv->pad[1] + s * conv->dilation[1];
                if (h >= 0 && h < in[2] && v >= 0 && v < in[3])
                    sum += (double)x.data[((at[0] * in[1] + first + c) * in[2] + h) * in[3] + v] *
                           (double)w.data[((at[1] * filter[1] + c) * filter[2] + r) * filter[3] + s];
            }
    return (float)sum;
}

static float pool_at(const struct convoy_pool *pool, struct operand x, const int64_t *at)
{
    const int64_t *in = x.shape->dims;
    const float *plane = x.data + (at[0] * in[1] + at[1]) * in[2] * in[3];
    double sum = 0, most = -INFINITY;
    int64_t inside = 0, padded = 0;
    for (int64_t r = 0; r < pool->window[0]; r++)
        for (int64_t s = 0; s < pool->window[1]; s++) {
            int64_t h = at[2] * pool->stride[0] - pool->pad[0] + r * pool->dilation[0];
            int64_t v = at[3] * pool->stride[1] - pool->pad[1] + s * pool->dilation[1];
            padded += h < in[2] + pool->pad[2] && v < in[3] + pool->pad[3];
            if (h < 0 || h >= in[2] || v < 0 || v >= in[3])
                continue;
            double value = plane[h * in[3] + v];
            sum += value;
            most = value > most || isnan(value) ? value : most;
            inside++;
        }
    if (inside == 0)
        return 0;
    return (float)(pool->kind == CONVOY_POOL_MAX ? most
                                                 : sum / (double)(pool->count_include_pad ? padded : inside));
}

static void evaluate_softmax(const struct convoy_node *node, struct operand x, float *y)
{
    int64_t outer = product(x.shape, 0, node->softmax.axis);
    int64_t length = product(x.shape, node->softmax.axis, node->softmax.axis_end);
    int64_t inner = product(x.shape, node->softmax.axis_end, x.shape->rank);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t start = o * length * inner + i;
            double most = -INFINITY, sum = 0;
            for (int64_t k = 0; k < length; k++)
                most = fmax(most, x.data[start + k * inner]);
            for (int64_t k = 0; k < length; k++)
                sum += exp((double)x.data[start + k * inner] - most);
            for (int64_t k = 0; k < length; k++) {
                double value = (double)x.data[start + k * inner] - most;
                y[start + k * inner] = (float)(node->softmax.log ? value - log(sum) : exp(value) / sum);
            }
        }
}

static void evaluate_normalize(const struct convoy_graph *graph, const struct convoy_node *node,
                               struct operand x, float *y)
{
    const struct convoy_normalize *normalize = &node->normalize;
    int64_t outer = product(x.shape, 0, normalize->axis);
    int64_t length = product(x.shape, normalize->axis, normalize->axis_end);
    int64_t inner = product(x.shape, normalize->axis_end, x.shape->rank);
    const float *scale = normalize->has_scale ? operand(graph, node->inputs[1]).data : NULL;
    const float *shift =
        normalize->has_shift ? operand(graph, node->inputs[normalize->has_scale ? 2 : 1]).data : NULL;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const float *from = x.data + o * length * inner + i;
            float *to = y + o * length * inner + i;
            double mean = 0, squares = 0;
            for (int64_t k = 0; k < length && !normalize->rms; k++)
                mean += (double)from[k * inner] / (double)length;
            for (int64_t k = 0; k < length; k++)
                squares += (from[k * inner] - mean) * (from[k * inner] - mean) / (double)length;
            double factor = 1 / sqrt(squares + normalize->epsilon);
            for (int64_t k = 0; k < length; k++)
                to[k * inner] = (float)((from[k * inner] - mean) * factor * (scale != NULL ? scale[k] : 1) +
                                        (shift != NULL ? shift[k] : 0));
        }
}

int64_t convoy_graph_evaluation_work(const struct convoy_graph *graph, const struct convoy_node *node)
{
    const struct convoy_shape *out = &graph->tensors[node->output].shape;
    const struct convoy_shape *in = &graph->tensors[node->inputs[0]].shape;
    bool computes = node->op == CONVOY_OP_ACTIVATION || node->op == CONVOY_OP_SOFTMAX ||
                    node->op == CONVOY_OP_NORMALIZE ||
                    (node->op == CONVOY_OP_BINARY && node->binary == CONVOY_POWER);
    int64_t each = computes ? FUNCTION_WORK : 1, work;
    if (node->op == CONVOY_OP_CONV || node->op == CONVOY_OP_DENSE)
        each = product(&graph->tensors[node->inputs[1]].shape, 1, graph->tensors[node->inputs[1]].shape.rank);
    else if (node->op == CONVOY_OP_MATMUL)
        each = in->dims[in->rank - 1];
    else if (node->op == CONVOY_OP_TOP)
        each = in->dims[node->top.axis];
    else if (node->op == CONVOY_OP_POOL &&
             __builtin_mul_overflow(node->pool.window[0], node->pool.window[1], &each))
        return INT64_MAX;
    return __builtin_mul_overflow(convoy_shape_elements(out), each + 1, &work) ? INT64_MAX : work;
}

void convoy_graph_evaluate(const struct convoy_graph *graph, const struct convoy_node *node, float *y)
{
    const struct convoy_shape *out = &graph->tensors[node->output].shape;
    struct operand x = operand(graph, node->inputs[0]);
    struct operand b = node->input_count > 1 ? operand(graph, node->inputs[1]) : x;
    const float *c = node->input_count > 2 ? operand(graph, node->inputs[2]).data : NULL;
    int64_t index[CONVOY_MAX_RANK] = {0}, elements = convoy_shape_elements(out);
    switch (node->op) {
    case CONVOY_OP_CONV:
        for (int64_t i = 0; i < elements; i++) {
            y[i] = conv_at(&node->conv, x, b, c != NULL ? c[index[1]] : 0, index);
            advance(out, index, 0, NULL, NULL);
        }
        return;
    case CONVOY_OP_DENSE:
        evaluate_dense(x, b, c, out, y);
        return;
    case CONVOY_OP_MATMUL:
        evaluate_matmul(x, b, out, y);
        return;
    case CONVOY_OP_SCALE_SHIFT:
        for (int64_t i = 0; i < elements; i++) {
            y[i] = (float)((double)x.data[i] * (double)b.data[index[1]] +
                           (double)operand(graph, node->inputs[2]).data[index[1]]);
            advance(out, index, 0, NULL, NULL);
        }
        return;
    case CONVOY_OP_ACTIVATION:
        for (int64_t i = 0; i < elements; i++)
            y[i] = (float)convoy_activation_apply(&node->activation, x.data[i]);
        return;
    case CONVOY_OP_POOL:
        for (int64_t i = 0; i < elements; i++) {
            y[i] = pool_at(&node->pool, x, index);
            advance(out, index, 0, NULL, NULL);
        }
        return;
    case CONVOY_OP_BINARY:
        evaluate_binary(node->binary, x, b, out, y);
        return;
    case CONVOY_OP_PAD:
        evaluate_pad(node, x, out, y);
        return;
    case CONVOY_OP_RESHAPE:
        memcpy(y, x.data, (size_t)elements * sizeof *y);
        return;
    case CONVOY_OP_TRANSPOSE:
        evaluate_transpose(node->perm, x, out, y);
        return;
    case CONVOY_OP_CONCAT:
        evaluate_concat(graph, node, out, y);
        return;
    case CONVOY_OP_SOFTMAX:
        evaluate_softmax(node, x, y);
        return;
    case CONVOY_OP_NORMALIZE:
        evaluate_normalize(graph, node, x, y);
        return;
    case CONVOY_OP_TOP: {
        const struct convoy_top_rows rows = convoy_top_rows(&node->top, x.shape, out, 1);
        convoy_top(&rows, x.data, y);
        return;
    }
    case CONVOY_OP_COUNT:
        return;
    }
}
