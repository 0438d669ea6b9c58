/* The check of attention in 16 bits, channels last: rows in any order, of a tensor that has queries, keys and
 * values side by side, with other channels between them. */
#include "kernels/check/check_operators.h"

#include "kernels/nhwc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PRODUCTS 280000 /* of a case: the emulation is slow */
#define BOUND         2e-3   /* shares and results are rounded to fp16 */
#define MARK          5

static const int tokens[] = {1, 2, 7, 15, 16, 17, 49, 50, 63, 64, 65, 97, 128, 129, 145, 197, 257, 330};
static const int windows[] = {1, 2, 3, 50}; /* 50: more blocks than a chip has multiprocessors */
static const int channels[] = {8, 16, 24, 32, 40, 64, 72, 80, 96, 104, 128};

enum side { Q, K, V, Y, SIDES };

struct problem {
    struct convoy_nhwc_attention shape;
    int64_t x_pixels, y_pixels, c; /* c: of a pixel of x; of one of y a third */
    float *x;                      /* n x x_pixels x c, numbers that fp16 holds */
    float *head_scale;             /* of each head; NULL: 1 */
    float *bias;                   /* windows x heads x queries x keys; NULL: none */
    int32_t *rows[SIDES];          /* NULL: in order */
    struct convoy_check_buffer x_device, bias_device, y_half, y;
    uint32_t *marks;
};

static struct convoy_nhwc_rows_of_heads *side_of(struct problem *problem, enum side side)
{
    struct convoy_nhwc_rows_of_heads *sides[] = {&problem->shape.q, &problem->shape.k, &problem->shape.v,
                                                 &problem->shape.y};
    return sides[side];
}

/* Some of `pixels` pixels, in any order. */
static void any_rows(struct convoy_check *check, struct problem *problem, enum side side, int64_t pixels)
{
    if (convoy_check_between(check, 0, 2) == 0)
        return;
    int32_t *rows = convoy_check_memory(pixels, sizeof *rows);
    for (int32_t i = 0; i < pixels; i++) {
        int other = convoy_check_between(check, 0, i);
        rows[i] = rows[other];
        rows[other] = i;
    }
    problem->rows[side] = rows;
    side_of(problem, side)->rows = convoy_check_device_copy(rows, (size_t)pixels * sizeof *rows);
}

/* Heads enough for a chip, which warpgroups make; few queries, or the reference takes long. */
static void many_heads(struct convoy_check *check, struct convoy_nhwc_attention *s)
{
    *s = (struct convoy_nhwc_attention){.n = 3,
                                        .windows = 50,
                                        .heads = 1,
                                        .queries = convoy_check_between(check, 1, 7),
                                        .keys = convoy_check_between(check, 1, 260),
                                        .d = 64};
}

static void any_shape(struct convoy_check *check, struct convoy_nhwc_attention *s)
{
    s->d = 0;
    if (convoy_check_between(check, 0, 7) == 0)
        many_heads(check, s);
    while (s->d == 0 || s->n * s->windows * s->heads * s->queries * s->keys > MOST_PRODUCTS) {
        *s = (struct convoy_nhwc_attention){.n = convoy_check_between(check, 1, 3),
                                            .windows = CONVOY_CHECK_PICK(check, windows),
                                            .heads = convoy_check_between(check, 1, 3),
                                            .queries = CONVOY_CHECK_PICK(check, tokens),
                                            .d = CONVOY_CHECK_PICK(check, channels)};
        s->keys = convoy_check_between(check, 0, 3) ? s->queries : CONVOY_CHECK_PICK(check, tokens);
    }
    s->scale = (float)convoy_check_random(check, 0.2, 2) / sqrtf((float)s->d);
}

static void make_bias(struct convoy_check *check, struct problem *problem)
{
    struct convoy_nhwc_attention *s = &problem->shape;
    bool of_windows = convoy_check_between(check, 0, 1);
    bool of_heads = convoy_check_between(check, 0, 1);
    int64_t area = (int64_t)s->queries * s->keys;
    s->bias_query = s->keys + s->keys % 2 + 2 * convoy_check_between(check, 0, 1);
    s->bias_head = of_heads ? s->queries * s->bias_query : 0;
    s->bias_window = of_windows ? (of_heads ? s->heads : 1) * s->queries * s->bias_query : 0;
    int matrices = (of_windows ? s->windows : 1) * (of_heads ? s->heads : 1);
    problem->bias_device = convoy_check_input(check, matrices * s->queries * s->bias_query, 0, -3, 3);
    problem->bias = convoy_check_memory(s->windows * s->heads * area, sizeof(float));
    for (int w = 0; w < s->windows; w++)
        for (int h = 0; h < s->heads; h++)
            for (int t = 0; t < s->queries; t++)
                for (int k = 0; k < s->keys; k++) {
                    float *from = problem->bias_device.host + w * s->bias_window + h * s->bias_head +
                                  t * s->bias_query + k;
                    if (k != t % s->keys && convoy_check_between(check, 0, 7) == 0)
                        *from = k % 2 ? -INFINITY : -100;
                    problem->bias[((int64_t)w * s->heads + h) * area + (int64_t)t * s->keys + k] = *from;
                }
    /* What several windows and heads share was drawn for each of them: the last one counts. */
    for (int64_t i = 0; i < s->windows * s->heads * area; i++)
        problem->bias[i] =
            problem->bias_device
                .host[i / area / s->heads * s->bias_window + i / area % s->heads * s->bias_head +
                      i % area / s->keys * s->bias_query + i % s->keys];
    convoy_check_upload(&problem->bias_device);
}

