/* The check of first layers' windows that are read as rows: images of floats and of bytes, further apart than
 * they are long, with remainders that are left out and pixels that are not filled. */
#include "kernels/check/check_operators.h"

#include "kernels/nhwc.h"

#include <stdlib.h>
#include <string.h>

#define BOUND 1e-3 /* rounded to fp16 */

struct problem {
    struct convoy_nhwc_patches shape;
    struct convoy_images images;
    struct convoy_check_buffer x, y_half, y;
};

static void make(struct convoy_check *check, struct problem *problem)
{
    struct convoy_nhwc_patches *s = &problem->shape;
    s->n = convoy_check_between(check, 1, 3);
    s->c = convoy_check_between(check, 1, CONVOY_KERNEL_CHANNELS);
    s->rows = convoy_check_between(check, 1, 17);
    s->columns = convoy_check_between(check, 1, 17);
    s->down = convoy_check_between(check, 1, 4);
    s->across = convoy_check_between(check, 1, 4);
    s->h = s->down * s->rows + convoy_check_between(check, 0, s->rows - 1);
    s->w = s->across * s->columns + convoy_check_between(check, 0, s->columns - 1);
    s->pixel = (int)convoy_nhwc_channels((int64_t)s->c * s->rows * s->columns) +
               8 * convoy_check_between(check, 0, 1);
    bool u8 = convoy_check_between(check, 0, 1) == 1;
    int64_t elements = (int64_t)s->c * s->h * s->w;
    int64_t floats = u8 ? (elements + 3) / 4 : elements;
    floats += convoy_check_between(check, 0, 5);
    problem->x = convoy_check_input(check, s->n * floats, 0, -2, 2);
    problem->images = (struct convoy_images){.data = problem->x.device, .image_bytes = floats * 4, .u8 = u8};
    for (int c = 0; c < s->c; c++) {
        problem->images.multiply[c] = (float)convoy_check_random(check, -0.02, 0.02);
        problem->images.add[c] = (float)convoy_check_random(check, -1, 1);
    }
    if (u8) {
        unsigned char *bytes = (unsigned char *)problem->x.host;
        for (int64_t i = 0; i < s->n * floats * 4; i++)
            bytes[i] = (unsigned char)convoy_check_between(check, 0, 255);
        convoy_check_upload(&problem->x);
    }
    int64_t pixels = (int64_t)s->n * s->down * s->across;
    problem->y_half = convoy_check_buffer(pixels * s->pixel / 2, 0);
    problem->y = convoy_check_buffer(pixels * s->pixel, 0);
}

static double input_at(const struct problem *problem, int64_t n, int64_t c, int64_t y, int64_t x)
{
    const struct convoy_nhwc_patches *s = &problem->shape;
    const char *image = (const char *)problem->x.host + n * problem->images.image_bytes;
    if (problem->images.u8)
        return (double)((const unsigned char *)image)[(y * s->w + x) * s->c + c] *
                   (double)problem->images.multiply[c] +
               (double)problem->images.add[c];
    float value;
    memcpy(&value, image + ((c * s->h + y) * s->w + x) * 4, sizeof value);
    return (double)value;
}

static double *reference(const struct problem *problem)
{
    const struct convoy_nhwc_patches *s = &problem->shape;
    int64_t area = (int64_t)s->rows * s->columns;
    double *want = convoy_check_memory(problem->y.floats, sizeof *want);
    for (int64_t i = 0; i < problem->y.floats; i++) {
        int64_t patch = i / s->pixel, at = i % s->pixel, n = patch / ((int64_t)s->down * s->across);
        int64_t down = patch / s->across % s->down, across = patch % s->across;
        if (at < s->c * area) /* zeros behind */
            want[i] = input_at(problem, n, at / area, down * s->rows + at % area / s->columns,
                               across * s->columns + at % s->columns);
    }
    return want;
}

void convoy_check_patches(struct convoy_check *check)
{
    struct problem problem = {0};
    make(check, &problem);
    const struct convoy_nhwc_patches *s = &problem.shape;
    double *want = reference(&problem);
    convoy_fp16 *half = convoy_check_halves(&problem.y_half);
    const struct convoy_nhwc_planes planes = {s->n, s->pixel, (int64_t)s->down * s->across, s->pixel, true};
    check->bound = BOUND;
    cudaError_t launched =
        convoy_launch_nhwc_read_patches(&problem.images, s, half, (struct convoy_overflow){0}, NULL);
    if (launched == cudaSuccess)
        launched = convoy_launch_nhwc_to_planes(&planes, half, problem.y.device, NULL);
    convoy_check_result(check, launched, &problem.y, want, &problem.y_half,
                        "patches n %d c %d h %d w %d, %d x %d of %d x %d, pixels of %d, u8 %d", s->n, s->c,
                        s->h, s->w, s->down, s->across, s->rows, s->columns, s->pixel, problem.images.u8);
    free(want);
    convoy_check_free(&problem.x);
    convoy_check_free(&problem.y_half);
    convoy_check_free(&problem.y);
}
