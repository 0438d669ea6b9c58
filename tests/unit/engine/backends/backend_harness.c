/* What the tests of the backends share: see the header. */
#include "tests/unit/engine/backends/backend_harness.h"

/* LeakSanitizer looks for pointers in thread-local memory and falls over the blocks that glibc makes for
 * modules loaded by dlopen() unless it leaves those alone. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}

const struct convoy_backend *backend;
struct convoy_device *device;
struct loud_row loud = {0, 1, false};
bool by_largest;
uint64_t random_state = 1;

float random_value(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (float)((double)((random_state * 0x2545F4914F6CDD1Dull) >> 40) / (1 << 23)) - 1.0f;
}

void open_backend_with(const struct convoy_open_options *options)
{
    struct convoy_error error;
    struct convoy_device_info info;
    const char *other = getenv("CONVOY_TEST_MODULE"); /* tests/gpu/: the same tests on a GPU */
    void *module = dlopen(other != NULL ? other : backend_module, RTLD_NOW | RTLD_LOCAL);
    cr_assert(module != NULL, "%s", dlerror());
    void *symbol = dlsym(module, CONVOY_BACKEND_ENTRY);
    cr_assert(symbol != NULL, "%s", dlerror());
    convoy_backend_entry_function entry = NULL;
    memcpy((void *)&entry, (const void *)&symbol, sizeof(symbol));
    backend = entry();
    cr_assert_eq(backend->abi, CONVOY_BACKEND_ABI);
    cr_assert_eq(backend->open(0, options, &device, &info, &error), 0, "%s", error.message);
}

void open_backend(void)
{
    struct convoy_open_options options = {.streams = 3};
    open_backend_with(&options);
}

void close_backend(void)
{
    if (device != NULL)
        backend->close(device);
    device = NULL;
}

int add_activation(struct convoy_graph *graph, struct convoy_shape shape)
{
    char name[32];
    snprintf(name, sizeof(name), "t%d", graph->tensor_count);
    int index = convoy_graph_add_tensor(graph, name, &shape, NULL);
    cr_assert(index >= 0);
    return index;
}

int add_constant(struct convoy_graph *graph, struct convoy_shape shape, float scale)
{
    char name[32];
    snprintf(name, sizeof(name), "c%d", graph->tensor_count);
    int64_t count = convoy_shape_elements(&shape);
    float *data = malloc((size_t)count * sizeof(float));
    cr_assert(data != NULL);
    for (int64_t i = 0; i < count; i++)
        data[i] = random_value() * scale;
    int index = convoy_graph_add_tensor(graph, name, &shape, data);
    cr_assert(index >= 0);
    return index;
}

struct convoy_graph *new_graph(struct convoy_shape input)
{
    struct convoy_graph *graph = convoy_graph_new();
    cr_assert(graph != NULL);
    graph->input = add_activation(graph, input);
    return graph;
}

struct convoy_node *add_node(struct convoy_graph *graph, enum convoy_op op, int output, int input_count,
                             const int *inputs)
{
    struct convoy_node *node = convoy_graph_add_node(graph, op, NULL, NULL, inputs, input_count, output);
    cr_assert(node != NULL);
    return node;
}

void add_output(struct convoy_graph *graph, int tensor)
{
    graph->outputs[graph->output_count++] = tensor;
}

const struct convoy_shape *shape_of(const struct convoy_graph *graph, int tensor)
{
    return &graph->tensors[tensor].shape;
}

int add_act(struct convoy_graph *graph, int x, enum convoy_activation_kind kind, float alpha, float beta)
{
    int y = add_activation(graph, *shape_of(graph, x));
    add_node(graph, CONVOY_OP_ACTIVATION, y, 1, &x)->activation =
        (struct convoy_activation){.kind = kind, .alpha = alpha, .beta = beta};
    return y;
}

