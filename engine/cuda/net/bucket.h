/* A bucket: what a network has for one size of batch, which is a plan for each layout of input and a recorded
 * CUDA graph of each plan for each stream. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_BUCKET_H
#define CONVOY_ENGINE_CUDA_BUCKET_H

#include "engine/cuda/plan/lower.h"
#include "engine/cuda/runtime/gpu.h"

struct convoy_cuda_bucket {
    uint32_t rows;
    /* Between two others: the tuner lets it take over what is known of the larger one, and times what
     * that lacks. Jobs pass over it until then, as its kernels are guessed, and the larger one's perhaps not.
     */
    bool between, passed_over;
    struct convoy_cuda_plan plans[CONVOY_ROW_LAYOUTS]; /* no steps: a layout the network does not take */
    cudaGraphExec_t graphs[CONVOY_ROW_LAYOUTS][CONVOY_CUDA_MAX_STREAMS];
};

/* Makes the plans of a bucket that has none; free the bucket also after a failure. -ENOTSUP names the node;
 * -ENOMEM, -EIO. */
int convoy_cuda_bucket_plan(const struct convoy_cuda_source *source, bool takes_u8,
                            struct convoy_cuda_bucket *bucket, struct convoy_error *error);

/* Returns the bytes of workspace that the plans need. */
size_t convoy_cuda_bucket_workspace(const struct convoy_cuda_bucket *bucket);

/* Records one plan for one stream; the caller destroys *exec, also after a failure. 0 or -EIO. */
int convoy_cuda_record(const struct convoy_cuda_plan *plan, const struct convoy_cuda_memory *memory,
                       cudaStream_t stream, cudaGraphExec_t *exec, struct convoy_error *error);

/* Records the plans of a bucket that has no graphs. overflow: of each stream, as in struct
 * convoy_cuda_memory. Nothing may be in flight. -ENOMEM, -EIO. */
int convoy_cuda_bucket_record(const struct convoy_cuda_gpu *gpu,
                              const struct convoy_cuda_workspace *workspace, uint32_t *const *overflow,
                              struct convoy_cuda_bucket *bucket, struct convoy_error *error);

/* True if plans made now would use other kernels, because more was measured since. */
bool convoy_cuda_bucket_is_stale(const struct convoy_cuda_bucket *bucket,
                                 const struct convoy_cuda_source *source);

void convoy_cuda_bucket_free_graphs(struct convoy_cuda_bucket *bucket);
void convoy_cuda_bucket_free(struct convoy_cuda_bucket *bucket); /* graphs and plans */

#endif
