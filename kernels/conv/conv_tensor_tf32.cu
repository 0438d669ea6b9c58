/* tensor with operands rounded to tf32. */
#include "kernels/conv/conv_tensor.cuh"

#define DEFINE(outputs, maps)                                                                                \
    CONVOY_DEFINE_TENSOR(tensor_tf32, TENSOR_TF32, CONVOY_COMPUTE_TF32, outputs, maps)

CONVOY_TENSOR_INSTANCES(DEFINE)
CONVOY_TENSOR_WIDE_INSTANCES(DEFINE)
