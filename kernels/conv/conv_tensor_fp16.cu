/* tensor with operands rounded to fp16. */
#include "kernels/conv/conv_tensor.cuh"

#define DEFINE(outputs, maps)                                                                                \
    CONVOY_DEFINE_TENSOR(tensor_fp16, TENSOR_HALF, CONVOY_COMPUTE_FP16, outputs, maps)

CONVOY_TENSOR_INSTANCES(DEFINE)
CONVOY_TENSOR_WIDE_INSTANCES(DEFINE)
