/* Tensors in 16 bits, channels last: how the device code keeps activations of large networks.
 *
 * A tensor of n images of h x w pixels of c channels (a matrix of n rows: h = w = 1) is fp16 in device
 * memory, channels contiguous; from pixel to pixel are `pixel` numbers, a multiple of 8 (16 bytes) and at
 * least convoy_nhwc_channels(c). Rows and images follow each other. The channels that fill up the last cell
 * hold some finite number: what reads them multiplies them by zero. The conventions of kernels.h hold for
 * everything here; convolutions in this layout are kernels of convoy_conv_kernels() whose shape has nhwc.on
 * set.
 *
 * Results are rounded to the nearest fp16. Beyond 65,504 they are infinite, and `overflow` says so, as for
 * NaN: what makes new numbers tells each image that it concerns. Pooling makes none. */
#ifndef CONVOY_KERNELS_NHWC_H
#define CONVOY_KERNELS_NHWC_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef uint16_t convoy_fp16;

/* Channels of a pixel in memory, at least. */
static inline int64_t convoy_nhwc_channels(int64_t c)
{
    return (c + 7) / 8 * 8;
}

/* Does the current device have kernels for convolutions in this layout? */
bool convoy_nhwc_here(void);

/* Input images as they arrive, into rows of `row` pixels of `pixel` channels (4 or a multiple of 8; both
 * together fill 16 bytes), that begin with `left` pixels of zeros; zeros too where there is no pixel or
 * channel. */
struct convoy_nhwc_rows {
    int n, c, h, w;
    int pixel, left, row;
};
cudaError_t convoy_launch_nhwc_read(const struct convoy_images *images, const struct convoy_nhwc_rows *rows,
                                    convoy_fp16 *y, struct convoy_overflow overflow, cudaStream_t stream);

/* The same for a first layer whose windows do not overlap: what a window holds, channel after channel and row
 * after row, as one pixel of `pixel` numbers (a multiple of 8 that is not less), down x across for each
 * image; zeros behind. */
struct convoy_nhwc_patches {
    int n, c, h, w;
    int rows, columns; /* of a window */
    int down, across;
    int pixel;
};
cudaError_t convoy_launch_nhwc_read_patches(const struct convoy_images *images,
                                            const struct convoy_nhwc_patches *patches, convoy_fp16 *y,
                                            struct convoy_overflow overflow, cudaStream_t stream);

/* From and to dense float32: planes, N x C x pixels, or with channels_last N x pixels x C. `pixel`: numbers
 * from pixel to pixel of the tensor in 16 bits; `image`: floats from image to image, 0: one follows the
 * other.
 */
struct convoy_nhwc_planes {
    int64_t n, c, pixels, pixel;
    bool channels_last;
    int64_t image;
};
cudaError_t convoy_launch_nhwc_from_planes(const struct convoy_nhwc_planes *planes, const float *x,
                                           convoy_fp16 *y, struct convoy_overflow overflow,
                                           cudaStream_t stream);
cudaError_t convoy_launch_nhwc_to_planes(const struct convoy_nhwc_planes *planes, const convoy_fp16 *x,
                                         float *y, cudaStream_t stream);

/* Pooling, as convoy_launch_pool(); shape->planes counts images here. padding: c numbers, what positions of
 * the padding hold that count in a mean; NULL: zeros. */
cudaError_t convoy_launch_nhwc_pool(const struct convoy_pool_shape *shape, int64_t c, const convoy_fp16 *x,
                                    int64_t x_pixel, const float *padding, convoy_fp16 *y, int64_t y_pixel,
                                    cudaStream_t stream);

/* y = act(a op b), over n images of `pixels` pixels; b is a tensor like a, or one pixel for each image, or
 * one for all images. */
enum convoy_nhwc_other { CONVOY_NHWC_SAME, CONVOY_NHWC_PIXEL_OF_IMAGE, CONVOY_NHWC_PIXEL };
struct convoy_nhwc_binary {
    int64_t n, pixels, c;
    int64_t a_pixel, b_pixel, y_pixel;
    enum convoy_nhwc_other b;
    enum convoy_binary_operator op;
    struct convoy_unary act;
};
cudaError_t convoy_launch_nhwc_binary(const struct convoy_nhwc_binary *binary, const convoy_fp16 *a,
                                      const convoy_fp16 *b, convoy_fp16 *y, struct convoy_overflow overflow,
                                      cudaStream_t stream);

/* y = act(x scale[c] + shift[c]) over n images of so many pixels; scale and shift are float32, c each, or
 * NULL for 1 and 0. Copies a tensor, too. */
cudaError_t convoy_launch_nhwc_scale_shift(int64_t n, int64_t pixels, int64_t c, struct convoy_unary act,
                                           const convoy_fp16 *x, int64_t x_pixel, const float *scale,
                                           const float *shift, convoy_fp16 *y, int64_t y_pixel,
                                           struct convoy_overflow overflow, cudaStream_t stream);

/* Squeeze and excitation: the gates of an image's channels from the means over its pixels,
 * y = act[1](excite act[0](squeeze mean(x) + bias) + bias), of n images of `pixels` pixels; squeeze is
 * squeezed x c numbers, excite c x squeezed. The channels that fill up a pixel of y are 0. What the gates
 * multiply is a matter of its reader (struct convoy_nhwc_layout). Where x was summed in `patches` patches of
 * each image, these sums are read in place of x: float32, n x patches x c, on 16 bytes; c is a multiple of 8.
 */