static void make(struct convoy_check *check, struct problem *problem)
{
    struct convoy_nhwc_attention *s = &problem->shape;
    any_shape(check, s);
    int64_t longer = s->queries > s->keys ? s->queries : s->keys;
    int64_t pixel = 3 * s->heads * s->d + 8 * convoy_check_between(check, 0, 2);
    int64_t y_pixel = s->heads * s->d + 8 * convoy_check_between(check, 0, 2);
    problem->c = 3 * s->heads * s->d;
    problem->x_pixels = s->windows * longer;
    problem->y_pixels = s->windows * s->queries;
    for (enum side side = Q; side < Y; side++) {
        *side_of(problem, side) =
            (struct convoy_nhwc_rows_of_heads){problem->x_pixels * pixel, pixel, s->d, NULL};
        any_rows(check, problem, side, problem->x_pixels);
    }
    s->y = (struct convoy_nhwc_rows_of_heads){problem->y_pixels * y_pixel, y_pixel, s->d, NULL};
    any_rows(check, problem, Y, problem->y_pixels);
    if (convoy_check_between(check, 0, 1))
        make_bias(check, problem);
    if (convoy_check_between(check, 0, 2) == 0) {
        problem->head_scale = convoy_check_memory(s->heads, sizeof(float));
        for (int h = 0; h < s->heads; h++)
            problem->head_scale[h] = (float)convoy_check_random(check, -0.5, 2);
        s->head_scale = convoy_check_device_copy(problem->head_scale, (size_t)s->heads * sizeof(float));
    }
    int64_t count = s->n * problem->x_pixels * problem->c;
    problem->x = convoy_check_memory(count, sizeof(float));
    for (int64_t i = 0; i < count; i++)
        problem->x[i] = (float)convoy_check_round(convoy_check_random(check, -2, 2), CONVOY_COMPUTE_FP16);
    const struct convoy_nhwc_planes planes = {s->n, problem->c, problem->x_pixels, pixel, true};
    float *x = convoy_check_device_copy(problem->x, (size_t)count * sizeof(float));
    problem->x_device = convoy_check_buffer(s->n * problem->x_pixels * pixel / 2, 0);
    problem->y_half = convoy_check_buffer(s->n * problem->y_pixels * y_pixel / 2, 0);
    problem->y = convoy_check_buffer(s->n * problem->y_pixels * s->heads * s->d, 0);
    if (convoy_launch_nhwc_from_planes(&planes, x, convoy_check_halves(&problem->x_device),
                                       (struct convoy_overflow){0}, NULL) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess || cudaFree(x) != cudaSuccess)
        exit(1);
    uint32_t *marks = convoy_check_memory(s->n, sizeof *marks);
    problem->marks = convoy_check_device_copy(marks, (size_t)s->n * sizeof *marks);
    free(marks);
}

static cudaError_t launch(struct problem *problem)
{
    const struct convoy_nhwc_attention *s = &problem->shape;
    const convoy_fp16 *x = (const convoy_fp16 *)(const void *)problem->x_device.device;
    int64_t part = s->heads * s->d;
    return convoy_launch_nhwc_attention(
        s, x, x + part, x + 2 * part, problem->bias != NULL ? problem->bias_device.device : NULL,
        convoy_check_halves(&problem->y_half), (struct convoy_overflow){problem->marks, MARK}, NULL);
}

/* Where row `row` of a head begins in x or y as floats without gaps. */
static int64_t row_of(const struct problem *problem, enum side side, int64_t n, int window, int head, int row)
{
    const struct convoy_nhwc_attention *s = &problem->shape;
    int64_t index = (int64_t)window * (side == K || side == V ? s->keys : s->queries) + row;
    int64_t pixel = problem->rows[side] != NULL ? problem->rows[side][index] : index;
    return side == Y
               ? (n * problem->y_pixels + pixel) * s->heads * s->d + (int64_t)head * s->d
               : (n * problem->x_pixels + pixel) * problem->c + (int64_t)(side * s->heads + head) * s->d;
}

