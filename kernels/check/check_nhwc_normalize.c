/* The check of layer and RMS normalisation in 16 bits, channels last. */
#include "kernels/check/check_operators.h"

#include "kernels/nhwc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BOUND 2e-3 /* results are rounded to fp16 */
#define MARK  3

static const int channels[] = {1,   7,   8,   9,   24,  64,  96,  100, 128,  136,  192,  196, 256,
                               260, 384, 390, 512, 520, 768, 770, 800, 1024, 1028, 1536, 2048};

struct problem {
    struct convoy_nhwc_normalize shape;
    struct convoy_check_buffer x, scale, shift, x_half, y_half, y;
    bool scaled, shifted;
    uint32_t *marks;
};

static void make(struct convoy_check *check, struct problem *problem)
{
    struct convoy_nhwc_normalize *s = &problem->shape;
    int64_t c = CONVOY_CHECK_PICK(check, channels), padded = (c + 7) / 8 * 8;
    *s = (struct convoy_nhwc_normalize){.n = convoy_check_between(check, 1, 3),
                                        .pixels = convoy_check_between(check, 1, 12),
                                        .c = c,
                                        .x_pixel = padded + 8 * convoy_check_between(check, 0, 2),
                                        .y_pixel = padded + 8 * convoy_check_between(check, 0, 2),
                                        .epsilon = 1e-5f,
                                        .rms = convoy_check_between(check, 0, 1)};
    int64_t count = s->n * s->pixels;
    double centre = convoy_check_random(check, -20, 20);
    problem->scaled = convoy_check_between(check, 0, 3);
    problem->shifted = convoy_check_between(check, 0, 3);
    problem->x = convoy_check_input(check, count * c, 0, centre - 2, centre + 2);
    for (int64_t i = 0; i < count * c; i++)
        problem->x.host[i] = (float)convoy_check_round((double)problem->x.host[i], CONVOY_COMPUTE_FP16);
    convoy_check_upload(&problem->x);
    problem->scale = convoy_check_input(check, c, convoy_check_between(check, 0, 1), -2, 2);
    problem->shift = convoy_check_input(check, c, 0, -2, 2);
    problem->x_half = convoy_check_buffer(count * s->x_pixel / 2, 0);
    problem->y_half = convoy_check_buffer(count * s->y_pixel / 2, 0);
    problem->y = convoy_check_buffer(count * c, 0);
    if (cudaMalloc((void **)&problem->marks, (size_t)s->n * sizeof *problem->marks) != cudaSuccess ||
        cudaMemset(problem->marks, 0, (size_t)s->n * sizeof *problem->marks) != cudaSuccess)
        exit(1);
}

/* Planes of one pixel each: n x pixels images of c x 1. */
static struct convoy_nhwc_planes planes_of(const struct convoy_nhwc_normalize *s, int64_t pixel)
{
    return (struct convoy_nhwc_planes){s->n * s->pixels, s->c, 1, pixel, true};
}

static cudaError_t launch(struct problem *problem)
{
    const struct convoy_nhwc_normalize *s = &problem->shape;
    const struct convoy_nhwc_planes from = planes_of(s, s->x_pixel), to = planes_of(s, s->y_pixel);
    cudaError_t code = convoy_launch_nhwc_from_planes(
        &from, problem->x.device, convoy_check_halves(&problem->x_half), (struct convoy_overflow){0}, NULL);
    if (code == cudaSuccess)
        code = convoy_launch_nhwc_normalize(
            s, convoy_check_halves(&problem->x_half), problem->scaled ? problem->scale.device : NULL,
            problem->shifted ? problem->shift.device : NULL, convoy_check_halves(&problem->y_half),
            (struct convoy_overflow){problem->marks, MARK}, NULL);
    return code == cudaSuccess ? convoy_launch_nhwc_to_planes(&to, convoy_check_halves(&problem->y_half),
                                                              problem->y.device, NULL)
                               : code;
}

static void reference_pixel(const struct problem *problem, const float *x, double *y)
{
    const struct convoy_nhwc_normalize *s = &problem->shape;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < s->c && !s->rms; i++)
        mean += (double)x[i] / (double)s->c;
    for (int64_t i = 0; i < s->c; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)s->c;
    for (int64_t i = 0; i < s->c; i++)
        y[i] = ((double)x[i] - mean) / sqrt(squares + (double)s->epsilon) *
                   (problem->scaled ? (double)problem->scale.host[i] : 1) +
               (problem->shifted ? (double)problem->shift.host[i] : 0);
}

/* One number of an image is infinite: its pixel becomes NaN. No other image is told of. */
static void check_marks(struct convoy_check *check, struct problem *problem)
{
    const struct convoy_nhwc_normalize *s = &problem->shape;
    int64_t loud = convoy_check_between(check, 0, (int)s->n - 1);
    int64_t pixel = loud * s->pixels + convoy_check_between(check, 0, (int)s->pixels - 1);
    bool right = convoy_check_marked(problem->marks, s->n, -1, MARK);
    problem->x.host[pixel * s->c + convoy_check_between(check, 0, (int)s->c - 1)] = INFINITY;
    convoy_check_upload(&problem->x);
    if (launch(problem) != cudaSuccess || !convoy_check_marked(problem->marks, s->n, loud, MARK) || !right) {
        check->failures++;
        fprintf(stderr,
                "FAILED: nhwc_normalize: marks of images, of which image %lld has an infinite number%s\n",
                (long long)loud, right ? "" : "; marked before it had");
    }
}

void convoy_check_nhwc_normalize(struct convoy_check *check)
{
    struct problem problem = {0};
    make(check, &problem);
    const struct convoy_nhwc_normalize *s = &problem.shape;
    double *want = calloc((size_t)problem.y.floats, sizeof *want);
    if (want == NULL)
        exit(1);
    for (int64_t i = 0; i < s->n * s->pixels; i++)
        reference_pixel(&problem, problem.x.host + i * s->c, want + i * s->c);
    check->bound = BOUND;
    convoy_check_result(
        check, launch(&problem), &problem.y, want, &problem.y_half,
        "nhwc_normalize %lld x %lld x %lld, pixels of %lld and %lld, rms %d, scale %d, shift %d",
        (long long)s->n, (long long)s->pixels, (long long)s->c, (long long)s->x_pixel, (long long)s->y_pixel,
        s->rms, problem.scaled, problem.shifted);
    check_marks(check, &problem);
    free(want);
    (void)cudaFree(problem.marks);
    convoy_check_free(&problem.x);
    convoy_check_free(&problem.scale);
    convoy_check_free(&problem.shift);
    convoy_check_free(&problem.x_half);
    convoy_check_free(&problem.y_half);
    convoy_check_free(&problem.y);
}
