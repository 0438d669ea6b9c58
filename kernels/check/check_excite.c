/* The check of the gates of squeeze and excitation: any number of channels, pixels and images, with and
 * without biases, of tensors whose pixels have other channels, too, and of sums of patches. */
#include "kernels/check/check_operators.h"

#include "kernels/nhwc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOUND 1e-3 /* gates are rounded to fp16 */
#define MARK  9

static const int channels[] = {1, 8, 12, 16, 40, 64, 65, 136, 200, 576, 1160, 4096};
static const int squeezed[] = {1, 4, 8, 10, 16, 33, 48, 129};
static const int images[] = {1, 1, 2, 3, 5, 9, 40, 141};

struct problem {
    struct convoy_nhwc_excite shape;
    float *x, *weights[2], *bias[2]; /* bias: NULL for none */
    float *bias_device[2];
    void *packed; /* device */
    struct convoy_check_buffer x_half, y_half, y;
    float *sums; /* device; of shape.patches */
    uint32_t *marks;
};

/* Numbers that fp16 holds. */
static float *numbers(struct convoy_check *check, int64_t count, double most)
{
    float *values = convoy_check_memory(count, sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)convoy_check_round(convoy_check_random(check, -most, most), CONVOY_COMPUTE_FP16);
    return values;
}

static void make_x(struct convoy_check *check, struct problem *problem)
{
    const struct convoy_nhwc_excite *s = &problem->shape;
    int64_t count = s->n * s->pixels * s->c;
    const struct convoy_nhwc_planes planes = {s->n, s->c, s->pixels, s->x_pixel, true};
    problem->x = numbers(check, count, 2);
    for (int64_t i = 0; i < count; i++) /* means that are not near 0 */
        problem->x[i] = (float)convoy_check_round(problem->x[i] + (i % s->c % 3 - 1), CONVOY_COMPUTE_FP16);
    float *x = convoy_check_device_copy(problem->x, (size_t)count * sizeof(float));
    problem->x_half = convoy_check_buffer(s->n * s->pixels * s->x_pixel / 2, 0);
    if (convoy_launch_nhwc_from_planes(&planes, x, convoy_check_halves(&problem->x_half),
                                       (struct convoy_overflow){0}, NULL) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess || cudaFree(x) != cudaSuccess)
        exit(1);
}

/* Sums of x, of which each patch has some pixels of an image. */
static void make_sums(struct problem *problem)
{
    const struct convoy_nhwc_excite *s = &problem->shape;
    int64_t count = s->n * s->patches * s->c;
    float *sums = convoy_check_memory(count, sizeof *sums);
    for (int64_t i = 0; i < s->n * s->pixels * s->c; i++) {
        int64_t pixel = i / s->c, patch = pixel % s->pixels % s->patches;
        sums[(pixel / s->pixels * s->patches + patch) * s->c + i % s->c] += problem->x[i];
    }
    problem->sums = convoy_check_device_copy(sums, (size_t)count * sizeof *sums);
    free(sums);
}

static void make_weights(struct convoy_check *check, struct problem *problem)
{
    const struct convoy_nhwc_excite *s = &problem->shape;
    const int64_t rows[2] = {s->squeezed, s->c}, columns[2] = {s->c, s->squeezed};
    size_t bytes = convoy_nhwc_excite_bytes(s);
    void *packed = convoy_check_memory((int64_t)bytes, 1);
    for (int layer = 0; layer < 2; layer++) {
        problem->weights[layer] =
            numbers(check, rows[layer] * columns[layer], sqrt(3.0 / (double)columns[layer]) * 2);
        if (convoy_check_between(check, 0, 2) == 0)
            continue;
        problem->bias[layer] = numbers(check, rows[layer], 1);
        problem->bias_device[layer] =
            convoy_check_device_copy(problem->bias[layer], (size_t)rows[layer] * sizeof(float));
    }
    convoy_nhwc_excite_pack(s, problem->weights[0], problem->weights[1], packed);
    problem->packed = convoy_check_device_copy(packed, bytes);
    free(packed);
}

