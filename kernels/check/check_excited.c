#include "kernels/check/check_excited.h"

#include "kernels/nhwc.h"

#include <math.h>
#include <stdlib.h>

enum layer { SQUEEZE, EXCITE, LAYERS };

struct convoy_nhwc_excitation check_excitation_of(const struct convoy_conv_shape *shape)
{
    struct convoy_nhwc_excitation of = {
        .squeezed = shape->c / 16 + 3, .patches = shape->residual ? 3 : 0, .bias = {true, shape->bias}};
    of.act[SQUEEZE].kind = shape->residual ? CONVOY_UNARY_RELU : CONVOY_UNARY_SWISH;
    of.act[EXCITE].kind = CONVOY_UNARY_SIGMOID;
    return of;
}

/* Numbers that fp16 holds. */
static float *numbers(struct convoy_check *random, int64_t count, double most)
{
    float *values = convoy_check_memory(count, sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)convoy_check_round(convoy_check_random(random, -most, most), CONVOY_COMPUTE_FP16);
    return values;
}

void check_excitation_make(struct check_excitation *excitation, const struct convoy_conv_shape *shape,
                           struct convoy_check *random)
{
    *excitation = (struct check_excitation){0};
    if (shape->r != 1 || shape->s != 1)
        return;
    excitation->shape = check_excitation_of(shape);
    const int rows[LAYERS] = {excitation->shape.squeezed, shape->c};
    const struct convoy_nhwc_excite layers = {.c = shape->c, .squeezed = rows[SQUEEZE]};
    size_t bytes = convoy_nhwc_excited_bytes(&layers);
    void *packed = convoy_check_memory((int64_t)bytes, 1);
    for (int layer = 0; layer < LAYERS; layer++) {
        int columns = rows[LAYERS - 1 - layer];
        excitation->weights[layer] = numbers(random, (int64_t)rows[layer] * columns, 4 * sqrt(3.0 / columns));
        if (!excitation->shape.bias[layer])
            continue;
        excitation->bias[layer] = numbers(random, rows[layer], 1);
        excitation->device_bias[layer] =
            convoy_check_device_copy(excitation->bias[layer], (size_t)rows[layer] * sizeof(float));
    }
    convoy_nhwc_excited_pack(&layers, excitation->weights[SQUEEZE], excitation->weights[EXCITE], packed);
    excitation->packed = convoy_check_device_copy(packed, bytes);
    free(packed);
}

static void dense(const struct check_excitation *excitation, enum layer layer, int rows, int columns,
                  const double *x, double *y)
{
    for (int row = 0; row < rows; row++) {
        double sum = excitation->bias[layer] != NULL ? (double)excitation->bias[layer][row] : 0;
        for (int i = 0; i < columns; i++)
            sum += (double)excitation->weights[layer][(int64_t)row * columns + i] * x[i];
        y[row] = convoy_check_apply_unary(excitation->shape.act[layer], sum);
    }
}

void check_excitation_gates(const struct check_excitation *excitation, const struct convoy_conv_shape *shape,
                            const double *x, double *gates)
{
    int squeezed = excitation->shape.squeezed, pixels = shape->h * shape->w;
    double *means = convoy_check_memory(shape->c, sizeof *means);
    double *between = convoy_check_memory(squeezed, sizeof *between);
    for (int64_t i = 0; i < (int64_t)shape->c * pixels; i++)
        means[i / pixels] += x[i] / pixels;
    dense(excitation, SQUEEZE, squeezed, shape->c, means, between);
    dense(excitation, EXCITE, shape->c, squeezed, between, gates);
    for (int c = 0; c < shape->c; c++)
        gates[c] = convoy_check_round(gates[c], CONVOY_COMPUTE_FP16);
    free(means);
    free(between);
}

void check_excitation_free(struct check_excitation *excitation)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        free(excitation->weights[layer]);
        free(excitation->bias[layer]);
        (void)cudaFree(excitation->device_bias[layer]);
    }
    (void)cudaFree(excitation->packed);
}
