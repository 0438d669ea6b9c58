/* What the kernels for 16 bits, channels last, share on the host. */
#ifndef CONVOY_KERNELS_NHWC_COMMON_H
#define CONVOY_KERNELS_NHWC_COMMON_H

#include "kernels/nhwc.h"

#define CONVOY_NHWC_WGMMA_KERNELS     18
#define CONVOY_NHWC_DEPTHWISE_KERNELS 5

extern const struct convoy_conv_kernel convoy_conv_nhwc_wgmma[CONVOY_NHWC_WGMMA_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_depthwise[CONVOY_NHWC_DEPTHWISE_KERNELS];

#endif
