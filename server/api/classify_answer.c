/* Written straight into a buffer: see text.h. */
#include "server/api/classify_answer.h"

#include "engine/base/clock.h"
#include "server/inference/prediction.h"

#include <microhttpd.h>

int convoy_classify_status(const struct convoy_inference_request *inference)
{
    const char *sentence;

    for (uint32_t i = 0; i < inference->count; i++)
        if (convoy_inference_request_outcome(inference, i, &sentence) == MHD_HTTP_OK)
            return MHD_HTTP_OK;
    return convoy_inference_request_outcome(inference, 0, &sentence);
}

static void write_predictions(const struct convoy_inference_request *inference, uint32_t i,
                              struct convoy_ranked_class *best, struct convoy_text *text)
{
    const struct convoy_model_shape *shape = &inference->view.shape;
    const float *scores = inference->outputs + (size_t)i * shape->outputs_per_row;
    uint32_t found =
        convoy_predict(scores, shape->output_elements[0], inference->top, inference->view.softmax, best);
    char number[16];

    convoy_text_add(text, "{\"predictions\":[");
    for (uint32_t k = 0; k < found; k++) {
        if (k > 0)
            convoy_text_add(text, ",");
        convoy_text_add(text, "{\"label\":");
        convoy_text_string(text, convoy_model_label(&inference->view, best[k].index, number));
        convoy_text_add(text, ",\"index\":");
        convoy_text_natural(text, best[k].index);
        convoy_text_add(text, ",\"probability\":");
        convoy_text_real(text, best[k].probability);
        convoy_text_add(text, "}");
    }
    convoy_text_add(text, "]}");
}

static void write_results(const struct convoy_inference_request *inference, struct convoy_text *text)
{
    /* Room for top on the stack would be 8 KB at most: small beside a thread's stack, and no allocation. */
    struct convoy_ranked_class best[CONVOY_TOP_MAX];

    convoy_text_add(text, ",\"results\":[");
    for (uint32_t i = 0; i < inference->count; i++) {
        const char *sentence;
        int status = convoy_inference_request_outcome(inference, i, &sentence);
        if (i > 0)
            convoy_text_add(text, ",");
        if (status == MHD_HTTP_OK) {
            write_predictions(inference, i, best, text);
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

/* Device times are fractions of microseconds; the answer has whole ones. */
static uint64_t whole(float us)
{
    return us > 0 && us < 1e15f ? (uint64_t)(us + 0.5f) : 0;
}

static void write_timing(const struct convoy_inference_request *inference,
                         const struct convoy_inference_summary *summary, uint64_t complete_us,
                         struct convoy_text *text)
{
    convoy_text_add(text, ",\"timing\":{\"decode_us\":");
    convoy_text_natural(text, convoy_inference_request_decode_us(inference));
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

void convoy_classify_write(const struct convoy_inference_request *inference, uint64_t complete_us,
                           struct convoy_text *text)
{
    const struct convoy_model *model = inference->view.model;
    struct convoy_inference_summary summary;
    const char *sentence;

    convoy_inference_request_summarise(inference, &summary);
    convoy_text_add(text, "{\"model\":");
    convoy_text_string(text, model->name);
    convoy_text_add(text, ",\"version\":");
    convoy_text_string(text, model->version);
    write_results(inference, text);
    write_timing(inference, &summary, complete_us, text);
    if (summary.last != NULL) {
        convoy_text_add(text, ",\"batch_size\":");
        convoy_text_natural(text, summary.last->batch_size);
        convoy_text_add(text, ",\"device\":");
        convoy_text_string(text, summary.last->device);
        if (inference->profile)
            write_layers(summary.last, text);
    } else {
        convoy_inference_request_outcome(inference, 0, &sentence);
        convoy_text_add(text, ",\"error\":");
        convoy_text_string(text, sentence);
    }
    if (summary.retries > 0) {
        convoy_text_add(text, ",\"retries\":");
        convoy_text_natural(text, summary.retries);
    }
    if (summary.cached > 0) {
        convoy_text_add(text, ",\"cached\":");
        convoy_text_natural(text, summary.cached);
    }
    convoy_text_add(text, "}\n");
}
