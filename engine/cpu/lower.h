/* Lowering: a graph and its groups, at one batch size, become a plan. */
#ifndef CONVOY_ENGINE_CPU_LOWER_H
#define CONVOY_ENGINE_CPU_LOWER_H

#include "engine/cpu/constants.h"
#include "engine/cpu/groups.h"
#include "engine/cpu/plan.h"

/* Fills plan (zeroed by the caller but for rows and threads; to be freed whatever is returned), ready for
 * convoy_cpu_plan_place(), and kernels, one per group. Runs with the calling thread's OpenMP team size, which
 * must be the plan's. -ENOTSUP names the node, -ENOMEM. */
int convoy_cpu_lower(const struct convoy_graph *graph, const struct convoy_cpu_groups *groups,
                     struct convoy_cpu_constants *constants, struct convoy_cpu_plan *plan,
                     struct convoy_cpu_kernel *kernels, struct convoy_error *error);

#endif
