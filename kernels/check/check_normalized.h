/* Normalisation in front of the convolutions that are checked, for kernels that do it, and the moments that
 * others leave for it. */
#ifndef CONVOY_KERNELS_CHECK_NORMALIZED_H
#define CONVOY_KERNELS_CHECK_NORMALIZED_H

#include "kernels/check/check_harness.h"
#include "kernels/kernels.h"

/* What kernels do that normalise such inputs. */
static inline struct convoy_nhwc_normalization check_normalization_of(const struct convoy_conv_shape *shape)
{
    return (struct convoy_nhwc_normalization){.epsilon = 0.05F,
                                              .factor = shape->residual ? 4.0F : 0.5F,
                                              .rms = shape->act.kind == CONVOY_UNARY_NONE};
}

/* On the device: the sum of each map's weights, as fp16 holds them. */
float *check_weight_sums(const struct convoy_conv_shape *shape, const float *weights);
/* On the device: the moments of the pixels of images of float32 in planes, as fp16 holds them. */
float *check_image_moments(const struct convoy_conv_shape *shape, const float *images, int64_t image_bytes);
/* How far the moments that a kernel wrote of an image are from those of what it should answer, over what they
 * are at most. expected: the image's outputs; largest: of all images. */
double check_moments_error(const struct convoy_conv_shape *shape, const float *moments,
                           const double *expected, double largest);

#endif
