/* The list of the convolutions that are kept for comparison. */
#include "kernels/reference/reference.h"

const struct convoy_reference_kernel *convoy_reference_kernels(int *count)
{
    static const struct convoy_reference_kernel list[] = {
        {&convoy_conv_constant, "tiled"},
        {&convoy_conv_channel_split, "fused_gemm"},
    };
    *count = (int)(sizeof(list) / sizeof(list[0]));
    return list;
}