static void make(struct convoy_check *check, struct problem *problem)
{
    static const struct convoy_unary squeezes[] = {
        {.kind = CONVOY_UNARY_RELU}, {.kind = CONVOY_UNARY_SWISH}, {.kind = CONVOY_UNARY_NONE}};
    static const struct convoy_unary excites[] = {
        {.kind = CONVOY_UNARY_SIGMOID},
        {.kind = CONVOY_UNARY_HARD_SIGMOID, .alpha = 1.0F / 6, .beta = 0.5F},
        {.kind = CONVOY_UNARY_NONE}};
    struct convoy_nhwc_excite *s = &problem->shape;
    s->n = CONVOY_CHECK_PICK(check, images);
    s->c = CONVOY_CHECK_PICK(check, channels);
    s->squeezed = CONVOY_CHECK_PICK(check, squeezed);
    s->pixels = s->n > 9                            ? convoy_check_between(check, 1, 4)
                : convoy_check_between(check, 0, 3) ? convoy_check_between(check, 1, 70)
                                                    : convoy_check_between(check, 200, 400);
    s->patches = s->c % 8 == 0 ? convoy_check_between(check, 0, 1) * convoy_check_between(check, 1, 60) : 0;
    s->x_pixel = convoy_nhwc_channels(s->c) + 8 * convoy_check_between(check, 0, 2);
    s->y_pixel = convoy_nhwc_channels(s->c) + 8 * convoy_check_between(check, 0, 2);
    s->act[0] = CONVOY_CHECK_PICK(check, squeezes);
    s->act[1] = CONVOY_CHECK_PICK(check, excites);
    make_x(check, problem);
    if (s->patches > 0)
        make_sums(problem);
    make_weights(check, problem);
    problem->y_half = convoy_check_buffer(s->n * s->y_pixel / 2, 0);
    problem->y = convoy_check_buffer(s->n * s->c, 0);
    uint32_t *marks = convoy_check_memory(s->n, sizeof *marks);
    problem->marks = convoy_check_device_copy(marks, (size_t)s->n * sizeof *marks);
    free(marks);
}

static cudaError_t launch(const struct problem *problem)
{
    const void *x = problem->sums != NULL ? (void *)problem->sums : convoy_check_halves(&problem->x_half);
    return convoy_launch_nhwc_excite(&problem->shape, x, problem->packed, problem->bias_device[0],
                                     problem->bias_device[1], convoy_check_halves(&problem->y_half),
                                     (struct convoy_overflow){problem->marks, MARK}, NULL);
}

/* A dense layer in float64. */
static void dense(const struct problem *problem, int layer, int64_t rows, int64_t columns, const double *x,
                  double *y)
{
    for (int64_t row = 0; row < rows; row++) {
        double sum = problem->bias[layer] != NULL ? (double)problem->bias[layer][row] : 0;
        for (int64_t i = 0; i < columns; i++)
            sum += (double)problem->weights[layer][row * columns + i] * x[i];
        y[row] = convoy_check_apply_unary(problem->shape.act[layer], sum);
    }
}

static double *reference(const struct problem *problem)
{
    const struct convoy_nhwc_excite *s = &problem->shape;
    double *want = convoy_check_memory(s->n * s->c, sizeof *want);
    double *mean = convoy_check_memory(s->c, sizeof *mean);
    double *between = convoy_check_memory(s->squeezed, sizeof *between);
    for (int64_t n = 0; n < s->n; n++) {
        memset(mean, 0, (size_t)s->c * sizeof *mean);
        for (int64_t i = 0; i < s->pixels * s->c; i++)
            mean[i % s->c] += (double)problem->x[n * s->pixels * s->c + i] / (double)s->pixels;
        dense(problem, 0, s->squeezed, s->c, mean, between);
        dense(problem, 1, s->c, s->squeezed, between, want + n * s->c);
    }
    free(mean);
    free(between);
    return want;
}

