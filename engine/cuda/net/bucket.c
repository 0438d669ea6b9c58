#include "engine/cuda/net/bucket.h"

#include "engine/cuda/plan/bottlenecks.h"
#include "engine/cuda/plan/fusable_prefix.h"

#include "engine/cuda/runtime/calls.h"

#include <string.h>

int convoy_cuda_bucket_plan(const struct convoy_cuda_source *source, bool takes_u8,
                            struct convoy_cuda_bucket *bucket, struct convoy_error *error)
{
    int failed = 0;
    for (int layout = 0; layout < CONVOY_ROW_LAYOUTS && !failed; layout++) {
        struct convoy_cuda_plan *plan = &bucket->plans[layout];
        if (layout == CONVOY_LAYOUT_U8_HWC && !takes_u8)
            continue;
        plan->rows = bucket->rows;
        plan->layout = (enum convoy_input_layout)layout;
        failed = convoy_cuda_lower(source, plan, error);
    }
    return failed;
}

size_t convoy_cuda_bucket_workspace(const struct convoy_cuda_bucket *bucket)
{
    size_t bytes = 0;
    for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++)
        if (bucket->plans[layout].workspace_bytes > bytes)
            bytes = bucket->plans[layout].workspace_bytes;
    return bytes;
}

/* Where a graph that is being recorded has what runs beside its other steps. */
struct branch {
    cudaStream_t stream;
    cudaEvent_t begins, ends;
    bool may_begin; /* `begins` is recorded behind what the next step there waits for */
    int until;      /* of the step that is there; 0: there is none */
};

static int open_branch(struct branch *branch, struct convoy_error *error)
{
    int failed = CONVOY_CUDA(error, cudaStreamCreateWithFlags, (&branch->stream, cudaStreamNonBlocking));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventCreateWithFlags, (&branch->begins, cudaEventDisableTiming));
    return failed ? failed
                  : CONVOY_CUDA(error, cudaEventCreateWithFlags, (&branch->ends, cudaEventDisableTiming));
}

static void close_branch(const struct branch *branch)
{
    struct convoy_error ignored;
    if (branch->begins != NULL)
        (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (branch->begins));
    if (branch->ends != NULL)
        (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (branch->ends));
    if (branch->stream != NULL)
        (void)CONVOY_CUDA(&ignored, cudaStreamDestroy, (branch->stream));
}

/* The first step from `from` on that may run beside others; step_count: none. */
static int next_beside(const struct convoy_cuda_plan *plan, int from)
{
    while (from < plan->step_count && plan->steps[from].until == 0)
        from++;
    return from;
}

static int launch_beside(const struct convoy_cuda_step *step, const struct convoy_cuda_memory *memory,
                         struct branch *branch, struct convoy_error *error)
{
    int failed = CONVOY_CUDA(error, cudaStreamWaitEvent, (branch->stream, branch->begins, 0));
    if (!failed)
        failed = convoy_cuda_step_launch(step, memory, branch->stream, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (branch->ends, branch->stream));
    branch->until = step->until;
    return failed;
}

/* Launches all steps in their order, those that may run beside others on a branch, one at a time. */
static int launch_steps(const struct convoy_cuda_plan *plan, const struct convoy_cuda_memory *memory,
                        cudaStream_t stream, struct branch *branch, struct convoy_error *error)
{
    int beside = next_beside(plan, 0);
    int failed = beside < plan->step_count ? open_branch(branch, error) : 0;
    for (int i = 0; i < plan->step_count && !failed; i++) {
        const struct convoy_cuda_step *step = &plan->steps[i];
        if (branch->until > 0 && step->group >= branch->until) {
            failed = CONVOY_CUDA(error, cudaStreamWaitEvent, (stream, branch->ends, 0));
            branch->until = 0;
        }
        if (!failed)
            failed = i == beside && branch->may_begin && branch->until == 0
                         ? launch_beside(step, memory, branch, error)
                         : convoy_cuda_step_launch(step, memory, stream, error);
        if (i == beside) {
            beside = next_beside(plan, i + 1);
            branch->may_begin = false;
        } else if (!failed && beside < plan->step_count && step->group <= plan->steps[beside].after) {
            failed = CONVOY_CUDA(error, cudaEventRecord, (branch->begins, stream));
            branch->may_begin = true;
        }
    }
    return failed;
}

