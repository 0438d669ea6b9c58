/* The check of rows gathered in 16 bits, channels last: pieces of any width in any order, zeros among them,
 * with and without numbers added, between pixels that have other channels, too. */
#include "kernels/check/check_operators.h"

#include "kernels/nhwc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BOUND 1e-3 /* sums are rounded to fp16 */
#define MARK  3

static const int widths[] = {8, 16, 24, 32, 96};

struct problem {
    struct convoy_nhwc_gather shape;
    int64_t x_pixels, c, pixel; /* of x */
    float *x;                   /* n x x_pixels x c, numbers that fp16 holds */
    int32_t *pieces_of;
    bool adds;
    struct convoy_check_buffer x_half, y_half, y, add;
    uint32_t *marks;
};

static void make_x(struct convoy_check *check, struct problem *problem)
{
    struct convoy_nhwc_gather *s = &problem->shape;
    int64_t count = s->n * problem->x_pixels * problem->c;
    problem->x = convoy_check_memory(count, sizeof(float));
    for (int64_t i = 0; i < count; i++)
        problem->x[i] = (float)convoy_check_round(convoy_check_random(check, -2, 2), CONVOY_COMPUTE_FP16);
    const struct convoy_nhwc_planes planes = {s->n, problem->c, problem->x_pixels, problem->pixel, true};
    float *x = convoy_check_device_copy(problem->x, (size_t)count * sizeof(float));
    problem->x_half = convoy_check_buffer(s->n * s->x_image / 2, 0);
    if (convoy_launch_nhwc_from_planes(&planes, x, convoy_check_halves(&problem->x_half),
                                       (struct convoy_overflow){0}, NULL) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess || cudaFree(x) != cudaSuccess)
        exit(1);
}

static void make(struct convoy_check *check, struct problem *problem)
{
    struct convoy_nhwc_gather *s = &problem->shape;
    s->n = convoy_check_between(check, 1, 4);
    s->rows = convoy_check_between(check, 1, 70);
    s->width = CONVOY_CHECK_PICK(check, widths);
    s->pieces = convoy_check_between(check, 1, 4);
    s->y_pixel = s->width * s->pieces + 8 * convoy_check_between(check, 0, 2);
    problem->x_pixels = convoy_check_between(check, 1, 70);
    problem->c = s->width * convoy_check_between(check, 1, 3);
    problem->pixel = problem->c + 8 * convoy_check_between(check, 0, 2);
    s->x_image = problem->x_pixels * problem->pixel;
    make_x(check, problem);
    int64_t count = s->rows * s->pieces;
    problem->pieces_of = convoy_check_memory(count, sizeof(int32_t));
    for (int64_t i = 0; i < count; i++) {
        int64_t pixel = convoy_check_between(check, 0, (int)problem->x_pixels - 1);
        int64_t channel = s->width * convoy_check_between(check, 0, (int)(problem->c / s->width) - 1);
        bool zeros = convoy_check_between(check, 0, 5) == 0;
        problem->pieces_of[i] = zeros ? -1 : (int32_t)((pixel * problem->pixel + channel) / 8);
    }
    s->pieces_of = convoy_check_device_copy(problem->pieces_of, (size_t)count * sizeof(int32_t));
    problem->adds = convoy_check_between(check, 0, 1) == 1;
    if (problem->adds)
        problem->add = convoy_check_input(check, count * s->width, 0, -3, 3);
    problem->y_half = convoy_check_buffer(s->n * s->rows * s->y_pixel / 2, 0);
    problem->y = convoy_check_buffer(s->n * count * s->width, 0);
    uint32_t *marks = convoy_check_memory(s->n, sizeof *marks);
    problem->marks = convoy_check_device_copy(marks, (size_t)s->n * sizeof *marks);
    free(marks);
}

