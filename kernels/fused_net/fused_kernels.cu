/* The list of whole_net's kernels: blocks for an image, threads of a block, in each precision. */
#include "kernels/fused_net.h"

#define CONVOY_FUSED(name, compute_type, span, cluster, threads)                                             \
    static const struct convoy_fused_kernel name##_##cluster##_##threads = {                                 \
        #name ":" #cluster "x" #threads, compute_type, span, 1, cluster, threads, false, false};
#define CONVOY_FUSED_TEAMS(name, compute_type, teams, cluster, threads)                                      \
    static const struct convoy_fused_kernel name##_##teams##_##cluster##_##threads = {                       \
        #name ":" #teams "x" #cluster "x" #threads,                                                          \
        compute_type,                                                                                        \
        CONVOY_FUSED_FIRST_DENSE,                                                                            \
        teams,                                                                                               \
        cluster,                                                                                             \
        threads,                                                                                             \
        false,                                                                                               \
        false};
#define CONVOY_FUSED_WGMMA(name, span, threads, wgmma)                                                       \
    static const struct convoy_fused_kernel name##_1_##threads = {                                           \
        #name ":1x" #threads, CONVOY_COMPUTE_FP16, span, 1, 1, threads, wgmma, !wgmma};
#define CONVOY_FUSED_SIZES(X, name, compute_type, span)                                                      \
    X(name, compute_type, span, 1, 128)                                                                      \
    X(name, compute_type, span, 1, 256)                                                                      \
    X(name, compute_type, span, 1, 512)                                                                      \
    X(name, compute_type, span, 4, 512)                                                                      \
    X(name, compute_type, span, 8, 512)                                                                      \
    X(name, compute_type, span, 16, 512)
/* As many clusters as a chip of 132 multiprocessors seems to run at a time: inferred from times of launches,
 * not asked of one. */
#define CONVOY_FUSED_TEAM_SIZES(T, name, compute_type)                                                       \
    T(name, compute_type, 6, 16, 512)                                                                        \
    T(name, compute_type, 8, 8, 512)                                                                         \
    T(name, compute_type, 14, 8, 512)
#define CONVOY_FUSED_KERNELS(X, T, W)                                                                        \
    CONVOY_FUSED_SIZES(X, whole_net, CONVOY_COMPUTE_FP32, CONVOY_FUSED_ALL)                                  \
    CONVOY_FUSED_SIZES(X, whole_net_tf32, CONVOY_COMPUTE_TF32, CONVOY_FUSED_ALL)                             \
    CONVOY_FUSED_SIZES(X, whole_net_fp16, CONVOY_COMPUTE_FP16, CONVOY_FUSED_ALL)                             \
    CONVOY_FUSED_SIZES(X, front_net, CONVOY_COMPUTE_FP32, CONVOY_FUSED_FRONT)                                \
    CONVOY_FUSED_SIZES(X, front_net_tf32, CONVOY_COMPUTE_TF32, CONVOY_FUSED_FRONT)                           \
    CONVOY_FUSED_SIZES(X, front_net_fp16, CONVOY_COMPUTE_FP16, CONVOY_FUSED_FRONT)                           \
    CONVOY_FUSED_TEAM_SIZES(T, dense_net, CONVOY_COMPUTE_FP32)                                               \
    CONVOY_FUSED_TEAM_SIZES(T, dense_net_tf32, CONVOY_COMPUTE_TF32)                                          \
    CONVOY_FUSED_TEAM_SIZES(T, dense_net_fp16, CONVOY_COMPUTE_FP16)                                          \
    W(whole_net_wgmma, CONVOY_FUSED_ALL, 256, true)                                                          \
    W(whole_net_wgmma, CONVOY_FUSED_ALL, 512, true)                                                          \
    W(dense_product, CONVOY_FUSED_FIRST_DENSE, 128, false)                                                   \
    W(dense_product, CONVOY_FUSED_FIRST_DENSE, 256, false)                                                   \
    W(dense_product, CONVOY_FUSED_FIRST_DENSE, 512, false)

CONVOY_FUSED_KERNELS(CONVOY_FUSED, CONVOY_FUSED_TEAMS, CONVOY_FUSED_WGMMA)

const struct convoy_fused_kernel *const *convoy_fused_kernels(int *count)
{
#define CONVOY_FUSED_ENTRY(name, compute_type, span, cluster, threads) &name##_##cluster##_##threads,
#define CONVOY_FUSED_TEAMS_ENTRY(name, compute_type, teams, cluster, threads)                                \
    &name##_##teams##_##cluster##_##threads,
#define CONVOY_FUSED_WGMMA_ENTRY(name, span, threads, wgmma) &name##_1_##threads,
    static const struct convoy_fused_kernel *const all[] = {
        CONVOY_FUSED_KERNELS(CONVOY_FUSED_ENTRY, CONVOY_FUSED_TEAMS_ENTRY, CONVOY_FUSED_WGMMA_ENTRY)};
    *count = (int)(sizeof all / sizeof all[0]);
    return all;
}
