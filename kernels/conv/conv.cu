/* The list of convolutions, the ladder's order first. */
#include "kernels/conv/conv_common.h"
#include "kernels/nhwc/nhwc_common.h"

#define LIST_PER_LAYER(filter, stride, rows, maps)                                                           \
    &convoy_conv_per_layer_##filter##_##stride##_##rows##_##maps,
#define LIST_FUSED_GEMM(bm, bn) &convoy_conv_fused_gemm_##bm##_##bn,
#define LIST_TENSOR_WIDE(outputs, maps)                                                                      \
    &convoy_conv_tensor_tf32_##outputs##_##maps, &convoy_conv_tensor_fp16_##outputs##_##maps,
#define LIST_TENSOR(outputs, maps) &convoy_conv_tensor_##outputs##_##maps, LIST_TENSOR_WIDE(outputs, maps)

#define LIST_NHWC(i)                  &convoy_conv_nhwc_wgmma[i]
#define LIST_NHWC_SPLIT(i)            &convoy_conv_nhwc_split[i]
#define LIST_NHWC_GATED(i)            &convoy_conv_nhwc_gated[i]
#define LIST_NHWC_SCALED(i)           &convoy_conv_nhwc_scaled[i]
#define LIST_NHWC_NORMALIZED(i)       &convoy_conv_nhwc_normalized[i]
#define LIST_NHWC_NORMALIZED_TURNS(i) &convoy_conv_nhwc_normalized_turns[i]
#define LIST_NHWC_NORMALIZED_MAPS(i)  &convoy_conv_nhwc_normalized_maps[i]
#define LIST_NHWC_EXCITED(i)          &convoy_conv_nhwc_excited[i]
#define LIST_NHWC_GROUPED(i)          &convoy_conv_nhwc_grouped[i]
#define LIST_NHWC_TURNS(i)            &convoy_conv_nhwc_turns[i]
#define LIST_NHWC_MAPS(i)             &convoy_conv_nhwc_maps[i]
#define LIST_NHWC_MAPS_5(i)                                                                                  \
    LIST_NHWC_MAPS(i), LIST_NHWC_MAPS(i + 1), LIST_NHWC_MAPS(i + 2), LIST_NHWC_MAPS(i + 3),                  \
        LIST_NHWC_MAPS(i + 4)
#define LIST_NHWC_PATCH(i)     &convoy_conv_nhwc_patch[i]
#define LIST_NHWC_DEPTHWISE(i) &convoy_conv_nhwc_depthwise[i]
#define LIST_NHWC_BANDED(i)    &convoy_conv_nhwc_banded[i]
#define LIST_NHWC_STEM(i)      &convoy_conv_nhwc_stem[i]