int add_conv(struct convoy_graph *graph, int x, int64_t K, int64_t R, int64_t S, struct convoy_conv conv,
             bool bias)
{
    struct convoy_shape shape = *shape_of(graph, x);
    int64_t window[2] = {R, S};
    int inputs[3] = {x, -1, -1};
    inputs[1] = add_constant(graph, FIXED(K, shape.dims[1] / conv.groups, R, S),
                             2.0f / sqrtf((float)(shape.dims[1] / conv.groups * R * S)));
    if (bias)
        inputs[2] = add_constant(graph, FIXED(K), 1);
    shape.dims[1] = K;
    for (int i = 0; i < 2; i++)
        shape.dims[2 + i] =
            (shape.dims[2 + i] + conv.pad[i] + conv.pad[2 + i] - ((window[i] - 1) * conv.dilation[i] + 1)) /
                conv.stride[i] +
            1;
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_CONV, y, bias ? 3 : 2, inputs)->conv = conv;
    return y;
}

int add_pool(struct convoy_graph *graph, int x, struct convoy_pool pool, bool ceil_mode)
{
    struct convoy_shape shape = *shape_of(graph, x);
    for (int i = 0; i < 2; i++) {
        int64_t room =
            shape.dims[2 + i] + pool.pad[i] + pool.pad[2 + i] - ((pool.window[i] - 1) * pool.dilation[i] + 1);
        int64_t out = (room + (ceil_mode ? pool.stride[i] - 1 : 0)) / pool.stride[i] + 1;
        /* As ONNX Runtime and PyTorch: no window starts past the input and its left padding. */
        if (ceil_mode && (out - 1) * pool.stride[i] >= shape.dims[2 + i] + pool.pad[i])
            out--;
        shape.dims[2 + i] = out;
    }
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_POOL, y, 1, &x)->pool = pool;
    return y;
}

int add_global_average(struct convoy_graph *graph, int x)
{
    const int64_t *dims = shape_of(graph, x)->dims;
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {dims[2], dims[3]}, .stride = {1, 1}, .dilation = {1, 1}};
    return add_pool(graph, x, pool, false);
}

int add_concat(struct convoy_graph *graph, int count, const int *inputs, int axis)
{
    struct convoy_shape shape = *shape_of(graph, inputs[0]);
    for (int i = 1; i < count; i++)
        shape.dims[axis] += shape_of(graph, inputs[i])->dims[axis];
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_CONCAT, y, count, inputs)->axis = axis;
    return y;
}

int add_binary(struct convoy_graph *graph, int a, int b, enum convoy_binary_kind kind)
{
    struct convoy_shape x = *shape_of(graph, a);
    struct convoy_shape z = *shape_of(graph, b);
    struct convoy_shape y = x.rank >= z.rank ? x : z;
    const struct convoy_shape *shorter = x.rank >= z.rank ? &z : &x;
    for (int i = 0; i < shorter->rank; i++) {
        int axis = i + y.rank - shorter->rank;
        if (y.dims[axis] == 1)
            y.dims[axis] = shorter->dims[i];
        if (i == shorter->batch_axis)
            y.batch_axis = axis;
    }
    int output = add_activation(graph, y);
    add_node(graph, CONVOY_OP_BINARY, output, 2, (int[]){a, b})->binary = kind;
    return output;
}

int add_reshape(struct convoy_graph *graph, int x, struct convoy_shape shape)
{
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_RESHAPE, y, 1, &x);
    return y;
}

int add_dense(struct convoy_graph *graph, int x, int64_t K, bool bias)
{
    struct convoy_shape shape = *shape_of(graph, x);
    int inputs[3] = {x, -1, -1};
    inputs[1] = add_constant(graph, FIXED(K, shape.dims[1]), 2.0f / sqrtf((float)shape.dims[1]));
    if (bias)
        inputs[2] = add_constant(graph, FIXED(K), 1);
    shape.dims[1] = K;
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_DENSE, y, bias ? 3 : 2, inputs);
    return y;
}

