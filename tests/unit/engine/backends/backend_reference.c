/* See the header. */
#include "tests/unit/engine/backends/backend_reference.h"

static struct reference_tensor reference_tensor(const struct convoy_graph *graph, int index, int64_t images)
{
    const struct convoy_shape *shape = &graph->tensors[index].shape;
    struct reference_tensor t = {.rank = shape->rank, .count = 1};
    for (int i = 0; i < shape->rank; i++) {
        t.dims[i] = shape->dims[i] * (i == shape->batch_axis ? images : 1);
        t.count *= t.dims[i];
    }
    t.values = calloc((size_t)t.count, sizeof(double));
    if (t.values == NULL)
        abort();
    return t;
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
    abort();
}

/* The index of element i of y's shape, in x, which broadcasts to y (numpy). */
static int64_t reference_broadcast(const struct reference_tensor *y, const struct reference_tensor *x,
                                   int64_t i)
{
    int64_t index = 0;
    int64_t stride = 1;
    for (int axis = y->rank - 1; axis >= 0; axis--) {
        int64_t at = i % y->dims[axis];
        int own = axis - (y->rank - x->rank);
        i /= y->dims[axis];
        if (own < 0)
            continue;
        if (x->dims[own] != 1)
            index += at * stride;
        stride *= x->dims[own];
    }
    return index;
}

/* Adds what a row of x that begins `left` before or behind a row of y adds to it through one weight. */
static void reference_add_row(const struct convoy_conv *c, int64_t left, double weight, const double *row,
                              int64_t W, double *sums, int64_t columns)
{
    int64_t stride = c->stride[1];
    int64_t begin = 0;
    int64_t end = columns;
    while (begin < end && begin * stride + left < 0)
        begin++;
    while (end > begin && (end - 1) * stride + left >= W)
        end--;
    if (stride == 1)
        for (int64_t ow = begin; ow < end; ow++)
            sums[ow] += weight * row[ow + left];
    else
        for (int64_t ow = begin; ow < end; ow++)
            sums[ow] += weight * row[ow * stride + left];
}

static void reference_conv(const struct convoy_conv *c, const struct reference_tensor *x,
                           const struct reference_tensor *w, const double *bias,
                           const struct reference_tensor *y)
{
    int64_t H = x->dims[2];
    int64_t W = x->dims[3];
    int64_t per_group = w->dims[1];
    for (int64_t n = 0; n < y->dims[0]; n++)
        for (int64_t k = 0; k < y->dims[1]; k++) {
            double *plane = y->values + (n * y->dims[1] + k) * y->dims[2] * y->dims[3];
            for (int64_t i = 0; i < y->dims[2] * y->dims[3]; i++)
                plane[i] = bias != NULL ? bias[k] : 0;
            int64_t first = k / (y->dims[1] / c->groups) * per_group;
            for (int64_t i = 0; i < per_group; i++)
                for (int64_t r = 0; r < w->dims[2]; r++)
                    for (int64_t s = 0; s < w->dims[3]; s++) {
                        double weight = w->values[((k * per_group + i) * w->dims[2] + r) * w->dims[3] + s];
                        for (int64_t oh = 0; oh < y->dims[2]; oh++) {
                            int64_t h = oh * c->stride[0] - c->pad[0] + r * c->dilation[0];
                            if (h < 0 || h >= H)
                                continue;
                            const double *row = x->values + ((n * x->dims[1] + first + i) * H + h) * W;
                            reference_add_row(c, s * c->dilation[1] - c->pad[1], weight, row, W,
                                              plane + oh * y->dims[3], y->dims[3]);
                        }
                    }
        }
}

