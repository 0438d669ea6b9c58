#include "engine/worker/check.h"

#include "engine/onnx/file.h"
#include "engine/worker/confine.h"
#include "engine/worker/nets.h"

#include <stdio.h>
#include <stdlib.h>

/* Opens the device and confines the process. Where no folder was named it may read the model's. The leak
 * sanitizer makes a process at the end, which a confined one cannot. */
static int begin(const char *backend, const char *path, struct convoy_worker_confinement *confinement,
                 struct convoy_worker_device *device, struct convoy_error *error)
{
    struct convoy_open_options options = {.streams = 1};
    char *folder = onnx_folder_of(path);
    if (confinement->folders.count == 0 && folder != NULL)
        confinement->folders.read[confinement->folders.count++] = folder;
    int code = convoy_worker_confine_early(confinement, error);
    if (code == 0)
        code = convoy_worker_open_device(backend, 0, &options, confinement, device, NULL, error);
#ifndef __SANITIZE_ADDRESS__
    if (code == 0 && confinement->sandbox)
        (void)convoy_worker_confine(confinement, error); /* an old kernel checks models, too */
#endif
    free(folder);
    return code;
}

int convoy_worker_check(const char *backend, const char *path, const struct convoy_worker_check_input *input,
                        struct convoy_worker_confinement *confinement)
{
    struct convoy_worker_device device = {0};
    struct convoy_worker_net net = {0};
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

    int code = begin(backend, path, confinement, &device, &error);
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
