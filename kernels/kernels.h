/* The interface of the device code: what the CUDA module of engine/ and the program convoy-kernels call in
 * libconvoy-kernels.so. Only what is declared here and in fused_net.h is exported.
 *
 * Conventions, for everything below:
 * - Tensors are float32 in device memory, row-major, the last dimension contiguous, images N x C x H x W; a
 *   tensor starts on a 256-byte boundary. 8-bit images are N rows of H x W x C, interleaved.
 * - A launch function only launches: it returns at once, allocates nothing, synchronises nothing, and may be
 *   recorded into a graph. It returns the error of the launch itself; a later call reports errors on the
 *   device.
 * - Sizes are positive and were checked by the caller; a tensor has fewer than 2^31 elements per image and
 *   kernels index with 64 bits where a whole batch could have more.
 * - Computation and accumulation are fp32 unless the compute type says otherwise. Every kernel gives the same
 *   bits for the same input and the same sizes.
 * - Any thread may call these functions. The caller makes a device current and orders the work with the
 *   stream. */
#ifndef CONVOY_KERNELS_KERNELS_H
#define CONVOY_KERNELS_KERNELS_H

#include "kernels/compute_type.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CONVOY_KERNEL_RANK     8 /* dimensions that the general kernels take */
#define CONVOY_KERNEL_CHANNELS 4 /* of 8-bit images, at most */

enum convoy_unary_kind {
    CONVOY_UNARY_NONE,         /* x */
    CONVOY_UNARY_RELU,         /* max(x, 0) */
    CONVOY_UNARY_LEAKY_RELU,   /* x < 0 ? alpha x : x */
    CONVOY_UNARY_SIGMOID,      /* 1 / (1 + exp(-x)) */
    CONVOY_UNARY_TANH,         /* tanh x */
    CONVOY_UNARY_CLIP,         /* min(max(x, alpha), beta) */
    CONVOY_UNARY_HARD_SIGMOID, /* max(0, min(1, alpha x + beta)) */
    CONVOY_UNARY_HARD_SWISH,   /* x * max(0, min(1, x / 6 + 0.5)) */
    CONVOY_UNARY_SWISH,        /* x / (1 + exp(-x)), also called SiLU */
    /* The kinds up to here follow convolutions, matrix products, sums and pools in the same kernel; the two
     * that come now those of kernels/nhwc.h alone. */
    CONVOY_UNARY_GELU,      /* x (1 + erf(x / sqrt 2)) / 2 */
    CONVOY_UNARY_GELU_TANH, /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */
    /* These have kernels of their own: convoy_launch_unary() and convoy_launch_nhwc_scale_shift(). */
    CONVOY_UNARY_EXP,
    CONVOY_UNARY_LOG,
    CONVOY_UNARY_SQRT,
    CONVOY_UNARY_ABS,
    CONVOY_UNARY_ERF,
    CONVOY_UNARY_ELU,      /* x < 0 ? alpha (exp(x) - 1) : x */
    CONVOY_UNARY_SOFTPLUS, /* ln(1 + exp(x)) */
    CONVOY_UNARY_MISH,     /* x tanh(ln(1 + exp(x))) */
    CONVOY_UNARY_ROUND,    /* halves to the even number */
    CONVOY_UNARY_FLOOR,
    CONVOY_UNARY_CEIL,
    CONVOY_UNARY_SIGN,        /* -1, 0, 1 */
    CONVOY_UNARY_POW,         /* x^alpha */
    CONVOY_UNARY_THRESHOLDED, /* x > alpha ? x : 0 */
    CONVOY_UNARY_SIN,
    CONVOY_UNARY_COS,
    CONVOY_UNARY_ATAN
};
/* How many kinds there are, and how many of them follow other kernels' results. */
#define CONVOY_UNARY_KINDS       (CONVOY_UNARY_ATAN + 1)
#define CONVOY_UNARY_FUSED_KINDS (CONVOY_UNARY_SWISH + 1)
#define CONVOY_UNARY_NHWC_KINDS  (CONVOY_UNARY_GELU_TANH + 1)

struct convoy_unary {
    enum convoy_unary_kind kind;
    float alpha, beta;
};

/* Input images: 8-bit rows that the first layer normalises while it loads them (x * multiply[c] + add[c]), or
 * floats that are used unchanged. */
struct convoy_images {
    const void *data;
    bool u8;             /* H x W x C bytes; otherwise C x H x W floats */
    int64_t image_bytes; /* from image to image: a multiple of 16 for 8-bit images, of 4 for floats */
    float multiply[CONVOY_KERNEL_CHANNELS], add[CONVOY_KERNEL_CHANNELS];
};

/* ---- Convolution ---- */

