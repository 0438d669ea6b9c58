#include "tests/bench/alone.h"

#include "engine/base/clock.h"

#include <stdlib.h>

cJSON *bench_load_message(const char *path, long batch, const char *precision)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "path", path);
    cJSON_AddStringToObject(message, "name", path);
    cJSON_AddStringToObject(message, "precision", precision);
    cJSON_AddNumberToObject(message, "max_batch", (double)batch);
    return message;
}

int bench_tune(const struct convoy_worker_device *device, double most_s, struct convoy_error *error)
{
    uint64_t begun_us = convoy_now_us();
    int more = device->backend->idle != NULL;
    while (more > 0 && (double)(convoy_now_us() - begun_us) < most_s * 1e6)
        more = device->backend->idle(device->device, 1000000, error);
    return more;
}

int bench_run(const struct convoy_worker_device *device, const struct convoy_worker_net *net,
              const struct convoy_job *job, struct convoy_error *error)
{
    uint64_t tag;
    int code = device->backend->submit(device->device, net->net, job, error);
    while (code == 0)
        code = device->backend->collect(device->device, 1000, &tag, error);
    return code < 0 ? code : 0;
}

static int by_size(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

float bench_median(float *values, size_t count)
{
    qsort(values, count, sizeof values[0], by_size);
    return values[count / 2];
}
