#include "engine/cuda/net/net.h"

#include "engine/cuda/plan/picks.h"
#include "engine/cuda/runtime/calls.h"
#include "engine/describe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Batches of a loaded device are of these sizes, and what is computed beyond their rows costs others time: on
 * an H200 convoyd with resnet50 and batches of some 33 photographs answered 1 to 4 % more with one bucket
 * between each two of 32, 48 and 64, and 1 % more again with three (medians of four rounds, 24,900 and
 * 25,190). */
#define BETWEEN_FROM 32
#define THREE_TO     128
#define ONE_TO       256

static void add_bucket(struct convoy_net *net, uint32_t rows, bool between)
{
    net->buckets[net->bucket_count].rows = rows;
    net->buckets[net->bucket_count].passed_over = between;
    net->buckets[net->bucket_count++].between = between;
}

/* Those between two that are not. */
static void add_between(struct convoy_net *net, uint32_t rows, uint32_t next)
{
    uint32_t parts = rows < BETWEEN_FROM || next > ONE_TO ? 1 : next > THREE_TO ? 2 : 4;
    for (uint32_t i = 1; i < parts; i++) {
        uint32_t between = rows + (next - rows) * i / parts;
        if (between < net->max_batch)
            add_bucket(net, between, true);
    }
}

/* 1, 2, 3, 4, 6, 8, 12, 16, ..., and between 32 and 256 others between each two. What a bucket computes
 * beyond a job's rows is less than half of them, from 32 to 128 less than an eighth, from there to 256 less
 * than a quarter. 1, 8, 64, ... of a network that is made while jobs wait. */
static void choose_buckets(struct convoy_net *net)
{
    for (uint32_t rows = 1; rows < net->max_batch && net->bucket_count < CONVOY_CUDA_MAX_BUCKETS - 5;) {
        add_bucket(net, rows, false);
        uint32_t next = net->source.wide           ? rows * 8
                        : rows < 2                 ? rows + 1
                        : (rows & (rows - 1)) == 0 ? rows * 3 / 2
                                                   : rows * 4 / 3;
        if (!net->source.wide)
            add_between(net, rows, next);
        rows = next;
    }
    add_bucket(net, net->max_batch, false);
}

const struct convoy_cuda_bucket *convoy_cuda_bucket(const struct convoy_net *net, uint32_t rows)
{
    const struct convoy_cuda_bucket *bucket = net->buckets;
    while (bucket->rows < rows || bucket->passed_over)
        bucket++;
    return bucket;
}

/* Layers are the groups for which something runs, in order; past CONVOY_MAX_LAYERS they share the last one.
 */