static void reference_row(const struct problem *problem, int64_t n, int window, int head, int row,
                          double *shares, double *y)
{
    const struct convoy_nhwc_attention *s = &problem->shape;
    const float *q = problem->x + row_of(problem, Q, n, window, head, row);
    double largest = -INFINITY;
    double sum = 0;
    for (int k = 0; k < s->keys; k++) {
        const float *key = problem->x + row_of(problem, K, n, window, head, k);
        int64_t at = (((int64_t)window * s->heads + head) * s->queries + row) * s->keys + k;
        shares[k] = 0;
        for (int d = 0; d < s->d; d++)
            shares[k] += (double)q[d] * (double)key[d];
        if (problem->head_scale != NULL)
            shares[k] *= (double)problem->head_scale[head];
        shares[k] = shares[k] * (double)s->scale + (problem->bias != NULL ? (double)problem->bias[at] : 0);
        largest = fmax(largest, shares[k]);
    }
    for (int k = 0; k < s->keys; k++)
        sum += shares[k] = exp(shares[k] - largest);
    for (int d = 0; d < s->d; d++)
        y[d] = 0;
    for (int k = 0; k < s->keys; k++) {
        const float *value = problem->x + row_of(problem, V, n, window, head, k);
        for (int d = 0; d < s->d; d++)
            y[d] += shares[k] / sum * (double)value[d];
    }
}

static double *reference(const struct problem *problem)
{
    const struct convoy_nhwc_attention *s = &problem->shape;
    double *want = convoy_check_memory(problem->y.floats, sizeof *want);
    double *shares = convoy_check_memory(s->keys, sizeof *shares);
    for (int64_t n = 0; n < s->n; n++)
        for (int w = 0; w < s->windows; w++)
            for (int h = 0; h < s->heads; h++)
                for (int t = 0; t < s->queries; t++)
                    reference_row(problem, n, w, h, t, shares, want + row_of(problem, Y, n, w, h, t));
    free(shares);
    return want;
}

static cudaError_t read_answer(struct problem *problem, cudaError_t launched)
{
    const struct convoy_nhwc_attention *s = &problem->shape;
    const struct convoy_nhwc_planes planes = {s->n, s->heads * s->d, problem->y_pixels, s->y.pixel, true};
    return launched != cudaSuccess
               ? launched
               : convoy_launch_nhwc_to_planes(&planes, (const convoy_fp16 *)(void *)problem->y_half.device,
                                              problem->y.device, NULL);
}

/* A value of one image is infinite. */
static void check_marks(struct convoy_check *check, struct problem *problem)
{
    const struct convoy_nhwc_attention *s = &problem->shape;
    const convoy_fp16 infinite = 0x7c00;
    int64_t loud = convoy_check_between(check, 0, (int)s->n - 1);
    int row = convoy_check_between(check, 0, s->windows * s->keys - 1);
    int64_t pixel = problem->rows[V] != NULL ? problem->rows[V][row] : row;
    int64_t channel = 2 * s->heads * s->d + convoy_check_between(check, 0, s->heads * s->d - 1);
    bool right = convoy_check_marked(problem->marks, s->n, -1, MARK);
    if (cudaMemcpy(convoy_check_halves(&problem->x_device) + loud * s->v.image + pixel * s->v.pixel + channel,
                   &infinite, sizeof infinite, cudaMemcpyHostToDevice) != cudaSuccess ||
        launch(problem) != cudaSuccess || !convoy_check_marked(problem->marks, s->n, loud, MARK) || !right) {
        check->failures++;
        fprintf(stderr, "FAILED: attention: marks of images, of which image %lld has an infinite value%s\n",
                (long long)loud, right ? "" : "; marked before it had");
    }
}

static void free_all(struct problem *problem)
{
    for (enum side side = Q; side < SIDES; side++) {
        (void)cudaFree((void *)(uintptr_t)side_of(problem, side)->rows);
        free(problem->rows[side]);
    }
    (void)cudaFree(problem->marks);
    free(problem->x);
    convoy_check_free(&problem->x_device);
    convoy_check_free(&problem->y_half);
    convoy_check_free(&problem->y);
    if (problem->bias != NULL)
        convoy_check_free(&problem->bias_device);
    if (problem->head_scale != NULL)
        (void)cudaFree((void *)(uintptr_t)problem->shape.head_scale);
    free(problem->head_scale);
    free(problem->bias);
}

void convoy_check_attention(struct convoy_check *check)
{
    struct problem problem = {0};
    make(check, &problem);
    const struct convoy_nhwc_attention *s = &problem.shape;
    double *want = reference(&problem);
    check->bound = BOUND;
    cudaError_t launched = read_answer(&problem, launch(&problem));
    convoy_check_result(
        check, launched, &problem.y, want, &problem.y_half,
        "attention n %lld windows %d heads %d queries %d keys %d d %d, pixels of %lld and %lld, "
        "rows %d %d %d %d, bias %lld %lld %lld, factors %d",
        (long long)s->n, s->windows, s->heads, s->queries, s->keys, s->d, (long long)s->q.pixel,
        (long long)s->y.pixel, s->q.rows != NULL, s->k.rows != NULL, s->v.rows != NULL, s->y.rows != NULL,
        problem.bias ? (long long)s->bias_window : -1, (long long)s->bias_head, (long long)s->bias_query,
        problem.head_scale != NULL);
    check_marks(check, &problem);
    free(want);
    free_all(&problem);
}
