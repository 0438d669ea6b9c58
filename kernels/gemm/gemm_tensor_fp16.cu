/* gemm_tensor with operands rounded to fp16. */
#include "kernels/gemm/gemm_tensor.cuh"

#define DEFINE(columns) CONVOY_DEFINE_GEMM_TENSOR(tensor_fp16, TENSOR_HALF, CONVOY_COMPUTE_FP16, columns)

CONVOY_GEMM_TENSOR_INSTANCES(DEFINE)
