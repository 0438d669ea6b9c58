#include "server/api/trace_export.h"

#include "engine/base/clock.h"

#include <stdio.h>
#include <string.h>

bool convoy_trace_recorded(struct convoy_exporter *exporter, struct convoy_trace_context *context)
{
    if (exporter == NULL)
        return false;
    if (context->parent_id[0] != '\0') /* the caller has decided */
        return context->sampled;
    if (!convoy_exporter_samples(exporter))
        return false;
    if (context->trace_id[0] == '\0')
        convoy_traceparent_begin(context);
    context->sampled = true;
    return true;
}

/* To be added to convoy_now_ns(), for nanoseconds since the epoch. One difference for all times of a request,
 * so that a clock which is set meanwhile does not tear them apart. */
static uint64_t epoch_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - convoy_now_ns();
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* The stages of the sample, which the batcher has finished. Both ends of its stay there are known; the
 * device's three stages follow the queue. */
static void place_stages(struct convoy_request_span *span, const struct convoy_sample *sample,
                         uint64_t offset_ns)
{
    const struct convoy_item *item = &sample->item;
    uint64_t *at = span->stage_ns, submitted_ns = offset_ns + item->submitted_us * 1000;

    at[CONVOY_SPAN_WAIT] = span->complete_ns;
    at[CONVOY_SPAN_DECODE] = submitted_ns - sample->decode_us * 1000;
    at[CONVOY_SPAN_QUEUE] = submitted_ns;
    at[CONVOY_SPAN_INPUT] = submitted_ns + item->queue_us * 1000;
    at[CONVOY_SPAN_COMPUTE] = at[CONVOY_SPAN_INPUT] + (uint64_t)(item->input_us * 1000);
    at[CONVOY_SPAN_OUTPUT] = at[CONVOY_SPAN_COMPUTE] + (uint64_t)(item->compute_us * 1000);
    at[CONVOY_SPAN_STAGES] = at[CONVOY_SPAN_OUTPUT] + (uint64_t)(item->output_us * 1000);
    /* The device's clock is another one than this: a span must not end before it begins, nor after its
     * parent. */
    for (int i = CONVOY_SPAN_DECODE; i <= CONVOY_SPAN_STAGES; i++)
        at[i] = within(at[i], at[i - 1], span->ended_ns);
    span->staged = true;
}

void convoy_trace_export(struct convoy_exporter *exporter, const struct convoy_request *request,
                         const struct convoy_inference_request *inference,
                         const struct convoy_inference_summary *summary, int status)
{
    const struct convoy_model_record *model = inference->view.model;
    uint64_t offset_ns = epoch_ns();
    struct convoy_request_span span = {.context = request->trace,
                                       .route = request->route->template,
                                       .status = status,
                                       .images = inference->count,
                                       .cached = summary->cached,
                                       .retries = summary->retries,
                                       .decode_us = convoy_inference_request_decode_us(inference),
                                       .begun_ns = offset_ns + request->begun_us * 1000,
                                       .complete_ns = offset_ns + request->complete_us * 1000,
                                       .ended_ns = offset_ns + convoy_now_ns()};

    memcpy(span.request_id, request->id, sizeof span.request_id);
    memcpy(span.method, request->method, sizeof span.method);
    snprintf(span.model, sizeof span.model, "%s", model->name);
    snprintf(span.version, sizeof span.version, "%s", model->version);
    if (summary->last != NULL) {
        snprintf(span.device, sizeof span.device, "%s", summary->last->device);
        span.batch_size = summary->last->batch_size;
    }
    for (uint32_t i = 0; i < inference->count; i++)
        if (&inference->samples[i].item == summary->last && !inference->samples[i].cached)
            place_stages(&span, &inference->samples[i], offset_ns);
    convoy_exporter_add(exporter, &span);
}
