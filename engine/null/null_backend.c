/* The null backend: reads a model's shapes and answers 1/K for each of an output's K elements. It exists to
 * measure everything but the arithmetic. */
#include "engine/describe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define QUEUE 64 /* jobs between submit() and collect(); the worker keeps to info.streams */

struct convoy_device {
    uint64_t tags[QUEUE];
    uint32_t head, tail;
};

struct convoy_net {
    struct convoy_net_info info;
    struct convoy_layer_info layer;
};

static int null_open(uint32_t index, const struct convoy_open_options *options, struct convoy_device **device,
                     struct convoy_device_info *info, struct convoy_error *error)
{
    if (index != 0)
        return convoy_fail(error, -ENODEV, "the null backend has one device, number 0");
    *device = calloc(1, sizeof **device);
    if (*device == NULL)
        return convoy_fail(error, -ENOMEM, "the null backend is out of memory");
    *info = (struct convoy_device_info){.name = "null",
                                        .description = "answers 1/K without computing",
                                        .device_count = 1,
                                        .streams = options->streams < QUEUE ? options->streams : QUEUE};
    return 0;
}

static void null_close(struct convoy_device *device)
{
    free(device);
}

static int null_attach(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error)
{
    (void)device;
    (void)base;
    (void)bytes;
    (void)error;
    return 0;
}

static int null_load(struct convoy_device *device, const struct convoy_graph *graph,
                     const struct convoy_load_options *options, struct convoy_net **result,
                     struct convoy_net_info *info, struct convoy_error *error)
{
    (void)device;
    struct convoy_net *net = calloc(1, sizeof *net);
    if (net == NULL)
        return convoy_fail(error, -ENOMEM, "the null backend is out of memory");
    convoy_describe_shapes(graph, &net->info);
    net->info.precision = options->precision;
    net->info.layer_count = 1;
    net->info.layers = &net->layer;
    snprintf(net->layer.name, sizeof net->layer.name, "all");
    snprintf(net->layer.kernel, sizeof net->layer.kernel, "null");
    *info = net->info;
    *result = net;
    return 0;
}

static void null_unload(struct convoy_device *device, struct convoy_net *net)
{
    (void)device;
    free(net);
}

static int null_submit(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                       struct convoy_error *error)
{
    if (device->tail - device->head == QUEUE)
        return convoy_fail(error, -EBUSY, "the null backend's queue of %d jobs is full", QUEUE);
    for (uint32_t row = 0; row < job->rows; row++) {
        float *output = (float *)(void *)((char *)job->output + row * job->output_stride);
        for (uint32_t i = 0; i < net->info.output_count; i++)
            for (uint32_t k = 0; k < net->info.output_elements[i]; k++)
                *output++ = 1.0f / (float)net->info.output_elements[i];
    }
    job->times->input_us = job->times->compute_us = job->times->output_us = 0;
    if (job->times->layer_us != NULL)
        job->times->layer_us[0] = 0;
    device->tags[device->tail++ % QUEUE] = job->tag;
    return 0;
}

static int null_collect(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                        struct convoy_error *error)
{
    (void)timeout_us;
    (void)error;
    if (device->head == device->tail)
        return 0;
    *tag = device->tags[device->head++ % QUEUE];
    return 1;
}

static const struct convoy_backend backend = {.abi = CONVOY_BACKEND_ABI,
                                              .name = "null",
                                              .open = null_open,
                                              .close = null_close,
                                              .attach = null_attach,
                                              .load = null_load,
                                              .unload = null_unload,
                                              .submit = null_submit,
                                              .collect = null_collect};

__attribute__((visibility("default"))) const struct convoy_backend *convoy_backend_entry(void);
const struct convoy_backend *convoy_backend_entry(void)
{
    return &backend;
}
