/* Steps for the posts of a group that the primitive of its anchor did not fuse. */
#ifndef CONVOY_ENGINE_CPU_POSTS_H
#define CONVOY_ENGINE_CPU_POSTS_H

#include "engine/cpu/lowering.h"

/* Appends the posts from `first` on as steps, in place on rep if it may be overwritten. Returns the
 * representation of the result. */
int convoy_cpu_emit_posts(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int first,
                          int rep);

#endif
