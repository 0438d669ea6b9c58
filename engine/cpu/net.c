#include "engine/cpu/net.h"
#include "engine/cpu/check.h"
#include "engine/cpu/openmp.h"
#include "engine/cpu/plan_set.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/work.h"
#include "engine/describe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* On one thread a pass of 16 costs per image what a pass of 1 does (within 6 %, on networks for 32 x 32 and
 * 224 x 224 images). Each bucket costs its primitives at load. */
static const uint32_t bucket_rows[CONVOY_CPU_MAX_BUCKETS] = {1, 4, 16};

/* A bucket whose activations take more than this is left out: they would only leave the caches. */
#define MAX_ARENA_BYTES ((size_t)64 << 20)

/* What the activations of all thread sets together may take. */
#define MAX_SETS_BYTES ((size_t)256 << 20)

/* Waking a sleeping thread and waiting for it costs tens of microseconds at every primitive. A pass whose
 * matrix products and convolutions take less on average (4 million multiply-adds: some 80 us on one core)
 * runs on one. */
#define WORK_FOR_THREADS 4000000

/* For rows with NaN, which oneDNN would compute as if it were some number: activations, maxima and softmax as
 * loops. One row at a time, on one thread. */
struct nan_path {
    pthread_mutex_t lock; /* threads of the team share it */
    struct convoy_cpu_plan_set set;
};

struct convoy_net {
    struct convoy_cpu_constants constants;
    struct convoy_cpu_image image;
    uint32_t max_batch;
    bool takes_u8;
    struct convoy_cpu_progress progress;
    struct convoy_cpu_plan_set
        shared_set;       /* for jobs of fewer images than threads, which share the work on each */
    int thread_set_count; /* 0, or one for each thread of the team */
    struct convoy_cpu_plan_set *thread_sets; /* for larger jobs: threads share the images */
    struct nan_path *nan_path;
    int output_count;
    struct convoy_cpu_output outputs[CONVOY_MAX_OUTPUTS];
    int64_t output_elements[CONVOY_MAX_OUTPUTS];
    int group_count, layer_count;
    int *layer_of_group;
    float *group_us; /* scratch of a profiled job */
    struct convoy_layer_info *layers;
};

static void describe_input(struct convoy_net *net, const struct convoy_load_options *options,
                           const struct convoy_net_info *info)
{
    net->image.channels = info->channels;
    net->image.pixels = (int64_t)info->height * info->width;
    net->takes_u8 = info->channels <= CONVOY_MAX_U8_CHANNELS;
    memcpy(net->image.multiply, options->multiply, sizeof(net->image.multiply));
    memcpy(net->image.add, options->add, sizeof(net->image.add));
}

static void describe_outputs(struct convoy_net *net, const struct convoy_graph *graph)
{
    net->output_count = graph->output_count;
    for (int i = 0; i < graph->output_count; i++) {
        const struct convoy_shape *shape = &graph->tensors[graph->outputs[i]].shape;
        struct convoy_cpu_output *output = &net->outputs[i];
        net->output_elements[i] = convoy_shape_elements(shape);
        output->shared = shape->batch_axis < 0;
        output->outer = 1;
        for (int axis = 0; axis < shape->batch_axis; axis++)
            output->outer *= shape->dims[axis];
        output->chunk = net->output_elements[i] / output->outer;
    }
}

/* Layers are the groups for which something runs, in order; past CONVOY_MAX_LAYERS they share the last one.
 */
