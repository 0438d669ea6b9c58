#include "kernels/check/time_bottlenecks.h"

#include "kernels/bottleneck.h"
#include "kernels/check/check_conv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS    CONVOY_BOTTLENECK_LAYERS
#define CHAIN     10 /* bottlenecks of a graph */
#define MOST_RUNS 100
#define WARM_UP   3

/* resnet50's, mobilenet_v2's but for those of other numbers alone, two of efficientnet_b0's, which end behind
 * the depthwise layer (k 0), and the first ones of mobilenet_v2 and mobilenet_v3_large, which begin with it
 * (mid 0). */
static const struct size {
    int side, c, mid, k, filter, stride;
    bool depthwise, residual;
} sizes[] = {{56, 256, 64, 256, 3, 1, false, true},    {28, 512, 128, 512, 3, 1, false, true},
             {14, 1024, 256, 1024, 3, 1, false, true}, {7, 2048, 512, 2048, 3, 1, false, true},
             {112, 16, 96, 24, 3, 2, true, false},     {56, 24, 144, 24, 3, 1, true, true},
             {56, 24, 144, 32, 3, 2, true, false},     {28, 32, 192, 32, 3, 1, true, true},
             {28, 32, 192, 64, 3, 2, true, false},     {14, 64, 384, 64, 3, 1, true, true},
             {14, 96, 576, 96, 3, 1, true, true},      {14, 96, 576, 160, 3, 2, true, false},
             {7, 160, 960, 160, 3, 1, true, true},     {7, 160, 960, 320, 3, 1, true, false},
             {56, 24, 144, 0, 5, 2, true, false},      {14, 112, 672, 0, 5, 1, true, false},
             {112, 32, 0, 16, 3, 1, true, false},      {112, 16, 0, 16, 3, 1, true, true}};

/* Device memory of one shape: x and what is made of it, weights for each of a chain. */
struct memory {
    void *x, *inside[2], *y, *weights[LAYERS];
    size_t weight_bytes[LAYERS]; /* of one of the chain */
    float *bias;
};

/* A chain of launches: number `which` of them. */
struct chain {
    cudaError_t (*launch)(const void *context, int which, cudaStream_t stream);
    const void *context;
};

/* Random fp16 of both signs, small enough that sums of thousands are. */
static void *halves(size_t bytes)
{
    uint16_t *numbers = convoy_check_memory((int64_t)bytes, 1);
    uint32_t state = 1;
    for (size_t i = 0; i < bytes / sizeof *numbers; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (uint16_t)((state >> 16 & 0x8000u) | (0x2000u + (state >> 8 & 0x7ffu)));
    }
    void *device = convoy_check_device_copy(numbers, bytes);
    free(numbers);
    return device;
}

/* Microseconds of one link of the chain; 0: the device refuses to launch it. */
static float time_chain(const struct chain *chain, int runs)
{
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaEvent_t marks[2] = {NULL, NULL};
    float us[MOST_RUNS];
    cudaError_t launched = cudaSuccess;
    runs = runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : runs;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    for (int i = 0; i < 2; i++)
        check_cuda(cudaEventCreateWithFlags(&marks[i], cudaEventDefault), "creating an event");
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
    for (int i = 0; i < CHAIN && launched == cudaSuccess; i++)
        launched = chain->launch(chain->context, i, stream);
    cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (launched == cudaSuccess) {
        check_cuda(ended, "recording a graph");
        check_cuda(cudaGraphInstantiate(&exec, graph, 0), "making a graph");
    }
    for (int i = -WARM_UP; i < runs && launched == cudaSuccess; i++) {
        float ms = 0;
        check_cuda(cudaEventRecord(marks[0], stream), "recording an event");
        check_cuda(cudaGraphLaunch(exec, stream), "launching a graph");
        check_cuda(cudaEventRecord(marks[1], stream), "recording an event");
        check_cuda(cudaStreamSynchronize(stream), "waiting for a graph");
        check_cuda(cudaEventElapsedTime(&ms, marks[0], marks[1]), "reading an event");
        if (i >= 0)
            us[i] = ms * 1000 / CHAIN;
    }
    if (exec != NULL)
        check_cuda(cudaGraphExecDestroy(exec), "freeing a graph");
    if (graph != NULL)
        check_cuda(cudaGraphDestroy(graph), "freeing a graph");
    for (int i = 0; i < 2; i++)
        check_cuda(cudaEventDestroy(marks[i]), "freeing an event");
    check_cuda(cudaStreamDestroy(stream), "freeing a stream");
    if (launched != cudaSuccess)
        return 0;
    qsort(us, (size_t)runs, sizeof us[0], check_by_value);
    return us[runs / 2];
}

/* ---- Layer by layer ---- */