static cudaError_t read_answer(const struct problem *problem, cudaError_t launched)
{
    const struct convoy_nhwc_excite *s = &problem->shape;
    const struct convoy_nhwc_planes planes = {s->n, s->c, 1, s->y_pixel, true};
    return launched != cudaSuccess
               ? launched
               : convoy_launch_nhwc_to_planes(&planes, convoy_check_halves(&problem->y_half),
                                              problem->y.device, NULL);
}

static void fail(struct convoy_check *check, const char *what, int64_t n)
{
    check->failures++;
    fprintf(stderr, "FAILED: excite: %s, image %lld\n", what, (long long)n);
}

/* Puts a NaN into an image. */
static bool spoil(const struct problem *problem, int64_t n)
{
    const struct convoy_nhwc_excite *s = &problem->shape;
    const convoy_fp16 nan = 0x7e00;
    const float sum = NAN;
    if (problem->sums != NULL)
        return cudaMemcpy(problem->sums + (n * s->patches + s->patches - 1) * s->c, &sum, sizeof sum,
                          cudaMemcpyHostToDevice) == cudaSuccess;
    return cudaMemcpy(convoy_check_halves(&problem->x_half) + (n * s->pixels + s->pixels - 1) * s->x_pixel,
                      &nan, sizeof nan, cudaMemcpyHostToDevice) == cudaSuccess;
}

/* The channels that fill up a pixel are 0: what reads gates multiplies with them. An image with a NaN, and no
 * other, is told of. */
static void check_fill_and_marks(struct convoy_check *check, const struct problem *problem)
{
    const struct convoy_nhwc_excite *s = &problem->shape;
    int64_t loud = convoy_check_between(check, 0, (int)s->n - 1);
    convoy_fp16 *gates = convoy_check_memory(s->n * s->y_pixel, sizeof *gates);
    bool right =
        cudaMemcpy(gates, convoy_check_halves(&problem->y_half), (size_t)(s->n * s->y_pixel) * sizeof *gates,
                   cudaMemcpyDeviceToHost) == cudaSuccess &&
        spoil(problem, loud) && launch(problem) == cudaSuccess &&
        convoy_check_marked(problem->marks, s->n, loud, MARK);
    if (!right)
        fail(check, "told wrongly of a gate that is NaN", loud);
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t c = s->c; c < convoy_nhwc_channels(s->c); c++)
            if (gates[n * s->y_pixel + c] != 0)
                fail(check, "a channel that fills up the pixel is not 0", n);
    free(gates);
}

void convoy_check_excite(struct convoy_check *check)
{
    struct problem problem = {0};
    make(check, &problem);
    const struct convoy_nhwc_excite *s = &problem.shape;
    double *want = reference(&problem);
    check->bound = BOUND;
    cudaError_t launched = convoy_nhwc_excite_takes(s) ? launch(&problem) : cudaErrorInvalidValue;
    convoy_check_result(check, read_answer(&problem, launched), &problem.y, want, &problem.y_half,
                        "excite n %lld, %lld pixels of %lld and %lld, %lld patches, c %lld, squeezed %lld, "
                        "biases %d %d, acts %d %d",
                        (long long)s->n, (long long)s->pixels, (long long)s->x_pixel, (long long)s->y_pixel,
                        (long long)s->patches, (long long)s->c, (long long)s->squeezed,
                        problem.bias[0] != NULL, problem.bias[1] != NULL, (int)s->act[0].kind,
                        (int)s->act[1].kind);
    check_fill_and_marks(check, &problem);
    for (int layer = 0; layer < 2; layer++) {
        free(problem.weights[layer]);
        free(problem.bias[layer]);
        (void)cudaFree(problem.bias_device[layer]);
    }
    (void)cudaFree(problem.packed);
    (void)cudaFree(problem.marks);
    (void)cudaFree(problem.sums);
    free(problem.x);
    free(want);
    convoy_check_free(&problem.x_half);
    convoy_check_free(&problem.y_half);
    convoy_check_free(&problem.y);
}