static int describe_layers(struct convoy_net *net, const struct convoy_graph *graph,
                           const struct convoy_cpu_groups *groups, const struct convoy_cpu_kernel *kernels,
                           struct convoy_error *error)
{
    net->group_count = groups->count;
    net->layers = calloc((size_t)groups->count + 1, sizeof(net->layers[0]));
    net->layer_of_group = calloc((size_t)groups->count + 1, sizeof(int));
    net->group_us = calloc((size_t)groups->count + 1, sizeof(float));
    if (net->layers == NULL || net->layer_of_group == NULL || net->group_us == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to name %d layers", groups->count);
    for (int i = 0; i < groups->count; i++) {
        bool runs = kernels[i].text[0] != '\0';
        if ((runs || net->layer_count == 0) && net->layer_count < CONVOY_MAX_LAYERS) {
            struct convoy_layer_info *layer = &net->layers[net->layer_count++];
            const struct convoy_node *node = &graph->nodes[groups->groups[i].anchor];
            convoy_copy_layer_name(node->name, layer->name);
            snprintf(layer->kernel, sizeof(layer->kernel), "%s", runs ? kernels[i].text : "view");
        }
        net->layer_of_group[i] = net->layer_count - 1;
    }
    return 0;
}

/* One or all, nothing between. */
static int threads_for(const struct convoy_graph *graph, int64_t rows, int threads)
{
    double work = 0; /* huge networks would overflow an integer */
    int nodes = 0;
    for (int i = 0; i < graph->node_count; i++) {
        double node = convoy_cpu_node_work(graph, &graph->nodes[i]);
        work += node;
        nodes += node > 0;
    }
    return nodes > 0 && work * (double)rows / nodes < WORK_FOR_THREADS ? 1 : threads;
}

/* Adds the plans that are worth having beyond the set's first. sets: number of sets like it. */
static int add_buckets(struct convoy_net *net, struct convoy_cpu_plan_set *set, size_t sets, int64_t most,
                       const struct convoy_cpu_source *source, int threads, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 1; i < CONVOY_CPU_MAX_BUCKETS && !failed; i++) {
        int64_t rows = bucket_rows[i] < net->max_batch ? bucket_rows[i] : net->max_batch;
        size_t bytes = convoy_cpu_plan_set_arena_for(set, rows);
        if (rows <= bucket_rows[i - 1] || rows > most || bytes > MAX_ARENA_BYTES ||
            bytes * sets > MAX_SETS_BYTES)
            break;
        failed = convoy_cpu_plan_set_add(set, source, rows,
                                         threads > 1 ? threads_for(source->graph, rows, threads) : 1, error);
    }
    return failed;
}

