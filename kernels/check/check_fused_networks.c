/* The networks that ship, on whole_net: times and errors. */
#include "kernels/check/check_conv.h"
#include "kernels/check/check_fused.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES   2 /* images that are compared, the first and the last */
#define MOST_RUNS 100

/* ---- The networks ---- */

struct builder {
    struct convoy_check *check;
    struct check_network *net;
};

struct conv {
    int maps, filter, stride, pad;
    enum convoy_unary_kind act;
    int pool;
    bool no_bias;
};

/* Returns the layer's number. c and size are the images', for the first layer. */
static int add_conv(struct builder *b, int input, int residual, struct conv conv, int c, int size)
{
    struct convoy_fused_layer *layer = check_network_add(b->net, CONVOY_FUSED_CONV, input);
    struct convoy_conv_shape *s = &layer->shape;
    if (input < 0) {
        s->c = c;
        s->h = s->w = size;
    }
    layer->residual = residual;
    s->k = conv.maps;
    s->r = s->s = conv.filter;
    s->stride[0] = s->stride[1] = conv.stride;
    s->dilation[0] = s->dilation[1] = 1;
    s->pad[0] = s->pad[1] = conv.pad;
    s->oh = (s->h + 2 * conv.pad - conv.filter) / conv.stride + 1;
    s->ow = (s->w + 2 * conv.pad - conv.filter) / conv.stride + 1;
    s->act.kind = conv.act;
    s->pool = conv.pool;
    s->bias = !conv.no_bias;
    check_network_fill(b->check, b->net, layer);
    return b->net->shape.count - 1;
}

static void add_dense(struct builder *b, int outs, enum convoy_unary_kind act)
{
    struct convoy_fused_layer *layer = check_network_add(b->net, CONVOY_FUSED_DENSE, b->net->shape.count - 1);
    layer->shape.k = outs;
    layer->shape.bias = true;
    layer->shape.act.kind = act;
    check_network_fill(b->check, b->net, layer);
}

static void build_lenet_conv(struct builder *b)
{
    (void)add_conv(b, -1, -1, (struct conv){50, 5, 1, 0, CONVOY_UNARY_TANH, 2, false}, 1, 28);
}

static void build_lenet_dense(struct builder *b)
{
    build_lenet_conv(b);
    add_dense(b, 500, CONVOY_UNARY_TANH);
}

static void build_lenet(struct builder *b)
{
    build_lenet_dense(b);
    add_dense(b, 10, CONVOY_UNARY_NONE);
}

static void build_ece408_convs(struct builder *b)
{
    int first = add_conv(b, -1, -1, (struct conv){12, 7, 1, 0, CONVOY_UNARY_TANH, 2, true}, 1, 72);
    (void)add_conv(b, first, -1, (struct conv){24, 7, 1, 0, CONVOY_UNARY_NONE, 1, true}, 0, 0);
}

static void build_ece408_dense(struct builder *b)
{
    build_ece408_convs(b);
    add_dense(b, 160, CONVOY_UNARY_TANH);
}

static void build_ece408(struct builder *b)
{
    build_ece408_dense(b);
    add_dense(b, 10, CONVOY_UNARY_NONE);
}

static void build_convnet(struct builder *b)
{
    int last = -1;
    for (int i = 0; i < 3; i++)
        last = add_conv(b, last, -1, (struct conv){i == 0 ? 16 : 20, 5, 1, 2, CONVOY_UNARY_RELU, 2, false}, 3,
                        32);
    add_dense(b, 10, CONVOY_UNARY_NONE);
}

static void build_resnet(struct builder *b)
{
    int x = add_conv(b, -1, -1, (struct conv){32, 3, 1, 1, CONVOY_UNARY_RELU, 1, false}, 3, 32);
    for (int stage = 0, maps = 32; stage < 3; stage++, maps *= 2)
        for (int i = 0; i < 4; i++) {
            int stride = stage > 0 && i == 0 ? 2 : 1;
            int first =
                add_conv(b, x, -1, (struct conv){maps, 3, stride, 1, CONVOY_UNARY_RELU, 1, false}, 0, 0);
            if (stride == 2)
                x = add_conv(b, x, -1, (struct conv){maps, 1, 2, 0, CONVOY_UNARY_NONE, 1, false}, 0, 0);
            x = add_conv(b, first, x, (struct conv){maps, 3, 1, 1, CONVOY_UNARY_RELU, 1, false}, 0, 0);
        }
    (void)check_network_add(b->net, CONVOY_FUSED_MEAN, x);
    add_dense(b, 10, CONVOY_UNARY_NONE);
}

/* ---- A run ---- */

struct trial {
    struct check_network net;
    struct convoy_images images; /* on the device */
    unsigned char *pixels;       /* on the host */
    double *want[SAMPLES];
    int sample[SAMPLES];
};

static int by_time(const void *a, const void *b)
{
    float one = *(const float *)a, other = *(const float *)b;
    return one < other ? -1 : one > other;
}

