/* What bench_channel_rate prints. */
#include "channel_rate.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int by_size(const void *left, const void *right)
{
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static double median(struct samples *samples)
{
    if (samples->count == 0)
        return 0;
    qsort(samples->values, samples->count, sizeof samples->values[0], by_size);
    return (double)samples->values[samples->count / 2];
}

/* To three decimals, more would be noise. */
static void number(cJSON *object, const char *name, double value)
{
    if (isfinite(value) && value > 0)
        cJSON_AddNumberToObject(object, name, round(value * 1000) / 1000);
    else
        cJSON_AddNullToObject(object, name);
}

static double rate_of(const struct bench *bench)
{
    return (double)(bench->slots_counted * bench->batch) /
           ((double)(bench->ended_us - bench->counted_us) / 1e6);
}

/* Several devices' names and rates. */
static void report_each(const struct group *group, cJSON *line)
{
    cJSON *names = cJSON_AddArrayToObject(line, "devices");
    cJSON *rates = cJSON_AddArrayToObject(line, "each_images_per_s");
    double sum = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        cJSON_AddItemToArray(names, cJSON_CreateString(group->benches[i].device));
        cJSON_AddItemToArray(rates, cJSON_CreateNumber(round(rate_of(&group->benches[i]))));
        sum += rate_of(&group->benches[i]);
    }
    cJSON_SetNumberValue(cJSON_GetObjectItemCaseSensitive(line, "images_per_s"), round(sum * 1000) / 1000);
}

void bench_report(const struct group *group)
{
    struct bench *bench = &group->benches[0];
    double rate = rate_of(bench);
    double input = median(&bench->input), compute = median(&bench->compute),
           busy = median(&bench->busy_compute), bytes = (double)(bench->batch * bench->row_bytes);
    double kernels = compute > 0 ? bench->batch / compute * 1e6 : 0;
    double copies = input > 0 ? bench->batch / input * 1e6 : 0;
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "device", bench->device);
    cJSON_AddNumberToObject(line, "batch", bench->batch);
    cJSON_AddNumberToObject(line, "slots", bench->size.slots);
    cJSON_AddNumberToObject(line, "streams", bench->streams);
    cJSON_AddStringToObject(line, "precision", bench->shape.precision);
    number(line, "images_per_s", rate);
    number(line, "kernel_images_per_s", kernels);
    number(line, "of_kernels", rate / kernels);
    number(line, "copy_gb_per_s", input > 0 ? bytes / input / 1e3 : 0);
    number(line, "copy_images_per_s", copies);
    number(line, "of_copies", rate / copies);
    number(line, "compute_us", compute);
    number(line, "input_us", input);
    number(line, "output_us", median(&bench->output));
    number(line, "busy_compute_us", busy);
    number(line, "busy_kernel_images_per_s", busy > 0 ? bench->batch / busy * 1e6 : 0);
    if (group->count > 1)
        report_each(group, line);
    char *text = cJSON_PrintUnformatted(line);
    puts(text != NULL ? text : "out of memory");
    cJSON_free(text);
    cJSON_Delete(line);
}
