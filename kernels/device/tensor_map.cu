#include "kernels/device/tensor_map.h"

#include <string.h>

/* Of NVIDIA's documentation of cuTensorMapEncodeIm2col: corners of a box in two dimensions of space have 8
 * bits, offsets of taps too, strides are at most 8. */
#define LEAST_CORNER (-128)
#define MOST_CORNER  127
#define MOST_OFFSET  255
#define MOST_STRIDE  8

/* From the last pixel of the image to the last one that tap 0 reads. */
static int64_t upper_corner(const struct convoy_map_images *images, int axis)
{
    int64_t outputs = axis == 0 ? images->oh : images->ow, size = axis == 0 ? images->h : images->w;
    return (outputs - 1) * images->stride[axis] + 1 - images->pad[axis] - size;
}

bool convoy_map_images_fits(const struct convoy_map_images *images, int r, int s, const int dilation[2])
{
    const int taps[2] = {r, s};
    for (int axis = 0; axis < 2; axis++) {
        int64_t upper = upper_corner(images, axis);
        if (images->stride[axis] > MOST_STRIDE || -images->pad[axis] < LEAST_CORNER || upper < LEAST_CORNER ||
            upper > MOST_CORNER || (int64_t)(taps[axis] - 1) * dilation[axis] > MOST_OFFSET)
            return false;
    }
    return images->pixel % 8 == 0 && images->row % 8 == 0 && images->image % 8 == 0;
}

#ifdef __CUDACC__

/* A function of the driver, which libcuda.so has and the runtime finds; NULL where there is none. */
static void *driver_function(const char *name)
{
    void *function = nullptr;
    enum cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
        return nullptr;
    return function;
}

static CUtensorMapSwizzle swizzle_of(int numbers)
{
    return numbers == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
           : numbers == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                           : CU_TENSOR_MAP_SWIZZLE_32B;
}

cudaError_t convoy_map_matrix(CUtensorMap *map, const void *data, int64_t columns, int64_t rows,
                              int64_t stride, int box_columns, int box_rows)
{
    static decltype(&cuTensorMapEncodeTiled) encode;
    if (encode == nullptr)
        encode = reinterpret_cast<decltype(encode)>(driver_function("cuTensorMapEncodeTiled"));
    if (encode == nullptr)
        return cudaErrorNotSupported;
    const cuuint64_t dims[2] = {(cuuint64_t)columns, (cuuint64_t)rows}, strides[1] = {(cuuint64_t)stride * 2};
    const cuuint32_t box[2] = {(cuuint32_t)box_columns, (cuuint32_t)box_rows}, steps[2] = {1, 1};
    CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<void *>(data), dims, strides,
                             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(box_columns),
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t convoy_map_patches(CUtensorMap *map, const struct convoy_map_images *images, int channels,
                               int width, int height)
{
    static decltype(&cuTensorMapEncodeTiled) encode;
    if (encode == nullptr)
        encode = reinterpret_cast<decltype(encode)>(driver_function("cuTensorMapEncodeTiled"));
    if (encode == nullptr)
        return cudaErrorNotSupported;
    const cuuint64_t dims[4] = {(cuuint64_t)images->c, (cuuint64_t)images->w, (cuuint64_t)images->h,
                                (cuuint64_t)images->n};
    const cuuint64_t strides[3] = {(cuuint64_t)images->pixel * 2, (cuuint64_t)images->row * 2,
                                   (cuuint64_t)images->image * 2};
    const cuuint32_t box[4] = {(cuuint32_t)channels, (cuuint32_t)width, (cuuint32_t)height, 1},
                     steps[4] = {1, 1, 1, 1};
    CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void *>(images->data), dims,
                             strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(channels),
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t convoy_map_images(CUtensorMap *map, const struct convoy_map_images *images)
{
    static decltype(&cuTensorMapEncodeIm2col) encode;
    if (encode == nullptr)
        encode = reinterpret_cast<decltype(encode)>(driver_function("cuTensorMapEncodeIm2col"));
    if (encode == nullptr)
        return cudaErrorNotSupported;
    const cuuint64_t dims[4] = {(cuuint64_t)images->c, (cuuint64_t)images->w, (cuuint64_t)images->h,
                                (cuuint64_t)images->n};
    const cuuint64_t strides[3] = {(cuuint64_t)images->pixel * 2, (cuuint64_t)images->row * 2,
                                   (cuuint64_t)images->image * 2};
    const cuuint32_t steps[4] = {1, (cuuint32_t)images->stride[1], (cuuint32_t)images->stride[0], 1};
    const int lower[2] = {-images->pad[1], -images->pad[0]};
    const int upper[2] = {(int)upper_corner(images, 1), (int)upper_corner(images, 0)};
    CUresult result =
        encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, const_cast<void *>(images->data), dims, strides,
               lower, upper, (cuuint32_t)images->box_channels, (cuuint32_t)images->box_outputs, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(images->box_channels),
               CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

#else

cudaError_t convoy_map_matrix(CUtensorMap *map, const void *data, int64_t columns, int64_t rows,
                              int64_t stride, int box_columns, int box_rows)
{
    memset(map, 0, sizeof *map);
    map->data = const_cast<void *>(data);
    map->dims[0] = columns;
    map->dims[1] = rows;
    map->strides[0] = 1;
    map->strides[1] = stride;
    map->box[0] = box_columns;
    map->box[1] = box_rows;
    return cudaSuccess;
}

static void emulate(CUtensorMap *map, const struct convoy_map_images *images)
{
    memset(map, 0, sizeof *map);
    map->data = const_cast<void *>(images->data);
    const int64_t dims[4] = {images->c, images->w, images->h, images->n};
    const int64_t strides[4] = {1, images->pixel, images->row, images->image};
    memcpy(map->dims, dims, sizeof dims);
    memcpy(map->strides, strides, sizeof strides);
}

cudaError_t convoy_map_patches(CUtensorMap *map, const struct convoy_map_images *images, int channels,
                               int width, int height)
{
    emulate(map, images);
    map->box[0] = channels;
    map->side[0] = width;
    map->side[1] = height;
    return cudaSuccess;
}

cudaError_t convoy_map_images(CUtensorMap *map, const struct convoy_map_images *images)
{
    emulate(map, images);
    map->box[0] = images->box_channels;
    map->box[1] = images->box_outputs;
    for (int axis = 0; axis < 2; axis++) { /* the engine's order: x, then y */
        map->lower[axis] = -images->pad[1 - axis];
        map->upper[axis] = (int)upper_corner(images, 1 - axis);
        map->steps[axis] = images->stride[1 - axis];
    }
    return cudaSuccess;
}

#endif
