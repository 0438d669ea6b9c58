#include "server/models/model.h"

#include "engine/base/log.h"
#include "server/models/model_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct convoy_labels *convoy_labels_new(struct convoy_label_list *list)
{
    struct convoy_labels *labels = calloc(1, sizeof *labels);
    if (labels == NULL)
        return NULL;
    atomic_init(&labels->holders, 1);
    labels->list = *list;
    memset(list, 0, sizeof *list);
    return labels;
}

void convoy_labels_release(struct convoy_labels *labels)
{
    if (labels == NULL || atomic_fetch_sub(&labels->holders, 1) != 1)
        return;
    convoy_label_list_free(&labels->list);
    free(labels);
}

const struct convoy_label_list *convoy_labels_list(const struct convoy_labels *labels)
{
    return &labels->list;
}

/* Fewer or more labels than classes are most likely those of another network, and nothing else would show it.
 */
void convoy_labels_compare(const struct convoy_model_record *model)
{
    uint32_t labels = model->labels == NULL ? 0 : model->labels->list.count;
    uint64_t classes = model->shape.output_elements[0];

    if (labels != 0 && labels != classes)
        convoy_log(CONVOY_LOG_WARNING,
                   "labels and classes differ in number: are these another model's labels?",
                   CONVOY_STR("model", model->name), CONVOY_STR("version", model->version),
                   CONVOY_UINT("labels", labels), CONVOY_UINT("classes", classes));
}

void convoy_model_hold(struct convoy_model_record *model)
{
    atomic_fetch_add(&model->holders, 1);
}

void convoy_model_release(struct convoy_model_record *model)
{
    if (model != NULL)
        atomic_fetch_sub(&model->holders, 1);
}

/* What makes probabilities of the first output. */
static enum convoy_output_activation activation_of(const struct convoy_model_record *model)
{
    if (model->config->activation != CONVOY_ACTIVATION_AUTO)
        return model->config->activation;
    return model->shape.ends_in_softmax || model->shape.ends_in_sigmoid ? CONVOY_ACTIVATION_NONE
                                                                        : CONVOY_ACTIVATION_SOFTMAX;
}

void convoy_model_view_fill(struct convoy_model_record *model, struct convoy_model_view *view)
{
    *view = (struct convoy_model_view){.model = model,
                                       .state = model->state,
                                       .evicted = model->evicted,
                                       .shape = model->shape,
                                       .labels = model->labels};
    memcpy(view->reason, model->reason, sizeof view->reason);
    convoy_model_hold(model);
    if (view->labels != NULL)
        atomic_fetch_add(&view->labels->holders, 1);
    if (model->config == NULL)
        return;
    view->activation = activation_of(model);
    view->threshold = model->config->threshold;
    view->max_delay_us = model->config->batching.max_delay_us;
    convoy_model_input_resizing(&model->config->input, model->shape.height, model->shape.width,
                                &view->resizing);
}

void convoy_model_view_end(struct convoy_model_view *view)
{
    convoy_labels_release(view->labels);
    view->labels = NULL;
    convoy_model_release(view->model);
    view->model = NULL;
}

const char *convoy_model_label(const struct convoy_model_view *view, uint32_t index, char *buffer)
{
    if (view->labels != NULL && index < view->labels->list.count)
        return view->labels->list.labels[index];
    snprintf(buffer, 16, "%u", index);
    return buffer;
}

const char *convoy_model_label_file(const struct convoy_model_view *view)
{
    return view->labels != NULL && view->labels->list.name != NULL ? view->labels->list.name : "";
}

void convoy_model_answered(struct convoy_model_record *model, bool well, uint64_t us)
{
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_REQUEST, us);
    convoy_statistics_answered(model->statistics, well, us);
}

void convoy_model_waited(struct convoy_model_record *model, const struct convoy_observations *waits)
{
    convoy_metrics_observe_all(model->metrics, CONVOY_STAGE_QUEUE, waits);
    convoy_statistics_waited(model->statistics, waits->sum_us, waits->times);
}

void convoy_model_ran(struct convoy_model_record *model, struct convoy_device_metrics *device, uint32_t rows,
                      const struct convoy_batch_times *times)
{
    convoy_metrics_batch(model->metrics, device, rows);
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_INPUT, times->input_us);
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_COMPUTE, times->compute_us);
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_OUTPUT, times->output_us);
    convoy_statistics_ran(model->statistics, rows, times);
}

void convoy_model_looked_up(struct convoy_model_record *model, bool hit, uint64_t ns)
{
    convoy_metrics_cache_lookup(model->metrics, hit);
    convoy_statistics_looked_up(model->statistics, hit, ns);
}

void convoy_model_inserted(struct convoy_model_record *model, uint64_t ns)
{
    convoy_statistics_inserted(model->statistics, ns);
}
