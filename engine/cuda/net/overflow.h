/* What a network with tensors in 16 bits does about numbers that fp16 does not hold. Its kernels mark the
 * rows that such a number came up in (kernels/nhwc.h). Those rows, and those between them, run again on a
 * second network with float32 tensors, which is made when it is first needed. A network of which most rows of
 * several batches in a row are marked gives its next batches to the second one at once; after a while it is
 * tried again, each time later. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_OVERFLOW_H
#define CONVOY_ENGINE_CUDA_OVERFLOW_H

#include "engine/cuda/runtime/gpu.h"

struct convoy_net;

/* Part of a network. All zero: no tensors in 16 bits. */
struct convoy_cuda_overflow {
    uint32_t max_batch;
    uint32_t
        *marks[CONVOY_CUDA_MAX_STREAMS]; /* in device memory, max_batch each: struct convoy_cuda_memory */
    uint32_t *seen;    /* copies of them in pinned memory: max_batch for each job that can be in flight */
    size_t seen_bytes; /* what was pinned; 0: it was not */
    struct convoy_net *wide;    /* with float32 tensors, or NULL; net.h makes and unloads it */
    bool no_wide;               /* memory did not suffice for it */
    uint32_t wide_left;         /* jobs that go there at once */
    uint32_t in_a_row, strikes; /* batches with most rows marked; how often that was too many */
};

/* The marked rows of a job: the first one, how many to the last one, and the group whose result it was. */
struct convoy_cuda_marked {
    uint32_t first, count;
    int group;
};

/* Allocates what jobs of 1 to max_batch rows need; free it also after a failure. 0, -ENOMEM or -EIO. */
int convoy_cuda_overflow_make(const struct convoy_cuda_gpu *gpu, struct convoy_cuda_overflow *overflow,
                              uint32_t max_batch, struct convoy_error *error);
void convoy_cuda_overflow_free(struct convoy_cuda_overflow *overflow);

/* Is the next job to run on the second network at once? Counts it. */
bool convoy_cuda_overflow_goes_wide(struct convoy_cuda_overflow *overflow);

/* Behind a job of so many rows on that stream: copies its marks to place number `place`, below
 * CONVOY_CUDA_MAX_JOBS. */
int convoy_cuda_overflow_ask(const struct convoy_cuda_gpu *gpu, const struct convoy_cuda_overflow *overflow,
                             uint32_t stream, uint32_t place, uint32_t rows, struct convoy_error *error);

/* After such a job of the network `name` has ended. Returns 1 if rows are marked, and clears the marks; 0 if
 * none is; -EIO. counts: it is one of the batches that decide where the next ones run. */
int convoy_cuda_overflow_read(const struct convoy_cuda_gpu *gpu, struct convoy_cuda_overflow *overflow,
                              const char *name, uint32_t stream, uint32_t place, uint32_t rows, bool counts,
                              struct convoy_cuda_marked *marked, struct convoy_error *error);

#endif
