/* Kernels of tensors in 16 bits, channels last, on problems of float32 in planes: the operands are converted
 * before, the answer after. */
#include "kernels/check/check_nhwc.h"

#include "kernels/check/check_excited.h"
#include "kernels/check/check_normalized.h"

#include "kernels/nhwc.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_PIECE 256 /* images */

/* Channels of a pixel that are there for others: tensors are often parts of larger ones. */
#define OTHERS 8

static bool by_windows(const struct convoy_conv_shape *s)
{
    return s->c <= 4 && s->groups == 1 && s->dilation[1] == 1;
}

/* Rows as a convolution by windows reads them; of 4 channels a pixel where outputs lie an even number of
 * pixels apart. */
static struct convoy_nhwc_rows rows_of(const struct convoy_conv_shape *s)
{
    struct convoy_nhwc_rows rows = {.n = s->n, .c = s->c, .h = s->h, .w = s->w};
    if (!by_windows(s)) {
        rows.pixel = (int)convoy_nhwc_channels(s->c) + OTHERS;
        rows.row = s->w;
        return rows;
    }
    int needed = (s->ow - 1) * s->stride[1] + s->s, there = s->pad[1] + s->w;
    rows.pixel = s->stride[1] % 2 == 0 ? 4 : 8;
    rows.left = s->pad[1];
    rows.row = ((needed > there ? needed : there) + 1) / 2 * 2;
    return rows;
}

/* The shape for a kernel that reads images as they come, or tensors, or tensors that it changes. */
static struct convoy_conv_shape shape_without_moments(const struct convoy_conv_kernel *kernel,
                                                      const struct convoy_conv_shape *s)
{
    struct convoy_nhwc_rows rows = rows_of(s);
    struct convoy_conv_shape shape = *s;
    shape.nhwc.on = true;
    shape.nhwc.y_pixel = convoy_nhwc_channels(s->k) + OTHERS;
    shape.nhwc.images = true;
    if (convoy_conv_takes(kernel, &shape))
        return shape;
    shape.nhwc.images = false;
    shape.u8 = false;
    shape.nhwc.pixel = rows.pixel;
    shape.nhwc.row = (int64_t)rows.row * rows.pixel;
    shape.nhwc.image = shape.nhwc.row * s->h;
    shape.nhwc.window = by_windows(s) ? rows.pixel : 0;
    shape.nhwc.residual_pixel = shape.nhwc.y_pixel + OTHERS;
    if (convoy_conv_takes(kernel, &shape))
        return shape;
    struct convoy_conv_shape changed = shape;
    changed.nhwc.input = CONVOY_NHWC_GATED;
    changed.nhwc.gate_pixel = convoy_nhwc_channels(s->c) + OTHERS;
    if (convoy_conv_takes(kernel, &changed))
        return changed;
    changed.nhwc.input = CONVOY_NHWC_EXCITED;
    changed.nhwc.excitation = check_excitation_of(s);
    if (convoy_conv_takes(kernel, &changed))
        return changed;
    changed.nhwc.excitation = (struct convoy_nhwc_excitation){0};
    changed.nhwc.input = CONVOY_NHWC_NORMALIZED;
    changed.nhwc.normalization = check_normalization_of(s);
    if (!s->u8 && convoy_conv_takes(kernel, &changed)) /* moments are of floats as fp16 holds them */
        return changed;
    changed.nhwc.normalization = (struct convoy_nhwc_normalization){0};
    changed.nhwc.input =
        s->bias ? CONVOY_NHWC_SCALED_RELU : CONVOY_NHWC_SCALED; /* both are among the shapes */
    return convoy_conv_takes(kernel, &changed) ? changed : shape;
}

/* The same, with moments where the kernel writes them. */
static struct convoy_conv_shape shape_of(const struct convoy_conv_kernel *kernel,
                                         const struct convoy_conv_shape *s)
{
    struct convoy_conv_shape shape = shape_without_moments(kernel, s), with = shape;
    with.nhwc.moments = true;
    return convoy_conv_takes(kernel, &with) ? with : shape;
}

bool check_takes(const struct convoy_conv_kernel *kernel, const struct convoy_conv_shape *shape)
{
    if (!kernel->nhwc)
        return shape->nhwc.pool.oh == 0 && shape->act.kind < CONVOY_UNARY_FUSED_KINDS &&
               convoy_conv_takes(kernel, shape);
    if (shape->compute_type < CONVOY_COMPUTE_FP16)
        return false;
    struct convoy_conv_shape other = shape_of(kernel, shape);
    return (shape->nhwc.pool.oh == 0 || other.nhwc.images) && convoy_conv_takes(kernel, &other);
}

