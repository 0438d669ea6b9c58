#include "server/workers/worker_order.h"

static cJSON *order(const char *type)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", type);
    return message;
}

cJSON *convoy_worker_order_channel(const struct convoy_channel_size *size)
{
    cJSON *message = order("channel");
    cJSON_AddNumberToObject(message, "slots", size->slots);
    cJSON_AddNumberToObject(message, "input_bytes", (double)size->input_bytes);
    cJSON_AddNumberToObject(message, "output_bytes", (double)size->output_bytes);
    return message;
}

cJSON *convoy_worker_order_load(const struct convoy_model *model, bool beside)
{
    float multiply[CONVOY_PIXEL_CHANNELS], add[CONVOY_PIXEL_CHANNELS];
    convoy_model_config_transform(model->config, CONVOY_PIXEL_CHANNELS, multiply, add);
    cJSON *message = order("load");
    cJSON_AddNumberToObject(message, "model", model->number);
    cJSON_AddStringToObject(message, "name", model->name);
    cJSON_AddStringToObject(message, "version", model->version);
    cJSON_AddStringToObject(message, "path", model->path);
    cJSON_AddStringToObject(message, "precision", convoy_model_precision_text(model->config->precision));
    cJSON_AddBoolToObject(message, "beside", beside);
    cJSON_AddNumberToObject(message, "max_batch", model->config->batching.max_batch);
    cJSON_AddItemToObject(message, "multiply", cJSON_CreateFloatArray(multiply, CONVOY_PIXEL_CHANNELS));
    cJSON_AddItemToObject(message, "add", cJSON_CreateFloatArray(add, CONVOY_PIXEL_CHANNELS));
    return message;
}

cJSON *convoy_worker_order_unload(const struct convoy_model *model)
{
    cJSON *message = order("unload");
    cJSON_AddNumberToObject(message, "model", model->number);
    return message;
}
