#include "engine/cuda/tune/tune_network.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/plan/fusable_prefix.h"
#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>

#define WORTH_TRYING 4.0f   /* times the least estimate among kernels of the same span */
#define HOPELESS     2.0f   /* times the best, after one run */
#define SHORTEST_US  400.0f /* of a run: kernels of one layer differ by a microsecond */
#define MAX_LAUNCHES 16

bool convoy_cuda_tune_network_wanted(const struct convoy_net *net, uint32_t rows,
                                     enum convoy_input_layout *layout)
{
    struct convoy_cuda_fusable_prefix prefix;
    struct convoy_cuda_key key;
    convoy_cuda_find_fusable_prefix(&net->source, CONVOY_FUSED_ALL, &prefix);
    for (int i = 0; i < CONVOY_ROW_LAYOUTS && prefix.count > 0; i++) {
        *layout = (enum convoy_input_layout)i;
        if (*layout == CONVOY_LAYOUT_U8_HWC && !net->takes_u8)
            continue;
        convoy_cuda_fused_key(&net->source, &prefix, rows, *layout, &key);
        if (convoy_cuda_kernel_choices_get(net->source.choices, &key) == NULL)
            return true;
    }
    return false;
}

void convoy_cuda_tune_network_add(struct convoy_cuda_tune_network *tuning, const char *name,
                                  float estimate_us)
{
    if (tuning->count == CONVOY_CUDA_MAX_VARIANTS)
        return;
    tuning->variants[tuning->count].name = name;
    tuning->variants[tuning->count++].estimate_us = estimate_us;
}

/* Adds the kernels that can run this prefix, with estimated times; *least: the smallest. */
static int list_variants(struct convoy_cuda_tune_network *tuning, const struct convoy_cuda_source *source,
                         const struct convoy_cuda_fusable_prefix *prefix, enum convoy_fused_span span,
                         float *least, struct convoy_error *error)
{
    int count;
    const struct convoy_fused_kernel *const *kernels = convoy_fused_kernels(&count);
    struct convoy_fused_shape shape = convoy_cuda_fused_shape(source, prefix, tuning->rows, tuning->layout);
    *least = 0;
    for (int i = 0; i < count; i++) {
        struct convoy_fused_plan *plan = NULL;
        if (kernels[i]->span != span)
            continue;
        if (convoy_fused_plan_make(kernels[i], &shape, false, &plan) != 0)
            return convoy_fail(error, -ENOMEM, "no memory to plan %d layers", prefix->count);
        if (plan == NULL)
            continue;
        float us = convoy_fused_estimate_us(plan);
        convoy_fused_plan_free(plan);
        *least = *least == 0 || us < *least ? us : *least;
        convoy_cuda_tune_network_add(tuning, kernels[i]->name, us);
    }
    return 0;
}

static int list_all_variants(struct convoy_cuda_tune_network *tuning, const struct convoy_cuda_source *source,
                             struct convoy_error *error)
{
    struct convoy_cuda_fusable_prefix whole, prefix;
    convoy_cuda_find_fusable_prefix(source, CONVOY_FUSED_ALL, &whole);
    for (int span = 0; span < CONVOY_FUSED_SPANS; span++) {
        float least;
        int kept = tuning->count, begin = kept;
        convoy_cuda_find_fusable_prefix(source, (enum convoy_fused_span)span, &prefix);
        if (prefix.count == 0 || (span == CONVOY_FUSED_FRONT && prefix.count == whole.count))
            continue;
        int failed = list_variants(tuning, source, &prefix, (enum convoy_fused_span)span, &least, error);
        if (failed)
            return failed;
        for (int i = begin; i < tuning->count; i++)
            if (tuning->variants[i].estimate_us <= WORTH_TRYING * least)
                tuning->variants[kept++] = tuning->variants[i];
        tuning->count = kept;
    }
    return 0;
}

void convoy_cuda_tune_network_open(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                   uint32_t rows, enum convoy_input_layout layout,
                                   const struct convoy_cuda_key *key, const char *first)
{
    tuning->net = net;
    tuning->rows = rows;
    tuning->layout = layout;
    tuning->key = *key;
    tuning->count = tuning->at = 0;
    tuning->best = first;
    tuning->best_us = 0;
    tuning->weight_bytes = net->weights.bytes;
    convoy_cuda_tune_network_add(tuning, first, 0);
}

int convoy_cuda_tune_network_begin(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                   uint32_t rows, enum convoy_input_layout layout, struct convoy_error *error)
{
    struct convoy_cuda_fusable_prefix whole;
    struct convoy_cuda_key key;
    convoy_cuda_find_fusable_prefix(&net->source, CONVOY_FUSED_ALL, &whole);
    convoy_cuda_fused_key(&net->source, &whole, rows, layout, &key);
    convoy_cuda_tune_network_open(tuning, net, rows, layout, &key, CONVOY_CUDA_LAYERS);
    int failed = list_all_variants(tuning, &net->source, error);
    if (failed) {
        tuning->net = NULL;
        return failed;
    }
    return 0;
}

static int launch_graph(void *context, cudaStream_t stream, struct convoy_error *error)
{
    return CONVOY_CUDA(error, cudaGraphLaunch, ((cudaGraphExec_t)context, stream));
}

