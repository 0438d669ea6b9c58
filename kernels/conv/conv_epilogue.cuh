/* What the convolutions share on the device: reading an input pixel, and what happens to a finished sum.
 *
 * The order is the interface's: bias, residual, activation (and pooling after it, in the kernels that can).
 */
#ifndef CONVOY_KERNELS_CONV_EPILOGUE_CUH
#define CONVOY_KERNELS_CONV_EPILOGUE_CUH

#include "kernels/device/unary.cuh"
#include "kernels/kernels.h"

/* Input (n, c, y, x), which lies inside the image; 8-bit pixels are normalised. */
static __device__ __forceinline__ float convoy_input(const struct convoy_conv_shape &shape,
                                                     const struct convoy_images &images, int n, int c, int y,
                                                     int x)
{
    const unsigned char *image = static_cast<const unsigned char *>(images.data) + n * images.image_bytes;
    if (shape.u8) {
        float pixel = (float)image[((int64_t)y * shape.w + x) * shape.c + c];
        return fmaf(pixel, images.multiply[c], images.add[c]);
    }
    return reinterpret_cast<const float *>(image)[((int64_t)c * shape.h + y) * shape.w + x];
}

/* The same, with zeros outside the image. */
static __device__ __forceinline__ float convoy_padded_input(const struct convoy_conv_shape &shape,
                                                            const struct convoy_images &images, int n, int c,
                                                            int y, int x)
{
    if ((unsigned)y >= (unsigned)shape.h || (unsigned)x >= (unsigned)shape.w)
        return 0.0f;
    return convoy_input(shape, images, n, c, y, x);
}

/* What becomes of the sum of output channel k, which is to be element index of y. A residual that is y itself
 * is read here before the same thread writes it. */
static __device__ __forceinline__ float convoy_finish(const struct convoy_conv_shape &shape,
                                                      const struct convoy_conv_operands &operands, float sum,
                                                      int k, int64_t index)
{
    if (shape.bias)
        sum += __ldg(operands.bias + k);
    if (shape.residual)
        sum += operands.residual[index];
    return convoy_apply_unary(shape.act, sum);
}

/* Index of output (n, k, y, x) of a convolution that is not pooled. */
static __device__ __forceinline__ int64_t convoy_output_index(const struct convoy_conv_shape &shape, int n,
                                                              int k, int y, int x)
{
    return (((int64_t)n * shape.k + k) * shape.oh + y) * shape.ow + x;
}

#endif
