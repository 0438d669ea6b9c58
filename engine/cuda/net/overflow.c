#include "engine/cuda/net/overflow.h"

#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE         4096
#define IN_A_ROW     4  /* batches with most rows marked, until others do without fp16 */
#define WIDE_JOBS    64 /* that do, the first time; then twice as many, and so on */
#define MOST_STRIKES 10

static uint32_t *seen_at(const struct convoy_cuda_overflow *overflow, uint32_t place)
{
    return overflow->seen + (size_t)place * overflow->max_batch;
}

int convoy_cuda_overflow_make(const struct convoy_cuda_gpu *gpu, struct convoy_cuda_overflow *overflow,
                              uint32_t max_batch, struct convoy_error *error)
{
    size_t bytes = max_batch * sizeof(uint32_t);
    size_t seen = (CONVOY_CUDA_MAX_JOBS * bytes + PAGE - 1) / PAGE * PAGE;
    overflow->max_batch = max_batch;
    overflow->seen = aligned_alloc(PAGE, seen);
    if (overflow->seen == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for the marks of %u rows", max_batch);
    memset(overflow->seen, 0, seen);
    int failed = CONVOY_CUDA(error, cudaHostRegister, (overflow->seen, seen, cudaHostRegisterDefault));
    if (!failed)
        overflow->seen_bytes = seen;
    for (uint32_t s = 0; s < gpu->stream_count && !failed; s++) {
        void *marks = NULL;
        failed = convoy_cuda_allocate(bytes, "the marks of rows", &marks, error);
        overflow->marks[s] = marks;
        if (!failed)
            failed = CONVOY_CUDA(error, cudaMemset, (marks, 0, bytes));
    }
    return failed ? failed : CONVOY_CUDA(error, cudaStreamSynchronize, (NULL));
}

void convoy_cuda_overflow_free(struct convoy_cuda_overflow *overflow)
{
    struct convoy_error ignored;
    if (overflow->seen_bytes > 0)
        (void)CONVOY_CUDA(&ignored, cudaHostUnregister, (overflow->seen));
    free(overflow->seen);
    for (uint32_t s = 0; s < CONVOY_CUDA_MAX_STREAMS; s++)
        convoy_cuda_release(overflow->marks[s]);
    memset(overflow, 0, sizeof(*overflow));
}

bool convoy_cuda_overflow_goes_wide(struct convoy_cuda_overflow *overflow)
{
    if (overflow->wide_left == 0)
        return false;
    overflow->wide_left--;
    return true;
}

int convoy_cuda_overflow_ask(const struct convoy_cuda_gpu *gpu, const struct convoy_cuda_overflow *overflow,
                             uint32_t stream, uint32_t place, uint32_t rows, struct convoy_error *error)
{
    return CONVOY_CUDA(error, cudaMemcpyAsync,
                       (seen_at(overflow, place), overflow->marks[stream], rows * sizeof(uint32_t),
                        cudaMemcpyDeviceToHost, gpu->streams[stream]));
}

/* Counts batches most of whose rows are marked, and decides when the next ones run on the second network at
 * once. That network is there by then: a batch ran on it. */
static void count_batch(const struct convoy_cuda_gpu *gpu, struct convoy_cuda_overflow *overflow,
                        const char *name, bool most_marked)
{
    if (!most_marked) {
        overflow->in_a_row = overflow->strikes = 0;
        return;
    }
    if (++overflow->in_a_row < IN_A_ROW || overflow->wide == NULL)
        return;
    overflow->in_a_row = 0;
    overflow->wide_left = (uint32_t)WIDE_JOBS << overflow->strikes;
    if (overflow->strikes < MOST_STRIKES)
        overflow->strikes++;
    convoy_cuda_log(gpu, "warn",
                    "model '%s': fp16 does not hold the results of batch after batch; the next %u run with "
                    "float32 tensors, which is slower: set its precision to tf32 or fp32",
                    name, overflow->wide_left);
}

int convoy_cuda_overflow_read(const struct convoy_cuda_gpu *gpu, struct convoy_cuda_overflow *overflow,
                              const char *name, uint32_t stream, uint32_t place, uint32_t rows, bool counts,
                              struct convoy_cuda_marked *marked, struct convoy_error *error)
{
    *marked = (struct convoy_cuda_marked){0};
    const uint32_t *seen = seen_at(overflow, place);
    for (uint32_t i = 0; i < rows; i++) {
        if (seen[i] == 0)
            continue;
        if (marked->count == 0) {
            marked->first = i;
            marked->group = (int)seen[i] - 1;
        }
        marked->count = i + 1 - marked->first;
    }
    if (counts)
        count_batch(gpu, overflow, name, marked->count * 2 > rows);
    if (marked->count == 0)
        return 0;
    /* Jobs that are queued before this see the marks of these rows, too, and run them twice: harmless. */
    int failed = CONVOY_CUDA(
        error, cudaMemsetAsync,
        (overflow->marks[stream], 0, overflow->max_batch * sizeof(uint32_t), gpu->streams[stream]));
    return failed ? failed : 1;
}
