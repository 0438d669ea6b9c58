/* gemm_tensor with operands rounded to tf32. */
#include "kernels/gemm/gemm_tensor.cuh"

#define DEFINE(columns) CONVOY_DEFINE_GEMM_TENSOR(tensor_tf32, TENSOR_TF32, CONVOY_COMPUTE_TF32, columns)

CONVOY_GEMM_TENSOR_INSTANCES(DEFINE)