float check_estimate(const struct convoy_conv_kernel *kernel, const struct convoy_conv_shape *shape)
{
    struct convoy_conv_shape other = shape_of(kernel, shape);
    return kernel->estimate_us(kernel->nhwc ? &other : shape);
}

static int64_t pixels_of(const struct convoy_conv_shape *s)
{
    return s->nhwc.pool.oh > 0 ? (int64_t)s->nhwc.pool.oh * s->nhwc.pool.ow : (int64_t)s->oh * s->ow;
}

static size_t y_bytes(const struct check_nhwc *nhwc)
{
    const struct convoy_conv_shape *s = &nhwc->shape;
    return (size_t)s->n * (size_t)pixels_of(s) * (size_t)s->nhwc.y_pixel * sizeof(convoy_fp16);
}

/* Memory for that many bytes, all of them `fill`. */
static cudaError_t allocate(void **memory, size_t bytes, int fill)
{
    cudaError_t error = cudaMalloc(memory, bytes);
    return error == cudaSuccess ? cudaMemset(*memory, fill, bytes) : error;
}

static cudaError_t make_residual(struct check_nhwc *nhwc, const float *residual, bool in_place)
{
    struct convoy_conv_shape *s = &nhwc->shape;
    cudaError_t error = cudaSuccess;
    nhwc->residual = nhwc->y;
    if (in_place)
        s->nhwc.residual_pixel = s->nhwc.y_pixel;
    else
        error = allocate(
            &nhwc->residual,
            (size_t)s->n * (size_t)pixels_of(s) * (size_t)s->nhwc.residual_pixel * sizeof(convoy_fp16), 0);
    if (error != cudaSuccess)
        return error;
    const struct convoy_nhwc_planes planes = {s->n, s->k, pixels_of(s), s->nhwc.residual_pixel, false};
    return convoy_launch_nhwc_from_planes(&planes, residual, nhwc->residual, (struct convoy_overflow){0},
                                          NULL);
}

static cudaError_t make_rows(struct check_nhwc *nhwc, const struct convoy_conv_shape *shape,
                             const struct convoy_images *images)
{
    struct convoy_nhwc_rows rows = rows_of(shape);
    cudaError_t error =
        allocate(&nhwc->x, (size_t)(shape->n * nhwc->shape.nhwc.image) * sizeof(convoy_fp16), 0xff);
    return error == cudaSuccess
               ? convoy_launch_nhwc_read(images, &rows, nhwc->x, (struct convoy_overflow){0}, NULL)
               : error;
}

static cudaError_t make_gates(struct check_nhwc *nhwc, const float *gates)
{
    const struct convoy_conv_shape *s = &nhwc->shape;
    const struct convoy_nhwc_planes planes = {s->n, s->c, 1, s->nhwc.gate_pixel, false};
    cudaError_t error =
        allocate(&nhwc->gates, (size_t)(s->n * s->nhwc.gate_pixel) * sizeof(convoy_fp16), 0xff);
    return error == cudaSuccess ? convoy_launch_nhwc_from_planes(&planes, gates, nhwc->gates,
                                                                 (struct convoy_overflow){0}, NULL)
                                : error;
}

/* Sums of patches of x, of which each has some pixels of an image. */
static cudaError_t make_sums(struct check_nhwc *nhwc)
{
    const struct convoy_conv_shape *s = &nhwc->shape;
    int64_t pixels = (int64_t)s->h * s->w, count = s->n * pixels * s->c, patches = s->nhwc.excitation.patches;
    const struct convoy_nhwc_planes planes = {s->n, s->c, pixels, s->nhwc.pixel, false};
    float *x = convoy_check_memory(count, sizeof *x), *device = NULL;
    float *sums = convoy_check_memory(s->n * patches * s->c, sizeof *sums);
    cudaError_t error = allocate((void **)&device, (size_t)count * sizeof *x, 0);
    if (error == cudaSuccess)
        error = convoy_launch_nhwc_to_planes(&planes, nhwc->x, device, NULL);
    if (error == cudaSuccess)
        error = cudaMemcpy(x, device, (size_t)count * sizeof *x, cudaMemcpyDeviceToHost);
    for (int64_t i = 0; i < count; i++) {
        int64_t channel = i / pixels % s->c, n = i / pixels / s->c;
        sums[(n * patches + i % pixels % patches) * s->c + channel] += x[i];
    }
    nhwc->sums = convoy_check_device_copy(sums, (size_t)(s->n * patches * s->c) * sizeof *sums);
    free(x);
    free(sums);
    return cudaFree(device) == cudaSuccess ? error : cudaGetLastError();
}

