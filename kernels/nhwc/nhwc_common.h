/* What the kernels for 16 bits, channels last, share on the host. */
#ifndef CONVOY_KERNELS_NHWC_COMMON_H
#define CONVOY_KERNELS_NHWC_COMMON_H

#include "kernels/bottleneck.h"
#include "kernels/device/chip.h"
#include "kernels/nhwc.h"

#define CONVOY_NHWC_WGMMA_KERNELS           11
#define CONVOY_NHWC_SPLIT_KERNELS           8
#define CONVOY_NHWC_GATED_KERNELS           13
#define CONVOY_NHWC_SCALED_KERNELS          13
#define CONVOY_NHWC_NORMALIZED_KERNELS      4
#define CONVOY_NHWC_EXCITED_KERNELS         8
#define CONVOY_NHWC_GROUPED_KERNELS         9
#define CONVOY_NHWC_TURNS_KERNELS           3
#define CONVOY_NHWC_MAPS_KERNELS            45
#define CONVOY_NHWC_NORMALIZED_MAPS_KERNELS 12
#define CONVOY_NHWC_PATCH_KERNELS           3
#define CONVOY_NHWC_DEPTHWISE_KERNELS       5
#define CONVOY_NHWC_BANDED_KERNELS          2
#define CONVOY_NHWC_STEM_KERNELS            9

extern const struct convoy_bottleneck_kernel convoy_nhwc_inverted;
extern const struct convoy_conv_kernel convoy_conv_nhwc_wgmma[CONVOY_NHWC_WGMMA_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_split[CONVOY_NHWC_SPLIT_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_gated[CONVOY_NHWC_GATED_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_scaled[CONVOY_NHWC_SCALED_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_normalized[CONVOY_NHWC_NORMALIZED_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_normalized_turns[CONVOY_NHWC_TURNS_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_normalized_maps[CONVOY_NHWC_NORMALIZED_MAPS_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_excited[CONVOY_NHWC_EXCITED_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_grouped[CONVOY_NHWC_GROUPED_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_turns[CONVOY_NHWC_TURNS_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_maps[CONVOY_NHWC_MAPS_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_patch[CONVOY_NHWC_PATCH_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_depthwise[CONVOY_NHWC_DEPTHWISE_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_banded[CONVOY_NHWC_BANDED_KERNELS];
extern const struct convoy_conv_kernel convoy_conv_nhwc_stem[CONVOY_NHWC_STEM_KERNELS];

#ifndef NHWC_SMS /* tests have fewer, so that a block makes several tiles */
#define NHWC_SMS nhwc_multiprocessors()
/* Of the current device. */
static inline int nhwc_multiprocessors(void)
{
    int device = 0, count = CONVOY_ESTIMATE_SMS;
    if (cudaGetDevice(&device) == cudaSuccess)
        (void)cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}
#endif

#endif
