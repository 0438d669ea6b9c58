/* The list of whole_net's kernels: blocks for an image, threads of a block, in each precision. */
#include "kernels/whole_net.h"

#define CONVOY_WHOLE(name, products, cluster, threads, front)                                                \
    static const struct convoy_whole_kernel name##_##cluster##_##threads = {                                 \
        #name ":" #cluster "x" #threads, products, cluster, threads, front};
#define CONVOY_WHOLE_SIZES(X, name, products, front)                                                         \
    X(name, products, 1, 128, front)                                                                         \
    X(name, products, 1, 256, front)                                                                         \
    X(name, products, 1, 512, front)                                                                         \
    X(name, products, 4, 512, front)                                                                         \
    X(name, products, 8, 512, front)                                                                         \
    X(name, products, 16, 512, front)
#define CONVOY_WHOLE_ALL(X)                                                                                  \
    CONVOY_WHOLE_SIZES(X, whole_net, CONVOY_PRODUCTS_FP32, false)                                            \
    CONVOY_WHOLE_SIZES(X, whole_net_tf32, CONVOY_PRODUCTS_TF32, false)                                       \
    CONVOY_WHOLE_SIZES(X, whole_net_fp16, CONVOY_PRODUCTS_FP16, false)                                       \
    CONVOY_WHOLE_SIZES(X, front_net, CONVOY_PRODUCTS_FP32, true)                                             \
    CONVOY_WHOLE_SIZES(X, front_net_tf32, CONVOY_PRODUCTS_TF32, true)                                        \
    CONVOY_WHOLE_SIZES(X, front_net_fp16, CONVOY_PRODUCTS_FP16, true)

CONVOY_WHOLE_ALL(CONVOY_WHOLE)

const struct convoy_whole_kernel *const *convoy_whole_kernels(int *count)
{
#define CONVOY_WHOLE_ENTRY(name, products, cluster, threads, front) &name##_##cluster##_##threads,
    static const struct convoy_whole_kernel *const all[] = {CONVOY_WHOLE_ALL(CONVOY_WHOLE_ENTRY)};
    *count = (int)(sizeof all / sizeof all[0]);
    return all;
}