/* Maximum over 3 x 3 outputs of a convolution, windows two apart, the first `pad` before the first output;
 * what lies outside does not count. */
struct convoy_nhwc_pool {
    int oh, ow; /* 0: no pooling */
    int pad;    /* 0 or 1, above and on the left */
};

/* What is done to each number of x, which is then rounded to fp16, before it is summed. */
enum convoy_nhwc_input {
    CONVOY_NHWC_AS_IS,
    CONVOY_NHWC_GATED,       /* it is multiplied by the gate of its image and channel: operands.gates */
    CONVOY_NHWC_SCALED,      /* x scale[c] + shift[c]: operands.input_scale and input_shift */
    CONVOY_NHWC_SCALED_RELU, /* and the larger of that and 0 */
    CONVOY_NHWC_EXCITED, /* it is multiplied by a gate that the kernel makes itself: shape.nhwc.excitation */
    CONVOY_NHWC_NORMALIZED, /* none: the result is normalised, by the inputs of its pixel:
                               shape.nhwc.normalization */
};

/* Squeeze and excitation in the convolution that multiplies by its gates: those that
 * convoy_launch_nhwc_excite() (nhwc.h) makes of x, or of sums of it. */
struct convoy_nhwc_excitation {
    int squeezed;
    int patches; /* of an image, whose sums are read, operands.sums; 0: the kernel sums x */
    bool bias[2];
    struct convoy_unary act[2];
};

/* Layer normalisation in front of a convolution, y = act(factor (sum - mean sums[k]) / sqrt(variance +
 * epsilon) + bias + residual): sum is of inputs as they are, mean and variance are those of its pixel's
 * inputs along the channels (operands.input_moments, which the kernel that wrote them made); with `rms` the
 * mean is 0 and the variance the mean of the squares. What the normalisation multiplies its channels by, over
 * `factor`, is part of the weights, of which sums[k] (operands.input_sums) is the sum of map k's as fp16
 * holds them; what it adds is part of the bias. */
struct convoy_nhwc_normalization {
    float epsilon, factor;
    bool rms;
};

/* Where a convolution in 16 bits, channels last (nhwc.h), finds its tensors. Strides are in numbers,
 * multiples of 8. */
struct convoy_nhwc_layout {
    bool on;     /* false: float32 in planes, and nothing below counts */
    bool images; /* x are input images as they come: pixel, row, image and window do not count */
    int64_t pixel, row, image; /* of x */
    int64_t y_pixel, residual_pixel;
    /* 0; or 4 or 8: x was written by convoy_launch_nhwc_read() with pixels of so many channels and pad[1]
     * pixels of zeros on the left. Then one row of the filter is one piece of the reduction. */
    int window;
    struct convoy_nhwc_pool pool; /* follows the activation; with `images` alone */
    enum convoy_nhwc_input input;
    int64_t gate_pixel; /* of the gates, from image to image */
    struct convoy_nhwc_excitation excitation;
    struct convoy_nhwc_normalization normalization;
    bool moments; /* y's are written, too: operands.moments */
};

/* Moments of a pixel: the sum and the sum of the squares of 64 channels, for every 64 of its channels; pairs
 * of float32. */
static inline int convoy_nhwc_moments(int64_t channels)
{
    return (int)((channels + 63) / 64);
}

/* y = pool(act(conv(x, w) + bias + residual)). Padding is zeros (after normalisation). The pooling window is
 * pool x pool with that stride and no padding; rows and columns at the bottom and right that do not fill a
 * window are left out. A pool of 1 is none. Pooling and a residual never come together. */
struct convoy_conv_shape {
    int n;       /* images */
    int c, h, w; /* input */
    int k, r, s; /* output channels, filter */
    int groups;  /* c and k are multiples of it; weights are k x (c / groups) x r x s */
    int stride[2], dilation[2];
    int pad[2]; /* top and left; the padding below and to the right follows from oh and ow */
    int oh, ow; /* of the convolution, before pooling */
    bool bias, residual;
    struct convoy_unary act;
    int pool;                              /* maximum over pool x pool; 1: none */
    bool u8;                               /* images are 8-bit; c is at most CONVOY_KERNEL_CHANNELS */
    enum convoy_compute_type compute_type; /* the least exact that is allowed */
    struct convoy_nhwc_layout nhwc;
};

/* Where kernels that write fp16 (nhwc.h) say which images gave a number that it does not hold: images[n] =
 * mark. Other kernels do not look at it. */
struct convoy_overflow {
    uint32_t *images; /* in device memory, one for each image of the batch; NULL: it is not said */
    uint32_t mark;    /* not 0 */
};