static cudaError_t launch(struct problem *problem)
{
    return convoy_launch_nhwc_gather(
        &problem->shape, convoy_check_halves(&problem->x_half), problem->adds ? problem->add.device : NULL,
        convoy_check_halves(&problem->y_half), (struct convoy_overflow){problem->marks, MARK}, NULL);
}

/* The number of x, as floats without gaps, that is number e of a piece of an image; -1: zero. */
static int64_t number_of(const struct problem *problem, int64_t n, int64_t piece, int64_t e)
{
    int64_t cell = problem->pieces_of[piece], at = cell * 8 + e;
    return cell < 0 ? -1 : (n * problem->x_pixels + at / problem->pixel) * problem->c + at % problem->pixel;
}

static double *reference(const struct problem *problem)
{
    const struct convoy_nhwc_gather *s = &problem->shape;
    double *want = convoy_check_memory(problem->y.floats, sizeof *want);
    int64_t count = s->rows * s->pieces;
    for (int64_t i = 0; i < problem->y.floats; i++) {
        int64_t n = i / (count * s->width), in_image = i % (count * s->width);
        int64_t from = number_of(problem, n, in_image / s->width, in_image % s->width);
        want[i] = (from < 0 ? 0 : (double)problem->x[from]) +
                  (problem->adds ? (double)problem->add.host[in_image] : 0);
    }
    return want;
}

static cudaError_t read_answer(struct problem *problem, cudaError_t launched)
{
    const struct convoy_nhwc_gather *s = &problem->shape;
    const struct convoy_nhwc_planes planes = {s->n, (int64_t)s->width * s->pieces, s->rows, s->y_pixel, true};
    return launched != cudaSuccess
               ? launched
               : convoy_launch_nhwc_to_planes(&planes, convoy_check_halves(&problem->y_half),
                                              problem->y.device, NULL);
}

/* Of numbers that are copied nothing is told; where a sum is infinite, its image is. */
static void check_marks(struct convoy_check *check, struct problem *problem)
{
    const struct convoy_nhwc_gather *s = &problem->shape;
    const convoy_fp16 infinite = 0x7c00;
    int64_t loud = convoy_check_between(check, 0, (int)s->n - 1);
    int32_t cell = problem->pieces_of[convoy_check_between(check, 0, (int)(s->rows * s->pieces) - 1)];
    if (cell < 0)
        loud = -1;
    bool right =
        loud < 0 || cudaMemcpy(convoy_check_halves(&problem->x_half) + loud * s->x_image + (int64_t)cell * 8,
                               &infinite, sizeof infinite, cudaMemcpyHostToDevice) == cudaSuccess;
    right = right && launch(problem) == cudaSuccess &&
            convoy_check_marked(problem->marks, s->n, problem->adds ? loud : -1, MARK);
    if (!right) {
        check->failures++;
        fprintf(stderr, "FAILED: gather: marks of images, of which image %lld has an infinite number%s\n",
                (long long)loud, problem->adds ? "" : ", and nothing is added");
    }
}

void convoy_check_gather(struct convoy_check *check)
{
    struct problem problem = {0};
    make(check, &problem);
    const struct convoy_nhwc_gather *s = &problem.shape;
    double *want = reference(&problem);
    check->bound = BOUND;
    cudaError_t launched = read_answer(&problem, launch(&problem));
    convoy_check_result(check, launched, &problem.y, want, &problem.y_half,
                        "gather n %lld rows %lld width %d pieces %d, pixels of %lld and %lld, adds %d",
                        (long long)s->n, (long long)s->rows, s->width, s->pieces, (long long)problem.pixel,
                        (long long)s->y_pixel, problem.adds);
    check_marks(check, &problem);
    (void)cudaFree((void *)(uintptr_t)s->pieces_of);
    (void)cudaFree(problem.marks);
    free(problem.x);
    free(problem.pieces_of);
    free(want);
    if (problem.adds)
        convoy_check_free(&problem.add);
    convoy_check_free(&problem.x_half);
    convoy_check_free(&problem.y_half);
    convoy_check_free(&problem.y);
}
