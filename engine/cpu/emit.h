/* How a oneDNN primitive or a plain loop becomes a step of the plan. */
#ifndef CONVOY_ENGINE_CPU_EMIT_H
#define CONVOY_ENGINE_CPU_EMIT_H

#include "engine/cpu/lowering.h"

/* Finds an implementation of op_desc that fuses as many of the posts as possible without being a (slow)
 * reference implementation; *fused is their number. The caller destroys *description. -ENOTSUP if there is
 * none. */
int convoy_cpu_choose(struct convoy_cpu_lowering *l, const_dnnl_op_desc_t op_desc,
                      const struct convoy_cpu_post *posts, int post_count, dnnl_primitive_desc_t *description,
                      int *fused);
/* True for what is never fused, as a loop over the result is faster (swish.h). */
bool convoy_cpu_is_swish_loop(const struct convoy_cpu_post *post);
/* True if the implementation is one of oneDNN's slow reference loops. */
bool convoy_cpu_is_reference(const_dnnl_primitive_desc_t description);
/* Makes the primitive and appends it as a step. Destroys the description in any case. */
int convoy_cpu_emit(struct convoy_cpu_lowering *l, dnnl_primitive_desc_t description,
                    const struct convoy_cpu_use *uses, int use_count);
/* Appends a reorder of one representation into another. from_md: NULL, or another description of `from`, with
 * which the reorder transposes. */
int convoy_cpu_emit_reorder(struct convoy_cpu_lowering *l, int from, const dnnl_memory_desc_t *from_md,
                            int to);
/* Appends a plain loop (loops.h, swish.h). */
int convoy_cpu_emit_loop(struct convoy_cpu_lowering *l, struct convoy_cpu_step *step,
                         const struct convoy_cpu_use *uses, int use_count);
/* Records the name of what runs the group, for profiles. Only the first call for a group counts. */
void convoy_cpu_name_kernel(struct convoy_cpu_lowering *l, const char *text);
/* oneDNN's name of the implementation, e.g. "jit:avx2". */
const char *convoy_cpu_implementation(const_dnnl_primitive_desc_t description);

#endif
