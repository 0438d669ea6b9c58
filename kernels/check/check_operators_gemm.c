#include "kernels/check/check_operators.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Sizes around the edges of tiles, pieces and vectors. */
static const int small_sizes[] = {1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32};
static const int sizes[] = {1, 3, 4, 10, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 160, 161, 200};
static const int depths[] = {1, 2, 3, 4, 7, 8, 9, 12, 31, 64, 100, 128, 129, 255, 260, 513, 700, 1030, 2052};
static const int gaps[] = {0, 0, 4, 3}; /* between matrices */

static struct convoy_gemm_shape any_shape(struct convoy_check *check)
{
    struct convoy_gemm_shape shape = {0};
    shape.m = convoy_check_between(check, 0, 1) ? CONVOY_CHECK_PICK(check, small_sizes)
                                                : CONVOY_CHECK_PICK(check, sizes);
    shape.n = convoy_check_between(check, 0, 3) ? CONVOY_CHECK_PICK(check, sizes)
                                                : CONVOY_CHECK_PICK(check, small_sizes);
    shape.k = CONVOY_CHECK_PICK(check, depths);
    shape.batch = convoy_check_between(check, 0, 2) ? 1 : convoy_check_between(check, 2, 3);
    shape.b_transposed = convoy_check_between(check, 0, 1);
    shape.bias = convoy_check_between(check, 0, 1);
    shape.act = convoy_check_any_unary(check);
    shape.compute_type = CONVOY_COMPUTE_FP16; /* all kernels */
    shape.a_stride = shape.m * shape.k + CONVOY_CHECK_PICK(check, gaps);
    shape.b_stride = shape.n * shape.k + CONVOY_CHECK_PICK(check, gaps);
    shape.y_stride = shape.m * shape.n + CONVOY_CHECK_PICK(check, gaps);
    if (convoy_check_between(check, 0, 3) == 0)
        shape.a_stride = 0;
    if (convoy_check_between(check, 0, 3) == 0)
        shape.b_stride = 0;
    return shape;
}

static int64_t last_matrix(int64_t stride, int batch)
{
    return stride * (batch - 1);
}

static void reference(const struct convoy_gemm_shape *shape, enum convoy_compute_type compute_type,
                      const float *a, const float *b, const float *bias, double *want, int64_t floats)
{
    for (int64_t i = 0; i < floats; i++)
        want[i] = NAN;
    for (int image = 0; image < shape->batch; image++)
        for (int64_t row = 0; row < shape->m; row++)
            for (int64_t column = 0; column < shape->n; column++) {
                const float *a_row = a + image * shape->a_stride + row * shape->k;
                const float *b_matrix = b + image * shape->b_stride;
                double sum = shape->bias ? (double)bias[column] : 0;
                for (int64_t k = 0; k < shape->k; k++)
                    sum += convoy_check_round(a_row[k], compute_type) *
                           convoy_check_round(
                               b_matrix[shape->b_transposed ? column * shape->k + k : k * shape->n + column],
                               compute_type);
                want[image * shape->y_stride + row * shape->n + column] =
                    convoy_check_apply_unary(shape->act, sum);
            }
}

/* One shape. Activations are fed with sums of about 1, whatever k is, so that all of their parts are met. A
 * few sums could all be near 0, and the error of their terms large beside them: few sums get positive terms.
 */
static bool check_shape(struct convoy_check *check, const struct convoy_gemm_kernel *kernel,
                        const struct convoy_gemm_shape *shape)
{
    int offset = convoy_check_between(check, 0, 7) ? 0 : 1;
    double most = 3 / sqrt((double)shape->k);
    double least = shape->m * shape->n < 8 ? 0.1 : -1;
    int64_t y_floats = last_matrix(shape->y_stride, shape->batch) + shape->m * shape->n;
    struct convoy_check_buffer a = convoy_check_input(
        check, last_matrix(shape->a_stride, shape->batch) + shape->m * shape->k, offset, least, 1);
    struct convoy_check_buffer b = convoy_check_input(
        check, last_matrix(shape->b_stride, shape->batch) + shape->n * shape->k, offset, least * most, most);
    struct convoy_check_buffer bias = convoy_check_input(check, shape->n, offset, least, 1);
    struct convoy_check_buffer y = convoy_check_buffer(y_floats, offset);
    size_t scratch_bytes = kernel->scratch_bytes(shape);
    struct convoy_check_buffer scratch = {0};
    if (scratch_bytes > 0)
        scratch = convoy_check_buffer((int64_t)(scratch_bytes / sizeof(float)), 0);
    double *want = malloc((size_t)y_floats * sizeof *want);
    if (!want)
        exit(1);
    reference(shape, kernel->compute_type, a.host, b.host, bias.host, want, y_floats);
    struct convoy_gemm_operands operands = {a.device, b.device, shape->bias ? bias.device : NULL, y.device,
                                            scratch.device};
    cudaError_t launched = kernel->launch(shape, &operands, NULL);
    convoy_check_result(
        check, launched, &y, want, &scratch,
        "%s m %lld n %lld k %lld batch %d b_transposed %d bias %d act %d strides %lld %lld %lld "
        "offset %d scratch %zu",
        kernel->name, (long long)shape->m, (long long)shape->n, (long long)shape->k, shape->batch,
        shape->b_transposed, shape->bias, (int)shape->act.kind, (long long)shape->a_stride,
        (long long)shape->b_stride, (long long)shape->y_stride, offset, scratch_bytes);
    free(want);
    convoy_check_free(&a);
    convoy_check_free(&b);
    convoy_check_free(&bias);
    convoy_check_free(&y);
    convoy_check_free(&scratch);
    return scratch_bytes > 0;
}

int convoy_check_gemm(uint64_t seed, int cases)
{
    int count, failures = 0;
    const struct convoy_gemm_kernel *const *kernels = convoy_gemm_kernels(&count);
    for (int i = 0; i < count; i++) {
        struct convoy_check check = {.random = seed + (uint64_t)i};
        int split = 0;
        while (check.cases < cases) {
            struct convoy_gemm_shape shape = any_shape(&check);
            if (kernels[i]->takes(&shape))
                split += check_shape(&check, kernels[i], &shape);
        }
        printf("%-24s %4d cases, %d of them with scratch memory, worst error %.1e, %d failed\n",
               kernels[i]->name, check.cases, split, check.worst, check.failures);
        failures += check.failures;
    }
    return failures;
}
