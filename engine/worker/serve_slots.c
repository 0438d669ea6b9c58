/* Slots of the channel: each becomes a job of the backend, and is finished when that has run. */
#include "engine/worker/serve_internal.h"

#include <errno.h>
#include <string.h>

#define COLLECT_US 50 /* how long a busy device may keep the compute thread from looking at new slots */

/* A header that does not fit its model is refused, not run: it cannot come from a front of this build. */
static int job_of(struct convoy_worker *worker, uint32_t slot, const struct convoy_slot *header,
                  struct convoy_job *job)
{
    const struct convoy_channel_size *size = &worker->channel.size;
    if (header->model >= CONVOY_MAX_MODELS || worker->nets[header->model].net == NULL)
        return -ENOENT;
    const struct convoy_worker_net *net = &worker->nets[header->model];
    bool jpeg = header->layout == CONVOY_LAYOUT_JPEG;
    uint64_t element = header->layout == CONVOY_LAYOUT_F32_CHW ? sizeof(float) : 1;
    uint64_t row = element * net->info.channels * net->info.height * net->info.width;
    if (jpeg && (!net->info.takes_jpeg || header->rows > CONVOY_JPEG_ROWS_MAX ||
                 header->input_stride != CONVOY_JPEG_ROW_BYTES))
        return -EINVAL;
    if (jpeg) /* headers, whose files lie behind them */
        row = CONVOY_JPEG_ROW_BYTES;
    uint64_t end = (uint64_t)header->first + header->rows;
    if (!convoy_slot_layout_valid(header->layout) || header->rows < 1 || header->rows > net->max_batch ||
        end > CONVOY_ROWS_MAX || header->input_stride < row || header->input_stride > size->input_bytes ||
        header->output_stride < net->info.outputs_per_row * sizeof(float) ||
        header->output_stride > size->output_bytes || end * header->input_stride > size->input_bytes ||
        end * header->output_stride > size->output_bytes)
        return -EINVAL;
    struct convoy_slot_report *report = convoy_channel_report(&worker->channel, slot);
    struct convoy_worker_flight *flight = &worker->flights[slot];
    flight->generation = header->generation;
    flight->model = header->model;
    flight->jpeg = jpeg;
    flight->map = header->map;
    bool profile = header->profile != 0 && header->map == CONVOY_MAP_NONE;
    flight->times = (struct convoy_job_times){.layer_us = profile ? report->layer_us : NULL};
    uint8_t *outputs = convoy_channel_outputs(&worker->channel, slot) + header->first * header->output_stride;
    *job = (struct convoy_job){.tag = slot,
                               .layout = (enum convoy_input_layout)header->layout,
                               .rows = header->rows,
                               .input = convoy_channel_rows(&worker->channel, slot) +
                                        header->first * header->input_stride,
                               .input_stride = header->input_stride,
                               .input_bytes = size->input_bytes - header->first * header->input_stride,
                               .output = (float *)(void *)outputs,
                               .output_stride = header->output_stride,
                               .profile = profile,
                               .times = &flight->times};
    return 0;
}

void convoy_worker_fail_slot(struct convoy_worker *worker, uint32_t slot, uint32_t generation, int code)
{
    convoy_channel_finish(&worker->channel, &(struct convoy_done){slot, generation, code});
}

static void start_slot(struct convoy_worker *worker, uint32_t slot)
{
    struct convoy_error error;
    struct convoy_job job;
    if (slot >= worker->channel.size.slots)
        return;
    struct convoy_slot header = *convoy_channel_slot(&worker->channel, slot);
    int code = job_of(worker, slot, &header, &job);
    struct convoy_net *net = code == 0 ? worker->nets[header.model].net : NULL;
    if (code == 0 && header.map != CONVOY_MAP_NONE)
        code = convoy_worker_map_job(worker, slot, &job, &net);
    if (code < 0)
        convoy_worker_fail_slot(worker, slot, header.generation, code);
    if (code != 0)
        return;
    if (worker->device.backend->submit(worker->device.device, net, &job, &error) != 0)
        convoy_worker_lose_device(worker, &error);
    worker->in_flight++;
    worker->jpeg_in_flight += worker->flights[slot].jpeg;
}

static void finish_slot(struct convoy_worker *worker, uint32_t slot)
{
    struct convoy_worker_flight *flight = &worker->flights[slot];
    struct convoy_slot_report *report = convoy_channel_report(&worker->channel, slot);
    report->input_us = flight->times.input_us;
    report->compute_us = flight->times.compute_us;
    report->output_us = flight->times.output_us;
    report->layers = flight->times.layer_us != NULL ? worker->nets[flight->model].info.layer_count : 0;
    memcpy(report->undecoded, flight->times.undecoded, sizeof(report->undecoded));
    report->map_class = report->map_height = report->map_width = 0;
    if (flight->map != CONVOY_MAP_NONE)
        convoy_worker_map_done(worker, slot);
    worker->in_flight--;
    worker->jpeg_in_flight -= flight->jpeg;
    convoy_channel_finish(&worker->channel, &(struct convoy_done){slot, flight->generation, 0});
}

/* Waits a moment for a job in flight and reports it. */
static void collect_one(struct convoy_worker *worker)
{
    struct convoy_error error;
    uint64_t tag;
    int got = worker->device.backend->collect(worker->device.device, COLLECT_US, &tag, &error);
    if (got < 0)
        convoy_worker_lose_device(worker, &error);
    if (got > 0)
        finish_slot(worker, (uint32_t)tag);
}

/* Has the device use for one more job? Of JPEG files some are decoded while others compute. Slots come in one
 * order: while either kind has enough, none is taken. */
static bool has_room(const struct convoy_worker *worker)
{
    const struct convoy_device_info *info = &worker->device.info;
    return worker->in_flight - worker->jpeg_in_flight < info->streams &&
           worker->jpeg_in_flight < info->streams + info->jpeg_jobs;
}

bool convoy_worker_run_slots(struct convoy_worker *worker)
{
    uint32_t slot;
    bool busy = false;
    if (!worker->attached)
        return false;
    while (has_room(worker) && (convoy_worker_map_next(worker, &slot) ||
                                convoy_channel_take_submitted(&worker->channel, &slot))) {
        start_slot(worker, slot);
        busy = true;
    }
    if (worker->in_flight == 0)
        return busy;
    collect_one(worker);
    return true;
}

void convoy_worker_collect_all(struct convoy_worker *worker)
{
    while (worker->in_flight > 0)
        collect_one(worker);
}