static int build_thread_sets(struct convoy_net *net, const struct convoy_cpu_source *source, int count,
                             struct convoy_error *error)
{
    net->thread_sets = calloc((size_t)count, sizeof(net->thread_sets[0]));
    if (net->thread_sets == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for the plans of %d threads", count);
    int failed = 0;
    while (net->thread_set_count < count && !failed) {
        struct convoy_cpu_plan_set *set = &net->thread_sets[net->thread_set_count++];
        failed = convoy_cpu_plan_set_add(set, source, 1, 1, error);
        if (!failed)
            failed = add_buckets(net, set, (size_t)count, INT64_MAX, source, 1, error);
        if (!failed)
            failed = convoy_cpu_plan_set_finish(set, source->constants->engine, error);
    }
    return failed;
}

static int build_plans(struct convoy_net *net, const struct convoy_cpu_source *source, int threads,
                       struct convoy_error *error)
{
    int failed =
        convoy_cpu_plan_set_add(&net->shared_set, source, 1, threads_for(source->graph, 1, threads), error);
    if (failed)
        return failed;
    bool thread_sets = threads > 1 && net->max_batch > 1 &&
                       convoy_cpu_plan_set_arena_for(&net->shared_set, 1) * (size_t)threads <= MAX_SETS_BYTES;
    failed =
        add_buckets(net, &net->shared_set, 1, thread_sets ? threads - 1 : INT64_MAX, source, threads, error);
    if (!failed)
        failed = convoy_cpu_plan_set_finish(&net->shared_set, source->constants->engine, error);
    return failed || !thread_sets ? failed : build_thread_sets(net, source, threads, error);
}

/* The weights are those of the other plans, as far as oneDNN wants them in the same layout. */
static int build_nan_path(struct convoy_net *net, const struct convoy_graph *graph,
                          struct convoy_error *error)
{
    struct convoy_cpu_groups groups;
    int failed = convoy_cpu_group_nodes(graph, true, &groups, error);
    struct convoy_cpu_kernel *kernels = calloc((size_t)groups.count + 1, sizeof(*kernels));
    net->nan_path = calloc(1, sizeof(*net->nan_path));
    if (!failed && (kernels == NULL || net->nan_path == NULL))
        failed = convoy_fail(error, -ENOMEM, "no memory for the plan of rows with NaN");
    struct convoy_cpu_source source = {graph, &groups, &net->constants, kernels};
    if (net->nan_path != NULL)
        pthread_mutex_init(&net->nan_path->lock, NULL);
    if (!failed)
        failed = convoy_cpu_plan_set_add(&net->nan_path->set, &source, 1, 1, error);
    if (!failed)
        failed = convoy_cpu_plan_set_finish(&net->nan_path->set, net->constants.engine, error);
    free(kernels);
    convoy_cpu_groups_free(&groups);
    return failed;
}

static int build(struct convoy_net *net, const struct convoy_graph *graph, int threads,
                 struct convoy_error *error)
{
    struct convoy_cpu_groups groups;
    struct convoy_cpu_kernel *kernels = NULL;
    int failed = convoy_cpu_group_nodes(graph, false, &groups, error);
    if (!failed) {
        kernels = calloc((size_t)groups.count + 1, sizeof(*kernels));
        if (kernels == NULL)
            failed = convoy_fail(error, -ENOMEM, "no memory to name %d layers", groups.count);
    }
    struct convoy_cpu_source source = {graph, &groups, &net->constants, kernels};
    if (!failed)
        failed = build_plans(net, &source, threads, error);
    if (!failed)
        failed = build_nan_path(net, graph, error);
    if (!failed)
        failed = describe_layers(net, graph, &groups, kernels, error);
    omp_set_num_threads(threads);
    free(kernels);
    convoy_cpu_groups_free(&groups);
    return failed;
}

int convoy_cpu_net_load(dnnl_engine_t engine, dnnl_stream_t stream, int threads,
                        const struct convoy_cpu_progress *progress, const struct convoy_graph *graph,
                        const struct convoy_load_options *options, struct convoy_net **net,
                        struct convoy_net_info *info, struct convoy_error *error)
{
    memset(info, 0, sizeof(*info));
    int failed = convoy_check_graph(graph, error);
    if (failed)
        return failed;
    struct convoy_net *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for a network");
    made->constants.engine = engine;
    made->constants.stream = stream;
    made->shared_set.stream = stream;
    made->progress = *progress;
    made->max_batch = options->max_batch > 0 ? options->max_batch : 1;
    if (graph->tensors[graph->input].shape.batch_axis < 0)
        made->max_batch = 1;
    convoy_describe_shapes(graph, info);
    describe_input(made, options, info);
    describe_outputs(made, graph);
    failed = build(made, graph, threads, error);
    if (failed) {
        convoy_cpu_net_free(made);
        return failed;
    }
    info->precision = CONVOY_COMPUTE_FP32;
    info->weight_bytes = made->constants.bytes;
    info->layer_count = (uint32_t)made->layer_count;
    info->layers = made->layers;
    *net = made;
    return 0;
}

static float elapsed_us(struct timespec *mark)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double us = (double)(now.tv_sec - mark->tv_sec) * 1e6 + (double)(now.tv_nsec - mark->tv_nsec) / 1e3;
    *mark = now;
    return (float)us;
}

static int check_job(const struct convoy_net *net, const struct convoy_job *job, struct convoy_error *error)
{
    if (job->rows < 1 || job->rows > net->max_batch)
        return convoy_fail(error, -EINVAL, "a job of %u rows was given to a network that takes 1 to %u",
                           job->rows, net->max_batch);
    if (job->layout == CONVOY_LAYOUT_U8_HWC && !net->takes_u8)
        return convoy_fail(error, -EINVAL,
                           "8-bit rows were given to a network of %ld channels, it takes them up to %d",
                           (long)net->image.channels, CONVOY_MAX_U8_CHANNELS);
    return 0;
}

static void write_outputs(const struct convoy_net *net, const struct convoy_cpu_plan *plan,
                          const struct convoy_job *job, uint32_t first)
{
    float *to = (float *)(void *)((char *)job->output + first * job->output_stride);
    for (int i = 0; i < net->output_count; i++) {
        convoy_cpu_write_rows(&net->outputs[i], plan->reps[plan->outputs[i]].data, plan->rows, to,
                              job->output_stride);
        to += net->output_elements[i];
    }
}

