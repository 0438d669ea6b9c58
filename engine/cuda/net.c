#include "engine/cuda/net.h"

#include "engine/cuda/calls.h"
#include "engine/cuda/fault.h"
#include "engine/describe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1, 2, 3, 4, 6, 8, 12, 16, ...: what a bucket computes beyond a job's rows is less than half of them. */
static void choose_buckets(struct convoy_net *net)
{
    for (uint32_t rows = 1; rows < net->max_batch && net->bucket_count < CONVOY_CUDA_MAX_BUCKETS - 1;) {
        net->buckets[net->bucket_count++].rows = rows;
        rows = rows < 2 ? rows + 1 : ((rows & (rows - 1)) == 0 ? rows * 3 / 2 : rows * 4 / 3);
    }
    net->buckets[net->bucket_count++].rows = net->max_batch;
}

const struct convoy_cuda_bucket *convoy_cuda_bucket(const struct convoy_net *net, uint32_t rows)
{
    const struct convoy_cuda_bucket *bucket = net->buckets;
    while (bucket->rows < rows)
        bucket++;
    return bucket;
}

/* Layers are the groups for which something runs, in order; past CONVOY_MAX_LAYERS they share the last one.
 * Their kernels are those of the largest bucket. */
static int describe_layers(struct convoy_net *net, const struct convoy_graph *graph,
                           const struct convoy_cuda_groups *groups, struct convoy_error *error)
{
    const struct convoy_cuda_plan *plan = &net->buckets[net->bucket_count - 1].plans[CONVOY_FORM_F32_CHW];
    if (net->takes_u8)
        plan = &net->buckets[net->bucket_count - 1].plans[CONVOY_FORM_U8_HWC];
    net->group_count = groups->count;
    net->layers = calloc((size_t)groups->count + 1, sizeof(net->layers[0]));
    net->layer_of_group = calloc((size_t)groups->count + 1, sizeof(int));
    if (net->layers == NULL || net->layer_of_group == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to name %d layers", groups->count);
    uint32_t count = 0;
    for (int i = 0; i < groups->count; i++) {
        const struct convoy_cuda_group *group = &groups->groups[i];
        if ((!group->view || count == 0) && count < CONVOY_MAX_LAYERS) {
            struct convoy_layer_info *layer = &net->layers[count++];
            const char *kernel = "view";
            for (int k = 0; k < plan->step_count; k++)
                if (plan->steps[k].group == i && plan->steps[k].kind != CONVOY_CUDA_READ) {
                    kernel = convoy_cuda_step_name(&plan->steps[k]);
                    break;
                }
            convoy_copy_layer_name(graph->nodes[group->anchor].name, layer->name);
            snprintf(layer->kernel, sizeof(layer->kernel), "%.36s%s%s%s%s", kernel,
                     group->residual >= 0 ? "+add" : "", group->act_name != NULL ? "+" : "",
                     group->act_name != NULL ? group->act_name : "", group->pool > 1 ? "+pool" : "");
        }
        net->layer_of_group[i] = (int)count - 1;
    }
    net->info.layer_count = count;
    net->info.layers = net->layers;
    return 0;
}

static int make_plans(struct convoy_net *net, const struct convoy_cuda_source *source,
                      struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < net->bucket_count && !failed; i++)
        for (int form = 0; form < CONVOY_CUDA_FORMS && !failed; form++) {
            struct convoy_cuda_plan *plan = &net->buckets[i].plans[form];
            if (form == CONVOY_FORM_U8_HWC && !net->takes_u8)
                continue;
            plan->rows = net->buckets[i].rows;
            plan->form = (enum convoy_form)form;
            failed = convoy_cuda_lower(source, plan, error);
        }
    return failed;
}

static size_t largest_workspace(const struct convoy_net *net)
{
    size_t bytes = 0;
    for (int i = 0; i < net->bucket_count; i++)
        for (int form = 0; form < CONVOY_CUDA_FORMS; form++)
            if (net->buckets[i].plans[form].workspace_bytes > bytes)
                bytes = net->buckets[i].plans[form].workspace_bytes;
    return bytes;
}

