#include "server/workers/worker_command.h"

static cJSON *command(const char *type)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", type);
    return message;
}

/* message when it has that many members; else memory ran out while they were added. */
static cJSON *complete(cJSON *message, int members)
{
    if (cJSON_GetArraySize(message) == members)
        return message;
    cJSON_Delete(message);
    return NULL;
}

cJSON *convoy_worker_command_channel(const struct convoy_channel_size *size)
{
    cJSON *message = command("channel");
    cJSON_AddNumberToObject(message, "slots", size->slots);
    cJSON_AddNumberToObject(message, "input_bytes", (double)size->input_bytes);
    cJSON_AddNumberToObject(message, "output_bytes", (double)size->output_bytes);
    return complete(message, 4);
}

cJSON *convoy_worker_command_load(const struct convoy_model_record *model, bool beside)
{
    float multiply[CONVOY_PIXEL_CHANNELS], add[CONVOY_PIXEL_CHANNELS];
    convoy_model_input_transform(&model->config->input, CONVOY_PIXEL_CHANNELS, multiply, add);
    cJSON *message = command("load");
    cJSON_AddNumberToObject(message, "model", model->number);
    cJSON_AddStringToObject(message, "name", model->name);
    cJSON_AddStringToObject(message, "version", model->version);
    cJSON_AddStringToObject(message, "path", model->path);
    cJSON_AddStringToObject(message, "precision", convoy_model_precision_text(model->config->precision));
    cJSON_AddBoolToObject(message, "beside", beside);
    cJSON_AddNumberToObject(message, "max_batch", model->config->batching.max_batch);
    cJSON_AddItemToObject(message, "multiply", cJSON_CreateFloatArray(multiply, CONVOY_PIXEL_CHANNELS));
    cJSON_AddItemToObject(message, "add", cJSON_CreateFloatArray(add, CONVOY_PIXEL_CHANNELS));
    return complete(message, 10);
}

cJSON *convoy_worker_command_measure(const struct convoy_model_record *model)
{
    cJSON *message = command("measure");
    cJSON_AddNumberToObject(message, "model", model->number);
    cJSON_AddStringToObject(message, "path", model->path);
    return complete(message, 3);
}

cJSON *convoy_worker_command_unload(uint32_t number)
{
    cJSON *message = command("unload");
    cJSON_AddNumberToObject(message, "model", number);
    return complete(message, 2);
}

cJSON *convoy_worker_command_exit(void)
{
    return complete(command("exit"), 1);
}