/* Computes those of `count` rows from `first` on again that have NaN. */
static int run_nan_rows(const struct convoy_net *net, const struct convoy_job *job, uint32_t first,
                        int64_t count, struct convoy_error *error)
{
    const struct convoy_cpu_plan *plan = &net->nan_path->set.buckets[0];
    int failed = 0;
    for (uint32_t row = first; row < first + count && !failed; row++) {
        const float *input =
            (const float *)(const void *)((const char *)job->input + row * job->input_stride);
        if (!convoy_cpu_row_has_nan(&net->image, input))
            continue;
        pthread_mutex_lock(&net->nan_path->lock);
        convoy_cpu_read_rows(&net->image, job->layout, input, job->input_stride, 1, plan->input_interleaved,
                             plan->reps[plan->input].data);
        failed = convoy_cpu_plan_run(plan, net->nan_path->set.stream, &net->progress, NULL, error);
        if (!failed)
            write_outputs(net, plan, job, row);
        pthread_mutex_unlock(&net->nan_path->lock);
    }
    return failed;
}

/* The images from `first` on that plan takes. Adds to times and, unless it is NULL, to group_us. */
static int run_pass(const struct convoy_net *net, const struct convoy_cpu_plan *plan, dnnl_stream_t stream,
                    const struct convoy_job *job, uint32_t first, struct convoy_job_times *times,
                    float *group_us, struct convoy_error *error)
{
    const char *input = (const char *)job->input + first * job->input_stride;
    struct timespec mark;
    clock_gettime(CLOCK_MONOTONIC, &mark);
    convoy_cpu_read_rows(&net->image, job->layout, input, job->input_stride, plan->rows,
                         plan->input_interleaved, plan->reps[plan->input].data);
    times->input_us += elapsed_us(&mark);
    int failed = convoy_cpu_plan_run(plan, stream, &net->progress, group_us, error);
    if (failed)
        return failed;
    times->compute_us += elapsed_us(&mark);
    write_outputs(net, plan, job, first);
    times->output_us += elapsed_us(&mark);
    if (job->layout == CONVOY_LAYOUT_F32_CHW) /* bytes are numbers */
        failed = run_nan_rows(net, job, first, plan->rows, error);
    times->compute_us += elapsed_us(&mark);
    return failed;
}

/* Runs pass after pass on the calling thread and its OpenMP team. */
static int run_on_openmp(const struct convoy_net *net, const struct convoy_job *job,
                         struct convoy_job_times *times, struct convoy_error *error)
{
    float *group_us = job->profile && times->layer_us != NULL ? net->group_us : NULL;
    int failed = 0;
    if (group_us != NULL)
        memset(group_us, 0, (size_t)net->group_count * sizeof(float));
    for (uint32_t done = 0; done < job->rows && !failed;) {
        const struct convoy_cpu_plan *plan = convoy_cpu_plan_set_bucket(&net->shared_set, job->rows - done);
        failed = run_pass(net, plan, net->shared_set.stream, job, done, times, group_us, error);
        done += (uint32_t)plan->rows;
    }
    if (failed || group_us == NULL)
        return failed;
    memset(times->layer_us, 0, (size_t)net->layer_count * sizeof(float));
    for (int i = 0; i < net->group_count; i++)
        times->layer_us[net->layer_of_group[i]] += group_us[i];
    return 0;
}

/* A job whose images the team shares. */
struct shared_job {
    const struct convoy_net *net;
    const struct convoy_job *job;
    int64_t pass_rows; /* of a pass, at most */
    pthread_mutex_t lock;
    uint32_t next; /* the first image that no thread has taken */
    int failed;
    struct convoy_error error;
    struct convoy_job_times times; /* sums over all threads */
};

/* Takes passes from the job until there are none. Which images are a pass does not depend on who takes it, so
 * the same job gives the same bits however busy the machine is. */
