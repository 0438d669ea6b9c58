#include "engine/cuda/tune/tuner.h"

#include "engine/base/clock.h"
#include "engine/cuda/net/net.h"
#include "engine/cuda/tune/cache.h"

#include <errno.h>
#include <stdio.h>

/* Returns the index of the bucket to tune next: the smallest first, because a daemon sees single images
 * first, then the largest, which serves a full load, then the others, those between two at last. */
static int bucket_at(const struct convoy_net *net, int turn)
{
    int last = net->bucket_count - 1, left = turn - 2;
    for (int between = 0; between < 2 && turn > 1; between++)
        for (int i = 1; i < last; i++)
            if (net->buckets[i].between == (between != 0) && left-- == 0)
                return i;
    return turn == 0 ? 0 : last;
}

static bool is_known(const struct convoy_cuda_kernel_choices *choices, const struct convoy_cuda_step *step)
{
    switch (step->kind) {
    case CONVOY_CUDA_CONV:
        return convoy_cuda_knows_conv(choices, &step->conv.shape);
    case CONVOY_CUDA_GEMM:
        return convoy_cuda_knows_gemm(choices, &step->gemm.shape);
    default:
        return true;
    }
}

/* Sets *layout to that of the step's plan. */
static const struct convoy_cuda_step *first_unknown(const struct convoy_cuda_kernel_choices *choices,
                                                    const struct convoy_cuda_bucket *bucket,
                                                    enum convoy_input_layout *layout)
{
    for (int k = 0; k < CONVOY_ROW_LAYOUTS; k++) {
        *layout = (enum convoy_input_layout)k;
        for (int i = 0; i < bucket->plans[k].step_count; i++)
            if (!is_known(choices, &bucket->plans[k].steps[i]))
                return &bucket->plans[k].steps[i];
    }
    return NULL;
}

void convoy_cuda_tuner_init(struct convoy_cuda_tuner *tuner, const struct convoy_open_options *options,
                            struct convoy_cuda_gpu *gpu, struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_cuda_cache *cache)
{
    tuner->mode = options->tune;
    tuner->context = options->context;
    tuner->changed = options->changed;
    tuner->gpu = gpu;
    tuner->choices = choices;
    tuner->cache = cache;
}

static void begin_net(struct convoy_cuda_tuner *tuner, struct convoy_net *net)
{
    while (net != NULL && net->tuned)
        net = net->next;
    tuner->net = net;
    tuner->turn = tuner->measured = 0;
    tuner->rebuilt = tuner->fresh = tuner->noted = false;
    tuner->spent_us = 0;
}

/* Ends the tuning of the network, because all is known or memory is out: uses the results and writes the
 * cache. */
static void end_net(struct convoy_cuda_tuner *tuner, const struct convoy_error *trouble)
{
    struct convoy_net *net = tuner->net;
    net->tuned = true;
    net->source.layers_first = false;
    tuner->net = NULL;
    convoy_cuda_tune_kernel_stop(&tuner->kernel);
    tuner->network.net = NULL;
    if (trouble != NULL)
        convoy_cuda_log(tuner->gpu, "warning",
                        "model '%s' keeps the kernels that it has where they are not tuned yet: %s",
                        net->name, trouble->message);
    else if (tuner->measured > 0)
        convoy_cuda_log(tuner->gpu, "info", "model '%s' is tuned: %u layers, %d shapes timed in %.1f s",
                        net->name, net->info.layer_count, tuner->measured, (double)tuner->spent_us / 1e6);
    convoy_cuda_rebuilt(net);
    if (tuner->rebuilt && tuner->changed != NULL)
        tuner->changed(tuner->context, net, &net->info);
    if (tuner->noted)
        convoy_cuda_cache_write(tuner->cache, tuner->gpu, tuner->choices);
}

/* More is known than what the bucket was planned with, and than the cache has. */
static void note_more(struct convoy_cuda_tuner *tuner)
{
    tuner->noted = true;
    tuner->fresh = false;
}

