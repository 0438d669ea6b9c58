/* The check of bottlenecks and inverted residuals: each kernel against float64, and all that take a shape
 * against each other, bit for bit. */
#include "kernels/check/check_bottleneck_shapes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS CONVOY_BOTTLENECK_LAYERS
#define BOUND  2e-3 /* results inside are rounded to fp16, which may go the other way than in float64 */
#define MARK   5
#define FEW    20000000 /* products: of these shapes marks are looked at, too */

struct problem {
    struct convoy_bottleneck_shape shape;
    float *x;                        /* n x h x w x c, numbers that fp16 holds */
    float *weights[LAYERS];          /* as well */
    float *bias[LAYERS];             /* host */
    float *bias_device[LAYERS];      /* NULL: none */
    struct convoy_check_buffer half; /* x on the device */
    uint32_t *marks;
    float *sums; /* device; NULL: not wanted */
};

static int64_t pixels_of(const struct convoy_bottleneck_shape *s)
{
    return (int64_t)s->n * s->h * s->w;
}

static int64_t y_pixels_of(const struct convoy_bottleneck_shape *s)
{
    return (int64_t)s->n * s->oh * s->ow;
}

/* What one number of a layer's results is a sum of. */
static int sums_of(const struct convoy_bottleneck_shape *s, int layer)
{
    return layer == 0 ? s->c : layer == 1 ? s->side * s->side * (s->depthwise ? 1 : s->mid) : s->mid;
}

static int64_t weights_of(const struct convoy_bottleneck_shape *s, int layer)
{
    return (int64_t)check_outputs_of(s, layer) * sums_of(s, layer);
}

static float *halves(struct convoy_check *check, int64_t count, double most)
{
    float *numbers = convoy_check_memory(count, sizeof *numbers);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)convoy_check_round(convoy_check_random(check, -most, most), CONVOY_COMPUTE_FP16);
    return numbers;
}

/* An image of one pixel, whose second layer has a single tap in the image. */
static bool is_pixel(const struct convoy_bottleneck_shape *s)
{
    return s->h == 1 && s->w == 1;
}

static void make(struct convoy_check *check, struct problem *problem, bool depthwise)
{
    struct convoy_bottleneck_shape *s = &problem->shape;
    check_bottleneck_shape(check, s, depthwise);
    problem->x = halves(check, pixels_of(s) * s->c, 2);
    for (int layer = convoy_bottleneck_first(s); layer < convoy_bottleneck_end(s); layer++) {
        problem->weights[layer] = halves(check, weights_of(s, layer), 2 / sqrt(sums_of(s, layer)));
        /* What a row without an output makes of the others is not to be told. */
        for (int64_t i = 0; layer == 1 && is_pixel(s) && i < weights_of(s, layer); i++)
            if (i % (s->side * s->side) != s->side * s->side / 2)
                problem->weights[layer][i] = 65000;
        problem->bias[layer] = halves(check, check_outputs_of(s, layer), 1);
        if (s->bias[layer])
            problem->bias_device[layer] = convoy_check_device_copy(
                problem->bias[layer], (size_t)check_outputs_of(s, layer) * sizeof(float));
    }
    const struct convoy_nhwc_planes planes = {s->n, s->c, (int64_t)s->h * s->w, s->x_pixel, true, 0};
    float *x = convoy_check_device_copy(problem->x, (size_t)(pixels_of(s) * s->c) * sizeof(float));
    problem->half = convoy_check_buffer(pixels_of(s) * s->x_pixel / 2, 0);
    uint32_t *marks = convoy_check_memory(s->n, sizeof *marks);
    problem->marks = convoy_check_device_copy(marks, (size_t)s->n * sizeof *marks);
    free(marks);
    if (convoy_launch_nhwc_from_planes(&planes, x, convoy_check_halves(&problem->half),
                                       (struct convoy_overflow){0}, NULL) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess || cudaFree(x) != cudaSuccess)
        exit(1);
}

/* ---- float64 ---- */

