/* A first layer whose windows do not overlap, as a transformer's patches: a dense layer of what a window
 * holds.
 */
#include "engine/cuda/plan/lower_internal.h"

#include <limits.h>

/* Do the windows lie side by side, without padding? */
static bool is_patches(const struct convoy_conv_shape *s)
{
    return s->groups == 1 && s->stride[0] == s->r && s->stride[1] == s->s && s->pad[0] == 0 &&
           s->pad[1] == 0 && (s->dilation[0] == 1 || s->r == 1) && (s->dilation[1] == 1 || s->s == 1) &&
           (int64_t)s->oh * s->r <= s->h && (int64_t)s->ow * s->s <= s->w && !s->residual && s->pool == 1 &&
           (int64_t)s->c * s->r * s->s < INT_MAX / 8 && (int64_t)s->n * s->oh * s->ow < INT_MAX;
}

/* The dense layer: a pixel is a window. Its weights are those of the convolution as they are. */
static struct convoy_conv_shape dense_of(const struct convoy_conv_shape *s)
{
    struct convoy_conv_shape dense = *s;
    dense.c = s->c * s->r * s->s;
    dense.h = dense.oh = 1;
    dense.w = dense.ow = s->oh * s->ow;
    dense.r = dense.s = 1;
    dense.u8 = false;
    for (int i = 0; i < 2; i++)
        dense.stride[i] = dense.dilation[i] = 1;
    dense.nhwc = (struct convoy_nhwc_layout){
        .on = true, .pixel = convoy_nhwc_channels(dense.c), .y_pixel = convoy_nhwc_channels(s->k)};
    dense.nhwc.residual_pixel = dense.nhwc.y_pixel;
    dense.nhwc.row = dense.nhwc.image = dense.nhwc.pixel * dense.w;
    return dense;
}

static int read_patches(struct convoy_cuda_lowering *l, const struct convoy_conv_shape *s, int64_t pixel,
                        struct convoy_cuda_place *place)
{
    struct convoy_cuda_step *step;
    int code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_PATCHES, &step);
    if (code)
        return code;
    step->nhwc_patches.images = convoy_cuda_images(l->source, l->plan->layout);
    step->nhwc_patches.shape = (struct convoy_nhwc_patches){.n = s->n,
                                                            .c = s->c,
                                                            .h = s->h,
                                                            .w = s->w,
                                                            .rows = s->r,
                                                            .columns = s->s,
                                                            .down = s->oh,
                                                            .across = s->ow,
                                                            .pixel = (int)pixel};
    step->x.where = CONVOY_CUDA_WORKSPACE;
    code = convoy_cuda_scratch(
        l, (size_t)s->n * (size_t)s->oh * (size_t)s->ow * (size_t)pixel * sizeof(convoy_fp16), place);
    step->y = *place;
    return code;
}

int convoy_cuda_lower_patches(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                              const struct convoy_conv_shape *conv_shape, bool *done)
{
    struct convoy_cuda_place x = {0};
    struct convoy_cuda_step *step;
    if (!is_patches(conv_shape))
        return 0;
    struct convoy_conv_shape shape = dense_of(conv_shape);
    const struct convoy_conv_kernel *kernel = convoy_cuda_choose_conv(l->source->choices, &shape);
    if (kernel == NULL)
        return 0;
    *done = true;
    int code = read_patches(l, conv_shape, shape.nhwc.pixel, &x);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_CONV, &step);
    if (code)
        return code;
    struct convoy_cuda_conv_step *conv = &step->conv;
    conv->kernel = kernel;
    conv->images.image_bytes = shape.nhwc.image * (int64_t)sizeof(convoy_fp16);
    step->x = x;
    code = convoy_cuda_layer_constants(l, &shape, conv);
    if (code == 0)
        code = convoy_cuda_scratch(l, kernel->scratch_bytes(&shape), &conv->scratch);
    if (code == 0)
        code = convoy_cuda_writes_nhwc(l, group->output, &step->y, &shape.nhwc.y_pixel);
    conv->shape = shape;
    return code;
}