static int name_layers(struct convoy_net *net, struct convoy_error *error)
{
    const struct convoy_cuda_groups *groups = &net->groups;
    net->layers = calloc((size_t)groups->count + 1, sizeof(net->layers[0]));
    net->layer_of_group = calloc((size_t)groups->count + 1, sizeof(int));
    if (net->layers == NULL || net->layer_of_group == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to name %d layers", groups->count);
    uint32_t count = 0;
    for (int i = 0; i < groups->count; i++) {
        const struct convoy_cuda_group *group = &groups->groups[i];
        if ((!group->view || count == 0) && count < CONVOY_MAX_LAYERS)
            convoy_copy_layer_name(net->source.graph->nodes[group->anchor].name, net->layers[count++].name);
        net->layer_of_group[i] = (int)count - 1;
    }
    net->info.layer_count = count;
    net->info.layers = net->layers;
    convoy_cuda_name_kernels(net);
    return 0;
}

/* A step that brings a layer's tensors where its kernel reads them, or makes them what it reads. */
static bool only_moves(const struct convoy_cuda_step *step, const struct convoy_cuda_group *group)
{
    switch (step->kind) {
    case CONVOY_CUDA_READ:
    case CONVOY_CUDA_NHWC_READ:
    case CONVOY_CUDA_NHWC_PATCHES:
    case CONVOY_CUDA_NHWC_FROM_PLANES:
    case CONVOY_CUDA_NHWC_TO_PLANES:
        return true;
    case CONVOY_CUDA_NHWC_GATHER:
        return group->rows == NULL;
    case CONVOY_CUDA_NHWC_NORMALIZE:
    case CONVOY_CUDA_NHWC_SCALE_SHIFT:
        return group->attention != NULL;
    default:
        return false;
    }
}

void convoy_cuda_name_kernels(struct convoy_net *net)
{
    const struct convoy_cuda_bucket *largest = &net->buckets[net->bucket_count - 1];
    const struct convoy_cuda_plan *plan =
        &largest->plans[net->takes_u8 ? CONVOY_LAYOUT_U8_HWC : CONVOY_LAYOUT_F32_CHW];
    for (int i = 0; i < net->groups.count; i++) {
        const struct convoy_cuda_group *group = &net->groups.groups[i];
        struct convoy_layer_info *layer = &net->layers[net->layer_of_group[i]];
        bool pools = net->source.graph->nodes[group->anchor].op == CONVOY_OP_POOL;
        const char *kernel = pools ? "in the convolution" : "view";
        if (i > 0 && net->layer_of_group[i] == net->layer_of_group[i - 1])
            continue; /* a layer is named after its first group */
        for (int k = 0; k < plan->step_count; k++)
            if (plan->steps[k].group == i && !only_moves(&plan->steps[k], group)) {
                kernel = convoy_cuda_step_name(&plan->steps[k]);
                break;
            }
        const char *whole = convoy_cuda_plan_covers(plan, i);
        if (whole != NULL) {
            snprintf(layer->kernel, sizeof(layer->kernel), "in %s", whole);
            continue; /* a profile gives the time of all to the layer whose step it is */
        }
        const struct convoy_cuda_step *first = plan->step_count > 0 ? &plan->steps[0] : NULL;
        if (first != NULL && first->kind == CONVOY_CUDA_FUSED && i < first->fused.groups) {
            snprintf(layer->kernel, sizeof(layer->kernel), "%s%s", i > 0 ? "in " : "",
                     first->fused.kernel->name);
            continue; /* a profile gives the time of all to the first layer */
        }
        snprintf(layer->kernel, sizeof(layer->kernel), "%.36s%s%s%s%s", kernel,
                 group->residual >= 0 ? "+add" : "", group->act_name != NULL ? "+" : "",
                 group->act_name != NULL ? group->act_name : "", group->pool > 1 ? "+pool" : "");
    }
}

enum convoy_compute_type convoy_cuda_precision(const struct convoy_net *net)
{
    enum convoy_compute_type least = CONVOY_COMPUTE_FP32;
    for (int i = 0; i < net->bucket_count; i++)
        for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++) {
            const struct convoy_cuda_plan *plan = &net->buckets[i].plans[layout];
            for (int k = 0; k < plan->step_count; k++) {
                const struct convoy_cuda_step *step = &plan->steps[k];
                enum convoy_compute_type type =
                    step->kind == CONVOY_CUDA_CONV         ? step->conv.kernel->compute_type
                    : step->kind == CONVOY_CUDA_GEMM       ? step->gemm.kernel->compute_type
                    : step->kind == CONVOY_CUDA_FUSED      ? step->fused.kernel->compute_type
                    : step->kind == CONVOY_CUDA_BOTTLENECK ? CONVOY_COMPUTE_FP16
                                                           : CONVOY_COMPUTE_FP32;
                least = type > least ? type : least;
            }
        }
    return least;
}

static size_t largest_workspace(const struct convoy_net *net)
{
    size_t bytes = 0;
    for (int i = 0; i < net->bucket_count; i++) {
        size_t needed = convoy_cuda_bucket_workspace(&net->buckets[i]);
        bytes = needed > bytes ? needed : bytes;
    }
    return bytes;
}

