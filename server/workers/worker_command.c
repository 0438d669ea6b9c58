#include "server/workers/worker_command.h"

#include "engine/base/jpeg_row.h"

#include <inttypes.h>
#include <stdio.h>

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

cJSON *convoy_worker_command_channel(const struct convoy_channel_size *size, uint32_t turn)
{
    cJSON *message = command("channel");
    cJSON_AddNumberToObject(message, "slots", size->slots);
    cJSON_AddNumberToObject(message, "input_bytes", (double)size->input_bytes);
    cJSON_AddNumberToObject(message, "output_bytes", (double)size->output_bytes);
    cJSON_AddNumberToObject(message, "turn", turn);
    return complete(message, 5);
}

/* What decides the input's shape: three members. */
static void add_input(cJSON *message, const struct convoy_model_input *input)
{
    cJSON_AddStringToObject(message, "layout", convoy_image_axes_text(input->layout));
    cJSON_AddNumberToObject(message, "height", input->height);
    cJSON_AddNumberToObject(message, "width", input->width);
}

/* How a device that decodes files brings pictures to the network's size, which the worker knows. */
static void add_fitting(cJSON *message, const struct convoy_model_input *input, bool files)
{
    static const enum convoy_fitting_kind kinds[] = {[CONVOY_RESIZE_STRETCH] = CONVOY_FITTING_STRETCH,
                                                     [CONVOY_RESIZE_CROP] = CONVOY_FITTING_CROP,
                                                     [CONVOY_RESIZE_PAD] = CONVOY_FITTING_PAD};
    static const enum convoy_image_filter filters[] = {
        [CONVOY_INTERPOLATION_BILINEAR] = CONVOY_FILTER_BILINEAR,
        [CONVOY_INTERPOLATION_BICUBIC] = CONVOY_FILTER_BICUBIC,
        [CONVOY_INTERPOLATION_LANCZOS] = CONVOY_FILTER_LANCZOS,
        [CONVOY_INTERPOLATION_NEAREST] = CONVOY_FILTER_NEAREST};
    struct convoy_resizing resizing;
    convoy_model_input_resizing(input, 1, 1, &resizing); /* for the colours alone */
    const int color[] = {resizing.pad_color[0], resizing.pad_color[1], resizing.pad_color[2]};
    cJSON *fitting = cJSON_AddObjectToObject(message, "fitting");
    cJSON_AddNumberToObject(fitting, "kind", files ? kinds[input->resize] : CONVOY_FITTING_NONE);
    cJSON_AddNumberToObject(fitting, "filter", filters[input->interpolation]);
    cJSON_AddNumberToObject(fitting, "resize_to", input->resize_to);
    cJSON_AddNumberToObject(fitting, "crop_fraction", input->crop_fraction);
    cJSON_AddItemToObject(fitting, "color", cJSON_CreateIntArray(color, 3));
    cJSON_AddBoolToObject(fitting, "bgr", resizing.bgr);
    cJSON_AddBoolToObject(fitting, "cuts_down", resizing.cuts_down);
    if (cJSON_GetArraySize(fitting) < 7 || cJSON_GetArraySize(cJSON_GetObjectItem(fitting, "color")) < 3)
        cJSON_DeleteItemFromObject(message, "fitting"); /* memory is out, which complete() sees */
}

/* The files' stamp, for which a number of JSON is too short. The worker does not read it. */
static void add_stamp(cJSON *message, const struct convoy_model_record *model)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, model->stamp);
    cJSON_AddStringToObject(message, "stamp", text);
}

cJSON *convoy_worker_command_load(const struct convoy_model_record *model, bool beside,
                                  enum convoy_load_files files)
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
    cJSON_AddBoolToObject(message, "normalise_bytes", model->config->input.normalises);
    add_input(message, &model->config->input);
    add_fitting(message, &model->config->input, files != CONVOY_LOAD_NO_FILES);
    add_stamp(message, model);
    if (files == CONVOY_LOAD_FILES_FIRST)
        cJSON_AddTrueToObject(message, "decoder_first");
    return complete(message, files == CONVOY_LOAD_FILES_FIRST ? 17 : 16);
}

cJSON *convoy_worker_command_load_kind(const struct convoy_model_record *model, enum convoy_load_files files)
{
    cJSON *message = convoy_worker_command_load(model, false, files);
    cJSON_DeleteItemFromObjectCaseSensitive(message, "type");
    cJSON_DeleteItemFromObjectCaseSensitive(message, "model");
    cJSON_DeleteItemFromObjectCaseSensitive(message, "beside");
    return message;
}

cJSON *convoy_worker_command_adopt(void)
{
    return complete(command("adopt"), 1);
}

cJSON *convoy_worker_command_keep(void)
{
    cJSON *message = command("keep");
    cJSON_AddArrayToObject(message, "models");
    return complete(message, 2);
}

bool convoy_worker_command_keep_add(cJSON *keep, uint32_t was, uint32_t is)
{
    cJSON *pair = cJSON_CreateObject();
    if (cJSON_AddNumberToObject(pair, "was", was) != NULL &&
        cJSON_AddNumberToObject(pair, "is", is) != NULL &&
        cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(keep, "models"), pair))
        return true;
    cJSON_Delete(pair);
    return false;
}

cJSON *convoy_worker_command_measure(const struct convoy_model_record *model)
{
    cJSON *message = command("measure");
    cJSON_AddNumberToObject(message, "model", model->number);
    cJSON_AddStringToObject(message, "path", model->path);
    add_input(message, &model->config->input);
    return complete(message, 6);
}

cJSON *convoy_worker_command_unload(uint32_t number)
{
    cJSON *message = command("unload");
    cJSON_AddNumberToObject(message, "model", number);
    return complete(message, 2);
}

cJSON *convoy_worker_command_memory(void)
{
    return complete(command("memory"), 1);
}

cJSON *convoy_worker_command_exit(void)
{
    return complete(command("exit"), 1);
}