/* Begins to time the next shape of tuner->net, or rebuilds a bucket that is known. */
static int next_shape(struct convoy_cuda_tuner *tuner, struct convoy_error *error)
{
    struct convoy_net *net = tuner->net;
    if (tuner->turn == net->bucket_count) {
        end_net(tuner, NULL);
        return 0;
    }
    int index = bucket_at(net, tuner->turn);
    net->source.layers_first = true;
    if (net->buckets[index].between) {
        int noted = convoy_cuda_tune_adopt(net, index, tuner->choices);
        if (noted < 0)
            return convoy_fail(error, noted, "no memory to note kernels");
        if (noted > 0)
            note_more(tuner);
    }
    if (convoy_cuda_tune_bottleneck_guessed(net, index)) {
        tuner->rebuilt = true;
        return convoy_cuda_rebuild(tuner->gpu, net, index, error);
    }
    const struct convoy_cuda_step *step = first_unknown(tuner->choices, &net->buckets[index], &tuner->layout);
    if (step != NULL)
        return convoy_cuda_tune_kernel_begin(&tuner->kernel, &tuner->measure, tuner->gpu, net, step, error);
    enum convoy_input_layout layout;
    const struct convoy_bottleneck_shape *shape = convoy_cuda_tune_bottleneck_wanted(net, index, &layout);
    if (shape != NULL) {
        convoy_cuda_tune_bottleneck_begin(&tuner->network, net, index, layout, shape);
        return 0;
    }
    if (convoy_cuda_tune_network_wanted(net, net->buckets[index].rows, &layout))
        return convoy_cuda_tune_network_begin(&tuner->network, net, net->buckets[index].rows, layout, error);
    if (!tuner->fresh && convoy_cuda_bucket_is_stale(&net->buckets[index], &net->source)) {
        tuner->fresh = tuner->rebuilt = true;
        return convoy_cuda_rebuild(tuner->gpu, net, index, error);
    }
    tuner->fresh = false;
    if (convoy_cuda_tune_branches_wanted(net, index, &layout)) {
        convoy_cuda_tune_branches_begin(&tuner->network, net, index, layout);
        return 0;
    }
    net->buckets[index].passed_over = false;
    tuner->turn++;
    return 0;
}

static int note(struct convoy_cuda_tuner *tuner, const struct convoy_cuda_key *key, const char *best,
                float us, struct convoy_error *error)
{
    tuner->measured++;
    note_more(tuner);
    if (convoy_cuda_kernel_choices_set(tuner->choices, key, best, us) != 0)
        return convoy_fail(error, -ENOMEM, "no memory to note a kernel's time");
    return 0;
}

static int go_on(struct convoy_cuda_tuner *tuner, struct convoy_error *error)
{
    struct convoy_cuda_tune_kernel *tuning = &tuner->kernel;
    if (tuner->network.net != NULL) {
        int more = convoy_cuda_tune_network_go_on(&tuner->network, &tuner->measure, tuner->gpu, error);
        if (more != 0)
            return more < 0 ? more : 0;
        return note(tuner, &tuner->network.key, tuner->network.best, tuner->network.best_us, error);
    }
    if (tuning->net == NULL)
        return next_shape(tuner, error);
    int got = convoy_cuda_tune_kernel_go_on(tuning, &tuner->measure, tuner->gpu, error);
    if (got != 0)
        return got < 0 ? got : 0;
    if (tuning->best == NULL)
        return convoy_fail(error, -ENOMEM, "no kernel could be tried: %s", tuning->no_room.message);
    if (convoy_cuda_tune_finalists_begin(&tuner->network, tuning, tuner->net,
                                         tuner->net->buckets[bucket_at(tuner->net, tuner->turn)].rows,
                                         tuner->layout))
        return 0;
    return note(tuner, &tuning->key, tuning->best, tuning->best_us, error);
}

int convoy_cuda_tuner_go_on(struct convoy_cuda_tuner *tuner, struct convoy_net *nets, int64_t budget_us,
                            struct convoy_error *error)
{
    uint64_t begun = convoy_now_us(), now = begun;
    do {
        if (tuner->net == NULL)
            begin_net(tuner, nets);
        if (tuner->net == NULL) {
            convoy_cuda_tuner_free(tuner);
            return 0;
        }
        uint64_t from = now;
        int failed = go_on(tuner, error);
        now = convoy_now_us();
        tuner->spent_us += now - from;
        if (failed == -ENOMEM)
            end_net(tuner, error);
        else if (failed)
            return failed;
    } while (now < begun + (uint64_t)(budget_us > 0 ? budget_us : 0));
    return 1;
}

void convoy_cuda_tuner_forget(struct convoy_cuda_tuner *tuner, const struct convoy_net *net)
{
    if (tuner->net != net)
        return;
    convoy_cuda_tune_kernel_stop(&tuner->kernel);
    tuner->network.net = NULL;
    tuner->net = NULL;
}

void convoy_cuda_tuner_free(struct convoy_cuda_tuner *tuner)
{
    convoy_cuda_tune_kernel_free(&tuner->kernel);
    convoy_cuda_measure_free(&tuner->measure);
    tuner->net = NULL;
}