struct layers {
    struct memory memory;
    struct convoy_conv_shape shapes[LAYERS];
    const struct convoy_conv_kernel *kernels[LAYERS];
    int begin, end;  /* of those that there are */
    int first, last; /* of those that are launched */
};

static cudaError_t launch_layers(const void *context, int which, cudaStream_t stream)
{
    const struct layers *layers = context;
    const struct memory *memory = &layers->memory;
    cudaError_t launched = cudaSuccess;
    for (int i = layers->first; i <= layers->last && launched == cudaSuccess; i++) {
        const struct convoy_conv_operands operands = {

            .x.data = i == layers->begin ? memory->x : memory->inside[i - 1],
            .weights =
                (const void *)((const char *)memory->weights[i] + (size_t)which * memory->weight_bytes[i]),
            .bias = memory->bias,
            .residual = layers->shapes[i].residual ? memory->x : NULL,
            .y = i + 1 < layers->end ? memory->inside[i] : memory->y};
        launched = layers->kernels[i]->launch(&layers->shapes[i], &operands, stream);
    }
    return launched;
}

/* Layer number `layer` as a convolution by itself. */
static struct convoy_conv_shape shape_of(const struct convoy_bottleneck_shape *s, int layer)
{
    int filter = layer == 1 ? s->side : 1;
    int stride = layer == 1 ? s->stride : 1;
    struct convoy_conv_shape shape = {.n = s->n,
                                      .c = layer == 0 ? s->c : s->mid,
                                      .h = layer == 2 ? s->oh : s->h,
                                      .w = layer == 2 ? s->ow : s->w,
                                      .k = layer == 2 ? s->k : s->mid,
                                      .r = filter,
                                      .s = filter,
                                      .groups = layer == 1 && s->depthwise ? s->mid : 1,
                                      .stride = {stride, stride},
                                      .dilation = {1, 1},
                                      .pad = {filter / 2, filter / 2},
                                      .oh = layer == 0 ? s->h : s->oh,
                                      .ow = layer == 0 ? s->w : s->ow,
                                      .bias = true,
                                      .residual = layer == 2 && s->residual,
                                      .act = s->act[layer],
                                      .pool = 1,
                                      .compute_type = CONVOY_COMPUTE_FP16};
    shape.nhwc = (struct convoy_nhwc_layout){.on = true,
                                             .pixel = shape.c,
                                             .row = (int64_t)shape.c * shape.w,
                                             .image = (int64_t)shape.c * shape.w * shape.h,
                                             .y_pixel = shape.k,
                                             .residual_pixel = shape.k};
    return shape;
}

/* Finds the fastest kernel of each layer, by itself; returns the time of all. */
static float time_layers(struct layers *layers, int runs)
{
    int count;
    const struct convoy_conv_kernel *const *kernels = convoy_conv_kernels(&count);
    const struct chain chain = {launch_layers, layers};
    for (int layer = layers->begin; layer < layers->end; layer++) {
        const struct convoy_conv_kernel *best = NULL;
        float least = 0;
        float estimate = 0;
        layers->first = layers->last = layer;
        for (int i = 0; i < count; i++) {
            if (!convoy_conv_takes(kernels[i], &layers->shapes[layer]) ||
                kernels[i]->scratch_bytes(&layers->shapes[layer]) > 0)
                continue;
            layers->kernels[layer] = kernels[i];
            float guess = kernels[i]->estimate_us(&layers->shapes[layer]);
            estimate = estimate == 0 || guess < estimate ? guess : estimate;
            float us = time_chain(&chain, runs);
            if (us > 0 && (best == NULL || us < least)) {
                best = kernels[i];
                least = us;
            }
        }
        if (best == NULL)
            check_die("--bottlenecks: no kernel takes layer %d in 16 bits; see --list", layer);
        layers->kernels[layer] = best;
        printf("  %-24s %8.2f us, least estimate %.2f\n", best->name, (double)least, (double)estimate);
    }
    layers->first = layers->begin;
    layers->last = layers->end - 1;
    return time_chain(&chain, runs);
}

/* ---- As a whole ---- */

struct whole {
    struct memory memory;
    struct convoy_bottleneck_shape shape;
    const struct convoy_bottleneck_kernel *kernel;
};

static cudaError_t launch_whole(const void *context, int which, cudaStream_t stream)
{
    const struct whole *whole = context;
    const struct memory *memory = &whole->memory;
    size_t bytes = whole->kernel->packed_bytes(&whole->shape);
    const struct convoy_bottleneck_operands operands = {.x = memory->x,
                                                        .weights = (const char *)memory->weights[0] +
                                                                   (size_t)which * bytes,
                                                        .bias = {memory->bias, memory->bias, memory->bias},
                                                        .y = memory->y};
    return whole->kernel->launch(&whole->shape, &operands, stream);
}

