/* Which shapes of inverted residuals the kernel takes: those for which a multiprocessor has the shared
 * memory. */
#include "kernels/bottleneck.h"

#include <criterion/criterion.h>
#include <string.h>

static bool takes(int c, int mid, int k, int side, int stride)
{
    int count;
    const struct convoy_bottleneck_kernel *const *kernels = convoy_bottleneck_kernels(&count);
    const struct convoy_bottleneck_shape shape = {.n = 1,
                                                  .h = 15,
                                                  .w = 15,
                                                  .c = c,
                                                  .mid = mid,
                                                  .depthwise = true,
                                                  .k = k,
                                                  .side = side,
                                                  .stride = stride,
                                                  .oh = 14 / stride + 1,
                                                  .ow = 14 / stride + 1,
                                                  .x_pixel = c,
                                                  .y_pixel = k > 0 ? k : mid};
    for (int i = 0; i < count; i++)
        if (strcmp(kernels[i]->name, "nhwc_inverted") == 0)
            return kernels[i]->takes(&shape);
    return false;
}

Test(kernels_inverted, takes_what_there_is_room_for)
{
    cr_expect(takes(64, 64, 64, 3, 1));
    cr_expect(takes(160, 960, 160, 3, 1));
    cr_expect(takes(96, 576, 160, 3, 2));
    cr_expect(takes(112, 672, 0, 5, 1));
    cr_expect_not(takes(576, 64, 64, 3, 1), "one chunk of the middle, and no room for its weights");
    cr_expect_not(takes(256, 64, 0, 5, 2));
    cr_expect_not(takes(400, 128, 64, 3, 1), "two chunks, and room for the weights of one");
    cr_expect_not(takes(16, 96, 168, 3, 1));
    cr_expect_not(takes(16, 96, 16, 7, 1));
    cr_expect_not(takes(16, 96, 16, 3, 3));
}
