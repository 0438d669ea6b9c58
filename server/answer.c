/* What became of a request's images, and its JSON. Written straight into a buffer: see text.h. */
#include "engine/base/clock.h"
#include "server/classification.h"
#include "server/prediction.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>

int convoy_classification_outcome(const struct convoy_classification *classification, uint32_t i,
                                  const char **sentence)
{
    const struct convoy_classify_image *image = &classification->images[i];

    *sentence = NULL;
    if (image->status != 0) {
        *sentence = image->error != NULL ? image->error : "the server is out of memory: try again later";
        return image->status;
    }
    switch (image->item.status) {
    case 0:
        return MHD_HTTP_OK;
    case -ETIMEDOUT:
        *sentence =
            "the deadline passed before the image was classified: try again later, or allow more with "
            "timeout_ms";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case -ENODEV:
        *sentence = "the model can no longer be served: look at its reason in /v2/models";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case -ECANCELED:
        *sentence = "the server is stopping: send the request again";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        *sentence = "the worker failed on this image again and again: the log says more";
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

int convoy_classification_status(const struct convoy_classification *classification)
{
    const char *sentence;

    for (uint32_t i = 0; i < classification->count; i++)
        if (convoy_classification_outcome(classification, i, &sentence) == MHD_HTTP_OK)
            return MHD_HTTP_OK;
    return convoy_classification_outcome(classification, 0, &sentence);
}

uint64_t convoy_classification_decode_us(const struct convoy_classification *classification)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < classification->count; i++)
        sum += classification->images[i].decode_us;
    return sum;
}

static void write_predictions(const struct convoy_classification *classification, uint32_t i,
                              struct convoy_prediction *best, struct convoy_text *text)
{
    const struct convoy_model_shape *shape = &classification->view.shape;
    const float *scores = classification->outputs + (size_t)i * shape->outputs_per_row;
    uint32_t found = convoy_predict(scores, shape->output_elements[0], classification->top,
                                    classification->view.softmax, best);
    char number[16];

    convoy_text_add(text, "{\"predictions\":[");
    for (uint32_t k = 0; k < found; k++) {
        if (k > 0)
            convoy_text_add(text, ",");
        convoy_text_add(text, "{\"label\":");
        convoy_text_string(text, convoy_model_label(&classification->view, best[k].index, number));
        convoy_text_add(text, ",\"index\":");
        convoy_text_natural(text, best[k].index);
        convoy_text_add(text, ",\"probability\":");
        convoy_text_real(text, best[k].probability);
        convoy_text_add(text, "}");
    }
    convoy_text_add(text, "]}");
}

static void write_results(const struct convoy_classification *classification, struct convoy_text *text)
{
    /* Room for top on the stack would be 8 KB at most: small beside a thread's stack, and no allocation. */
    struct convoy_prediction best[CONVOY_TOP_MAX];

    convoy_text_add(text, ",\"results\":[");
    for (uint32_t i = 0; i < classification->count; i++) {
        const char *sentence;
        int status = convoy_classification_outcome(classification, i, &sentence);
        if (i > 0)
            convoy_text_add(text, ",");
        if (status == MHD_HTTP_OK) {
            write_predictions(classification, i, best, text);
            continue;
        }
        convoy_text_add(text, "{\"error\":");
        convoy_text_string(text, sentence);
        convoy_text_add(text, ",\"status\":");
        convoy_text_natural(text, (uint64_t)status);
        convoy_text_add(text, "}");
    }
    convoy_text_add(text, "]");
}

/* Over the images that were classified. */
struct summary {
    uint64_t queue_us;
    float input_us, compute_us, output_us;
    uint32_t retries;
    const struct convoy_item *last; /* of the batch that finished last; NULL when there is none */
};

static float greater(float a, float b)
{
    return a > b ? a : b;
}

static void summarise(const struct convoy_classification *classification, struct summary *summary)
{
    *summary = (struct summary){0};
    for (uint32_t i = 0; i < classification->count; i++) {
        const struct convoy_classify_image *image = &classification->images[i];
        const struct convoy_item *item = &image->item;
        if (image->status != 0 || item->status != 0)
            continue;
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

/* Device times are fractions of microseconds; the answer has whole ones. */
static uint64_t whole(float us)
{
    return us > 0 && us < 1e15f ? (uint64_t)(us + 0.5f) : 0;
}

static void write_timing(const struct convoy_classification *classification, const struct summary *summary,
                         uint64_t complete_us, struct convoy_text *text)
{
    convoy_text_add(text, ",\"timing\":{\"decode_us\":");
    convoy_text_natural(text, convoy_classification_decode_us(classification));
    convoy_text_add(text, ",\"queue_us\":");
    convoy_text_natural(text, summary->queue_us);
    convoy_text_add(text, ",\"input_us\":");
    convoy_text_natural(text, whole(summary->input_us));
    convoy_text_add(text, ",\"compute_us\":");
    convoy_text_natural(text, whole(summary->compute_us));
    convoy_text_add(text, ",\"output_us\":");
    convoy_text_natural(text, whole(summary->output_us));
    convoy_text_add(text, ",\"total_us\":");
    convoy_text_natural(text, convoy_now_us() - complete_us);
    convoy_text_add(text, "}");
}

static void write_layers(const struct convoy_item *item, struct convoy_text *text)
{
    convoy_text_add(text, ",\"layers\":[");
    for (uint32_t i = 0; i < item->layer_count; i++) {
        const struct convoy_layer_time *layer = &item->layers[i];
        if (i > 0)
            convoy_text_add(text, ",");
        convoy_text_add(text, "{\"name\":");
        convoy_text_string(text, layer->name);
        convoy_text_add(text, ",\"kernel\":");
        convoy_text_string(text, layer->kernel);
        convoy_text_add(text, ",\"us\":");
        convoy_text_real(text, layer->us);
        convoy_text_add(text, "}");
    }
    convoy_text_add(text, "]");
}

void convoy_classification_write(const struct convoy_classification *classification, uint64_t complete_us,
                                 struct convoy_text *text)
{
    const struct convoy_model *model = classification->view.model;
    struct summary summary;
    const char *sentence;

    summarise(classification, &summary);
    convoy_text_add(text, "{\"model\":");
    convoy_text_string(text, model->name);
    convoy_text_add(text, ",\"version\":");
    convoy_text_string(text, model->version);
    write_results(classification, text);
    write_timing(classification, &summary, complete_us, text);
    if (summary.last != NULL) {
        convoy_text_add(text, ",\"batch_size\":");
        convoy_text_natural(text, summary.last->batch_size);
        convoy_text_add(text, ",\"device\":");
        convoy_text_string(text, summary.last->device);
        if (classification->profile)
            write_layers(summary.last, text);
    } else {
        convoy_classification_outcome(classification, 0, &sentence);
        convoy_text_add(text, ",\"error\":");
        convoy_text_string(text, sentence);
    }
    if (summary.retries > 0) {
        convoy_text_add(text, ",\"retries\":");
        convoy_text_natural(text, summary.retries);
    }
    convoy_text_add(text, "}\n");
}
