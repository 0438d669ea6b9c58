#include "engine/worker/check.h"

#include "engine/worker/nets.h"

#include <stdio.h>

int convoy_worker_check(const char *backend, const char *path, const struct convoy_worker_check_input *input)
{
    struct convoy_worker_device device;
    struct convoy_worker_net net = {0};
    struct convoy_open_options options = {.streams = 1};
    struct convoy_error error;
    cJSON *described = NULL;
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "path", path);
    cJSON_AddStringToObject(message, "name", path);
    cJSON_AddStringToObject(message, "precision", "fp32");
    cJSON_AddNumberToObject(message, "max_batch", 1);
    if (input->layout != NULL)
        cJSON_AddStringToObject(message, "layout", input->layout);
    cJSON_AddNumberToObject(message, "height", (double)input->height);
    cJSON_AddNumberToObject(message, "width", (double)input->width);

    int code = convoy_worker_open_device(backend, 0, &options, &device, NULL, &error);
    if (code == 0)
        code = convoy_worker_load(&device, message, NULL, &net, &described, &error);
    if (described == NULL)
        described = cJSON_CreateObject();
    cJSON_AddBoolToObject(described, "ok", code == 0);
    if (code != 0)
        cJSON_AddStringToObject(described, "reason", error.message);
    char *text = cJSON_PrintUnformatted(described);
    if (text != NULL)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(described);
    cJSON_Delete(message);
    convoy_worker_unload(&device, &net);
    convoy_worker_close_device(&device);
    return code == 0 ? 0 : 1;
}
