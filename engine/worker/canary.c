#include "engine/worker/canary.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/ipc/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WAIT_US 100000

int convoy_worker_canary_run(struct convoy_worker_device *device, const struct convoy_worker_net *net,
                             struct convoy_canary *answer, uint64_t *took_us, struct convoy_error *error)
{
    const struct convoy_net_info *info = &net->info;
    bool pixels = info->channels <= CONVOY_MAX_U8_CHANNELS;
    size_t elements = (size_t)info->channels * info->height * info->width;
    size_t input_bytes = convoy_slot_round(elements * (pixels ? 1 : sizeof(float)));
    size_t output_bytes = convoy_slot_round(info->outputs_per_row * sizeof(float));
    struct convoy_job_times times = {0};
    void *input = aligned_alloc(CONVOY_SLOT_ALIGN, input_bytes);
    float *output = aligned_alloc(CONVOY_SLOT_ALIGN, output_bytes);
    struct convoy_job job = {.layout = pixels ? CONVOY_LAYOUT_U8_HWC : CONVOY_LAYOUT_F32_CHW,
                             .rows = 1,
                             .input = input,
                             .input_stride = input_bytes,
                             .output = output,
                             .output_stride = output_bytes,
                             .repeatable = true,
                             .times = &times};
    uint64_t tag;
    int code = -ENOMEM;
    if (input != NULL && output != NULL) {
        convoy_canary_fill(input, input_bytes, pixels);
        uint64_t began_us = convoy_now_us();
        code = device->backend->submit(device->device, net->net, &job, error);
        while (code == 0)
            code = device->backend->collect(device->device, WAIT_US, &tag, error);
        *took_us = convoy_now_us() - began_us;
    }
    if (code > 0)
        convoy_canary_take(output, info->output_count, info->output_elements, answer);
    free(input);
    free(output);
    return code > 0 ? 0 : code;
}

void convoy_worker_canary_describe(const struct convoy_canary *answer, cJSON *message)
{
    cJSON *canary = cJSON_AddObjectToObject(message, "canary");
    cJSON_AddBoolToObject(canary, "finite", answer->finite);
    cJSON *values = cJSON_AddArrayToObject(canary, "values");
    cJSON *ranges = cJSON_AddArrayToObject(canary, "ranges");
    for (uint32_t i = 0; i < answer->count; i++) {
        cJSON_AddItemToArray(values, isfinite(answer->values[i])
                                         ? cJSON_CreateNumber((double)answer->values[i])
                                         : cJSON_CreateNull());
        cJSON_AddItemToArray(ranges, cJSON_CreateNumber((double)answer->ranges[i]));
    }
}

uint64_t convoy_worker_canary_files(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash != NULL ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    DIR *directory = folder != NULL ? opendir(folder) : NULL;
    const struct dirent *item;
    struct stat status;
    uint64_t stamp = 0;
    while (directory != NULL && (item = readdir(directory)) != NULL) {
        if (item->d_name[0] == '.' || fstatat(dirfd(directory), item->d_name, &status, 0) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        const uint64_t looks[] = {(uint64_t)status.st_size, (uint64_t)status.st_ino,
                                  (uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec};
        uint64_t hash = convoy_hash(0, item->d_name, strlen(item->d_name));
        stamp += convoy_hash(hash, looks, sizeof looks);
    }
    if (directory != NULL)
        closedir(directory);
    free(folder);
    return stamp;
}
