/* The arithmetic in which a network is computed: of the kernels, of the backends' interface
 * (engine/backend.h) and of a model's `precision`. Plain C without CUDA. */
#ifndef CONVOY_KERNELS_COMPUTE_TYPE_H
#define CONVOY_KERNELS_COMPUTE_TYPE_H

/* What the operands of products are rounded to; sums are fp32. From the most exact to the least. */
enum convoy_compute_type {
    CONVOY_COMPUTE_FP32,
    CONVOY_COMPUTE_TF32, /* 11 bits, the exponents of fp32 */
    CONVOY_COMPUTE_FP16  /* 11 bits, up to 65,504 */
};

#endif
