/* How a oneDNN primitive or a plain loop becomes a step of the plan. */
#ifndef CONVOY_ENGINE_CPU_EMIT_H
#define CONVOY_ENGINE_CPU_EMIT_H

#include "engine/cpu/lowering.h"

/* Finds the implementation for op_desc with as many of the posts fused as it takes without falling back to a
 * reference implementation: *fused of them. The description is the caller's. -ENOTSUP where there is none. */
int convoy_cpu_choose(struct convoy_cpu_lowering *l, const_dnnl_op_desc_t op_desc,
                      const struct convoy_cpu_post *posts, int post_count, dnnl_primitive_desc_t *description,
                      int *fused);
bool convoy_cpu_is_reference(const_dnnl_primitive_desc_t description);
/* Makes the primitive a step and destroys the description, whatever is returned. */
int convoy_cpu_emit(struct convoy_cpu_lowering *l, dnnl_primitive_desc_t description,
                    const struct convoy_cpu_use *uses, int use_count);
/* Reorders (and where the dimensions are permuted by `from_md`, transposes) one representation into another.
 */
int convoy_cpu_emit_reorder(struct convoy_cpu_lowering *l, int from, const dnnl_memory_desc_t *from_md,
                            int to);
int convoy_cpu_emit_loop(struct convoy_cpu_lowering *l, struct convoy_cpu_step *step,
                         const struct convoy_cpu_use *uses, int use_count);
/* Notes what runs the group, for profiles; only the first call for a group counts. */
void convoy_cpu_name_kernel(struct convoy_cpu_lowering *l, const char *text);
const char *convoy_cpu_implementation(const_dnnl_primitive_desc_t description);

#endif