/* from: pixels of an image, channel by channel. to: the same of the layer's outputs, not rounded. */
static void reference_layer(const struct problem *problem, int layer, const double *from, double *to)
{
    const struct convoy_bottleneck_shape *s = &problem->shape;
    bool depthwise = layer == 1 && s->depthwise;
    int c = layer == 0 ? s->c : s->mid;
    int k = check_outputs_of(s, layer);
    int side = layer == 1 ? s->side : 1;
    int stride = layer == 1 ? s->stride : 1;
    int h = layer == 2 ? s->oh : s->h, w = layer == 2 ? s->ow : s->w;
    int taps = side * side, sums = depthwise ? 1 : c;
    double *tap_weights =
        convoy_check_memory((int64_t)taps * k * sums, sizeof *tap_weights); /* tap after tap */
    for (int64_t i = 0; i < (int64_t)k * sums; i++)
        for (int tap = 0; tap < taps; tap++)
            tap_weights[tap * (int64_t)k * sums + i] = (double)problem->weights[layer][i * taps + tap];
    int oh = layer == 0 ? s->h : s->oh, ow = layer == 0 ? s->w : s->ow;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++)
            for (int m = 0; m < k; m++) {
                double sum = s->bias[layer] ? (double)problem->bias[layer][m] : 0;
                for (int tap = 0; tap < taps; tap++) {
                    int row = y * stride + tap / side - side / 2;
                    int column = x * stride + tap % side - side / 2;
                    if (row < 0 || row >= h || column < 0 || column >= w)
                        continue;
                    const double *pixel = from + ((int64_t)row * w + column) * c + (depthwise ? m : 0);
                    const double *of_map = tap_weights + ((int64_t)tap * k + m) * sums;
                    for (int i = 0; i < sums; i++)
                        sum += pixel[i] * of_map[i];
                }
                to[((int64_t)y * ow + x) * k + m] = sum;
            }
    free(tap_weights);
}

static double *reference(const struct problem *problem)
{
    const struct convoy_bottleneck_shape *s = &problem->shape;
    int64_t pixels = (int64_t)s->h * s->w, outputs = (int64_t)s->oh * s->ow;
    int first = convoy_bottleneck_first(s), end = convoy_bottleneck_end(s), maps = check_maps_of(s);
    double *want = convoy_check_memory(s->n * outputs * maps, sizeof *want);
    double *inside[2] = {convoy_check_memory(pixels * s->mid, sizeof(double)),
                         convoy_check_memory(outputs * s->mid, sizeof(double))};
    double *x = convoy_check_memory(pixels * s->c, sizeof *x);
    for (int n = 0; n < s->n; n++) {
        double *y = want + n * outputs * maps;
        for (int64_t i = 0; i < pixels * s->c; i++)
            x[i] = (double)problem->x[n * pixels * s->c + i];
        for (int layer = first; layer < end; layer++) {
            double *to = layer + 1 < end ? inside[layer] : y;
            reference_layer(problem, layer, layer == first ? x : inside[layer - 1], to);
            for (int64_t i = 0; i < (layer == 0 ? pixels : outputs) * check_outputs_of(s, layer); i++) {
                double sum = layer == 2 && s->residual ? to[i] + x[i] : to[i];
                to[i] = convoy_check_apply_unary(s->act[layer], sum);
                if (layer + 1 < end)
                    to[i] = convoy_check_round(to[i], CONVOY_COMPUTE_FP16);
            }
        }
    }
    free(inside[0]);
    free(inside[1]);
    free(x);
    return want;
}

/* ---- Kernels ---- */

static bool has_few_products(const struct convoy_bottleneck_shape *s)
{
    int64_t all = 0;
    for (int layer = convoy_bottleneck_first(s); layer < convoy_bottleneck_end(s); layer++)
        all += weights_of(s, layer);
    return all * pixels_of(s) <= FEW;
}