int add_softmax(struct convoy_graph *graph, int x, int axis, int axis_end)
{
    int y = add_activation(graph, *shape_of(graph, x));
    struct convoy_node *node = add_node(graph, CONVOY_OP_SOFTMAX, y, 1, &x);
    node->softmax.axis = axis;
    node->softmax.axis_end = axis_end;
    return y;
}

int add_top(struct convoy_graph *graph, int x, int64_t count, struct convoy_top top)
{
    struct convoy_shape shape = *shape_of(graph, x);
    shape.dims[top.axis] = count;
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_TOP, y, 1, &x)->top = top;
    return y;
}

int add_flatten(struct convoy_graph *graph, int x)
{
    return add_reshape(graph, x, SHAPE(1, convoy_shape_elements(shape_of(graph, x))));
}

void fill_normalisation(struct convoy_load_options *options)
{
    for (int c = 0; c < CONVOY_MAX_U8_CHANNELS; c++) {
        options->multiply[c] = 0.01f * (float)(c + 1);
        options->add[c] = -1.0f - 0.1f * (float)c;
    }
}

struct convoy_net *load_as(const struct convoy_graph *graph, uint32_t max_batch,
                           enum convoy_compute_type precision, struct convoy_net_info *info)
{
    struct convoy_error error;
    struct convoy_net *net = NULL;
    struct convoy_load_options options = {.name = "test", .max_batch = max_batch, .precision = precision};
    fill_normalisation(&options);
    cr_assert_eq(backend->load(device, graph, &options, &net, info, &error), 0, "%s", error.message);
    return net;
}

struct convoy_net *load(const struct convoy_graph *graph, uint32_t max_batch, struct convoy_net_info *info)
{
    return load_as(graph, max_batch, CONVOY_COMPUTE_FP32, info);
}

double normalised(uint8_t value, int64_t channel)
{
    return (double)((float)value * (0.01f * (float)(channel + 1)) + (-1.0f - 0.1f * (float)channel));
}

int take(uint64_t *tag, struct convoy_error *error)
{
    int got;
    do
        got = backend->collect(device, 1000, tag, error);
    while (got == 0);
    return got;
}

void run(struct convoy_net *net, const struct convoy_job *job)
{
    struct convoy_error error;
    uint64_t tag = 0;
    cr_assert_eq(backend->submit(device, net, job, &error), 0, "%s", error.message);
    cr_assert_eq(take(&tag, &error), 1, "%s", error.message);
    cr_assert_eq(tag, job->tag);
}

void *aligned_bytes(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    cr_assert(memory != NULL);
    return memory;
}

void fill_rows(const struct convoy_net_info *info, enum convoy_input_layout layout, uint32_t rows,
               size_t stride, char *input, double *values)
{
    int64_t pixels = (int64_t)info->height * info->width;
    memset(input, 0xff, rows * stride);
    for (uint32_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < info->channels; c++)
            for (int64_t p = 0; p < pixels; p++) {
                double *value = values + ((n * info->channels + c) * pixels + p);
                char *row = input + n * stride;
                if (layout == CONVOY_LAYOUT_U8_HWC) {
                    uint8_t pixel = (uint8_t)((random_value() + 1.0f) * 127.0f);
                    ((uint8_t *)row)[p * info->channels + c] = pixel;
                    *value = normalised(pixel, c);
                } else {
                    float x = random_value() * (n == loud.row ? 2 * loud.by : 2);
                    ((float *)(void *)row)[c * pixels + p] = x;
                    *value = x;
                }
            }
}

double reference_at(const struct convoy_graph *graph, const struct reference_tensor *tensors, int output,
                    int64_t n, int64_t images, int64_t i)
{
    int index = graph->outputs[output];
    const struct convoy_shape *shape = shape_of(graph, index);
    if (shape->batch_axis < 0)
        return tensors[index].values[i];
    int64_t chunk = 1;
    for (int axis = shape->batch_axis; axis < shape->rank; axis++)
        chunk *= shape->dims[axis];
    return tensors[index].values[(i / chunk * images + n) * chunk + i % chunk];
}