static size_t moments_of_image(const struct convoy_conv_shape *s)
{
    return (size_t)pixels_of(s) * (size_t)convoy_nhwc_moments(s->k) * 2;
}

cudaError_t check_nhwc_moments(const struct check_nhwc *nhwc, int n, float *moments)
{
    size_t count = moments_of_image(&nhwc->shape);
    return cudaMemcpy(moments, nhwc->moments + (size_t)n * count, count * sizeof(float),
                      cudaMemcpyDeviceToHost);
}

cudaError_t check_nhwc_make(struct check_nhwc *nhwc, const struct convoy_conv_kernel *kernel,
                            const struct convoy_conv_shape *shape, const struct convoy_images *images,
                            const float *residual, bool in_place, const float *gates)
{
    *nhwc = (struct check_nhwc){.shape = shape_of(kernel, shape)};
    cudaError_t error = nhwc->shape.nhwc.images ? cudaSuccess : make_rows(nhwc, shape, images);
    if (error == cudaSuccess)
        error = allocate(&nhwc->y, y_bytes(nhwc), 0xff);
    if (error == cudaSuccess)
        error = allocate((void **)&nhwc->overflow, (size_t)shape->n * sizeof(uint32_t), 0);
    if (error == cudaSuccess && residual != NULL)
        error = make_residual(nhwc, residual, in_place);
    if (error == cudaSuccess && nhwc->shape.nhwc.input == CONVOY_NHWC_GATED)
        error = make_gates(nhwc, gates);
    if (error == cudaSuccess && nhwc->shape.nhwc.excitation.patches > 0)
        error = make_sums(nhwc);
    if (error == cudaSuccess && nhwc->shape.nhwc.moments)
        error = allocate((void **)&nhwc->moments,
                         (size_t)shape->n * moments_of_image(&nhwc->shape) * sizeof(float), 0xff);
    return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}

void check_nhwc_operands(const struct check_nhwc *nhwc, struct convoy_conv_operands *operands)
{
    if (nhwc->x != NULL)
        operands->x.data = nhwc->x;
    operands->residual = nhwc->residual;
    operands->gates = nhwc->gates;
    operands->sums = nhwc->sums;
    operands->moments = nhwc->moments;
    operands->y = nhwc->y;
    operands->overflow = (struct convoy_overflow){nhwc->overflow, CHECK_MARK};
}

cudaError_t check_nhwc_answer(const struct check_nhwc *nhwc, float *y)
{
    const struct convoy_conv_shape *s = &nhwc->shape;
    const struct convoy_nhwc_planes planes = {s->n, s->k, pixels_of(s), s->nhwc.y_pixel, false};
    cudaError_t error = convoy_launch_nhwc_to_planes(&planes, nhwc->y, y, NULL);
    return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}

cudaError_t check_nhwc_overflowed(const struct check_nhwc *nhwc, int *marked)
{
    cudaError_t error = cudaSuccess;
    *marked = 0;
    for (int n = 0; n < nhwc->shape.n && error == cudaSuccess; n += CHECK_PIECE) {
        uint32_t marks[CHECK_PIECE] = {0};
        int count = nhwc->shape.n - n < CHECK_PIECE ? nhwc->shape.n - n : CHECK_PIECE;
        error =
            cudaMemcpy(marks, nhwc->overflow + n, (size_t)count * sizeof marks[0], cudaMemcpyDeviceToHost);
        for (int i = 0; i < count; i++)
            *marked += marks[i] != 0;
    }
    return error;
}

cudaError_t check_nhwc_free(struct check_nhwc *nhwc)
{
    void *memory[] = {nhwc->x,       nhwc->y,    nhwc->residual != nhwc->y ? nhwc->residual : NULL,
                      nhwc->gates,   nhwc->sums, nhwc->moments,
                      nhwc->overflow};
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (cudaFree(memory[i]) != cudaSuccess)
            error = cudaGetLastError();
    return error;
}
