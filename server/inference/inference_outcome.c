/* What became of an inference request: statuses, times, what the response cache keeps of it. */
#include "engine/base/clock.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/inference/inference_request.h"

#include <errno.h>

/* What is said only of samples with a class activation map; 0: nothing. */
static int outcome_of_map(int status, const char **sentence)
{
    switch (status) {
    case -EAGAIN:
        *sentence = "networks for class activation maps were loaded too often: try again in a second";
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -ESTALE:
        *sentence = "the model's files are not those that it was loaded from: load it again";
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -ENOMEM:
        *sentence = "memory does not suffice for the network that computes class activation maps: unload a "
                    "model, or try again later";
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -EIO:
        *sentence = "the class activation map cannot be computed: the log says more";
        return CONVOY_HTTP_INTERNAL_SERVER_ERROR;
    default:
        return 0;
    }
}

int convoy_inference_request_outcome(const struct convoy_inference_request *inference, uint32_t i,
                                     const char **sentence)
{
    const struct convoy_sample *sample = &inference->samples[i];

    *sentence = NULL;
    if (sample->status != 0) {
        *sentence = sample->error != NULL ? sample->error : "the server is out of memory: try again later";
        return sample->status;
    }
    int of_map = inference->map != CONVOY_MAP_NONE ? outcome_of_map(sample->item.status, sentence) : 0;
    if (of_map != 0)
        return of_map;
    switch (sample->item.status) {
    case 0:
        return CONVOY_HTTP_OK;
    case -ETIMEDOUT:
        *sentence =
            "the deadline passed before the image was classified: try again later, or allow more with "
            "timeout_ms";
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -ECONNABORTED:
        *sentence = CONVOY_CLIENT_GONE_SENTENCE;
        return CONVOY_HTTP_CLIENT_GONE;
    case -ENODEV:
        *sentence = "the model can no longer be served: look at its reason in /v2/models";
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -ECANCELED:
        *sentence = "the server is stopping: send the request again";
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    default:
        *sentence = "the worker failed on this image again and again: the log says more";
        return CONVOY_HTTP_INTERNAL_SERVER_ERROR;
    }
}

const char *convoy_inference_request_decoder(const struct convoy_inference_request *inference, uint32_t i)
{
    const struct convoy_sample *sample = &inference->samples[i];

    if (convoy_sample_is_raw(inference->layout))
        return NULL;
    return sample->file && !sample->undecoded ? "gpu" : "cpu";
}

void convoy_inference_request_count_decoded(const struct convoy_inference_request *inference)
{
    uint32_t by_cpu = 0, by_gpu = 0;
    const char *sentence;

    if (convoy_sample_is_raw(inference->layout))
        return;
    for (uint32_t i = 0; i < inference->count; i++) {
        const struct convoy_sample *sample = &inference->samples[i];
        bool by_device = sample->file && !sample->undecoded;
        if (convoy_inference_request_outcome(inference, i, &sentence) != CONVOY_HTTP_OK)
            continue;
        by_cpu += !by_device;
        by_gpu += by_device && !sample->cached; /* it was found by its file */
    }
    convoy_metrics_decoded(inference->view.model->metrics, by_cpu, by_gpu);
}

static float greater(float a, float b)
{
    return a > b ? a : b;
}

void convoy_inference_request_summarise(const struct convoy_inference_request *inference,
                                        struct convoy_inference_summary *summary)
{
    *summary = (struct convoy_inference_summary){0};
    for (uint32_t i = 0; i < inference->count; i++) {
        const struct convoy_sample *sample = &inference->samples[i];
        const struct convoy_item *item = &sample->item;
        if (sample->status != 0 || item->status != 0)
            continue;
        summary->cached += sample->cached;
        if (item->queue_us > summary->queue_us)
            summary->queue_us = item->queue_us;
        summary->input_us = greater(summary->input_us, item->input_us);
        summary->compute_us = greater(summary->compute_us, item->compute_us);
        summary->output_us = greater(summary->output_us, item->output_us);
        if (item->retries > summary->retries)
            summary->retries = item->retries;
        if (summary->last == NULL || item->finished_us > summary->last->finished_us)
            summary->last = item;
    }
}

uint64_t convoy_inference_request_wait_us(const struct convoy_inference_request *inference, uint64_t total_us)
{
    uint64_t last_us = 0, worked_us = 0;

    for (uint32_t i = 0; i < inference->count; i++) {
        const struct convoy_sample *sample = &inference->samples[i];
        const struct convoy_item *item = &sample->item;
        /* Both are 0 for a sample that never reached the batcher. */
        if (i > 0 && item->finished_us < last_us)
            continue;
        last_us = item->finished_us;
        worked_us = sample->decode_us + (item->finished_us - item->submitted_us);
    }
    return total_us > worked_us ? total_us - worked_us : 0;
}

uint64_t convoy_inference_request_decode_us(const struct convoy_inference_request *inference)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < inference->count; i++)
        sum += inference->samples[i].decode_us;
    return sum;
}

void convoy_inference_request_cache(struct convoy_inference_request *inference)
{
    if (inference->pipeline->response_cache == NULL)
        return;
    for (uint32_t i = 0; i < inference->count; i++) {
        struct convoy_sample *sample = &inference->samples[i];
        /* A sample that ended a worker is computed again when it comes again. */
        if (sample->response == NULL || sample->status != 0 || sample->item.status != 0 ||
            sample->item.retries > 0)
            continue; /* freed with the request */
        uint64_t begun_ns = convoy_now_ns();
        convoy_response_cache_insert(inference->pipeline->response_cache, sample->response,
                                     sample->item.outputs);
        sample->response = NULL;
        convoy_model_inserted(inference->view.model, convoy_now_ns() - begun_ns);
    }
}
