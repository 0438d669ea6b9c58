/* tensor with fp32 of three products of tf32. */
#include "kernels/conv/conv_tensor.cuh"

#define DEFINE(outputs, maps) CONVOY_DEFINE_TENSOR(tensor, TENSOR_FP32, CONVOY_COMPUTE_FP32, outputs, maps)

CONVOY_TENSOR_INSTANCES(DEFINE)
