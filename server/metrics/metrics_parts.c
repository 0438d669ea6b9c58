/* What is counted with each request, in parts by thread. */
#include "server/metrics/metrics_internal.h"

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

struct convoy_histogram *convoy_metrics_stage(struct convoy_model_metrics *model, enum convoy_stage stage)
{
    struct convoy_model_part *part = convoy_metrics_part(model);
    switch (stage) {
    case CONVOY_STAGE_DECODE:
        return &part->decode;
    case CONVOY_STAGE_WAIT:
        return &part->wait;
    case CONVOY_STAGE_REQUEST:
        return &part->request;
    default:
        return &model->stages[stage];
    }
}

static void add_histogram(struct convoy_histogram *sums, const struct convoy_histogram *histogram)
{
    for (unsigned i = 0; i <= CONVOY_TIME_BUCKETS; i++)
        convoy_metrics_add(&sums->counts[i], get(&histogram->counts[i]));
    convoy_metrics_add(&sums->sum, get(&histogram->sum));
}

void convoy_metrics_sum_stage(const struct convoy_model_metrics *model, enum convoy_stage stage,
                              struct convoy_histogram *sums)
{
    *sums = (struct convoy_histogram){0};
    add_histogram(sums, &model->stages[stage]);
    for (uint32_t i = 0; i < CONVOY_THREAD_PARTS; i++) {
        const struct convoy_model_part *part = &model->parts[i];
        if (stage == CONVOY_STAGE_DECODE)
            add_histogram(sums, &part->decode);
        else if (stage == CONVOY_STAGE_WAIT)
            add_histogram(sums, &part->wait);
        else if (stage == CONVOY_STAGE_REQUEST)
            add_histogram(sums, &part->request);
    }
}

struct convoy_model_sums convoy_metrics_sum_model(const struct convoy_model_metrics *model)
{
    struct convoy_model_sums sums = {0};
    for (uint32_t i = 0; i < CONVOY_THREAD_PARTS; i++) {
        const struct convoy_model_part *part = &model->parts[i];
        sums.decoded_by_cpu += get(&part->decoded_by_cpu);
        sums.decoded_by_gpu += get(&part->decoded_by_gpu);
        sums.queue += get(&part->queue);
    }
    /* An image may be counted as one that is no longer queued where its arrival was not seen yet. */
    if ((int64_t)sums.queue < 0)
        sums.queue = 0;
    return sums;
}