static void run_share(void *context, int thread)
{
    struct shared_job *shared = context;
    const struct convoy_cpu_plan_set *set = &shared->net->thread_sets[thread];
    struct convoy_job_times times = {0};
    struct convoy_error error;
    int failed = 0;
    pthread_mutex_lock(&shared->lock);
    while (shared->next < shared->job->rows && shared->failed == 0) {
        uint32_t first = shared->next;
        int64_t rows = shared->job->rows - first;
        const struct convoy_cpu_plan *plan =
            convoy_cpu_plan_set_bucket(set, rows < shared->pass_rows ? rows : shared->pass_rows);
        shared->next += (uint32_t)plan->rows;
        pthread_mutex_unlock(&shared->lock);
        failed = run_pass(shared->net, plan, set->stream, shared->job, first, &times, NULL, &error);
        pthread_mutex_lock(&shared->lock);
        if (failed && shared->failed == 0) {
            shared->failed = failed;
            shared->error = error;
        }
    }
    shared->times.input_us += times.input_us;
    shared->times.compute_us += times.compute_us;
    shared->times.output_us += times.output_us;
    pthread_mutex_unlock(&shared->lock);
}

static int run_on_thread_team(const struct convoy_net *net, struct convoy_cpu_thread_team *team,
                              const struct convoy_job *job, struct convoy_job_times *times,
                              struct convoy_error *error)
{
    /* At least two passes a thread, so that a thread that is delayed leaves its second one to another. */
    int64_t pass_rows = job->rows / (2 * (uint32_t)net->thread_set_count);
    struct shared_job shared = {.net = net,
                                .job = job,
                                .pass_rows = pass_rows > 1 ? pass_rows : 1,
                                .lock = PTHREAD_MUTEX_INITIALIZER};
    int threads = job->rows < (uint32_t)net->thread_set_count ? (int)job->rows : net->thread_set_count;
    struct timespec mark;
    clock_gettime(CLOCK_MONOTONIC, &mark);
    convoy_cpu_thread_team_run(team, threads, run_share, &shared);
    pthread_mutex_destroy(&shared.lock);
    if (shared.failed) {
        *error = shared.error;
        return shared.failed;
    }
    /* The time that passed, divided among the stages as the threads' own times are. */
    const struct convoy_job_times *sum = &shared.times;
    float all = sum->input_us + sum->compute_us + sum->output_us;
    float part = all > 0 ? elapsed_us(&mark) / all : 0;
    times->input_us = sum->input_us * part;
    times->compute_us = sum->compute_us * part;
    times->output_us = sum->output_us * part;
    return 0;
}

/* Many images are shared out; of few, each is computed by all threads, if it is work enough for them. */
static bool suits_thread_team(const struct convoy_net *net, const struct convoy_job *job)
{
    return net->thread_set_count > 0 && !job->profile && job->rows > 1 &&
           (job->rows * 2 >= (uint32_t)net->thread_set_count ||
            convoy_cpu_plan_set_bucket(&net->shared_set, job->rows)->threads == 1);
}

int convoy_cpu_net_run(const struct convoy_net *net, struct convoy_cpu_thread_team *team,
                       const struct convoy_job *job, struct convoy_error *error)
{
    struct convoy_job_times times = {.layer_us = job->times != NULL ? job->times->layer_us : NULL};
    int failed = check_job(net, job, error);
    if (!failed)
        failed = suits_thread_team(net, job) ? run_on_thread_team(net, team, job, &times, error)
                                             : run_on_openmp(net, job, &times, error);
    if (!failed && job->times != NULL)
        *job->times = times;
    return failed;
}

int convoy_cpu_net_verify(struct convoy_net *net, int64_t budget_us, struct convoy_error *error)
{
    return convoy_cpu_constants_verify(&net->constants, budget_us, error);
}

void convoy_cpu_net_free(struct convoy_net *net)
{
    if (net == NULL)
        return;
    convoy_cpu_plan_set_free(&net->shared_set);
    for (int i = 0; i < net->thread_set_count; i++)
        convoy_cpu_plan_set_free(&net->thread_sets[i]);
    if (net->nan_path != NULL) {
        convoy_cpu_plan_set_free(&net->nan_path->set);
        pthread_mutex_destroy(&net->nan_path->lock);
    }
    free(net->nan_path);
    convoy_cpu_constants_free(&net->constants);
    free(net->thread_sets);
    free(net->layer_of_group);
    free(net->group_us);
    free(net->layers);
    free(net);
}