struct convoy_nhwc_excite {
    int64_t n, pixels, c, squeezed, x_pixel, y_pixel;
    int64_t patches; /* 0: x itself is read */
    struct convoy_unary act[2];
};
bool convoy_nhwc_excite_takes(const struct convoy_nhwc_excite *excite);
/* Lays out the weights of both layers as the kernel reads them, in convoy_nhwc_excite_bytes(); host memory,
 * on 16 bytes. */
size_t convoy_nhwc_excite_bytes(const struct convoy_nhwc_excite *excite);
void convoy_nhwc_excite_pack(const struct convoy_nhwc_excite *shape, const float *squeeze,
                             const float *excite, void *packed);
/* The same as convolutions with CONVOY_NHWC_EXCITED read them: by 64 channels. */
size_t convoy_nhwc_excited_bytes(const struct convoy_nhwc_excite *excite);
void convoy_nhwc_excited_pack(const struct convoy_nhwc_excite *shape, const float *squeeze,
                              const float *excite, void *packed);
/* weights: as laid out; the biases are float32, squeezed and c, or NULL. */
cudaError_t convoy_launch_nhwc_excite(const struct convoy_nhwc_excite *excite, const void *x,
                                      const void *weights, const float *squeeze_bias,
                                      const float *excite_bias, convoy_fp16 *y,
                                      struct convoy_overflow overflow, cudaStream_t stream);

/* Layer normalisation: y = scale[c] (x - mean) / sqrt(variance + epsilon) + shift[c] along the channels of
 * each pixel, or with `rms` y = scale[c] x / sqrt(mean of squares + epsilon) + shift[c]. Sums are float32;
 * scale and shift as above. At most CONVOY_NHWC_NORMALIZE_CHANNELS channels. */
#define CONVOY_NHWC_NORMALIZE_CHANNELS 2048
struct convoy_nhwc_normalize {
    int64_t n, pixels, c, x_pixel, y_pixel;
    float epsilon;
    bool rms;
};
cudaError_t convoy_launch_nhwc_normalize(const struct convoy_nhwc_normalize *shape, const convoy_fp16 *x,
                                         const float *scale, const float *shift, convoy_fp16 *y,
                                         struct convoy_overflow overflow, cudaStream_t stream);

/* What convolutions that normalise their inputs (CONVOY_NHWC_NORMALIZED) read as operands.input_sums: sums of
 * the c weights of each of k maps, rounded as their kernels pack them. */
void convoy_nhwc_sum_weights(const struct convoy_conv_shape *shape, const float *weights, float *sums);

/* Copies pieces of rows: each row of y is `pieces` pieces of `width` numbers, and where in an image of x each
 * comes from, in cells of 8 numbers, says pieces_of (device, rows x pieces; -1: zeros). `add` is added, rows
 * x pieces x width, float32 and on 16 bytes, or NULL. What fills up a pixel of y beyond its pieces is not
 * written. */
struct convoy_nhwc_gather {
    int64_t n, rows;          /* rows of an image of y */
    int64_t x_image, y_pixel; /* numbers from image to image, row to row */
    int width, pieces;        /* width: a multiple of 8 */
    const int32_t *pieces_of;
};
cudaError_t convoy_launch_nhwc_gather(const struct convoy_nhwc_gather *gather, const convoy_fp16 *x,
                                      const float *add, convoy_fp16 *y, struct convoy_overflow overflow,
                                      cudaStream_t stream);

/* Attention: y = softmax(scale q k^T + bias) v for each image, window and head, of `queries` rows of q and y,
 * `keys` rows of k and v, and d channels of each. Where a tensor's row lies says its struct; the d channels
 * of a head follow each other and begin on a multiple of 8. The products are fp16's with float32 sums, the
 * softmax is float32; the matrix of queries x keys is never in device memory. A row whose keys are all ruled
 * out, by a bias of minus infinity, is NaN. */
struct convoy_nhwc_rows_of_heads {
    int64_t image, pixel, head; /* numbers from image to image, pixel to pixel, head to head */
    const int32_t *rows;        /* device: the pixel of each row, windows x rows; NULL: one after the other */
};
#define CONVOY_NHWC_ATTENTION_CHANNELS 128
struct convoy_nhwc_attention {
    int64_t n;
    int windows, heads, queries, keys;
    int d; /* a multiple of 8, at most CONVOY_NHWC_ATTENTION_CHANNELS */
    float scale;
    const float *head_scale; /* device: by what the products of each head are multiplied, too; NULL: by 1 */
    struct convoy_nhwc_rows_of_heads q, k, v, y;
    /* Of the bias, float32: from window to window, head to head (0: the same for all) and query to query.
     * All are even. */
    int64_t bias_window, bias_head, bias_query;
};
/* bias: on 8 bytes; NULL for none. */
cudaError_t convoy_launch_nhwc_attention(const struct convoy_nhwc_attention *shape, const convoy_fp16 *q,
                                         const convoy_fp16 *k, const convoy_fp16 *v, const float *bias,
                                         convoy_fp16 *y, struct convoy_overflow overflow,
                                         cudaStream_t stream);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
