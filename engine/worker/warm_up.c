#include "engine/worker/warm_up.h"

#include "engine/base/clock.h"
#include "engine/ipc/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_US 100000

int convoy_worker_warm_up(struct convoy_worker_device *device, const struct convoy_worker_net *net,
                          uint64_t *took_us, struct convoy_error *error)
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
                             .times = &times};
    uint64_t tag;
    int code = -ENOMEM;
    if (input != NULL && output != NULL) {
        memset(input, 0, input_bytes);
        uint64_t began_us = convoy_now_us();
        code = device->backend->submit(device->device, net->net, &job, error);
        while (code == 0)
            code = device->backend->collect(device->device, WAIT_US, &tag, error);
        *took_us = convoy_now_us() - began_us;
    }
    free(input);
    free(output);
    return code > 0 ? 0 : code;
}
