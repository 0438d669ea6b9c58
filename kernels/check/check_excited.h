/* Squeeze and excitation in front of the convolutions that are checked, for kernels that make its gates. */
#ifndef CONVOY_KERNELS_CHECK_EXCITED_H
#define CONVOY_KERNELS_CHECK_EXCITED_H

#include "kernels/check/check_harness.h"
#include "kernels/kernels.h"

/* The layers of squeeze and excitation, whose gates a kernel makes itself: squeezed x c and c x squeezed
 * weights. */
struct check_excitation {
    struct convoy_nhwc_excitation shape;
    float *weights[2], *bias[2]; /* NULL: none */
    float *device_bias[2];
    void *packed; /* device */
};

/* As a kernel that takes such shapes is to have them. */
struct convoy_nhwc_excitation check_excitation_of(const struct convoy_conv_shape *shape);
/* Of 1 x 1 alone; otherwise all is zero. */
void check_excitation_make(struct check_excitation *excitation, const struct convoy_conv_shape *shape,
                           struct convoy_check *random);
/* The gates of an image in float64, rounded to fp16, from x, which is c x pixels. */
void check_excitation_gates(const struct check_excitation *excitation, const struct convoy_conv_shape *shape,
                            const double *x, double *gates);
void check_excitation_free(struct check_excitation *excitation);

#endif