static const struct convoy_conv_kernel *const list[] = {
    &convoy_conv_direct,
    &convoy_conv_tiled,
    &convoy_conv_unroll_gemm,
    CONVOY_FUSED_GEMM_INSTANCES(LIST_FUSED_GEMM) CONVOY_PER_LAYER_INSTANCES(LIST_PER_LAYER) &
        convoy_conv_unrolled,
    &convoy_conv_depthwise,
    CONVOY_TENSOR_INSTANCES(LIST_TENSOR) CONVOY_TENSOR_WIDE_INSTANCES(LIST_TENSOR_WIDE)
        LIST_NHWC_DEPTHWISE(0),
    LIST_NHWC_DEPTHWISE(1),
    LIST_NHWC_DEPTHWISE(2),
    LIST_NHWC_DEPTHWISE(3),
    LIST_NHWC_DEPTHWISE(4),
    LIST_NHWC_BANDED(0),
    LIST_NHWC_BANDED(1),
    LIST_NHWC(0),
    LIST_NHWC(1),
    LIST_NHWC(2),
    LIST_NHWC(3),
    LIST_NHWC(4),
    LIST_NHWC(5),
    LIST_NHWC(6),
    LIST_NHWC(7),
    LIST_NHWC(8),
    LIST_NHWC(9),
    LIST_NHWC(10),
    LIST_NHWC_SPLIT(0),
    LIST_NHWC_SPLIT(1),
    LIST_NHWC_SPLIT(2),
    LIST_NHWC_SPLIT(3),
    LIST_NHWC_SPLIT(4),
    LIST_NHWC_SPLIT(5),
    LIST_NHWC_SPLIT(6),
    LIST_NHWC_SPLIT(7),
    LIST_NHWC_GATED(0),
    LIST_NHWC_GATED(1),
    LIST_NHWC_GATED(2),
    LIST_NHWC_GATED(3),
    LIST_NHWC_GATED(4),
    LIST_NHWC_GATED(5),
    LIST_NHWC_GATED(6),
    LIST_NHWC_GATED(7),
    LIST_NHWC_GATED(8),
    LIST_NHWC_GATED(9),
    LIST_NHWC_GATED(10),
    LIST_NHWC_GATED(11),
    LIST_NHWC_GATED(12),
    LIST_NHWC_SCALED(0),
    LIST_NHWC_SCALED(1),
    LIST_NHWC_SCALED(2),
    LIST_NHWC_SCALED(3),
    LIST_NHWC_SCALED(4),
    LIST_NHWC_SCALED(5),
    LIST_NHWC_SCALED(6),
    LIST_NHWC_SCALED(7),
    LIST_NHWC_SCALED(8),
    LIST_NHWC_SCALED(9),
    LIST_NHWC_SCALED(10),
    LIST_NHWC_SCALED(11),
    LIST_NHWC_SCALED(12),
    LIST_NHWC_NORMALIZED(0),
    LIST_NHWC_NORMALIZED(1),
    LIST_NHWC_NORMALIZED(2),
    LIST_NHWC_NORMALIZED(3),
    LIST_NHWC_NORMALIZED_TURNS(0),
    LIST_NHWC_NORMALIZED_TURNS(1),
    LIST_NHWC_NORMALIZED_TURNS(2),
    LIST_NHWC_NORMALIZED_MAPS(0),
    LIST_NHWC_NORMALIZED_MAPS(1),
    LIST_NHWC_NORMALIZED_MAPS(2),
    LIST_NHWC_NORMALIZED_MAPS(3),
    LIST_NHWC_NORMALIZED_MAPS(4),
    LIST_NHWC_NORMALIZED_MAPS(5),
    LIST_NHWC_NORMALIZED_MAPS(6),
    LIST_NHWC_NORMALIZED_MAPS(7),
    LIST_NHWC_NORMALIZED_MAPS(8),
    LIST_NHWC_NORMALIZED_MAPS(9),
    LIST_NHWC_NORMALIZED_MAPS(10),
    LIST_NHWC_NORMALIZED_MAPS(11),
    LIST_NHWC_EXCITED(0),
    LIST_NHWC_EXCITED(1),
    LIST_NHWC_EXCITED(2),
    LIST_NHWC_EXCITED(3),
    LIST_NHWC_EXCITED(4),
    LIST_NHWC_EXCITED(5),
    LIST_NHWC_EXCITED(6),
    LIST_NHWC_EXCITED(7),
    LIST_NHWC_GROUPED(0),
    LIST_NHWC_GROUPED(1),
    LIST_NHWC_GROUPED(2),
    LIST_NHWC_GROUPED(3),
    LIST_NHWC_GROUPED(4),
    LIST_NHWC_GROUPED(5),
    LIST_NHWC_GROUPED(6),
    LIST_NHWC_GROUPED(7),
    LIST_NHWC_GROUPED(8),
    LIST_NHWC_TURNS(0),
    LIST_NHWC_TURNS(1),
    LIST_NHWC_TURNS(2),
    LIST_NHWC_MAPS_5(0),
    LIST_NHWC_MAPS_5(5),
    LIST_NHWC_MAPS_5(10),
    LIST_NHWC_MAPS_5(15),
    LIST_NHWC_MAPS_5(20),
    LIST_NHWC_MAPS_5(25),
    LIST_NHWC_MAPS_5(30),
    LIST_NHWC_MAPS_5(35),
    LIST_NHWC_MAPS_5(40),
    LIST_NHWC_PATCH(0),
    LIST_NHWC_PATCH(1),
    LIST_NHWC_PATCH(2),
    LIST_NHWC_STEM(0),
    LIST_NHWC_STEM(1),
    LIST_NHWC_STEM(2),
    LIST_NHWC_STEM(3),
    LIST_NHWC_STEM(4),
    LIST_NHWC_STEM(5),
    LIST_NHWC_STEM(6),
    LIST_NHWC_STEM(7),
    LIST_NHWC_STEM(8)};
static_assert(CONVOY_NHWC_DEPTHWISE_KERNELS == 5 && CONVOY_NHWC_BANDED_KERNELS == 2 &&
                  CONVOY_NHWC_WGMMA_KERNELS == 11 && CONVOY_NHWC_SPLIT_KERNELS == 8 &&
                  CONVOY_NHWC_GATED_KERNELS == 13 && CONVOY_NHWC_SCALED_KERNELS == 13 &&
                  CONVOY_NHWC_NORMALIZED_KERNELS == 4 && CONVOY_NHWC_NORMALIZED_MAPS_KERNELS == 12 &&
                  CONVOY_NHWC_EXCITED_KERNELS == 8 && CONVOY_NHWC_GROUPED_KERNELS == 9 &&
                  CONVOY_NHWC_TURNS_KERNELS == 3 && CONVOY_NHWC_MAPS_KERNELS == 45 &&
                  CONVOY_NHWC_PATCH_KERNELS == 3 && CONVOY_NHWC_STEM_KERNELS == 9,
              "the list has all of them");

extern "C" const struct convoy_conv_kernel *const *convoy_conv_kernels(int *count)
{
    *count = (int)(sizeof(list) / sizeof(list[0]));
    return list;
}