static void *device_copy(const void *from, size_t bytes)
{
    void *memory = NULL;
    check_cuda(cudaMalloc(&memory, bytes), "allocating device memory");
    if (from != NULL)
        check_cuda(cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice), "copying to the device");
    return memory;
}

/* Median of the times between events, in microseconds, of launches that are warmed up. */
static float time_launches(const struct convoy_fused_plan *plan, const struct convoy_fused_operands *operands,
                           int runs)
{
    cudaEvent_t from, to;
    float us[MOST_RUNS];
    runs = runs < MOST_RUNS ? runs : MOST_RUNS;
    check_cuda(cudaEventCreate(&from), "creating an event");
    check_cuda(cudaEventCreate(&to), "creating an event");
    for (int i = -3; i < runs; i++) {
        float ms = 0;
        check_cuda(cudaEventRecord(from, NULL), "recording an event");
        check_cuda(convoy_launch_fused(plan, operands, NULL), "launching");
        check_cuda(cudaEventRecord(to, NULL), "recording an event");
        check_cuda(cudaEventSynchronize(to), "waiting");
        check_cuda(cudaEventElapsedTime(&ms, from, to), "reading a time");
        if (i >= 0)
            us[i] = ms * 1000;
    }
    check_cuda(cudaEventDestroy(from), "destroying an event");
    check_cuda(cudaEventDestroy(to), "destroying an event");
    qsort(us, (size_t)(runs > 0 ? runs : 0), sizeof us[0], by_time);
    return runs > 0 ? us[runs / 2] : 0;
}

/* max|y - y64| / max|y64| over the samples; infinite where something was not written. */
static double error_of(const struct trial *trial, const float *y)
{
    int64_t outs = trial->net.shape.y_stride;
    double most = 0, worst = 0;
    float *got = malloc((size_t)outs * sizeof *got);
    if (got == NULL)
        check_die("no memory for an image's outputs");
    for (int i = 0; i < SAMPLES; i++) {
        check_cuda(
            cudaMemcpy(got, y + trial->sample[i] * outs, (size_t)outs * sizeof *got, cudaMemcpyDeviceToHost),
            "copying from the device");
        for (int64_t k = 0; k < outs; k++) {
            double difference = fabs((double)got[k] - trial->want[i][k]);
            most = fmax(most, fabs(trial->want[i][k]));
            worst = isnan(difference) ? INFINITY : fmax(worst, difference);
        }
    }
    free(got);
    return worst / most;
}

/* 1 if it is wrong. */
static int run(const struct trial *trial, const struct convoy_fused_kernel *kernel, int runs)
{
    struct convoy_fused_plan *plan = NULL;
    if (convoy_fused_plan_make(kernel, &trial->net.shape, true, &plan) != 0 || plan == NULL)
        check_die("no memory for a plan");
    size_t weight_bytes = convoy_fused_weight_bytes(plan);
    size_t y_bytes = (size_t)(trial->net.shape.n * trial->net.shape.y_stride) * sizeof(float);
    void *packed = calloc(weight_bytes, 1);
    if (packed == NULL)
        check_die("no memory for weights");
    convoy_fused_pack_weights(plan, &trial->net.shape, packed);
    void *weights = device_copy(packed, weight_bytes);
    void *tables = device_copy(convoy_fused_tables(plan), convoy_fused_table_bytes(plan));
    float *y = device_copy(NULL, y_bytes);
    size_t scratch_bytes = convoy_fused_scratch_bytes(plan);
    void *scratch = scratch_bytes > 0 ? device_copy(NULL, scratch_bytes) : NULL;
    struct convoy_fused_operands operands = {trial->images, weights, tables, scratch, y};
    check_cuda(cudaMemset(y, 0xff, y_bytes), "poisoning the outputs");
    if (scratch != NULL)
        check_cuda(cudaMemset(scratch, 0xff, scratch_bytes), "poisoning what lies beside them");
    check_cuda(cudaDeviceSynchronize(), "waiting for the operands");
    check_cuda(convoy_launch_fused(plan, &operands, NULL), kernel->name);
    check_cuda(cudaDeviceSynchronize(), kernel->name);
    double error = error_of(trial, y),
           bound = kernel->compute_type == CONVOY_COMPUTE_FP32 ? CONVOY_CHECK_BOUND : 2e-3;
    printf("  %-24s %10.2f us  guess %10.2f  error %.1e%s\n", kernel->name,
           (double)time_launches(plan, &operands, runs), (double)convoy_fused_estimate_us(plan), error,
           error <= bound ? "" : "  WRONG");
    check_cuda(cudaFree(weights), "freeing");
    check_cuda(cudaFree(tables), "freeing");
    check_cuda(cudaFree(scratch), "freeing");
    check_cuda(cudaFree(y), "freeing");
    free(packed);
    convoy_fused_plan_free(plan);
    return error <= bound ? 0 : 1;
}