static void reference_pool(const struct convoy_pool *p, const struct reference_tensor *x,
                           const struct reference_tensor *y)
{
    int64_t H = x->dims[2];
    int64_t W = x->dims[3];
    for (int64_t i = 0; i < y->count; i++) {
        int64_t ow = i % y->dims[3];
        int64_t oh = i / y->dims[3] % y->dims[2];
        const double *plane = x->values + i / (y->dims[3] * y->dims[2]) * H * W;
        double greatest = -INFINITY;
        double sum = 0;
        int64_t inside = 0;
        int64_t padded = 0;
        for (int64_t r = 0; r < p->window[0]; r++)
            for (int64_t s = 0; s < p->window[1]; s++) {
                int64_t h = oh * p->stride[0] - p->pad[0] + r * p->dilation[0];
                int64_t w = ow * p->stride[1] - p->pad[1] + s * p->dilation[1];
                padded += h < H + p->pad[2] && w < W + p->pad[3];
                if (h < 0 || h >= H || w < 0 || w >= W)
                    continue;
                inside++;
                sum += plane[h * W + w];
                greatest = fmax(greatest, plane[h * W + w]);
            }
        double average = sum / (double)(p->count_include_pad ? padded : inside);
        y->values[i] = inside == 0 ? 0 : (p->kind == CONVOY_POOL_MAX ? greatest : average);
    }
}

/* numpy matmul by its definition: batch dimensions broadcast, vectors promoted. */
static void reference_matmul(const struct reference_tensor *a, const struct reference_tensor *b,
                             const struct reference_tensor *y)
{
    struct reference_tensor left = *a;
    struct reference_tensor right = *b;
    struct reference_tensor out = *y;
    if (left.rank == 1) {
        left.rank = 2;
        left.dims[1] = left.dims[0];
        left.dims[0] = 1;
    }
    if (right.rank == 1) {
        right.rank = 2;
        right.dims[1] = 1;
    }
    int64_t M = left.dims[left.rank - 2];
    int64_t K = left.dims[left.rank - 1];
    int64_t N = right.dims[right.rank - 1];
    /* Only the dimensions before the matrix broadcast. */
    out.rank = left.rank > right.rank ? left.rank - 2 : right.rank - 2;
    left.rank -= 2;
    right.rank -= 2;
    for (int64_t batch = 0; batch < y->count / (M * N); batch++) {
        const double *A = a->values + reference_broadcast(&out, &left, batch) * M * K;
        const double *B = b->values + reference_broadcast(&out, &right, batch) * K * N;
        for (int64_t m = 0; m < M; m++)
            for (int64_t n = 0; n < N; n++) {
                double sum = 0;
                for (int64_t k = 0; k < K; k++)
                    sum += A[m * K + k] * B[k * N + n];
                y->values[(batch * M + m) * N + n] = sum;
            }
    }
}

/* Coordinates of element i. */
static void reference_unravel(const struct reference_tensor *t, int64_t i, int64_t *at)
{
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        at[axis] = i % t->dims[axis];
        i /= t->dims[axis];
    }
}

static int64_t reference_ravel(const struct reference_tensor *t, const int64_t *at)
{
    int64_t index = 0;
    for (int axis = 0; axis < t->rank; axis++)
        index = index * t->dims[axis] + at[axis];
    return index;
}

static void reference_pad(const struct convoy_node *node, const struct reference_tensor *x,
                          const struct reference_tensor *y)
{
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at[CONVOY_MAX_RANK];
        bool inside = true;
        reference_unravel(y, i, at);
        for (int axis = 0; axis < y->rank; axis++) {
            at[axis] -= node->pad.before[axis];
            inside = inside && at[axis] >= 0 && at[axis] < x->dims[axis];
        }
        y->values[i] = inside ? x->values[reference_ravel(x, at)] : 0;
    }
}

static void reference_transpose(const struct convoy_node *node, const struct reference_tensor *x,
                                const struct reference_tensor *y)
{
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at[CONVOY_MAX_RANK];
        int64_t from[CONVOY_MAX_RANK];
        reference_unravel(y, i, at);
        for (int axis = 0; axis < y->rank; axis++)
            from[node->perm[axis]] = at[axis];
        y->values[i] = x->values[reference_ravel(x, from)];
    }
}