static cudaError_t launch(struct problem *problem, const struct convoy_bottleneck_kernel *kernel,
                          const void *weights, struct convoy_check_buffer *y)
{
    const struct convoy_bottleneck_operands operands = {
        .x = (const convoy_fp16 *)(const void *)problem->half.device,
        .weights = weights,
        .bias = {problem->bias_device[0], problem->bias_device[1], problem->bias_device[2]},
        .y = convoy_check_halves(y),
        .sums = problem->sums,
        .overflow = problem->marks,
        .marks = {MARK, MARK + 1, MARK + 2}};
    return kernel->launch(&problem->shape, &operands, NULL);
}

/* Is image `loud`, and no other, marked, with `mark`? -1: none. Takes the marks away. */
static bool marks_are(const struct problem *problem, int loud, uint32_t mark)
{
    bool right = convoy_check_marked(problem->marks, problem->shape.n, loud, mark);
    return cudaMemset(problem->marks, 0, (size_t)problem->shape.n * sizeof *problem->marks) == cudaSuccess &&
           right;
}

/* A bias that one layer's result does not stand, each in turn: the image is marked for that layer. Later
 * layers clip what comes of it; where they have maps that fill up a tile, whose weights are zeros, these are
 * NaN, and marked later. */
static bool marks_layers(struct problem *problem, const struct convoy_bottleneck_kernel *kernel,
                         const void *weights, struct convoy_check_buffer *y)
{
    struct convoy_bottleneck_shape *s = &problem->shape;
    const struct convoy_bottleneck_shape before = *s;
    const float large = 70000;
    bool full = is_pixel(s) && !s->depthwise && s->mid == 64 && s->c % 256 == 0;
    bool right = true;
    for (int layer = convoy_bottleneck_first(s); layer < convoy_bottleneck_end(s) && s->n == 1; layer++) {
        uint32_t mark = 0;
        if (!s->bias[layer])
            continue;
        for (int later = layer; later < LAYERS; later++)
            s->act[later] = later == layer ? (struct convoy_unary){.kind = CONVOY_UNARY_NONE}
                                           : (struct convoy_unary){.kind = CONVOY_UNARY_CLIP, .beta = 6};
        right = right &&
                cudaMemcpy(problem->bias_device[layer], &large, sizeof large, cudaMemcpyHostToDevice) ==
                    cudaSuccess &&
                launch(problem, kernel, weights, y) == cudaSuccess &&
                cudaDeviceSynchronize() == cudaSuccess &&
                cudaMemcpy(&mark, problem->marks, sizeof mark, cudaMemcpyDeviceToHost) == cudaSuccess &&
                cudaMemset(problem->marks, 0, sizeof mark) == cudaSuccess &&
                cudaMemcpy(problem->bias_device[layer], problem->bias[layer], sizeof large,
                           cudaMemcpyHostToDevice) == cudaSuccess;
        right = right && (full ? mark == (uint32_t)(MARK + layer) : mark >= (uint32_t)(MARK + layer));
        *s = before;
    }
    return right;
}

/* A NaN in one pixel of one image. */
static bool marks_image(struct convoy_check *check, struct problem *problem,
                        const struct convoy_bottleneck_kernel *kernel, const void *weights,
                        struct convoy_check_buffer *y)
{
    struct convoy_bottleneck_shape *s = &problem->shape;
    const convoy_fp16 nan = 0x7e00;
    int loud = convoy_check_between(check, 0, s->n - 1);
    int64_t pixel = (int64_t)loud * s->h * s->w + convoy_check_between(check, 0, s->h * s->w - 1);
    convoy_fp16 *at = convoy_check_halves(&problem->half) + pixel * s->x_pixel;
    convoy_fp16 before;
    if (cudaMemcpy(&before, at, sizeof before, cudaMemcpyDeviceToHost) != cudaSuccess ||
        cudaMemcpy(at, &nan, sizeof nan, cudaMemcpyHostToDevice) != cudaSuccess ||
        launch(problem, kernel, weights, y) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess)
        return false;
    uint32_t *marks = convoy_check_memory(s->n, sizeof *marks);
    bool right = cudaMemcpy(marks, problem->marks, (size_t)s->n * sizeof *marks, cudaMemcpyDeviceToHost) ==
                     cudaSuccess &&
                 cudaMemset(problem->marks, 0, (size_t)s->n * sizeof *marks) == cudaSuccess &&
                 cudaMemcpy(at, &before, sizeof before, cudaMemcpyHostToDevice) == cudaSuccess;
    for (int n = 0; n < s->n; n++)
        right = right && (marks[n] != 0) == (n == loud);
    free(marks);
    return right;
}

