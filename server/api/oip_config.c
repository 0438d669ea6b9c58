#include "server/api/oip_config.h"

#include "server/api/app.h"
#include "server/api/oip_internal.h"
#include "server/http/status.h"

static void write_input(const struct convoy_model_shape *shape, struct convoy_json_writer *json)
{
    static const char *const types[CONVOY_INPUT_TYPES] = {[CONVOY_INPUT_FP32] = "TYPE_FP32",
                                                          [CONVOY_INPUT_FP16] = "TYPE_FP16",
                                                          [CONVOY_INPUT_UINT8] = "TYPE_UINT8"};

    convoy_json_write_key(json, "input");
    convoy_json_write_begin_array(json);
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, shape->input_name);
    convoy_json_write_key(json, "data_type");
    convoy_json_write_string(json, types[shape->input_type]);
    convoy_json_write_key(json, "format");
    convoy_json_write_string(json, shape->input_nhwc ? "FORMAT_NHWC" : "FORMAT_NCHW");
    convoy_json_write_key(json, "dims");
    convoy_json_write_begin_array(json);
    convoy_oip_write_dims(shape, json);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
    convoy_json_write_end_array(json);
}

/* The labels are those of the first output, from which images are classified. */
static void write_outputs(const struct convoy_model_view *view, struct convoy_json_writer *json)
{
    const struct convoy_model_shape *shape = &view->shape;

    convoy_json_write_key(json, "output");
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < shape->output_count; i++) {
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "name");
        convoy_json_write_string(json, shape->output_names[i]);
        convoy_json_write_key(json, "data_type");
        convoy_json_write_string(json, "TYPE_FP32");
        convoy_json_write_key(json, "dims");
        convoy_json_write_begin_array(json);
        convoy_oip_write_output_dims(shape, i, json);
        convoy_json_write_end_array(json);
        convoy_json_write_key(json, "label_filename");
        convoy_json_write_string(json, i == 0 ? convoy_model_label_file(view) : "");
        convoy_json_write_end_object(json);
    }
    convoy_json_write_end_array(json);
}

/* A request that finds no room, or would wait for too long, is refused at once. */
static void write_batching(const struct convoy_model_view *view, const struct convoy_config *config,
                           struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "dynamic_batching");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "preferred_batch_size");
    convoy_json_write_begin_array(json);
    convoy_json_write_end_array(json);
    convoy_json_write_key(json, "max_queue_delay_microseconds");
    convoy_json_write_unsigned(json, view->max_delay_us);
    convoy_json_write_key(json, "preserve_ordering");
    convoy_json_write_bool(json, false);
    convoy_json_write_key(json, "priority_levels");
    convoy_json_write_unsigned(json, 3);
    convoy_json_write_key(json, "default_priority_level");
    convoy_json_write_unsigned(json, 2);
    convoy_json_write_key(json, "default_queue_policy");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "timeout_action");
    convoy_json_write_string(json, "REJECT");
    convoy_json_write_key(json, "default_timeout_microseconds");
    convoy_json_write_unsigned(json, (uint64_t)config->timeout_ms * 1000);
    convoy_json_write_key(json, "allow_timeout_override");
    convoy_json_write_bool(json, true);
    convoy_json_write_key(json, "max_queue_size");
    convoy_json_write_unsigned(json, view->model->config->batching.max_queue);
    convoy_json_write_end_object(json);
    convoy_json_write_end_object(json);
}

static void write_parameter(const char *value, struct convoy_json_writer *json)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "string_value");
    convoy_json_write_string(json, value);
    convoy_json_write_end_object(json);
}

/* What the model's config.json asks for, in its words. */
static void write_parameters(const struct convoy_model_config *config, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "parameters");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "precision");
    write_parameter(convoy_model_precision_text(config->precision), json);
    convoy_json_write_key(json, "softmax");
    write_parameter(convoy_softmax_text(config->activation), json);
    convoy_json_write_key(json, "activation");
    write_parameter(convoy_activation_text(config->activation), json);
    convoy_json_write_key(json, "resize");
    write_parameter(convoy_resize_text(config->input.resize), json);
    convoy_json_write_key(json, "interpolation");
    write_parameter(convoy_interpolation_text(config->input.interpolation), json);
    convoy_json_write_end_object(json);
}

static void write_policy(const struct convoy_version_policy *policy, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "version_policy");
    convoy_json_write_begin_object(json);
    if (policy->latest > 0) {
        convoy_json_write_key(json, "latest");
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "num_versions");
        convoy_json_write_unsigned(json, policy->latest);
    } else if (policy->specific != NULL) {
        convoy_json_write_key(json, "specific");
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "versions");
        convoy_json_write_begin_array(json);
        for (uint32_t i = 0; i < policy->specific_count; i++)
            convoy_json_write_unsigned(json, policy->specific[i]);
        convoy_json_write_end_array(json);
    } else {
        convoy_json_write_key(json, "all");
        convoy_json_write_begin_object(json);
    }
    convoy_json_write_end_object(json);
    convoy_json_write_end_object(json);
}

bool convoy_oip_config(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};
    struct convoy_model_view view;
    bool answered;
    const struct convoy_model_record *model = convoy_oip_ready_model(request, &view, &answered);

    if (model == NULL)
        return answered;
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "name");
    convoy_json_write_string(&json, model->name);
    convoy_json_write_key(&json, "platform");
    convoy_json_write_string(&json, view.shape.platform);
    convoy_json_write_key(&json, "backend");
    convoy_json_write_string(&json, "convoyd");
    write_policy(&model->config->versions, &json);
    convoy_json_write_key(&json, "max_batch_size");
    convoy_json_write_unsigned(&json, model->config->batching.max_batch);
    write_input(&view.shape, &json);
    write_outputs(&view, &json);
    write_batching(&view, convoy_app_of(request)->config, &json);
    convoy_json_write_key(&json, "instance_group");
    convoy_json_write_begin_array(&json);
    convoy_json_write_end_array(&json);
    convoy_json_write_key(&json, "default_model_filename");
    convoy_json_write_string(&json, "model.onnx");
    write_parameters(model->config, &json);
    convoy_json_write_key(&json, "response_cache");
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "enable");
    convoy_json_write_bool(&json, convoy_app_of(request)->pipeline.response_cache != NULL &&
                                      model->config->response_cache);
    convoy_json_write_end_object(&json);
    convoy_json_write_key(&json, "model_warmup");
    convoy_json_write_begin_array(&json);
    convoy_json_write_end_array(&json);
    convoy_json_write_end_object(&json);
    convoy_model_view_end(&view);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}
