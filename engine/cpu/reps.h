/* Representations: descriptions of memory in oneDNN's terms, and new representations in the plan. */
#ifndef CONVOY_ENGINE_CPU_REPS_H
#define CONVOY_ENGINE_CPU_REPS_H

#include "engine/cpu/lowering.h"

/* The tensor's dimensions at this plan's batch size (a scalar: one dimension of 1). Returns the rank. */
int convoy_cpu_dims(const struct convoy_cpu_lowering *l, int tensor, dnnl_dims_t dims);
/* Descriptions of float32 tensors: row-major; of oneDNN's choice; in the layout of a tag. */
dnnl_memory_desc_t convoy_cpu_plain_md(int rank, const int64_t *dims);
dnnl_memory_desc_t convoy_cpu_any_md(int rank, const int64_t *dims);
dnnl_memory_desc_t convoy_cpu_tag_md(int rank, const int64_t *dims, dnnl_format_tag_t tag);

/* A new representation in a buffer of its own. */
int convoy_cpu_new_rep(struct convoy_cpu_lowering *l, const dnnl_memory_desc_t *md);
/* A representation of the same bytes as md: for reshapes of row-major representations. */
int convoy_cpu_view(struct convoy_cpu_lowering *l, int rep, const dnnl_memory_desc_t *md);
/* A constant tensor as md, whose dimensions are those of the tensor, perhaps grouped or padded with ones. */
int convoy_cpu_constant_rep(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md);

#endif
