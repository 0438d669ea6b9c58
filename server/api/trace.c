#include "server/api/trace.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/api/trace_export.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct scope {
    struct scope *next;
    char *model; /* NULL: all */
    bool has_on, has_rate, has_count;
    struct convoy_trace_settings settings; /* those that it has */
    uint64_t seen;                         /* requests since the rate was set */
};

struct convoy_trace {
    struct convoy_exporter *exporter; /* NULL: nothing is exported */
    atomic_bool any;                  /* some scope is on */
    pthread_mutex_t lock;
    struct scope all, *models;
};

static const struct convoy_trace_settings built_in = {
    .on = false, .rate = CONVOY_TRACE_RATE, .count = CONVOY_TRACE_COUNT};

struct convoy_trace *convoy_trace_new(struct convoy_exporter *exporter)
{
    struct convoy_trace *trace = calloc(1, sizeof *trace);

    if (trace == NULL)
        return NULL;
    trace->exporter = exporter;
    pthread_mutex_init(&trace->lock, NULL);
    return trace;
}

void convoy_trace_free(struct convoy_trace *trace)
{
    if (trace == NULL)
        return;
    for (struct scope *scope = trace->models, *next; scope != NULL; scope = next) {
        next = scope->next;
        free(scope->model);
        free(scope);
    }
    pthread_mutex_destroy(&trace->lock);
    free(trace);
}

static struct scope *scope_of(struct convoy_trace *trace, const char *model)
{
    struct scope *scope = trace->models;

    while (scope != NULL && strcmp(scope->model, model) != 0)
        scope = scope->next;
    return scope;
}

/* Where each setting of the model comes from: its own scope, else that of all, else NULL. */
static struct convoy_trace_settings effective(struct convoy_trace *trace, const struct scope *own)
{
    const struct scope *all = &trace->all;

    return (struct convoy_trace_settings){.on = own != NULL && own->has_on ? own->settings.on
                                                : all->has_on              ? all->settings.on
                                                                           : built_in.on,
                                          .rate = own != NULL && own->has_rate ? own->settings.rate
                                                  : all->has_rate              ? all->settings.rate
                                                                               : built_in.rate,
                                          .count = own != NULL && own->has_count ? own->settings.count
                                                   : all->has_count              ? all->settings.count
                                                                                 : built_in.count};
}

void convoy_trace_get(struct convoy_trace *trace, const char *model, struct convoy_trace_settings *settings)
{
    pthread_mutex_lock(&trace->lock);
    *settings = effective(trace, model == NULL ? NULL : scope_of(trace, model));
    pthread_mutex_unlock(&trace->lock);
}

static struct scope *make_scope(struct convoy_trace *trace, const char *model)
{
    struct scope *scope = calloc(1, sizeof *scope);

    if (scope == NULL || (scope->model = strdup(model)) == NULL) {
        free(scope);
        return NULL;
    }
    scope->next = trace->models;
    trace->models = scope;
    return scope;
}

static void apply(struct scope *scope, const struct convoy_trace_change *change)
{
    if (change->on != CONVOY_TRACE_KEPT)
        scope->has_on = change->on == CONVOY_TRACE_SET;
    if (change->rate != CONVOY_TRACE_KEPT)
        scope->has_rate = change->rate == CONVOY_TRACE_SET;
    if (change->count != CONVOY_TRACE_KEPT)
        scope->has_count = change->count == CONVOY_TRACE_SET;
    if (change->on == CONVOY_TRACE_SET)
        scope->settings.on = change->to.on;
    if (change->rate == CONVOY_TRACE_SET)
        scope->settings.rate = change->to.rate;
    if (change->count == CONVOY_TRACE_SET)
        scope->settings.count = change->to.count;
    scope->seen = 0;
}

static bool any_on(const struct convoy_trace *trace)
{
    if (trace->all.has_on && trace->all.settings.on)
        return true;
    for (const struct scope *scope = trace->models; scope != NULL; scope = scope->next)
        if (scope->has_on && scope->settings.on)
            return true;
    return false;
}

bool convoy_trace_change(struct convoy_trace *trace, const char *model,
                         const struct convoy_trace_change *change)
{
    pthread_mutex_lock(&trace->lock);
    struct scope *scope = model == NULL ? &trace->all : scope_of(trace, model);
    if (scope == NULL)
        scope = make_scope(trace, model);
    if (scope != NULL)
        apply(scope, change);
    atomic_store_explicit(&trace->any, any_on(trace), memory_order_relaxed);
    pthread_mutex_unlock(&trace->lock);
    return scope != NULL;
}

/* Is it this request's turn? A model that has settings of its own counts its own requests. */
static bool takes(struct convoy_trace *trace, const char *model)
{
    struct scope *own = scope_of(trace, model);
    struct convoy_trace_settings settings = effective(trace, own);
    struct scope *counts = own != NULL ? own : &trace->all;
    struct scope *ends = own != NULL && own->has_count ? own : &trace->all;

    if (!settings.on || settings.count == 0 || ++counts->seen % settings.rate != 0)
        return false;
    if (settings.count > 0)
        ends->settings.count--;
    return true;
}

static bool its_turn(struct convoy_trace *trace, const char *model)
{
    if (!atomic_load_explicit(&trace->any, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&trace->lock);
    bool result = takes(trace, model);
    pthread_mutex_unlock(&trace->lock);
    return result;
}

void convoy_trace_request(struct convoy_trace *trace, struct convoy_request *request,
                          const struct convoy_inference_request *inference, int status)
{
    const struct convoy_model_record *model = inference->view.model;
    struct convoy_inference_summary summary;
    bool recorded = convoy_trace_recorded(trace->exporter, &request->trace);
    bool logged = its_turn(trace, model->name);

    if (!recorded && !logged)
        return;
    convoy_inference_request_summarise(inference, &summary);
    if (recorded)
        convoy_trace_export(trace->exporter, request, inference, &summary, status);
    if (!logged)
        return;
    uint64_t total_us = convoy_now_us() - request->complete_us;
    convoy_log(CONVOY_LOG_INFO, "trace", CONVOY_STR("request_id", request->id),
               CONVOY_STR("trace_id", request->trace.trace_id), CONVOY_STR("route", request->route->template),
               CONVOY_STR("model", model->name), CONVOY_STR("version", model->version),
               CONVOY_INT("status", status), CONVOY_UINT("images", inference->count),
               CONVOY_UINT("cached", summary.cached),
               CONVOY_UINT("receive_us", request->complete_us - request->begun_us),
               CONVOY_UINT("decode_us", convoy_inference_request_decode_us(inference)),
               CONVOY_UINT("wait_us", convoy_inference_request_wait_us(inference, total_us)),
               CONVOY_UINT("queue_us", summary.queue_us), CONVOY_FLOAT("input_us", (double)summary.input_us),
               CONVOY_FLOAT("compute_us", (double)summary.compute_us),
               CONVOY_FLOAT("output_us", (double)summary.output_us), CONVOY_UINT("total_us", total_us),
               CONVOY_UINT("batch_size", summary.last == NULL ? 0 : summary.last->batch_size),
               CONVOY_STR("device", summary.last == NULL ? "" : summary.last->device),
               CONVOY_UINT("retries", summary.retries));
}
