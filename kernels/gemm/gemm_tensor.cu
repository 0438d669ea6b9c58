/* gemm_tensor with fp32 of three products of tf32. */
#include "kernels/gemm/gemm_tensor.cuh"

#define DEFINE(columns) CONVOY_DEFINE_GEMM_TENSOR(tensor, TENSOR_FP32, CONVOY_COMPUTE_FP32, columns)

CONVOY_GEMM_TENSOR_INSTANCES(DEFINE)