double largest_output(const struct convoy_graph *graph, const struct convoy_net_info *info,
                      const struct reference_tensor *reference, int64_t n, int64_t rows)
{
    double largest = 0;
    for (uint32_t k = 0; k < info->output_count; k++)
        for (int64_t i = 0; i < info->output_elements[k]; i++)
            largest = fmax(largest, fabs(reference_at(graph, reference, (int)k, n, rows, i)));
    return largest;
}

void check_rows(const struct convoy_graph *graph, struct convoy_net *net, const struct convoy_net_info *info,
                enum convoy_input_layout layout, uint32_t rows, double tolerance)
{
    size_t elements = (size_t)info->channels * info->height * info->width;
    size_t stride = (elements * (layout == CONVOY_LAYOUT_U8_HWC ? 1 : sizeof(float)) + 63) / 64 * 64 + 64;
    size_t output_stride = (info->outputs_per_row * sizeof(float) + 63) / 64 * 64 + 64;
    char *input = aligned_bytes(rows * stride);
    double *values = malloc(rows * elements * sizeof(double));
    cr_assert(values != NULL);
    char *output = aligned_bytes(rows * output_stride);
    memset(output, 0xff, rows * output_stride);
    fill_rows(info, layout, rows, stride, input, values);

    struct convoy_job_times times;
    struct convoy_job job = {.tag = 7 + rows,
                             .layout = layout,
                             .rows = rows,
                             .input = input,
                             .input_stride = stride,
                             .output = (float *)(void *)output,
                             .output_stride = output_stride,
                             .times = &times};
    times.layer_us = NULL;
    run(net, &job);
    struct reference_tensor *reference = reference_run(graph, rows, values);
    for (uint32_t n = 0; n < rows; n++) {
        const float *row = (const float *)(void *)(output + n * output_stride);
        double largest = largest_output(graph, info, reference, n, rows);
        for (uint32_t k = 0; k < info->output_count; k++)
            for (int64_t i = 0; i < info->output_elements[k]; i++, row++) {
                double expected = reference_at(graph, reference, (int)k, n, rows, i);
                if (loud.lost && n == loud.row) {
                    cr_assert(isnan(*row), "row %u: %.9g", n, (double)*row);
                    continue;
                }
                double allowed = tolerance * (by_largest ? largest : 1 + fabs(expected));
                cr_assert(fabs((double)*row - expected) <= allowed,
                          "row %u of %u, output %u, element %ld: %.9g, expected %.9g", n, rows, k, (long)i,
                          (double)*row, expected);
            }
        const unsigned char *gap = (const unsigned char *)row;
        while (gap < (const unsigned char *)output + (n + 1) * output_stride)
            cr_assert_eq(*gap++, 0xff, "row %u of %u: written past its outputs", n, rows);
    }
    reference_free(graph, reference);
    free(input);
    free(values);
    free(output);
}

#define FEW 3 /* batches that are small */
static const uint32_t batches[] = {1, 2, 5, 17};

/* With the first `count` of them. */
static void check_batches(struct convoy_graph *graph, size_t count, enum convoy_compute_type precision,
                          double tolerance)
{
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, batches[count - 1], precision, &info);
    for (size_t i = 0; i < count; i++)
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, batches[i], tolerance);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

void check_graph_as(struct convoy_graph *graph, enum convoy_compute_type precision, double tolerance)
{
    check_batches(graph, sizeof(batches) / sizeof(batches[0]), precision, tolerance);
}

void check_graph_of_few(struct convoy_graph *graph, enum convoy_compute_type precision, double tolerance)
{
    check_batches(graph, FEW, precision, tolerance);
}

void check_graph(struct convoy_graph *graph, double tolerance)
{
    check_graph_as(graph, CONVOY_COMPUTE_FP32, tolerance);
}
