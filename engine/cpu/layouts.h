/* The layouts in which each tensor exists, and reorders into others. Functions that take a tensor return a
 * representation. */
#ifndef CONVOY_ENGINE_CPU_LAYOUTS_H
#define CONVOY_ENGINE_CPU_LAYOUTS_H

#include "engine/cpu/lowering.h"

/* The tensor in the layout that its producer wrote; a constant row-major. */
int convoy_cpu_primary(struct convoy_cpu_lowering *l, int tensor);
/* The tensor in layout md, reordered if necessary. The representation must not be written. */
int convoy_cpu_as(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md);
/* The tensor row-major; must not be written either. */
int convoy_cpu_plain(struct convoy_cpu_lowering *l, int tensor);
/* The tensor in layout md, which a step that also reads the representation `reading` may overwrite: the
 * tensor itself if no later group reads it, else a copy. */
int convoy_cpu_writable(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md, int reading);
/* True where the buffer behind rep may be overwritten once this group has read it. */
bool convoy_cpu_is_last_use(const struct convoy_cpu_lowering *l, int rep);
/* Makes rep the tensor's first representation. */
void convoy_cpu_define(struct convoy_cpu_lowering *l, int tensor, int rep);

#endif
