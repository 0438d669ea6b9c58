/* What the lowering of each operator works with: inside engine/cuda/lower*.c alone. */
#ifndef CONVOY_ENGINE_CUDA_LOWERING_H
#define CONVOY_ENGINE_CUDA_LOWERING_H

#include "engine/cuda/plan/lower.h"
#include "engine/graph/arena.h"

/* Memory in the arena that a tensor, or what a kernel needs beside its tensors, lies in. Reshapes share one.
 */
struct convoy_cuda_buffer {
    size_t bytes;
    int first, last; /* groups: written and read last */
};

struct convoy_cuda_lowering {
    const struct convoy_cuda_source *source;
    const struct convoy_graph *graph;
    struct convoy_cuda_plan *plan;
    struct convoy_error *error;
    int *buffer_of; /* per tensor that was computed */
    int buffer_count, buffer_capacity;
    struct convoy_cuda_buffer *buffers;
    int group;                      /* that is lowered */
    const struct convoy_node *node; /* its anchor */
};

/* Until buffers are placed, a place in the workspace says which buffer and how many bytes into it; below that
 * (rows in and out), it is in bytes from the start. */
#define CONVOY_CUDA_BUFFER_SHIFT   44
#define CONVOY_CUDA_BUFFER(number) ((size_t)((number) + 1) << CONVOY_CUDA_BUFFER_SHIFT)

/* A tensor's dimensions for all of the plan's images; returns the rank. */
int convoy_cuda_dims(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[CONVOY_MAX_RANK]);
int64_t convoy_cuda_elements(const struct convoy_cuda_lowering *l, int tensor);

/* Row-major strides, in elements. */
void convoy_cuda_strides(int rank, const int64_t *dims, int64_t *strides);

/* All of the following return 0 or a negative errno and a sentence. */

/* Where tensor is, to be read: a constant, or what an earlier group wrote. */
int convoy_cuda_reads(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place);
/* Where tensor is to be written: a new buffer. */
int convoy_cuda_writes(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place);
/* Memory for this group alone; 0 bytes: none. */
int convoy_cuda_scratch(struct convoy_cuda_lowering *l, size_t bytes, struct convoy_cuda_place *place);
/* A new step of this group. */
int convoy_cuda_step(struct convoy_cuda_lowering *l, enum convoy_cuda_kind kind,
                     struct convoy_cuda_step **step);

/* The input's rows, but for where they are. */
struct convoy_images convoy_cuda_images(const struct convoy_cuda_lowering *l);
/* Does one convolution read the rows as they come, and nobody else? */
bool convoy_cuda_reads_rows(const struct convoy_graph *graph);
/* A convolution's shape, but for whether its images are 8-bit. False: too large. */
bool convoy_cuda_describe_conv(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                               struct convoy_conv_shape *shape);

/* The network's beginning by one kernel, if it is to run so: *groups says how many groups that were (0:
 * none), *done whether the outputs are in their place. */
int convoy_cuda_lower_whole(struct convoy_cuda_lowering *l, int *groups, bool *done);

/* One operator each. */
int convoy_cuda_lower_conv(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_dense(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_matmul(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_other(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);

#endif