static void reference_concat(const struct convoy_node *node, const struct reference_tensor *tensors,
                             const struct reference_tensor *y)
{
    int64_t first = 0;
    for (int k = 0; k < node->input_count; k++) {
        const struct reference_tensor *x = &tensors[node->inputs[k]];
        for (int64_t i = 0; i < x->count; i++) {
            int64_t at[CONVOY_MAX_RANK];
            reference_unravel(x, i, at);
            at[node->axis] += first;
            y->values[reference_ravel(y, at)] = x->values[i];
        }
        first += x->dims[node->axis];
    }
}

static void reference_softmax(const struct convoy_node *node, const struct reference_tensor *x,
                              const struct reference_tensor *y)
{
    int64_t outer = 1;
    int64_t middle = 1;
    int64_t inner = 1;
    for (int axis = 0; axis < x->rank; axis++)
        *(axis < node->softmax.axis ? &outer : (axis < node->softmax.axis_end ? &middle : &inner)) *=
            x->dims[axis];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const double *from = x->values + o * middle * inner + i;
            double *to = y->values + o * middle * inner + i;
            double greatest = -INFINITY;
            double sum = 0;
            for (int64_t m = 0; m < middle; m++)
                greatest = fmax(greatest, from[m * inner]);
            for (int64_t m = 0; m < middle; m++)
                sum += to[m * inner] = exp(from[m * inner] - greatest);
            for (int64_t m = 0; m < middle; m++)
                to[m * inner] =
                    node->softmax.log ? from[m * inner] - greatest - log(sum) : to[m * inner] / sum;
        }
}

static void reference_normalize(const struct convoy_node *node, const struct reference_tensor *tensors,
                                const struct reference_tensor *y)
{
    const struct convoy_normalize *n = &node->normalize;
    const struct reference_tensor *x = &tensors[node->inputs[0]];
    const double *scale = n->has_scale ? tensors[node->inputs[1]].values : NULL;
    const double *shift = n->has_shift ? tensors[node->inputs[n->has_scale ? 2 : 1]].values : NULL;
    int64_t outer = 1;
    int64_t middle = 1;
    int64_t inner = 1;
    for (int axis = 0; axis < x->rank; axis++)
        *(axis < n->axis ? &outer : (axis < n->axis_end ? &middle : &inner)) *= x->dims[axis];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const double *from = x->values + o * middle * inner + i;
            double *to = y->values + o * middle * inner + i;
            double mean = 0;
            double variance = 0;
            for (int64_t m = 0; m < middle && !n->rms; m++)
                mean += from[m * inner] / (double)middle;
            for (int64_t m = 0; m < middle; m++)
                variance += pow(from[m * inner] - mean, 2) / (double)middle;
            for (int64_t m = 0; m < middle; m++)
                to[m * inner] = (from[m * inner] - mean) / sqrt(variance + (double)n->epsilon) *
                                    (scale != NULL ? scale[m] : 1) +
                                (shift != NULL ? shift[m] : 0);
        }
}

/* Each number goes where as many come before it as it has before it. */
static void reference_top(const struct convoy_top *top, const struct reference_tensor *x,
                          const struct reference_tensor *y)
{
    int64_t inner = 1, length = x->dims[top->axis], count = y->dims[top->axis];
    for (int axis = top->axis + 1; axis < x->rank; axis++)
        inner *= x->dims[axis];
    for (int64_t i = 0; i < x->count; i++) {
        int64_t place = i / inner % length, start = i - place * inner, before = 0;
        for (int64_t k = 0; k < length; k++) {
            double a = x->values[start + k * inner], b = x->values[i];
            bool same = a == b || (isnan(a) && isnan(b));
            bool first = isnan(a) || (!isnan(b) && (top->smallest ? a < b : a > b));
            before += same ? (top->last ? k > place : k < place) : first;
        }
        if (before < count)
            y->values[i / inner / length * count * inner + before * inner + i % inner] =
                top->places ? (double)place : x->values[i];
    }
}