static int make_buckets(struct convoy_cuda_gpu *gpu, struct convoy_net *net, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < net->bucket_count && !failed; i++) {
        failed = convoy_cuda_bucket_plan(&net->source, net->takes_u8, &net->buckets[i], error);
        convoy_cuda_pause(gpu);
    }
    if (!failed)
        failed = convoy_cuda_workspace_get(gpu, largest_workspace(net), &net->workspace, error);
    if (!failed && convoy_cuda_uses_nhwc(&net->source)) /* if not yet, then perhaps after tuning */
        failed = convoy_cuda_overflow_make(gpu, &net->overflow, net->max_batch, error);
    for (int i = 0; i < net->bucket_count && !failed; i++)
        failed = convoy_cuda_bucket_record(gpu, net->workspace, net->overflow.marks, &net->buckets[i], error);
    return failed;
}

static int make_profile_marks(struct convoy_cuda_gpu *gpu, struct convoy_net *net, struct convoy_error *error)
{
    int failed = 0;
    for (uint32_t s = 0; s < gpu->stream_count && !failed; s++) {
        net->profile_marks[s] = calloc(net->info.layer_count + 1, sizeof(cudaEvent_t));
        if (net->profile_marks[s] == NULL)
            return convoy_fail(error, -ENOMEM, "no memory for a profile of %u layers", net->info.layer_count);
        for (uint32_t i = 0; i <= net->info.layer_count && !failed; i++)
            failed =
                CONVOY_CUDA(error, cudaEventCreateWithFlags, (&net->profile_marks[s][i], cudaEventDefault));
    }
    return failed;
}

static int load(struct convoy_cuda_gpu *gpu, const struct convoy_cuda_kernel_choices *choices,
                const struct convoy_graph *graph, const struct convoy_load_options *options, bool wide,
                struct convoy_net **result, struct convoy_error *error)
{
    int failed = convoy_check_graph(graph, error);
    if (failed)
        return convoy_fail_in(error, failed, "model '%s'", options->name);
    struct convoy_net *net = calloc(1, sizeof(*net));
    if (net == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for a network");
    snprintf(net->name, sizeof(net->name), "%s", options->name);
    convoy_describe_shapes(graph, &net->info);
    net->max_batch = options->max_batch > 0 ? options->max_batch : 1;
    net->tuned = options->untuned;
    if (graph->tensors[graph->input].shape.batch_axis < 0)
        net->max_batch = 1;
    net->takes_u8 = net->info.channels <= CONVOY_MAX_U8_CHANNELS;
    net->fitting = options->fitting;
    net->fitting.width = net->info.width;
    net->fitting.height = net->info.height;
    net->fitting.channels = net->info.channels;
    struct convoy_cuda_source *source = &net->source;
    *source = (struct convoy_cuda_source){.compute_type = options->precision,
                                          .graph = graph,
                                          .groups = &net->groups,
                                          .weights = &net->weights,
                                          .choices = choices,
                                          .wide = wide,
                                          .channels = net->info.channels,
                                          .outputs_per_row = net->info.outputs_per_row,
                                          .pixels = (int64_t)net->info.height * net->info.width};
    memcpy(source->multiply, options->multiply, sizeof(source->multiply));
    memcpy(source->add, options->add, sizeof(source->add));
    net->weights.gpu = gpu;
    for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++)
        net->input_stride[layout] = convoy_cuda_input_stride(source, (enum convoy_input_layout)layout);
    net->output_stride = convoy_cuda_output_stride(source);
    choose_buckets(net);
    failed = convoy_cuda_group_nodes(graph, &net->groups, convoy_cuda_uses_nhwc(source), error);
    if (!failed && net->groups.nhwc)
        failed = convoy_cuda_pick_rows(graph, &net->groups, error);
    if (!failed)
        failed = make_buckets(gpu, net, error);
    if (!failed)
        failed = name_layers(net, error);
    if (!failed)
        failed = make_profile_marks(gpu, net, error);
    if (failed) {
        convoy_cuda_net_unload(gpu, net);
        return convoy_fail_in(error, failed == -EIO && convoy_cuda_is_lost(gpu) ? -ENODEV : failed,
                              "model '%s'", options->name);
    }
    net->info.precision = convoy_cuda_precision(net);
    net->info.weight_bytes = net->weights.bytes;
    *result = net;
    return 0;
}

