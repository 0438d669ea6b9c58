#include "server/api/oip_config.h"

#include "server/api/app.h"
#include "server/api/oip_internal.h"

#include <microhttpd.h>

static void write_input(const struct convoy_model_shape *shape, struct convoy_text *text)
{
    convoy_text_add(text, ",\"input\":[{\"name\":");
    convoy_text_string(text, shape->input_name);
    convoy_text_add(text, ",\"data_type\":\"TYPE_FP32\",\"format\":\"FORMAT_NCHW\",\"dims\":[");
    convoy_oip_write_dims(shape, text);
    convoy_text_add(text, "]}]");
}

/* The labels are those of the first output, from which images are classified. */
static void write_outputs(const struct convoy_model_view *view, struct convoy_text *text)
{
    const struct convoy_model_shape *shape = &view->shape;

    convoy_text_add(text, ",\"output\":[");
    for (uint32_t i = 0; i < shape->output_count; i++) {
        if (i > 0)
            convoy_text_add(text, ",");
        convoy_text_add(text, "{\"name\":");
        convoy_text_string(text, shape->output_names[i]);
        convoy_text_add(text, ",\"data_type\":\"TYPE_FP32\",\"dims\":[");
        convoy_text_natural(text, shape->output_elements[i]);
        convoy_text_add(text, "],\"label_filename\":");
        convoy_text_string(text, i == 0 ? convoy_model_label_file(view) : "");
        convoy_text_add(text, "}");
    }
    convoy_text_add(text, "]");
}

/* A request that finds no room, or would wait for too long, is refused at once. */
static void write_batching(const struct convoy_model_view *view, const struct convoy_config *config,
                           struct convoy_text *text)
{
    convoy_text_add(text, ",\"dynamic_batching\":{\"preferred_batch_size\":[],"
                          "\"max_queue_delay_microseconds\":");
    convoy_text_natural(text, view->max_delay_us);
    convoy_text_add(text, ",\"preserve_ordering\":false,\"priority_levels\":3,\"default_priority_level\":2,"
                          "\"default_queue_policy\":{\"timeout_action\":"
                          "\"REJECT\",\"default_timeout_microseconds\":");
    convoy_text_natural(text, (uint64_t)config->timeout_ms * 1000);
    convoy_text_add(text, ",\"allow_timeout_override\":true,\"max_queue_size\":");
    convoy_text_natural(text, view->model->config->batching.max_queue);
    convoy_text_add(text, "}}");
}

/* What the model's config.json asks for, in its words. */
static void write_parameters(const struct convoy_model_config *config, struct convoy_text *text)
{
    convoy_text_add(text, ",\"parameters\":{\"precision\":{\"string_value\":");
    convoy_text_string(text, convoy_model_precision_text(config->precision));
    convoy_text_add(text, "},\"softmax\":{\"string_value\":");
    convoy_text_string(text, convoy_softmax_text(config->softmax));
    convoy_text_add(text, "},\"resize\":{\"string_value\":");
    convoy_text_string(text, convoy_resize_text(config->resize));
    convoy_text_add(text, "}}");
}

static void write_policy(const struct convoy_version_policy *policy, struct convoy_text *text)
{
    convoy_text_add(text, ",\"version_policy\":{");
    if (policy->latest > 0) {
        convoy_text_add(text, "\"latest\":{\"num_versions\":");
        convoy_text_natural(text, policy->latest);
    } else if (policy->specific != NULL) {
        convoy_text_add(text, "\"specific\":{\"versions\":[");
        for (uint32_t i = 0; i < policy->specific_count; i++) {
            if (i > 0)
                convoy_text_add(text, ",");
            convoy_text_natural(text, policy->specific[i]);
        }
        convoy_text_add(text, "]");
    } else {
        convoy_text_add(text, "\"all\":{");
    }
    convoy_text_add(text, "}}");
}

bool convoy_oip_config(struct convoy_request *request)
{
    struct convoy_text text = {0};
    struct convoy_model_view view;
    bool answered;
    const struct convoy_model *model = convoy_oip_ready_model(request, &view, &answered);

    if (model == NULL)
        return answered;
    convoy_text_add(&text, "{\"name\":");
    convoy_text_string(&text, model->name);
    convoy_text_add(&text, ",\"platform\":");
    convoy_text_string(&text, view.shape.platform);
    convoy_text_add(&text, ",\"backend\":\"convoyd\"");
    write_policy(&model->config->versions, &text);
    convoy_text_add(&text, ",\"max_batch_size\":");
    convoy_text_natural(&text, model->config->batching.max_batch);
    write_input(&view.shape, &text);
    write_outputs(&view, &text);
    write_batching(&view, convoy_app_of(request)->config, &text);
    convoy_text_add(&text, ",\"instance_group\":[],\"default_model_filename\":\"model.onnx\"");
    write_parameters(model->config, &text);
    if (convoy_app_of(request)->pipeline.response_cache != NULL && model->config->response_cache)
        convoy_text_add(&text, ",\"response_cache\":{\"enable\":true}");
    else
        convoy_text_add(&text, ",\"response_cache\":{\"enable\":false}");
    convoy_text_add(&text, ",\"model_warmup\":[]}\n");
    convoy_model_view_end(&view);
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
}
