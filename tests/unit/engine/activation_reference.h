/* What each activation computes, in double and as plainly as it can be written: the reference of the graph's
 * and the backends' tests. It shares nothing with engine/graph/evaluate.c, which it checks. */
#ifndef CONVOY_TESTS_UNIT_ACTIVATION_REFERENCE_H
#define CONVOY_TESTS_UNIT_ACTIVATION_REFERENCE_H

#include "engine/graph/graph.h"

#include <math.h>
#include <stdlib.h>

static inline double reference_activation(const struct convoy_activation *a, double x)
{
    switch (a->kind) {
    case CONVOY_RELU:
        return fmax(x, 0);
    case CONVOY_LEAKY_RELU:
        return x < 0 ? (double)a->alpha * x : x;
    case CONVOY_SIGMOID:
        return 1 / (1 + exp(-x));
    case CONVOY_TANH:
        return tanh(x);
    case CONVOY_CLIP:
        return fmin(fmax(x, a->alpha), a->beta);
    case CONVOY_HARD_SIGMOID:
        return fmax(0, fmin(1, (double)a->alpha * x + (double)a->beta));
    case CONVOY_SWISH:
        return x / (1 + exp(-x));
    case CONVOY_HARD_SWISH:
        return x * fmax(0, fmin(1, x / 6 + 0.5));
    case CONVOY_EXP:
        return exp(x);
    case CONVOY_LOG:
        return log(x);
    case CONVOY_SQRT:
        return sqrt(x);
    case CONVOY_ABS:
        return fabs(x);
    case CONVOY_ERF:
        return erf(x);
    case CONVOY_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case CONVOY_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3)))) / 2;
    case CONVOY_ELU:
        return x < 0 ? (double)a->alpha * (exp(x) - 1) : x;
    case CONVOY_SOFTPLUS:
        return log(1 + exp(x));
    case CONVOY_MISH:
        return x * tanh(log(1 + exp(x)));
    case CONVOY_ROUND:
        return rint(x);
    case CONVOY_FLOOR:
        return floor(x);
    case CONVOY_CEIL:
        return ceil(x);
    case CONVOY_SIGN:
        return (x > 0) - (x < 0);
    case CONVOY_POW:
        return pow(x, (double)a->alpha);
    case CONVOY_THRESHOLDED:
        return x > (double)a->alpha ? x : 0;
    case CONVOY_SIN:
        return sin(x);
    case CONVOY_COS:
        return cos(x);
    case CONVOY_ATAN:
        return atan(x);
    }
    abort();
}

#endif
