#include "server/api/classify_answer.h"

#include "server/api/explain.h"
#include "server/http/status.h"
#include "server/inference/prediction.h"

/* {"label":"tench, Tinca tinca","index":0,"probability":0.987654}, and what stands around them. */
#define CLASS_BYTES 80u
#define IMAGE_BYTES 64u

uint64_t convoy_classify_row_bytes(const struct convoy_prediction_rule *rule,
                                   const struct convoy_model_shape *shape)
{
    uint32_t classes = shape->output_elements[0];

    return IMAGE_BYTES + (uint64_t)CLASS_BYTES * (rule->top < classes ? rule->top : classes);
}

int convoy_classify_status(const struct convoy_inference_request *inference)
{
    const char *sentence;

    for (uint32_t i = 0; i < inference->count; i++)
        if (convoy_inference_request_outcome(inference, i, &sentence) == CONVOY_HTTP_OK)
            return CONVOY_HTTP_OK;
    return convoy_inference_request_outcome(inference, 0, &sentence);
}

static void write_predictions(const struct convoy_inference_request *inference, uint32_t i,
                              struct convoy_ranked_class *best, const struct convoy_class_map_picture *map,
                              struct convoy_json_writer *json)
{
    const struct convoy_model_shape *shape = &inference->view.shape;
    const float *scores = inference->outputs + (size_t)i * shape->outputs_per_row;
    uint32_t found = convoy_predict(scores, shape->output_elements[0], &inference->rule, best);
    char number[16];

    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "predictions");
    convoy_json_write_begin_array(json);
    for (uint32_t k = 0; k < found; k++) {
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "label");
        convoy_json_write_string(json, convoy_model_label(&inference->view, best[k].index, number));
        convoy_json_write_key(json, "index");
        convoy_json_write_unsigned(json, best[k].index);
        convoy_json_write_key(json, "probability");
        convoy_json_write_double(json, best[k].probability);
        convoy_json_write_end_object(json);
    }
    convoy_json_write_end_array(json);
    convoy_json_write_key(json, "decoder");
    convoy_json_write_string(json, convoy_inference_request_decoder(inference, i));
    if (map != NULL)
        convoy_explain_write(inference, map, json);
    convoy_json_write_end_object(json);
}

static void write_results(const struct convoy_inference_request *inference,
                          const struct convoy_class_map_picture *map, struct convoy_json_writer *json)
{
    /* Room for top on the stack would be 8 KB at most: small beside a thread's stack, and no allocation. */
    struct convoy_ranked_class best[CONVOY_TOP_MAX];

    convoy_json_write_key(json, "results");
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < inference->count; i++) {
        const char *sentence;
        int status = convoy_inference_request_outcome(inference, i, &sentence);
        if (status == CONVOY_HTTP_OK) {
            write_predictions(inference, i, best, map, json);
            continue;
        }
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "error");
        convoy_json_write_string(json, sentence);
        convoy_json_write_key(json, "status");
        convoy_json_write_unsigned(json, (uint64_t)status);
        convoy_json_write_end_object(json);
    }
    convoy_json_write_end_array(json);
}

/* Device times are fractions of microseconds; the answer has whole ones. */
static uint64_t whole(float us)
{
    return us > 0 && us < 1e15f ? (uint64_t)(us + 0.5f) : 0;
}

static void write_timing(const struct convoy_inference_request *inference,
                         const struct convoy_inference_summary *summary, uint64_t total_us,
                         struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "timing");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "decode_us");
    convoy_json_write_unsigned(json, convoy_inference_request_decode_us(inference));
    convoy_json_write_key(json, "wait_us");
    convoy_json_write_unsigned(json, convoy_inference_request_wait_us(inference, total_us));
    convoy_json_write_key(json, "queue_us");
    convoy_json_write_unsigned(json, summary->queue_us);
    convoy_json_write_key(json, "input_us");
    convoy_json_write_unsigned(json, whole(summary->input_us));
    convoy_json_write_key(json, "compute_us");
    convoy_json_write_unsigned(json, whole(summary->compute_us));
    convoy_json_write_key(json, "output_us");
    convoy_json_write_unsigned(json, whole(summary->output_us));
    convoy_json_write_key(json, "total_us");
    convoy_json_write_unsigned(json, total_us);
    convoy_json_write_end_object(json);
}

static void write_layers(const struct convoy_item *item, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "layers");
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < item->layer_count; i++) {
        const struct convoy_layer_time *layer = &item->layers[i];
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "name");
        convoy_json_write_string(json, layer->name);
        convoy_json_write_key(json, "kernel");
        convoy_json_write_string(json, layer->kernel);
        convoy_json_write_key(json, "us");
        convoy_json_write_double(json, layer->us);
        convoy_json_write_end_object(json);
    }
    convoy_json_write_end_array(json);
}

void convoy_classify_write(const struct convoy_inference_request *inference,
                           const struct convoy_class_map_picture *map, uint64_t total_us,
                           struct convoy_json_writer *json)
{
    const struct convoy_model_record *model = inference->view.model;
    struct convoy_inference_summary summary;
    const char *sentence;

    convoy_inference_request_summarise(inference, &summary);
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "model");
    convoy_json_write_string(json, model->name);
    convoy_json_write_key(json, "version");
    convoy_json_write_string(json, model->version);
    write_results(inference, map, json);
    write_timing(inference, &summary, total_us, json);
    if (summary.last != NULL) {
        convoy_json_write_key(json, "batch_size");
        convoy_json_write_unsigned(json, summary.last->batch_size);
        convoy_json_write_key(json, "device");
        convoy_json_write_string(json, summary.last->device);
        if (inference->profile)
            write_layers(summary.last, json);
    } else {
        convoy_inference_request_outcome(inference, 0, &sentence);
        convoy_json_write_key(json, "error");
        convoy_json_write_string(json, sentence);
    }
    if (summary.retries > 0) {
        convoy_json_write_key(json, "retries");
        convoy_json_write_unsigned(json, summary.retries);
    }
    if (summary.cached > 0) {
        convoy_json_write_key(json, "cached");
        convoy_json_write_unsigned(json, summary.cached);
    }
    convoy_json_write_end_object(json);
    convoy_json_writer_append(json, "\n", 1);
}
