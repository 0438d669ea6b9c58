/* Lowering: makes a plan from a graph and its groups, for one batch size. */
#ifndef CONVOY_ENGINE_CPU_LOWER_H
#define CONVOY_ENGINE_CPU_LOWER_H

#include "engine/cpu/constants.h"
#include "engine/cpu/groups.h"
#include "engine/cpu/plan.h"

/* Fills plan (zeroed by the caller but for rows and threads; to be freed in any case), ready for
 * convoy_cpu_plan_place(), and kernels, one per group. The OpenMP team size of the calling thread must be the
 * plan's threads. Returns 0, -ENOTSUP (the sentence names the node) or -ENOMEM. */
int convoy_cpu_lower(const struct convoy_graph *graph, const struct convoy_cpu_groups *groups,
                     struct convoy_cpu_constants *constants, struct convoy_cpu_plan *plan,
                     struct convoy_cpu_kernel *kernels, struct convoy_error *error);

#endif