static void fail(struct convoy_check *check, const struct problem *problem, const char *kernel,
                 const char *what)
{
    const struct convoy_bottleneck_shape *s = &problem->shape;
    check->failures++;
    fprintf(stderr, "FAILED: %s n %d %dx%d c %d mid %d k %d %dx%d/%d%s: %s\n", kernel, s->n, s->h, s->w, s->c,
            s->mid, s->k, s->side, s->side, s->stride, s->separable ? " separable" : "", what);
}

/* Do the sums of an image's patches make up that of its outputs, for each channel? y: the outputs, n x pixels
 * x mid. */
static bool adds_up(const struct problem *problem, const float *sums, int patches, const float *y)
{
    const struct convoy_bottleneck_shape *s = &problem->shape;
    bool right = true;
    for (int64_t i = 0; i < (int64_t)s->n * s->mid; i++) {
        double want = 0, size = 0, is = 0;
        for (int pixel = 0; pixel < s->oh * s->ow; pixel++) {
            double number = (double)y[(i / s->mid * s->oh * s->ow + pixel) * s->mid + i % s->mid];
            want += number;
            size += fabs(number);
        }
        for (int patch = 0; patch < patches; patch++)
            is += (double)sums[(i / s->mid * patches + patch) * s->mid + i % s->mid];
        right = right && fabs(is - want) <= 1e-5 * size;
    }
    return right;
}

