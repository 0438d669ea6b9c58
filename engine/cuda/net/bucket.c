#include "engine/cuda/net/bucket.h"

#include "engine/cuda/plan/bottlenecks.h"
#include "engine/cuda/plan/branches.h"
#include "engine/cuda/plan/fusable_prefix.h"

#include "engine/cuda/runtime/calls.h"

#include <errno.h>
#include <stdlib.h>
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

/* The streams and events with which a graph of several lanes is recorded. */
struct lanes {
    cudaStream_t streams[CONVOY_CUDA_LANES]; /* [0]: the caller's; NULL: the lane is not used */
    cudaEvent_t *ran;                        /* of each step: NULL where no other lane waits for it */
};

static int open_lanes(const struct convoy_cuda_plan *plan, cudaStream_t stream, struct lanes *lanes,
                      struct convoy_error *error)
{
    int failed = 0;
    lanes->streams[0] = stream;
    lanes->ran = calloc((size_t)plan->step_count + 1, sizeof(lanes->ran[0]));
    if (lanes->ran == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to record %d steps", plan->step_count);
    for (int i = 0; i < plan->step_count && !failed; i++) {
        const struct convoy_cuda_step *step = &plan->steps[i];
        if (lanes->streams[step->lane] == NULL)
            failed = CONVOY_CUDA(error, cudaStreamCreateWithFlags,
                                 (&lanes->streams[step->lane], cudaStreamNonBlocking));
        for (int lane = 0; lane < CONVOY_CUDA_LANES && !failed; lane++)
            if (step->waits[lane] > 0 && lanes->ran[step->waits[lane] - 1] == NULL)
                failed = CONVOY_CUDA(error, cudaEventCreateWithFlags,
                                     (&lanes->ran[step->waits[lane] - 1], cudaEventDisableTiming));
    }
    return failed;
}

static void close_lanes(const struct convoy_cuda_plan *plan, struct lanes *lanes)
{
    struct convoy_error ignored;
    for (int i = 0; lanes->ran != NULL && i < plan->step_count; i++)
        if (lanes->ran[i] != NULL)
            (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (lanes->ran[i]));
    for (int lane = 1; lane < CONVOY_CUDA_LANES; lane++)
        if (lanes->streams[lane] != NULL)
            (void)CONVOY_CUDA(&ignored, cudaStreamDestroy, (lanes->streams[lane]));
    free(lanes->ran);
}

static int launch_steps(const struct convoy_cuda_plan *plan, const struct convoy_cuda_memory *memory,
                        const struct lanes *lanes, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < plan->step_count && !failed; i++) {
        const struct convoy_cuda_step *step = &plan->steps[i];
        cudaStream_t stream = lanes->streams[step->lane];
        for (int lane = 0; lane < CONVOY_CUDA_LANES && !failed; lane++)
            if (step->waits[lane] > 0)
                failed =
                    CONVOY_CUDA(error, cudaStreamWaitEvent, (stream, lanes->ran[step->waits[lane] - 1], 0));
        if (!failed)
            failed = convoy_cuda_step_launch(step, memory, stream, error);
        if (!failed && lanes->ran[i] != NULL)
            failed = CONVOY_CUDA(error, cudaEventRecord, (lanes->ran[i], stream));
    }
    return failed;
}

int convoy_cuda_record(const struct convoy_cuda_plan *plan, const struct convoy_cuda_memory *memory,
                       cudaStream_t stream, cudaGraphExec_t *exec, struct convoy_error *error)
{
    cudaGraph_t graph = NULL;
    struct lanes lanes = {{NULL}, NULL};
    struct convoy_error ignored;
    int failed = open_lanes(plan, stream, &lanes, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaStreamBeginCapture, (stream, cudaStreamCaptureModeThreadLocal));
    if (failed)
        goto out;
    failed = launch_steps(plan, memory, &lanes, error);
    int ended = CONVOY_CUDA(failed ? &ignored : error, cudaStreamEndCapture, (stream, &graph));
    failed = failed ? failed : ended;
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGraphInstantiate, (exec, graph, 0));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGraphUpload, (*exec, stream));
    if (graph != NULL)
        (void)CONVOY_CUDA(&ignored, cudaGraphDestroy, (graph));
out:
    close_lanes(plan, &lanes);
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
        return convoy_cuda_choose_conv(choices, &step->conv.shape) != step->conv.kernel ||
               convoy_cuda_chose_layers(choices, &step->conv.shape);
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
        if (plan->branching != convoy_cuda_branches_known(source, plan))
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
