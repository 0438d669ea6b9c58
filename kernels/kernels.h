/* The door to device code: what the CUDA module of engine/ and the program convoy-kernels call.
 *
 * Conventions, for everything below:
 * - Tensors are float32 in device memory, row-major, the last dimension contiguous, images N x C x H x W; a
 *   tensor starts on a 256-byte boundary. 8-bit images are N rows of H x W x C, interleaved.
 * - A launch function only launches: it returns at once, allocates nothing, synchronises nothing, and may be
 *   recorded into a graph. It returns the launch's own error; what goes wrong on the device comes out later.
 * - Sizes are positive and were checked by the caller; a tensor has fewer than 2^31 elements per image and
 *   kernels index with 64 bits where a whole batch could have more.
 * - Computation and accumulation are fp32 unless the compute type says otherwise. Every kernel gives the same
 * bits for the same input and the same sizes, but for those that say so (channel_split).
 * - Any thread may call; the caller keeps a device current and orders the work by its stream. */
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
    CONVOY_UNARY_HARD_SWISH    /* x * max(0, min(1, x / 6 + 0.5)) */
};

struct convoy_unary {
    enum convoy_unary_kind kind;
    float alpha, beta;
};

/* Images as they come: 8-bit rows that the first layer normalises while it loads them
 * (x * multiply[c] + add[c]), or floats that are used as they are. */
struct convoy_images {
    const void *data;
    bool u8;             /* H x W x C bytes; otherwise C x H x W floats */
    int64_t image_bytes; /* from image to image: a multiple of 16 for 8-bit images, of 4 for floats */
    float multiply[CONVOY_KERNEL_CHANNELS], add[CONVOY_KERNEL_CHANNELS];
};

/* ---- Convolution ---- */

/* y = pool(act(conv(x, w) + bias + residual)). Padding is zeros (after normalisation). The pooling window is
 * pool x pool with that stride and no padding, what does not fill a window at the right and bottom is left
 * out; 1 is none, and it never comes with a residual. */
struct convoy_conv_shape {
    int n;       /* images */
    int c, h, w; /* input */
    int k, r, s; /* output channels, filter */
    int groups;  /* c and k are multiples of it; weights are k x (c / groups) x r x s */
    int stride[2], dilation[2];
    int pad[2]; /* top and left; what lies below and to the right follows from oh and ow */
    int oh, ow; /* of the convolution, before pooling */
    bool bias, residual;
    struct convoy_unary act;
    int pool;                              /* maximum over pool x pool; 1: none */
    bool u8;                               /* images are 8-bit; c is at most CONVOY_KERNEL_CHANNELS */
    enum convoy_compute_type compute_type; /* the least exact that will do */
};

struct convoy_conv_operands {
    struct convoy_images x;
    const float *weights;  /* as this kernel's pack() laid them out */
    const float *bias;     /* k, or NULL */
    const float *residual; /* like y, or NULL; may be y itself */
    float *y;              /* n x k x (oh / pool) x (ow / pool) */
    void *scratch;         /* scratch_bytes(), or NULL for 0; 256-byte aligned */
};

/* A way of convolving. */
struct convoy_conv_kernel {
    const char *name; /* as in profiles and in the tuner's cache: "direct", "per_layer:5x5x8" */
    bool ladder_only; /* kept to be measured: never chosen for a network */
    enum convoy_compute_type compute_type;
    /* Can it run this shape? Everything else below is called only if so. */
    bool (*takes)(const struct convoy_conv_shape *shape);
    /* An estimate of its time from operations, bytes and occupancy, in microseconds, for when nothing was
     * measured: only the order between kernels matters. */
    float (*estimate_us)(const struct convoy_conv_shape *shape);
    /* Floats that the packed weights take. They depend on c, k, r, s and groups alone. */
    size_t (*packed_floats)(const struct convoy_conv_shape *shape);
    /* On the host: weights as k x (c / groups) x r x s into the kernel's own layout. */
    void (*pack)(const struct convoy_conv_shape *shape, const float *weights, float *packed);
    size_t (*scratch_bytes)(const struct convoy_conv_shape *shape);
    cudaError_t (*launch)(const struct convoy_conv_shape *shape, const struct convoy_conv_operands *operands,
                          cudaStream_t stream);
};

/* All of them, the ladder's order first. Static; never freed. */
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
    enum convoy_compute_type compute_type; /* the least exact that will do */
};

struct convoy_gemm_operands {
    const float *a, *b, *bias;
    float *y;
    void *scratch;
};

struct convoy_gemm_kernel {
    const char *name;
    enum convoy_compute_type compute_type;
    bool (*takes)(const struct convoy_gemm_shape *shape);
    float (*estimate_us)(const struct convoy_gemm_shape *shape);
    size_t (*scratch_bytes)(const struct convoy_gemm_shape *shape);
    cudaError_t (*launch)(const struct convoy_gemm_shape *shape, const struct convoy_gemm_operands *operands,
                          cudaStream_t stream);
};

const struct convoy_gemm_kernel *const *convoy_gemm_kernels(int *count);

/* ---- Everything else a network needs ---- */

/* Images into a dense tensor N x C x H x W, normalised if they are 8-bit. */
cudaError_t convoy_launch_read_images(const struct convoy_images *images, int n, int c, int64_t pixels,
                                      float *y, cudaStream_t stream);

/* A walk over a box of dims[rank], with a stride in floats for each dimension in each tensor, so that
 * transposing, cropping, concatenating and writing rows that lie apart are one kernel. A stride of 0 repeats.
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

enum convoy_binary_operator { CONVOY_BINARY_ADD, CONVOY_BINARY_SUB, CONVOY_BINARY_MUL, CONVOY_BINARY_DIV };

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

/* Pooling of planes (n * c of them), h x w into oh x ow. Positions outside h x w count for nothing in a
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

/* Softmax over the middle of outer x length x inner: exp(x - max) / sum; y may be x. */
cudaError_t convoy_launch_softmax(int64_t outer, int64_t length, int64_t inner, const float *x, float *y,
                                  cudaStream_t stream);

/* Sets count floats to 0 (the border of a PAD). */
cudaError_t convoy_launch_zero(int64_t count, float *y, cudaStream_t stream);

/* cudaSuccess if this build has code for the current device. */
cudaError_t convoy_kernels_run_here(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
