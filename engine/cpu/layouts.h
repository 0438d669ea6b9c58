/* The layouts in which each tensor is there already, and the reorders that make further ones. */
#ifndef CONVOY_ENGINE_CPU_LAYOUTS_H
#define CONVOY_ENGINE_CPU_LAYOUTS_H

#include "engine/cpu/lowering.h"

/* As its producer wrote it; a constant row-major. */
int convoy_cpu_primary(struct convoy_cpu_lowering *l, int tensor);
/* In layout md, reordered where it must be. The representation must not be written. */
int convoy_cpu_as(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md);
int convoy_cpu_plain(struct convoy_cpu_lowering *l, int tensor);
/* In layout md, and free to be overwritten by a step that also reads the representation `reading`: in place
 * where nobody reads the tensor after this group, else a copy. */
int convoy_cpu_writable(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md, int reading);
/* True where the buffer behind rep may be overwritten once this group has read it. */
bool convoy_cpu_is_last_use(const struct convoy_cpu_lowering *l, int rep);
/* Makes rep the tensor's first representation. */
void convoy_cpu_define(struct convoy_cpu_lowering *l, int tensor, int rep);

#endif
