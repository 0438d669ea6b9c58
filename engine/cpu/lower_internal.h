/* What lower.c shares with lower_conv.c, lower_dense.c, lower_misc.c, lower_normalize.c and lower_binary.c.
 */
#ifndef CONVOY_ENGINE_CPU_LOWER_INTERNAL_H
#define CONVOY_ENGINE_CPU_LOWER_INTERNAL_H

#include "engine/cpu/lowering.h"

/* Each function lowers the group's anchor and as many posts as it can, and returns the representation of the
 * result; *fused is the number of posts that are in it. */
int convoy_cpu_lower_conv(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused);
int convoy_cpu_lower_scale_shift(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                                 int *fused);
int convoy_cpu_lower_dense(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused);
int convoy_cpu_lower_matmul(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused);
int convoy_cpu_lower_pool(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused);
int convoy_cpu_lower_binary(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused);
int convoy_cpu_lower_pad(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);
int convoy_cpu_lower_reshape(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);
int convoy_cpu_lower_transpose(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);
int convoy_cpu_lower_concat(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);
int convoy_cpu_lower_softmax(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);
int convoy_cpu_lower_unary(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);
int convoy_cpu_lower_normalize(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);
int convoy_cpu_lower_top(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group);

#endif