static int time_graph(const struct convoy_cuda_tune_network *tuning, struct convoy_cuda_measure *measure,
                      const struct convoy_cuda_gpu *gpu, cudaGraphExec_t exec, float *us,
                      struct convoy_error *error)
{
    struct convoy_cuda_series series = {.launch = launch_graph,
                                        .context = exec,
                                        .shortest_us = SHORTEST_US,
                                        .max_launches = MAX_LAUNCHES,
                                        .hopeless_us = HOPELESS * tuning->best_us};
    int got;
    do
        got = convoy_cuda_measure_run(measure, gpu, &series, us, error);
    while (got > 0);
    return got;
}

/* Times the graph of a plan in a workspace whose input rows are random numbers. */
static int time_plan(const struct convoy_cuda_tune_network *tuning, struct convoy_cuda_measure *measure,
                     const struct convoy_cuda_gpu *gpu, const struct convoy_cuda_plan *plan, void *workspace,
                     float *us, struct convoy_error *error)
{
    struct convoy_cuda_place input = {.where = CONVOY_CUDA_WORKSPACE};
    struct convoy_error ignored;
    cudaGraphExec_t exec = NULL;
    const struct convoy_cuda_memory memory = {workspace, NULL};
    int failed = convoy_cuda_measure_noise(measure, gpu, workspace, &input,
                                           (int64_t)(plan->input_bytes / sizeof(float)), error);
    if (!failed)
        failed = convoy_cuda_record(plan, &memory, gpu->streams[0], &exec, error);
    if (!failed)
        failed = time_graph(tuning, measure, gpu, exec, us, error);
    if (exec != NULL)
        (void)CONVOY_CUDA(&ignored, cudaGraphExecDestroy, (exec));
    return failed;
}

/* The network's source, for which `choices` becomes what is known and *wish. */
static struct convoy_cuda_source source_with(const struct convoy_net *net,
                                             const struct convoy_cuda_wish *wish,
                                             struct convoy_cuda_kernel_choices *choices)
{
    struct convoy_cuda_source source = net->source;
    *choices = *net->source.choices; /* shares what it points to */
    choices->wish = wish;
    source.choices = choices;
    return source;
}

/* Frees the constants that only the variants which were not chosen read. Those that were chosen for other
 * keys of this plan stay: the plan that will read them is not there yet. Without memory for this nothing is
 * freed. */
static void free_weights_of_others(const struct convoy_cuda_tune_network *tuning)
{
    struct convoy_net *net = tuning->net;
    const struct convoy_cuda_wish wish = {tuning->key, tuning->best};
    struct convoy_cuda_kernel_choices choices;
    struct convoy_cuda_source source = source_with(net, &wish, &choices);
    struct convoy_cuda_plan plan = {.rows = tuning->rows, .layout = tuning->layout};
    struct convoy_error ignored;
    if (net->weights.bytes > tuning->weight_bytes && convoy_cuda_lower(&source, &plan, &ignored) == 0)
        convoy_cuda_sweep(net, &plan);
    convoy_cuda_plan_free(&plan);
}

/* Uses the workspace of the network, or separate memory if the variant needs more. */
static int time_variant(const struct convoy_cuda_tune_network *tuning, struct convoy_cuda_measure *measure,
                        const struct convoy_cuda_gpu *gpu, const char *name, float *us,
                        struct convoy_error *error)
{
    struct convoy_net *net = tuning->net;
    const struct convoy_cuda_wish wish = {tuning->key, name};
    struct convoy_cuda_kernel_choices choices;
    struct convoy_cuda_source source = source_with(net, &wish, &choices);
    struct convoy_cuda_plan plan = {.rows = tuning->rows, .layout = tuning->layout};
    void *own = NULL;
    int failed = convoy_cuda_lower(&source, &plan, error);
    if (!failed && plan.workspace_bytes > net->workspace->bytes)
        failed = convoy_cuda_allocate(plan.workspace_bytes, "timing a network", &own, error);
    if (!failed)
        failed =
            time_plan(tuning, measure, gpu, &plan, own != NULL ? own : net->workspace->memory[0], us, error);
    convoy_cuda_release(own);
    convoy_cuda_plan_free(&plan);
    return failed;
}

int convoy_cuda_tune_network_go_on(struct convoy_cuda_tune_network *tuning,
                                   struct convoy_cuda_measure *measure, const struct convoy_cuda_gpu *gpu,
                                   struct convoy_error *error)
{
    if (tuning->at == tuning->count) {
        free_weights_of_others(tuning);
        tuning->net = NULL;
        return 0;
    }
    const char *name = tuning->variants[tuning->at++].name;
    float us;
    int failed = time_variant(tuning, measure, gpu, name, &us, error);
    if (failed && convoy_cuda_is_lost(gpu))
        return failed;
    if (failed) { /* skip this variant; -ENOMEM is expected and not logged */
        if (failed != -ENOMEM)
            convoy_cuda_log(gpu, "warning", "%s is not tried: %s", name, error->message);
        return 1;
    }
    if (tuning->best_us == 0 || us < tuning->best_us) {
        tuning->best_us = us;
        tuning->best = name;
    }
    return 1;
}