static int record(const struct convoy_cuda_plan *plan, void *workspace, cudaStream_t stream,
                  cudaGraphExec_t *exec, struct convoy_error *error)
{
    cudaGraph_t graph = NULL;
    struct convoy_error ignored;
    int failed = CONVOY_CUDA(error, cudaStreamBeginCapture, (stream, cudaStreamCaptureModeThreadLocal));
    if (failed)
        return failed;
    for (int i = 0; i < plan->step_count && !failed; i++)
        failed = convoy_cuda_step_launch(&plan->steps[i], workspace, stream, error);
    int ended = CONVOY_CUDA(failed ? &ignored : error, cudaStreamEndCapture, (stream, &graph));
    failed = failed ? failed : ended;
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGraphInstantiate, (exec, graph, 0));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGraphUpload, (*exec, stream));
    if (graph != NULL)
        (void)CONVOY_CUDA(&ignored, cudaGraphDestroy, (graph));
    return failed;
}

static int record_all(struct convoy_device *device, struct convoy_net *net, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < net->bucket_count && !failed; i++)
        for (int form = 0; form < CONVOY_CUDA_FORMS && !failed; form++)
            for (uint32_t s = 0; s < device->stream_count && !failed; s++)
                if (net->buckets[i].plans[form].step_count > 0)
                    failed = record(&net->buckets[i].plans[form], net->workspace->memory[s],
                                    device->streams[s], &net->buckets[i].graphs[form][s], error);
    for (uint32_t s = 0; s < device->stream_count && !failed; s++)
        failed = CONVOY_CUDA(error, cudaStreamSynchronize, (device->streams[s])); /* uploads */
    return failed;
}

static int make_profile_marks(struct convoy_device *device, struct convoy_net *net,
                              struct convoy_error *error)
{
    int failed = 0;
    for (uint32_t s = 0; s < device->stream_count && !failed; s++) {
        net->profile_marks[s] = calloc(net->info.layer_count + 1, sizeof(cudaEvent_t));
        if (net->profile_marks[s] == NULL)
            return convoy_fail(error, -ENOMEM, "no memory for a profile of %u layers", net->info.layer_count);
        for (uint32_t i = 0; i <= net->info.layer_count && !failed; i++)
            failed =
                CONVOY_CUDA(error, cudaEventCreateWithFlags, (&net->profile_marks[s][i], cudaEventDefault));
    }
    return failed;
}

