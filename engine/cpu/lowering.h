/* What the files that lower a graph share: tensors and their layouts, and how a primitive becomes a step.
 *
 * Functions return 0 or a negative errno with l->error filled, those that return a representation its index
 * or a negative errno. */
#ifndef CONVOY_ENGINE_CPU_LOWERING_H
#define CONVOY_ENGINE_CPU_LOWERING_H

#include "engine/cpu/lower.h"

#define CONVOY_CPU_MAX_LAYOUTS 6 /* of one tensor at once; further ones are reordered anew each time */

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
    const char *node; /* its anchor's name */
};

/* layouts.c */

/* The tensor's dimensions at this plan's batch size (a scalar: one dimension of 1). Returns the rank. */
int convoy_cpu_dims(const struct convoy_cpu_lowering *l, int tensor, dnnl_dims_t dims);
dnnl_memory_desc_t convoy_cpu_plain_md(int rank, const int64_t *dims);
dnnl_memory_desc_t convoy_cpu_any_md(int rank, const int64_t *dims);
dnnl_memory_desc_t convoy_cpu_tag_md(int rank, const int64_t *dims, dnnl_format_tag_t tag);

/* A new representation in a buffer of its own. */
int convoy_cpu_new_rep(struct convoy_cpu_lowering *l, const dnnl_memory_desc_t *md);
/* The same bytes, seen as md: for reshapes of row-major representations. */
int convoy_cpu_view(struct convoy_cpu_lowering *l, int rep, const dnnl_memory_desc_t *md);
/* The constant tensor as md, whose dimensions may group or pad with ones those of the tensor. */
int convoy_cpu_constant_rep(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md);
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

/* emit.c */

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
/* The posts from `first` on as steps of their own, in place on rep. */
int convoy_cpu_emit_posts(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int first,
                          int rep);
/* Notes what runs the group, for profiles; only the first call for a group counts. */
void convoy_cpu_name_kernel(struct convoy_cpu_lowering *l, const char *text);
const char *convoy_cpu_implementation(const_dnnl_primitive_desc_t description);

/* lower_conv.c, lower_dense.c, lower_misc.c, lower_binary.c: each lowers the anchor and as many posts as it
 * can and returns the representation of the result; *fused says how many posts are in it. */
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

#endif