int convoy_cuda_record(const struct convoy_cuda_plan *plan, const struct convoy_cuda_memory *memory,
                       cudaStream_t stream, cudaGraphExec_t *exec, struct convoy_error *error)
{
    cudaGraph_t graph = NULL;
    struct branch branch = {0};
    struct convoy_error ignored;
    int failed = CONVOY_CUDA(error, cudaStreamBeginCapture, (stream, cudaStreamCaptureModeThreadLocal));
    if (failed)
        return failed;
    failed = launch_steps(plan, memory, stream, &branch, error);
    int ended = CONVOY_CUDA(failed ? &ignored : error, cudaStreamEndCapture, (stream, &graph));
    close_branch(&branch);
    failed = failed ? failed : ended;
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGraphInstantiate, (exec, graph, 0));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGraphUpload, (*exec, stream));
    if (graph != NULL)
        (void)CONVOY_CUDA(&ignored, cudaGraphDestroy, (graph));
    return failed;
}

int convoy_cuda_bucket_record(const struct convoy_cuda_gpu *gpu,
                              const struct convoy_cuda_workspace *workspace, uint32_t *const *overflow,
                              struct convoy_cuda_bucket *bucket, struct convoy_error *error)
{
    int failed = 0;
    for (int layout = 0; layout < CONVOY_ROW_LAYOUTS && !failed; layout++)
        for (uint32_t s = 0; s < gpu->stream_count && !failed; s++) {
            if (bucket->plans[layout].step_count == 0)
                continue;
            const struct convoy_cuda_memory memory = {workspace->memory[s], overflow[s]};
            failed = convoy_cuda_record(&bucket->plans[layout], &memory, gpu->streams[s],
                                        &bucket->graphs[layout][s], error);
            convoy_cuda_pause(gpu);
        }
    for (uint32_t s = 0; s < gpu->stream_count && !failed; s++)
        failed = CONVOY_CUDA(error, cudaStreamSynchronize, (gpu->streams[s])); /* uploads */
    return failed;
}

static bool step_is_stale(const struct convoy_cuda_step *step,
                          const struct convoy_cuda_kernel_choices *choices)
{
    switch (step->kind) {
    case CONVOY_CUDA_CONV:
        return convoy_cuda_choose_conv(choices, &step->conv.shape) != step->conv.kernel;
    case CONVOY_CUDA_GEMM:
        return convoy_cuda_choose_gemm(choices, &step->gemm.shape) != step->gemm.kernel;
    default:
        return false;
    }
}

bool convoy_cuda_bucket_is_stale(const struct convoy_cuda_bucket *bucket,
                                 const struct convoy_cuda_source *source)
{
    for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++) {
        const struct convoy_cuda_plan *plan = &bucket->plans[layout];
        if (plan->step_count == 0)
            continue;
        const struct convoy_cuda_step *first = &plan->steps[0];
        if (convoy_cuda_fused_chosen(source, plan->rows, plan->layout) !=
            (first->kind == CONVOY_CUDA_FUSED ? first->fused.kernel : NULL))
            return true;
        for (int i = 0; i < plan->bottleneck_count; i++)
            if (convoy_cuda_choose_bottleneck(source, &plan->bottlenecks[i].shape) !=
                plan->bottlenecks[i].kernel)
                return true;
        for (int i = 0; i < plan->step_count; i++)
            if (step_is_stale(&plan->steps[i], source->choices))
                return true;
    }
    return false;
}

void convoy_cuda_bucket_free_graphs(struct convoy_cuda_bucket *bucket)
{
    struct convoy_error ignored;
    for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++)
        for (uint32_t s = 0; s < CONVOY_CUDA_MAX_STREAMS; s++)
            if (bucket->graphs[layout][s] != NULL)
                (void)CONVOY_CUDA(&ignored, cudaGraphExecDestroy, (bucket->graphs[layout][s]));
    memset(bucket->graphs, 0, sizeof(bucket->graphs));
}

void convoy_cuda_bucket_free(struct convoy_cuda_bucket *bucket)
{
    convoy_cuda_bucket_free_graphs(bucket);
    for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++)
        convoy_cuda_plan_free(&bucket->plans[layout]);
}