/* With nhwc.on x.data (without nhwc.images), residual and y point to fp16. */
struct convoy_conv_operands {
    struct convoy_images x;
    const float *weights;                   /* as this kernel's pack() laid them out */
    const float *bias;                      /* k, or NULL */
    const float *residual;                  /* like y, or NULL; may be y itself */
    float *y;                               /* n x k x (oh / pool) x (ow / pool) */
    void *scratch;                          /* scratch_bytes(), or NULL for 0; 256-byte aligned */
    const void *gates;                      /* of nhwc.input: fp16, a pixel of c channels for each image */
    const float *input_scale, *input_shift; /* of nhwc.input: c */
    /* Of nhwc.excitation: weights of convoy_nhwc_excited_pack() (nhwc.h), on 16 bytes; squeezed and c
     * numbers, or NULL; float32, n x patches x c, on 16 bytes. */
    const void *excitation;
    const float *excitation_bias[2], *sums;
    const float *input_sums;    /* of nhwc.normalization: k */
    const float *input_moments; /* the same: of x, pixels x convoy_nhwc_moments(c) x 2, on 8 bytes */
    float *moments;             /* of nhwc.moments: the same of y, before it is rounded */
    struct convoy_overflow overflow;
};

/* One convolution kernel. */
struct convoy_conv_kernel {
    const char *name; /* in profiles and in the tuner's cache: "direct", "per_layer:5x5x8" */
    enum convoy_compute_type compute_type;
    /* Can it run this shape on the current device? convoy_conv_takes() asks it, and the functions below are
     * called only for shapes that that one takes. */
    bool (*takes)(const struct convoy_conv_shape *shape);
    /* The estimated time in microseconds, from operations, bytes and occupancy. Used where nothing was
     * measured; only the order between kernels matters. */
    float (*estimate_us)(const struct convoy_conv_shape *shape);
    /* Floats of the packed weights. Depends on c, k, r, s and groups alone. */
    size_t (*packed_floats)(const struct convoy_conv_shape *shape);
    /* Converts weights of k x (c / groups) x r x s into the kernel's layout; both in host memory. */
    void (*pack)(const struct convoy_conv_shape *shape, const float *weights, float *packed);
    size_t (*scratch_bytes)(const struct convoy_conv_shape *shape);
    cudaError_t (*launch)(const struct convoy_conv_shape *shape, const struct convoy_conv_operands *operands,
                          cudaStream_t stream);
    bool nhwc;           /* for shapes with nhwc.on, and for no others */
    bool writes_moments; /* can do so, of 8, 16... maps; takes() does not look at shape.nhwc.moments */
};

/* Can the kernel run this shape on the current device? */
static inline bool convoy_conv_takes(const struct convoy_conv_kernel *kernel,
                                     const struct convoy_conv_shape *shape)
{
    return kernel->nhwc == shape->nhwc.on &&
           (!shape->nhwc.moments || (kernel->writes_moments && shape->k % 8 == 0)) && kernel->takes(shape);
}

/* All convolution kernels of the library, from the simplest on (the ladder of docs/kernels.md). Static; never
 * freed. */
const struct convoy_conv_kernel *const *convoy_conv_kernels(int *count);

/* ---- Matrix products ---- */

/* y[i] = act(a[i] b[i] + bias), for i < batch, with a of m x k, and b of k x n, or of n x k if transposed (a
 * dense layer's weights). bias has n floats, along the columns of y, or is NULL. Strides in floats from
 * matrix to matrix; a stride of 0 uses one matrix for all. */
struct convoy_gemm_shape {
    int64_t m, n, k;
    int batch;
    bool b_transposed, bias;
    int64_t a_stride, b_stride, y_stride;
    struct convoy_unary act;
    enum convoy_compute_type compute_type; /* the least exact that is allowed */
};

struct convoy_gemm_operands {
    const float *a, *b, *bias;
    float *y;
    void *scratch;
};

/* One kernel for matrix products; the functions are as those of a convolution kernel. */
struct convoy_gemm_kernel {
    const char *name;
    enum convoy_compute_type compute_type;
    bool (*takes)(const struct convoy_gemm_shape *shape);
    float (*estimate_us)(const struct convoy_gemm_shape *shape);
    size_t (*scratch_bytes)(const struct convoy_gemm_shape *shape);
    cudaError_t (*launch)(const struct convoy_gemm_shape *shape, const struct convoy_gemm_operands *operands,
                          cudaStream_t stream);
};

/* All kernels for matrix products. Static; never freed. */
const struct convoy_gemm_kernel *const *convoy_gemm_kernels(int *count);

/* ---- The other operators ---- */

/* Images into a dense tensor N x C x H x W, normalised if they are 8-bit. */
cudaError_t convoy_launch_read_images(const struct convoy_images *images, int n, int c, int64_t pixels,
                                      float *y, cudaStream_t stream);

