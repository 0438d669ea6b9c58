/* What the lowering of every operator works with: a plan under construction, the buffers of its tensors, and
 * the functions that add steps and buffers to it. */
#ifndef CONVOY_ENGINE_CUDA_LOWERING_H
#define CONVOY_ENGINE_CUDA_LOWERING_H

#include "engine/cuda/plan/plan.h"
#include "engine/cuda/plan/source.h"

/* Memory in the arena for one tensor, or for what a kernel needs besides its tensors. Reshaped tensors share
 * the buffer of their source. */
struct convoy_cuda_buffer {
    size_t bytes;
    int first, last; /* the groups that write it first and read it last */
};

struct convoy_cuda_lowering {
    const struct convoy_cuda_source *source;
    const struct convoy_graph *graph;
    struct convoy_cuda_plan *plan;
    struct convoy_error *error;
    int *buffer_of; /* for each tensor that is computed: the index of its buffer */
    int buffer_count, buffer_capacity;
    struct convoy_cuda_buffer *buffers;
    int group;                      /* the group that is being lowered */
    const struct convoy_node *node; /* its anchor */
};

/* Until convoy_cuda_place_buffers() was called, the offset of a place in the workspace is
 * CONVOY_CUDA_BUFFER(buffer) plus bytes into that buffer; offsets below CONVOY_CUDA_BUFFER(0) (input and
 * output rows) are already bytes from the start of the workspace. */
#define CONVOY_CUDA_BUFFER_SHIFT   44
#define CONVOY_CUDA_BUFFER(number) ((size_t)((number) + 1) << CONVOY_CUDA_BUFFER_SHIFT)

/* Rounds up to the alignment of tensors in kernels.h. */
static inline size_t convoy_cuda_aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Writes the dimensions of a tensor for all images of the plan; returns the rank. */
int convoy_cuda_dims(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[CONVOY_MAX_RANK]);
int64_t convoy_cuda_elements(const struct convoy_cuda_lowering *l, int tensor);

/* Row-major strides, in elements. */
void convoy_cuda_strides(int rank, const int64_t *dims, int64_t *strides);

/* All of the following return 0 or a negative errno with a sentence in l->error. */

/* Where a tensor is read: a constant, which is uploaded, or the buffer that an earlier group wrote. */
int convoy_cuda_reads(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place);
/* Where a tensor is written: a new buffer. */
int convoy_cuda_writes(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place);
/* A buffer for this group alone; with 0 bytes place stays as it is. */
int convoy_cuda_scratch(struct convoy_cuda_lowering *l, size_t bytes, struct convoy_cuda_place *place);
/* A new step of this group. The pointer is valid until the next step is added. */
int convoy_cuda_step(struct convoy_cuda_lowering *l, enum convoy_cuda_kind kind,
                     struct convoy_cuda_step **step);
/* Places all buffers in the arena, replaces buffer numbers in the steps by offsets, and sets the size of the
 * workspace. Called once, after the last step. */
int convoy_cuda_place_buffers(struct convoy_cuda_lowering *l);

#endif
