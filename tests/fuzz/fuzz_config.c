/* The daemon's configuration, a model's, and the hub's files beside a model: the same bytes as all. */
#include "server/config/config.h"
#include "server/config/model_config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[64], path[96], beside[112];
    static const struct convoy_batching defaults = {256, 500, 4096};
    struct convoy_model_config *model;
    struct convoy_config *config;
    struct convoy_error error;
    struct convoy_resizing resizing;
    float multiply[CONVOY_PIXEL_CHANNELS], add[CONVOY_PIXEL_CHANNELS];
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "/dev/shm/convoy-fuzz-config-%d", (int)getpid());
        mkdir(folder, 0700);
        snprintf(path, sizeof path, "%s/config.json", folder);
        snprintf(beside, sizeof beside, "%s/preprocessor_config.json", folder);
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        abort();
    fwrite(data, 1, size, file);
    fclose(file);
    if (link(path, beside) != 0)
        abort();
    if (convoy_config_load(path, &config, &error) == 0)
        convoy_config_free(config);
    if (convoy_model_config_load(folder, &defaults, &model, &error) == 0) {
        if (convoy_model_input_check(&model->input, model->file, 3, 32, 32, &error) == 0)
            convoy_model_input_transform(&model->input, 3, multiply, add);
        convoy_model_input_resizing(&model->input, 32, 32, &resizing);
        convoy_model_config_free(model);
    }
    unlink(beside);
    unlink(path);
    rmdir(folder);
    folder[0] = '\0';
    return 0;
}