static void make_images(struct trial *trial, struct convoy_check *check)
{
    const struct convoy_conv_shape *first = &trial->net.layers[0].shape;
    int64_t values = (int64_t)first->c * first->h * first->w, n = trial->net.shape.n;
    trial->images.u8 = true;
    trial->images.image_bytes = (values + 63) / 64 * 64;
    trial->pixels = malloc((size_t)(n * trial->images.image_bytes));
    if (trial->pixels == NULL)
        check_die("no memory for images");
    for (int64_t i = 0; i < n * trial->images.image_bytes; i++)
        trial->pixels[i] = (unsigned char)convoy_check_between(check, 0, 255);
    for (int i = 0; i < CONVOY_KERNEL_CHANNELS; i++) {
        trial->images.multiply[i] = 1.0f / 64;
        trial->images.add[i] = -2;
    }
    trial->images.data = device_copy(trial->pixels, (size_t)(n * trial->images.image_bytes));
}

/* The first and the last image's results. */
static void make_wanted(struct trial *trial, enum convoy_compute_type compute_type)
{
    for (int i = 0; i < SAMPLES; i++) {
        trial->sample[i] = i == 0 ? 0 : trial->net.shape.n - 1;
        trial->want[i] = malloc((size_t)trial->net.shape.y_stride * sizeof(double));
        if (trial->want[i] == NULL)
            check_die("no memory for the reference");
        check_network_reference(&trial->net, compute_type, &trial->images,
                                (const char *)trial->pixels + trial->sample[i] * trial->images.image_bytes,
                                trial->want[i]);
    }
}

static bool is_meant(const struct convoy_fused_kernel *kernel, const char *name)
{
    return kernel->span != CONVOY_FUSED_FRONT &&
           (strcmp(name, "all") == 0 || strncmp(kernel->name, name, strlen(name)) == 0);
}

static bool takes(const struct trial *trial, const struct convoy_fused_kernel *kernel)
{
    struct convoy_fused_plan *plan = NULL;
    if (convoy_fused_plan_make(kernel, &trial->net.shape, false, &plan) != 0)
        check_die("no memory for a plan");
    convoy_fused_plan_free(plan);
    return plan != NULL;
}

static int check_at(const char *name, void (*build)(struct builder *b), int n, uint64_t seed, int runs,
                    const char *kernel_name)
{
    struct convoy_check check = {.random = seed};
    struct trial trial = {0};
    struct builder b = {&check, &trial.net};
    int count, failures = 0;
    const struct convoy_fused_kernel *const *kernels = convoy_fused_kernels(&count);
    build(&b);
    trial.net.shape.layers = trial.net.layers;
    trial.net.shape.n = n;
    trial.net.shape.u8 = true;
    trial.net.shape.compute_type = CONVOY_COMPUTE_FP16;
    trial.net.shape.y_stride = convoy_fused_outputs(&trial.net.layers[trial.net.shape.count - 1]);
    make_images(&trial, &check);
    printf("%s, %d image%s\n", name, n, n == 1 ? "" : "s");
    for (int compute_type = 0; compute_type <= CONVOY_COMPUTE_FP16; compute_type++) {
        bool known = false; /* what should come out, which takes the CPU a while */
        for (int i = 0; i < count; i++) {
            if ((int)kernels[i]->compute_type != compute_type || !is_meant(kernels[i], kernel_name) ||
                !takes(&trial, kernels[i]))
                continue;
            if (!known)
                make_wanted(&trial, (enum convoy_compute_type)compute_type);
            known = true;
            failures += run(&trial, kernels[i], runs);
        }
        for (int i = 0; i < SAMPLES && known; i++)
            free(trial.want[i]);
    }
    check_cuda(cudaFree((void *)trial.images.data), "freeing");
    free(trial.pixels);
    check_network_free(&trial.net);
    return failures;
}

int check_networks(uint64_t seed, int runs, const int *batches, int batch_count, const char *kernel_name)
{
    static const struct {
        const char *name;
        void (*build)(struct builder *b);
    } networks[] = {{"fashion-lenet", build_lenet},
                    {"fashion-lenet, its convolution", build_lenet_conv},
                    {"fashion-lenet, to its first dense layer", build_lenet_dense},
                    {"fashion-ece408", build_ece408},
                    {"fashion-ece408, its convolutions", build_ece408_convs},
                    {"fashion-ece408, to its first dense layer", build_ece408_dense},
                    {"cifar10-convnet", build_convnet},
                    {"cifar10-resnet", build_resnet}};
    int failures = 0, count, meant = 0;
    const struct convoy_fused_kernel *const *kernels = convoy_fused_kernels(&count);
    for (int i = 0; i < count; i++)
        meant += is_meant(kernels[i], kernel_name);
    if (meant == 0)
        check_die("--kernel %s: no kernel of whole networks begins so; see --list", kernel_name);
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        for (int k = 0; k < batch_count; k++)
            failures += check_at(networks[i].name, networks[i].build, batches[k], seed, runs, kernel_name);
    return failures;
}