static void reference_node(const struct convoy_node *node, struct reference_tensor *tensors)
{
    const struct reference_tensor *x = &tensors[node->inputs[0]];
    const struct reference_tensor *b = node->input_count > 1 ? &tensors[node->inputs[1]] : x;
    const struct reference_tensor *c = node->input_count > 2 ? &tensors[node->inputs[2]] : x;
    const double *bias = node->input_count > 2 ? c->values : NULL;
    const struct reference_tensor *y = &tensors[node->output];
    int64_t inner = 1;
    switch (node->op) {
    case CONVOY_OP_CONV:
        reference_conv(&node->conv, x, b, bias, y);
        return;
    case CONVOY_OP_DENSE:
        for (int64_t i = 0; i < y->count; i++) {
            int64_t row = i / b->dims[0];
            int64_t k = i % b->dims[0];
            y->values[i] = bias != NULL ? bias[k] : 0;
            for (int64_t m = 0; m < b->dims[1]; m++)
                y->values[i] += x->values[row * b->dims[1] + m] * b->values[k * b->dims[1] + m];
        }
        return;
    case CONVOY_OP_MATMUL:
        reference_matmul(x, b, y);
        return;
    case CONVOY_OP_SCALE_SHIFT:
        for (int axis = 2; axis < x->rank; axis++)
            inner *= x->dims[axis];
        for (int64_t i = 0; i < y->count; i++) {
            int64_t channel = i / inner % x->dims[1];
            y->values[i] = x->values[i] * b->values[channel] + c->values[channel];
        }
        return;
    case CONVOY_OP_ACTIVATION:
        for (int64_t i = 0; i < y->count; i++)
            y->values[i] = reference_activation(&node->activation, x->values[i]);
        return;
    case CONVOY_OP_POOL:
        reference_pool(&node->pool, x, y);
        return;
    case CONVOY_OP_BINARY:
        for (int64_t i = 0; i < y->count; i++)
            y->values[i] = reference_binary(node->binary, x->values[reference_broadcast(y, x, i)],
                                            b->values[reference_broadcast(y, b, i)]);
        return;
    case CONVOY_OP_PAD:
        reference_pad(node, x, y);
        return;
    case CONVOY_OP_RESHAPE:
        memcpy(y->values, x->values, (size_t)y->count * sizeof(double));
        return;
    case CONVOY_OP_TRANSPOSE:
        reference_transpose(node, x, y);
        return;
    case CONVOY_OP_CONCAT:
        reference_concat(node, tensors, y);
        return;
    case CONVOY_OP_SOFTMAX:
        reference_softmax(node, x, y);
        return;
    case CONVOY_OP_NORMALIZE:
        reference_normalize(node, tensors, y);
        return;
    case CONVOY_OP_TOP:
        reference_top(&node->top, x, y);
        return;
    default:
        abort();
    }
}

struct reference_tensor *reference_run(const struct convoy_graph *graph, int64_t images, const double *input)
{
    struct reference_tensor *tensors = calloc((size_t)graph->tensor_count, sizeof(*tensors));
    if (tensors == NULL)
        abort();
    for (int t = 0; t < graph->tensor_count; t++) {
        tensors[t] = reference_tensor(graph, t, images);
        for (int64_t i = 0; graph->tensors[t].data != NULL && i < tensors[t].count; i++)
            tensors[t].values[i] = graph->tensors[t].data[i];
    }
    struct reference_tensor *in = &tensors[graph->input];
    if (in->values == NULL)
        abort();
    memcpy(in->values, input, (size_t)in->count * sizeof(double));
    for (int n = 0; n < graph->node_count; n++)
        reference_node(&graph->nodes[n], tensors);
    return tensors;
}

void reference_free(const struct convoy_graph *graph, struct reference_tensor *tensors)
{
    for (int t = 0; t < graph->tensor_count; t++)
        free(tensors[t].values);
    free(tensors);
}
