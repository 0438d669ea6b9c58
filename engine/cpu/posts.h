/* Posts that the anchor of their group did not absorb. */
#ifndef CONVOY_ENGINE_CPU_POSTS_H
#define CONVOY_ENGINE_CPU_POSTS_H

#include "engine/cpu/lowering.h"

/* The posts from `first` on as steps of their own, in place on rep. */
int convoy_cpu_emit_posts(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int first,
                          int rep);

#endif