/* A copy of a box of dims[rank] with a stride in floats for each dimension in each tensor: transposing,
 * cropping, concatenating and writing rows with gaps are one kernel. A stride of 0 repeats an element.
 * y[sum i*y_stride] = x[sum i*x_stride]. The tensors do not overlap. */
struct convoy_strided_copy {
    int rank;
    int64_t dims[CONVOY_KERNEL_RANK];
    int64_t x_stride[CONVOY_KERNEL_RANK], y_stride[CONVOY_KERNEL_RANK];
};
cudaError_t convoy_launch_copy(const struct convoy_strided_copy *copy, const float *x, float *y,
                               cudaStream_t stream);

/* y = act(x), count elements; y may be x. */
cudaError_t convoy_launch_unary(int64_t count, struct convoy_unary act, const float *x, float *y,
                                cudaStream_t stream);

enum convoy_binary_operator {
    CONVOY_BINARY_ADD,
    CONVOY_BINARY_SUB,
    CONVOY_BINARY_MUL,
    CONVOY_BINARY_DIV,
    CONVOY_BINARY_MAX, /* NaN if one is */
    CONVOY_BINARY_MIN,
    CONVOY_BINARY_POWER,
    CONVOY_BINARY_EQUAL, /* 1 where it holds, else 0 */
    CONVOY_BINARY_LESS,
    CONVOY_BINARY_LESS_EQUAL,
    CONVOY_BINARY_KEEP /* a where b is not 0, else 0 */
};

/* y = act(a op b), over the dense output dims[rank]; a_stride and b_stride are 0 where a or b is broadcast. y
 * may be a or b where those are dense and not broadcast. */
struct convoy_broadcast {
    int rank;
    int64_t dims[CONVOY_KERNEL_RANK];
    int64_t a_stride[CONVOY_KERNEL_RANK], b_stride[CONVOY_KERNEL_RANK];
    enum convoy_binary_operator op;
    struct convoy_unary act;
};
cudaError_t convoy_launch_binary(const struct convoy_broadcast *broadcast, const float *a, const float *b,
                                 float *y, cudaStream_t stream);

/* y = act(x scale[c] + shift[c]) over outer x channels x inner; y may be x. */
cudaError_t convoy_launch_scale_shift(int64_t outer, int64_t channels, int64_t inner, struct convoy_unary act,
                                      const float *x, const float *scale, const float *shift, float *y,
                                      cudaStream_t stream);

/* Pooling of planes (n * c of them), h x w into oh x ow. Positions outside h x w are ignored by a
 * maximum; a window without any position inside gives 0. An average divides by the positions inside h x w, or
 * with count_padding by those inside the padded input (h + pad[0] + pad[2], w + pad[1] + pad[3]). */
struct convoy_pool_shape {
    int64_t planes;
    int h, w, oh, ow;
    bool average, count_padding;
    int window[2], stride[2], dilation[2], pad[4]; /* pad: top, left, bottom, right */
    struct convoy_unary act;                       /* after pooling */
};
cudaError_t convoy_launch_pool(const struct convoy_pool_shape *shape, const float *x, float *y,
                               cudaStream_t stream);

/* Softmax over the middle of outer x length x inner: exp(x - max) / sum, or its logarithm; y may be x. */
cudaError_t convoy_launch_softmax(int64_t outer, int64_t length, int64_t inner, bool log, const float *x,
                                  float *y, cudaStream_t stream);

/* Normalises along the middle of outer x length x inner: scale[i] (x - mean) / sqrt(variance + epsilon) +
 * shift[i], or with rms scale[i] x / sqrt(mean of squares + epsilon) + shift[i]. scale and shift have
 * `length` numbers, or are NULL for 1 and 0. y may be x. */
struct convoy_normalize_shape {
    int64_t outer, length, inner;
    float epsilon;
    bool rms;
};
cudaError_t convoy_launch_normalize(const struct convoy_normalize_shape *shape, const float *x,
                                    const float *scale, const float *shift, float *y, cudaStream_t stream);

/* The first `count` (1 to length) numbers along the middle of outer x length x inner, in order: their values,
 * or their places as floats, into outer x count x inner. The largest come first, or with `smallest` these; of
 * equal ones that at the lower place, or with `last` that at the higher one; NaN before all numbers. y is not
 * x. length is less than 2^31. */
struct convoy_top_shape {
    int64_t outer, length, inner, count;
    bool smallest, last, places;
};
cudaError_t convoy_launch_top(const struct convoy_top_shape *shape, const float *x, float *y,
                              cudaStream_t stream);

/* Sets count floats to 0 (the border of a PAD). */
cudaError_t convoy_launch_zero(int64_t count, float *y, cudaStream_t stream);

/* Returns cudaSuccess if this build has code for the current device, otherwise the error of a launch. */
cudaError_t convoy_kernels_run_here(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
