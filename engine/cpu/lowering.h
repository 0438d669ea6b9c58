/* The state of lowering one graph to one plan. reps.h, emit.h, layouts.h and posts.h, in this order, build on
 * each other and on it; lower.c and lower_*.c use all of them.
 *
 * In these headers functions return 0 or a negative errno with l->error filled in; those that return a
 * representation return its index or a negative errno. */
#ifndef CONVOY_ENGINE_CPU_LOWERING_H
#define CONVOY_ENGINE_CPU_LOWERING_H

#include "engine/cpu/constants.h"
#include "engine/cpu/groups.h"
#include "engine/cpu/plan.h"

/* Layouts of one tensor that are remembered; others are reordered each time they are needed. */
#define CONVOY_CPU_MAX_LAYOUTS 6

struct convoy_cpu_layouts {
    int count;
    int reps[CONVOY_CPU_MAX_LAYOUTS]; /* the first is what its producer wrote */
};

struct convoy_cpu_lowering {
    const struct convoy_graph *graph;
    const struct convoy_cpu_groups *groups;
    struct convoy_cpu_constants *constants;
    struct convoy_cpu_plan *plan;
    struct convoy_cpu_kernel *kernels;
    struct convoy_error *error;
    struct convoy_cpu_layouts *tensors;
    int group;        /* being lowered */
    int threads;      /* that run its steps */
    const char *node; /* its anchor's name */
};

#endif
