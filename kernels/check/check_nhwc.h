/* How a kernel for 16 bits, channels last, is checked and timed like the others. */
#ifndef CONVOY_KERNELS_CHECK_NHWC_H
#define CONVOY_KERNELS_CHECK_NHWC_H

#include "kernels/nhwc.h"

/* Does the kernel run the shape, which is of float32 in planes, in its own layout? */
bool check_takes(const struct convoy_conv_kernel *kernel, const struct convoy_conv_shape *shape);

/* Its guess of the time, in its own layout. */
float check_estimate(const struct convoy_conv_kernel *kernel, const struct convoy_conv_shape *shape);

#define CHECK_MARK 7

/* A problem in that layout; device memory. Free it also after a failure. */
struct check_nhwc {
    struct convoy_conv_shape shape;
    void *x, *y, *residual, *gates;
    float *sums;        /* of patches of x, where the shape has them */
    float *moments;     /* of y, where the shape has them */
    uint32_t *overflow; /* of each image; the problems' numbers are small */
};

/* From images, and a residual in planes (NULL: none); in_place: it is where the outputs will be. gates: n x
 * c, of which kernels make use that multiply by them. */
cudaError_t check_nhwc_make(struct check_nhwc *nhwc, const struct convoy_conv_kernel *kernel,
                            const struct convoy_conv_shape *shape, const struct convoy_images *images,
                            const float *residual, bool in_place, const float *gates);
/* Replaces x (but where the kernel reads images), residual, gates, sums, moments and y. */
void check_nhwc_operands(const struct check_nhwc *nhwc, struct convoy_conv_operands *operands);
/* Converts y into planes. */
cudaError_t check_nhwc_answer(const struct check_nhwc *nhwc, float *y);
/* Copies the moments of image n to the host, pixels x convoy_nhwc_moments(k) x 2. */
cudaError_t check_nhwc_moments(const struct check_nhwc *nhwc, int n, float *moments);
/* Of how many images was it said that fp16 does not hold a number? */
cudaError_t check_nhwc_overflowed(const struct check_nhwc *nhwc, int *marked);
cudaError_t check_nhwc_free(struct check_nhwc *nhwc);

#endif