/* With sums, which begin as NaN. own, y: the outputs without, as they are and as float32. */
static bool sums_patches(struct problem *problem, const struct convoy_bottleneck_kernel *kernel,
                         const void *weights, struct convoy_check_buffer *half, const convoy_fp16 *own,
                         const struct convoy_check_buffer *y)
{
    const struct convoy_bottleneck_shape *s = &problem->shape;
    int patches = kernel->patches(s);
    if (patches == 0)
        return true;
    size_t outputs = (size_t)(y_pixels_of(s) * s->y_pixel) * sizeof(convoy_fp16);
    size_t bytes = (size_t)s->n * (size_t)patches * (size_t)s->mid * sizeof(float);
    size_t numbers_bytes = (size_t)(y_pixels_of(s) * s->mid) * sizeof(float);
    float *sums = convoy_check_memory((int64_t)bytes, 1);
    float *numbers = convoy_check_memory((int64_t)numbers_bytes, 1);
    convoy_fp16 *again = convoy_check_memory((int64_t)outputs, 1);
    memset(sums, 0xff, bytes);
    problem->sums = convoy_check_device_copy(sums, bytes);
    bool right = launch(problem, kernel, weights, half) == cudaSuccess &&
                 cudaMemcpy(sums, problem->sums, bytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
                 cudaMemcpy(again, half->device, outputs, cudaMemcpyDeviceToHost) == cudaSuccess &&
                 cudaMemcpy(numbers, y->device, numbers_bytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
                 memcmp(again, own, outputs) == 0 && adds_up(problem, sums, patches, numbers);
    (void)cudaFree(problem->sums);
    problem->sums = NULL;
    free(sums);
    free(numbers);
    free(again);
    return right;
}

/* One kernel; *first: the outputs of the first one, kept. */
static void check_kernel(struct convoy_check *check, struct problem *problem,
                         const struct convoy_bottleneck_kernel *kernel, const double *want,
                         convoy_fp16 **first)
{
    const struct convoy_bottleneck_shape *s = &problem->shape;
    int cases = check->cases;
    size_t bytes = (size_t)(y_pixels_of(s) * s->y_pixel) * sizeof(convoy_fp16);
    struct convoy_check_buffer half = convoy_check_buffer(y_pixels_of(s) * s->y_pixel / 2, 0);
    struct convoy_check_buffer y = convoy_check_buffer(y_pixels_of(s) * check_maps_of(s), 0);
    void *packed = convoy_check_memory((int64_t)kernel->packed_bytes(s), 1);
    const float *const weights[LAYERS] = {problem->weights[0], problem->weights[1], problem->weights[2]};
    kernel->pack(s, weights, packed);
    void *device = convoy_check_device_copy(packed, kernel->packed_bytes(s));
    const struct convoy_nhwc_planes planes = {
        s->n, check_maps_of(s), (int64_t)s->oh * s->ow, s->y_pixel, true, 0};
    cudaError_t launched = launch(problem, kernel, device, &half);
    convoy_fp16 *own = convoy_check_memory((int64_t)bytes, 1);
    if (launched == cudaSuccess)
        launched = convoy_launch_nhwc_to_planes(&planes, (const convoy_fp16 *)(const void *)half.device,
                                                y.device, NULL);
    if (launched == cudaSuccess)
        launched = cudaMemcpy(own, half.device, bytes, cudaMemcpyDeviceToHost);
    convoy_check_result(
        check, launched, &y, want, &half,
        "%s n %d %dx%d c %d mid %d k %d %dx%d/%d, pixels of %lld and %lld, bias %d %d %d, act %d %d %d",
        kernel->name, s->n, s->h, s->w, s->c, s->mid, s->k, s->side, s->side, s->stride,
        (long long)s->x_pixel, (long long)s->y_pixel, s->bias[0], s->bias[1], s->bias[2], (int)s->act[0].kind,
        (int)s->act[1].kind, (int)s->act[2].kind);
    if (launched == cudaSuccess && !sums_patches(problem, kernel, device, &half, own, &y))
        fail(check, problem, kernel->name, "with sums of patches other bits, or other sums");
    if (!marks_are(problem, -1, 0))
        fail(check, problem, kernel->name, "an image is marked, whose numbers fp16 holds");
    if (!has_few_products(s))
        goto end;
    if (!marks_image(check, problem, kernel, device, &half))
        fail(check, problem, kernel->name, "not the image with a NaN, or not it alone, is marked");
    if (!marks_layers(problem, kernel, device, &half))
        fail(check, problem, kernel->name, "a result that fp16 does not hold is not told");
end:
    if (*first != NULL && memcmp(*first, own, bytes) != 0)
        fail(check, problem, kernel->name, "other bits than with fewer maps in a block");
    if (*first == NULL)
        *first = own;
    else
        free(own);
    check->cases = cases;
    free(packed);
    (void)cudaFree(device);
    convoy_check_free(&half);
    convoy_check_free(&y);
}

static void check_any(struct convoy_check *check, bool depthwise)
{
    struct problem problem = {0};
    convoy_fp16 *first = NULL;
    int count;
    const struct convoy_bottleneck_kernel *const *kernels = convoy_bottleneck_kernels(&count);
    make(check, &problem, depthwise);
    double *want = reference(&problem);
    check->bound = BOUND;
    for (int i = 0; i < count; i++)
        if (kernels[i]->takes(&problem.shape))
            check_kernel(check, &problem, kernels[i], want, &first);
    /* There may be no room for all that a patch of an inverted residual reads. */
    if (first == NULL && (!depthwise || check->cases < CHECK_INVERTED))
        fail(check, &problem, "bottleneck", "no kernel takes it");
    check->cases += depthwise ? 1 : CHECK_BOTTLENECK_CASES;
    free(first);
    free(want);
    for (int layer = 0; layer < LAYERS; layer++) {
        free(problem.weights[layer]);
        free(problem.bias[layer]);
        (void)cudaFree(problem.bias_device[layer]);
    }
    (void)cudaFree(problem.marks);
    free(problem.x);
    convoy_check_free(&problem.half);
}

void convoy_check_bottleneck(struct convoy_check *check)
{
    check_any(check, false);
}

void convoy_check_inverted(struct convoy_check *check)
{
    check_any(check, true);
}