/* Is a kernel asked for, by how its name begins (NULL: all), and does it take the shape? */
static bool is_asked(const struct convoy_bottleneck_kernel *kernel, const char *name,
                     const struct convoy_bottleneck_shape *shape)
{
    return (name == NULL || strncmp(kernel->name, name, strlen(name)) == 0) && kernel->takes(shape);
}

/* False: no kernel that is asked for takes it. */
static bool time_size(const struct size *size, int n, int runs, const char *name)
{
    int mid = size->mid > 0 ? size->mid : size->c;
    struct convoy_bottleneck_shape shape = {.n = n,
                                            .h = size->side,
                                            .w = size->side,
                                            .c = size->c,
                                            .mid = mid,
                                            .depthwise = size->depthwise,
                                            .separable = size->mid == 0,
                                            .residual = size->residual,
                                            .k = size->k,
                                            .side = size->filter,
                                            .stride = size->stride,
                                            .oh = (size->side - 1) / size->stride + 1,
                                            .ow = (size->side - 1) / size->stride + 1,
                                            .x_pixel = size->c,
                                            .y_pixel = size->k > 0 ? size->k : mid};
    for (int layer = 0; layer < LAYERS; layer++) {
        shape.bias[layer] = true;
        shape.act[layer].kind = layer == 2 && shape.depthwise ? CONVOY_UNARY_NONE : CONVOY_UNARY_RELU;
    }
    int count;
    bool any = false;
    const struct convoy_bottleneck_kernel *const *kernels = convoy_bottleneck_kernels(&count);
    for (int i = 0; i < count; i++)
        any = any || is_asked(kernels[i], name, &shape);
    if (name != NULL && !any)
        return false;
    struct layers layers = {.begin = convoy_bottleneck_first(&shape), .end = convoy_bottleneck_end(&shape)};
    size_t pixels = (size_t)n * (size_t)size->side * (size_t)size->side;
    size_t taps = (size_t)size->filter * (size_t)size->filter * (size->depthwise ? 1 : (size_t)mid);
    size_t most = 4 * (size_t)mid * ((size_t)size->c + (size_t)size->k + taps) / 3 + (1 << 16);
    int widest = mid > size->c ? mid : size->c;
    struct memory memory = {.x = halves(pixels * (size_t)size->c * 2),
                            .y = halves(pixels * (size_t)widest * 2)};
    for (int i = 0; i < 2 && name == NULL; i++)
        memory.inside[i] = halves(pixels * (size_t)mid * 2);
    float *zeros = convoy_check_memory(widest, sizeof *zeros);
    memory.bias = convoy_check_device_copy(zeros, (size_t)widest * sizeof *zeros);
    free(zeros);
    for (int i = 0; i < LAYERS; i++) {
        memory.weight_bytes[i] = (most * 2 + 1023) / 1024 * 1024; /* of all layers, filled up */
        memory.weights[i] = halves(CHAIN * memory.weight_bytes[i]);
    }
    printf("%d images of %d x %d x %d, %d inside", n, size->c, size->side, size->side, mid);
    if (size->depthwise)
        printf(", depthwise %d x %d/%d, %d maps", size->filter, size->filter, size->stride, size->k);
    printf("\n");
    layers.memory = memory;
    for (int layer = layers.begin; layer < layers.end; layer++)
        layers.shapes[layer] = shape_of(&shape, layer);
    if (name == NULL)
        printf("  %-24s %8.2f us\n", layers.end - layers.begin == 2 ? "both" : "all three",
               (double)time_layers(&layers, runs));
    for (int i = 0; i < count; i++) {
        struct whole whole = {memory, shape, kernels[i]};
        const struct chain chain = {launch_whole, &whole};
        if (!is_asked(kernels[i], name, &shape))
            continue;
        if (kernels[i]->packed_bytes(&whole.shape) > memory.weight_bytes[0])
            check_die("--bottlenecks: the weights of %s need more room", kernels[i]->name);
        printf("  %-24s %8.2f us, estimated %.2f\n", kernels[i]->name, (double)time_chain(&chain, runs),
               (double)kernels[i]->estimate_us(&whole.shape));
    }
    void *all[] = {memory.x,          memory.y,          memory.inside[0],  memory.inside[1],
                   memory.weights[0], memory.weights[1], memory.weights[2], memory.bias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check_cuda(cudaFree(all[i]), "freeing device memory");
    return true;
}

void time_bottlenecks(int runs, const int *batches, int batch_count, const char *name)
{
    int timed = 0;
    for (int b = 0; b < batch_count; b++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            timed += time_size(&sizes[i], batches[b], runs, name);
    if (timed == 0)
        check_die("--bottlenecks: no kernel whose name begins with %s takes one of the shapes", name);
}