int convoy_cuda_net_load(struct convoy_cuda_gpu *gpu, const struct convoy_cuda_kernel_choices *choices,
                         const struct convoy_graph *graph, const struct convoy_load_options *options,
                         struct convoy_net **net, struct convoy_net_info *info, struct convoy_error *error)
{
    int failed = load(gpu, choices, graph, options, false, net, error);
    if (!failed)
        *info = (*net)->info;
    return failed;
}

int convoy_cuda_net_load_wide(struct convoy_cuda_gpu *gpu, struct convoy_net *net, struct convoy_error *error)
{
    const struct convoy_cuda_source *source = &net->source;
    struct convoy_load_options options = {
        .name = net->name, .max_batch = net->max_batch, .precision = CONVOY_COMPUTE_TF32};
    memcpy(options.multiply, source->multiply, sizeof(options.multiply));
    memcpy(options.add, source->add, sizeof(options.add));
    /* Other networks are not served meanwhile: this happens while a job is collected. */
    void (*pause)(void *) = gpu->pause;
    gpu->pause = NULL;
    int failed = load(gpu, source->choices, source->graph, &options, true, &net->overflow.wide, error);
    gpu->pause = pause;
    return failed;
}

int convoy_cuda_net_verify(struct convoy_cuda_gpu *gpu, struct convoy_net *net, int64_t budget_us,
                           struct convoy_error *error)
{
    struct convoy_net *part = net->verifying_wide ? net->overflow.wide : net;
    int more = convoy_cuda_weights_verify(&part->weights, gpu, budget_us, error);
    if (more != 0)
        return more;
    net->verifying_wide = part == net && net->overflow.wide != NULL;
    return net->verifying_wide;
}

void convoy_cuda_net_unload(struct convoy_cuda_gpu *gpu, struct convoy_net *net)
{
    struct convoy_error ignored;
    if (net == NULL)
        return;
    for (int i = 0; i < net->bucket_count; i++) {
        convoy_cuda_bucket_free(&net->buckets[i]);
        convoy_cuda_pause(gpu);
    }
    for (uint32_t s = 0; s < CONVOY_CUDA_MAX_STREAMS; s++) {
        for (uint32_t i = 0; net->profile_marks[s] != NULL && i <= net->info.layer_count; i++)
            if (net->profile_marks[s][i] != NULL)
                (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (net->profile_marks[s][i]));
        free(net->profile_marks[s]);
    }
    convoy_cuda_workspace_put(gpu, net->workspace);
    convoy_cuda_net_unload(gpu, net->overflow.wide);
    convoy_cuda_overflow_free(&net->overflow);
    convoy_cuda_weights_free(&net->weights);
    convoy_cuda_groups_free(&net->groups);
    free(net->layer_of_group);
    free(net->layers);
    free(net);
}

int convoy_cuda_run_profiled(struct convoy_cuda_gpu *gpu, struct convoy_net *net,
                             const struct convoy_cuda_plan *plan, uint32_t number, struct convoy_error *error)
{
    cudaStream_t stream = gpu->streams[number];
    cudaEvent_t *marks = net->profile_marks[number];
    const struct convoy_cuda_memory memory = {net->workspace->memory[number], net->overflow.marks[number]};
    uint32_t layer = 0;
    int failed = CONVOY_CUDA(error, cudaEventRecord, (marks[0], stream));
    for (int i = 0; i < plan->step_count && !failed; i++) {
        failed = convoy_cuda_step_launch(&plan->steps[i], &memory, stream, error);
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