int convoy_cuda_load(struct convoy_device *device, const struct convoy_graph *graph,
                     const struct convoy_load_options *options, struct convoy_net **result,
                     struct convoy_net_info *info, struct convoy_error *error)
{
    struct convoy_cuda_groups groups = {0};
    int failed = convoy_check_graph(graph, error);
    if (failed)
        return convoy_fail_in(error, failed, "model '%s'", options->name);
    struct convoy_net *net = calloc(1, sizeof(*net));
    if (net == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for a network");
    convoy_describe_shapes(graph, &net->info);
    net->max_batch = options->max_batch > 0 ? options->max_batch : 1;
    if (graph->tensors[graph->input].shape.batch_axis < 0)
        net->max_batch = 1;
    net->takes_u8 = net->info.channels <= CONVOY_MAX_U8_CHANNELS;
    struct convoy_cuda_source source = {.graph = graph,
                                        .groups = &groups,
                                        .weights = &net->weights,
                                        .choices = &device->choices,
                                        .channels = net->info.channels,
                                        .outputs_per_row = net->info.outputs_per_row,
                                        .pixels = (int64_t)net->info.height * net->info.width};
    memcpy(source.multiply, options->multiply, sizeof(source.multiply));
    memcpy(source.add, options->add, sizeof(source.add));
    for (int form = 0; form < CONVOY_CUDA_FORMS; form++)
        net->input_stride[form] = convoy_cuda_input_stride(&source, (enum convoy_form)form);
    net->output_stride = convoy_cuda_output_stride(&source);
    choose_buckets(net);
    failed = convoy_cuda_fault_on_load(options->name, error);
    if (!failed)
        failed = convoy_cuda_group_nodes(graph, &groups, error);
    if (!failed)
        failed = make_plans(net, &source, error);
    if (!failed)
        failed = describe_layers(net, graph, &groups, error);
    if (!failed)
        failed = convoy_cuda_workspace_get(device, largest_workspace(net), &net->workspace, error);
    if (!failed)
        failed = record_all(device, net, error);
    if (!failed)
        failed = make_profile_marks(device, net, error);
    convoy_cuda_groups_free(&groups);
    if (failed) {
        convoy_cuda_unload(device, net);
        return convoy_fail_in(error, failed, "model '%s'", options->name);
    }
    net->info.precision = CONVOY_FP32;
    net->info.weight_bytes = net->weights.bytes;
    *info = net->info;
    *result = net;
    return 0;
}

void convoy_cuda_unload(struct convoy_device *device, struct convoy_net *net)
{
    struct convoy_error ignored;
    if (net == NULL)
        return;
    for (int i = 0; i < net->bucket_count; i++)
        for (int form = 0; form < CONVOY_CUDA_FORMS; form++) {
            for (uint32_t s = 0; s < CONVOY_CUDA_MAX_STREAMS; s++)
                if (net->buckets[i].graphs[form][s] != NULL)
                    (void)CONVOY_CUDA(&ignored, cudaGraphExecDestroy, (net->buckets[i].graphs[form][s]));
            convoy_cuda_plan_free(&net->buckets[i].plans[form]);
        }
    for (uint32_t s = 0; s < CONVOY_CUDA_MAX_STREAMS; s++) {
        for (uint32_t i = 0; net->profile_marks[s] != NULL && i <= net->info.layer_count; i++)
            if (net->profile_marks[s][i] != NULL)
                (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (net->profile_marks[s][i]));
        free(net->profile_marks[s]);
    }
    convoy_cuda_workspace_put(device, net->workspace);
    convoy_cuda_weights_free(&net->weights);
    free(net->layer_of_group);
    free(net->layers);
    free(net);
}

int convoy_cuda_run_profiled(struct convoy_device *device, struct convoy_net *net,
                             const struct convoy_cuda_plan *plan, uint32_t number, struct convoy_error *error)
{
    cudaStream_t stream = device->streams[number];
    cudaEvent_t *marks = net->profile_marks[number];
    uint32_t layer = 0;
    int failed = CONVOY_CUDA(error, cudaEventRecord, (marks[0], stream));
    for (int i = 0; i < plan->step_count && !failed; i++) {
        failed = convoy_cuda_step_launch(&plan->steps[i], net->workspace->memory[number], stream, error);
        bool last = i + 1 == plan->step_count;
        uint32_t next =
            last ? net->info.layer_count : (uint32_t)net->layer_of_group[plan->steps[i + 1].group];
        for (; layer < next && !failed; layer++)
            failed = CONVOY_CUDA(error, cudaEventRecord, (marks[layer + 1], stream));
    }
    net->profiling[number] = !failed;
    return failed;
}

int convoy_cuda_read_profile(struct convoy_net *net, uint32_t stream, float *layer_us,
                             struct convoy_error *error)
{
    int failed = 0;
    net->profiling[stream] = false;
    for (uint32_t i = 0; layer_us != NULL && i < net->info.layer_count && !failed; i++) {
        float ms = 0;
        failed = CONVOY_CUDA(error, cudaEventElapsedTime,
                             (&ms, net->profile_marks[stream][i], net->profile_marks[stream][i + 1]));
        layer_us[i] = ms * 1000;
    }
    return failed;
}
