/* What a network has for one size of batch: a plan for each layout of input, and a recorded graph of each
 * plan for each stream. */
#ifndef CONVOY_ENGINE_CUDA_BUCKET_H
#define CONVOY_ENGINE_CUDA_BUCKET_H

#include "engine/cuda/plan/lower.h"
#include "engine/cuda/runtime/gpu.h"

struct convoy_cuda_bucket {
    uint32_t rows;
    struct convoy_cuda_plan plans[CONVOY_SLOT_LAYOUTS]; /* no steps: a layout the network does not take */
    cudaGraphExec_t graphs[CONVOY_SLOT_LAYOUTS][CONVOY_CUDA_MAX_STREAMS];
};

/* Makes the plans of a bucket that has none. -ENOTSUP names the node; -ENOMEM, -EIO. */
int convoy_cuda_bucket_plan(const struct convoy_cuda_source *source, bool takes_u8,
                            struct convoy_cuda_bucket *bucket, struct convoy_error *error);

/* Bytes of workspace that the plans need. */
size_t convoy_cuda_bucket_workspace(const struct convoy_cuda_bucket *bucket);

/* Records one plan for one stream. The graph is the caller's. -EIO. */
int convoy_cuda_record(const struct convoy_cuda_plan *plan, void *workspace, cudaStream_t stream,
                       cudaGraphExec_t *exec, struct convoy_error *error);

/* Records the plans of a bucket that has no graphs. Nothing may be in flight. -ENOMEM, -EIO. */
int convoy_cuda_bucket_record(const struct convoy_cuda_gpu *gpu,
                              const struct convoy_cuda_workspace *workspace,
                              struct convoy_cuda_bucket *bucket, struct convoy_error *error);

/* Would the plans be others with what is known now? */
bool convoy_cuda_bucket_is_stale(const struct convoy_cuda_bucket *bucket,
                                 const struct convoy_cuda_source *source);

void convoy_cuda_bucket_free_graphs(struct convoy_cuda_bucket *bucket);
void convoy_cuda_bucket_free(struct convoy_cuda_bucket *bucket); /* plans too */

#endif
