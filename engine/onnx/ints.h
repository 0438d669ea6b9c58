/* Arithmetic on integers that may depend on the batch: what steers shapes. */
#ifndef CONVOY_ENGINE_ONNX_INTS_H
#define CONVOY_ENGINE_ONNX_INTS_H

#include "engine/onnx/importer.h"

enum onnx_int_operation {
    ONNX_INT_ADD,
    ONNX_INT_SUB,
    ONNX_INT_MUL,
    ONNX_INT_DIV, /* towards 0, as C */
    ONNX_INT_MIN,
    ONNX_INT_MAX,
    ONNX_INT_MOD,  /* of the divisor's sign, as Python */
    ONNX_INT_FMOD, /* of the dividend's sign, as C */
    ONNX_INT_POW,
    ONNX_INT_EQUAL, /* these give 0 or 1 */
    ONNX_INT_LESS,
    ONNX_INT_LESS_EQUAL,
    ONNX_INT_AND,
    ONNX_INT_OR,
    ONNX_INT_XOR
};

/* False where the result overflows, is undefined, or is not fixed + batch * N for every N >= 1. With a batch
 * of 1 in the file N is 1. */
bool onnx_combine_ints(const struct onnx_importer *importer, enum onnx_int_operation operation,
                       struct onnx_int a, struct onnx_int b, struct onnx_int *result);

/* The node's output is a constant of ints: two of them, broadcast and combined element by element. */
int onnx_set_combined(struct onnx_importer *importer, enum onnx_int_operation operation,
                      const struct onnx_value *a, const struct onnx_value *b);

#endif
