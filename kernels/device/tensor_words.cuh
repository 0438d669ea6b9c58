/* How an image's elements become words of shared memory for the tensor cores: a channel each, rounded as the
 * products want it, or in fp16 two channels (of a single channel: the pixel and the one a tap to its right).
 */
#ifndef CONVOY_KERNELS_TENSOR_WORDS_CUH
#define CONVOY_KERNELS_TENSOR_WORDS_CUH

#include "kernels/device/tensor_products.cuh"

/* Channel c of the element at `from`, or of the one so many columns to its right; 0 unless it is real. */
template <bool U8>
static __device__ __forceinline__ float tensor_channel(const struct convoy_conv_shape &shape,
                                                       const struct convoy_images &x, const void *from,
                                                       int first_c, int c, int to_right, bool real)
{
    float value;
    if constexpr (U8) {
        int at = c + to_right * shape.c;
        const unsigned char *pixel = static_cast<const unsigned char *>(real ? from : x.data);
        value = fmaf((float)__ldg(pixel + (real ? at : 0)), x.multiply[real ? first_c + c : 0],
                     x.add[real ? first_c + c : 0]);
    } else {
        int64_t at = (int64_t)c * (shape.h * shape.w) + to_right;
        value = __ldg(static_cast<const float *>(real ? from : x.data) + (real ? at : 0));
    }
    return real ? value : 0.0f;
}

/* Where an element of the tile's planes comes from. */
struct tensor_source {
    const void *from;         /* its first channel */
    int first_c, channels;    /* channels: that there are from first_c on */
    bool inside, next_inside; /* the image; next: one tap to the right */
};

template <int MATH, bool U8>
static __device__ __forceinline__ uint32_t tensor_word(const struct convoy_conv_shape &shape,
                                                       const struct convoy_images &x, bool tap_pairs,
                                                       const struct tensor_source &source, int word)
{
    if constexpr (MATH == TENSOR_HALF) {
        int low = tap_pairs ? 0 : word * 2, high = tap_pairs ? 0 : word * 2 + 1;
        bool low_real = source.inside && low < source.channels;
        bool high_real = tap_pairs ? source.next_inside : source.inside && high < source.channels;
        return convoy_half2(tensor_channel<U8>(shape, x, source.from, source.first_c, low, 0, low_real),
                            tensor_channel<U8>(shape, x, source.from, source.first_c, high,
                                               tap_pairs ? shape.dilation[1] : 0, high_real));
    } else {
        float value = tensor_channel<U8>(shape, x, source.from, source.first_c, word, 0,
                                         source.inside && word < source.channels);
        return MATH == TENSOR_TF32 ? convoy_tf32(value) : convoy_float_bits(value);
    }
}

#endif
