/* Tensor maps, which tell the copy engine of sm_90 what to copy (tensor_copy.cuh), made on the host. All
 * tensors hold 16-bit numbers; addresses and strides are multiples of 16 bytes. */
#ifndef CONVOY_KERNELS_TENSOR_MAP_H
#define CONVOY_KERNELS_TENSOR_MAP_H

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda.h>
#endif

/* A matrix whose rows lie `stride` numbers apart, in boxes of `rows` (at most 256) by `columns` (16, 32, 64).
 */
cudaError_t convoy_map_matrix(CUtensorMap *map, const void *data, int64_t columns, int64_t rows,
                              int64_t stride, int box_columns, int box_rows);

/* The inputs of a convolution: images of h x w pixels of c channels. Strides in numbers, from pixel to pixel,
 * row to row, image to image. */
struct convoy_map_images {
    const void *data;
    int n, h, w, c;
    int64_t pixel, row, image;
    int oh, ow;                    /* outputs */
    int stride[2], pad[2];         /* pad: top and left, at most 128 */
    int box_channels, box_outputs; /* of a box: 32 or 64 channels of at most 256 outputs */
};

/* Can a map be made? False where a number is larger than the engine takes. */
bool convoy_map_images_fits(const struct convoy_map_images *images, int r, int s, const int dilation[2]);
cudaError_t convoy_map_images(CUtensorMap *map, const struct convoy_map_images *images);

/* The same images in boxes of width x height pixels of `channels` channels (16, 32, 64), whatever the
 * convolution: outputs, stride, padding and box of `images` do not count. */
cudaError_t convoy_map_patches(CUtensorMap *map, const struct convoy_map_images *images, int channels,
                               int width, int height);

#endif
