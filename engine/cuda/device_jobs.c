/* Jobs: from submit() to collect(). */
#include "engine/base/clock.h"
#include "engine/cuda/device.h"
#include "engine/cuda/net/net.h"
#include "engine/cuda/runtime/calls.h"

#include <errno.h>
#include <string.h>

static int check_job(const struct convoy_device *device, const struct convoy_net *net,
                     const struct convoy_job *job, struct convoy_error *error)
{
    if (job->rows < 1 || job->rows > net->max_batch)
        return convoy_fail(error, -EINVAL, "a job of %u rows was given to a network that takes 1 to %u",
                           job->rows, net->max_batch);
    if (job->layout == CONVOY_LAYOUT_U8_HWC && !net->takes_u8)
        return convoy_fail(error, -EINVAL,
                           "8-bit rows were given to a network of %u channels, it takes up to %d",
                           net->info.channels, CONVOY_MAX_U8_CHANNELS);
    if (job->layout == CONVOY_LAYOUT_JPEG && (!net->info.takes_jpeg || job->rows > CONVOY_JPEG_ROWS_MAX ||
                                              job->input_stride != CONVOY_JPEG_ROW_BYTES))
        return convoy_fail(error, -EINVAL, "%u rows of JPEG files were given to a network that takes %s",
                           job->rows, net->info.takes_jpeg ? "others" : "none");
    if (device->flight_count + device->waiting_count == CONVOY_CUDA_MAX_JOBS)
        return convoy_fail(error, -EBUSY, "more than %d jobs are in flight", CONVOY_CUDA_MAX_JOBS);
    return 0;
}

/* Streams for jobs of files. Their rows are on the device already, so that two have always something to
 * compute, and batches that share the chip are late together: on an H200 with 256 clients' photographs to
 * resnet50 two streams answered 24,800 a second and three 23,100 (medians of three rounds). */
#define FILE_STREAMS 2

/* The stream with the fewest jobs; CONVOY_CUDA_MAX_STREAMS if there is none yet, because two profiles of one
 * network cannot be in one stream. */
static uint32_t stream_for(const struct convoy_device *device, const struct convoy_net *net,
                           const struct convoy_job *job)
{
    uint32_t best = CONVOY_CUDA_MAX_STREAMS, count = device->gpu.stream_count;
    if (job->layout == CONVOY_LAYOUT_JPEG && count > FILE_STREAMS)
        count = FILE_STREAMS;
    for (uint32_t i = 0; i < count; i++)
        if (!(job->profile && net->profiling[i]) &&
            (best == CONVOY_CUDA_MAX_STREAMS || device->busy[i] < device->busy[best]))
            best = i;
    return best;
}

/* Rows usually have the same stride in the channel and on the device, so that one copy takes all; otherwise
 * each row takes a copy of `bytes`. */
static int copy_rows(char *to, size_t to_stride, const char *from, size_t from_stride, size_t bytes,
                     uint32_t rows, enum cudaMemcpyKind kind, cudaStream_t stream, struct convoy_error *error)
{
    int failed = 0;
    if (to_stride == from_stride)
        return CONVOY_CUDA(error, cudaMemcpyAsync, (to, from, rows * to_stride, kind, stream));
    for (uint32_t i = 0; i < rows && !failed; i++)
        failed = CONVOY_CUDA(error, cudaMemcpyAsync,
                             (to + i * to_stride, from + i * from_stride, bytes, kind, stream));
    return failed;
}

/* Brings the rows of a job into a workspace: from the host, or, decoded, from elsewhere on the device. */
static int copy_in(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                   struct convoy_jpeg_task *decoded, char *workspace, cudaStream_t stream,
                   struct convoy_error *error)
{
    size_t elements = (size_t)net->info.channels * net->info.height * net->info.width;
    if (decoded == NULL)
        return copy_rows(workspace, net->input_stride[job->layout], job->input, job->input_stride,
                         elements * (job->layout == CONVOY_LAYOUT_U8_HWC ? 1 : sizeof(float)), job->rows,
                         cudaMemcpyHostToDevice, stream, error);
    size_t stride = net->input_stride[CONVOY_LAYOUT_U8_HWC];
    int failed = copy_rows(workspace, stride, (const char *)decoded->images, decoded->image_bytes, elements,
                           job->rows, cudaMemcpyDeviceToDevice, stream, error);
    return failed ? failed : convoy_jpeg_decoder_release(device->decoder, decoded, stream, error);
}

/* Puts a job that was checked in flight on a stream. decoded: what came of its JPEG files; NULL: it has none.
 */
static int start(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                 struct convoy_jpeg_task *decoded, uint32_t number, bool again, struct convoy_error *error)
{
    int failed;
    enum convoy_input_layout layout = job->layout == CONVOY_LAYOUT_JPEG ? CONVOY_LAYOUT_U8_HWC : job->layout;
    if (job->profile && net->profiling[number])
        return convoy_fail(error, -EBUSY, "a profiled job does not share a stream with another");
    const struct convoy_cuda_bucket *bucket = convoy_cuda_bucket(net, job->rows);
    const struct convoy_cuda_plan *plan = &bucket->plans[layout];
    cudaStream_t stream = device->gpu.streams[number];
    char *workspace = net->workspace->memory[number];
    uint32_t set = (uint32_t)__builtin_ctzll(~device->marks_used);
    cudaEvent_t *marks = device->marks[set];

    failed = CONVOY_CUDA(error, cudaEventRecord, (marks[CONVOY_CUDA_BEGIN], stream));
    if (!failed && !job->keep_input)
        failed = copy_in(device, net, job, decoded, workspace, stream, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (marks[CONVOY_CUDA_COPIED_IN], stream));
    if (!failed)
        failed = job->profile ? convoy_cuda_run_profiled(&device->gpu, net, plan, number, error)
                              : CONVOY_CUDA(error, cudaGraphLaunch, (bucket->graphs[layout][number], stream));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (marks[CONVOY_CUDA_COMPUTED], stream));
    if (!failed && !job->keep_output)
        failed = copy_rows((char *)job->output, job->output_stride, workspace + plan->input_bytes,
                           net->output_stride, net->info.outputs_per_row * sizeof(float), job->rows,
                           cudaMemcpyDeviceToHost, stream, error);
    if (!failed && plan->marks)
        failed = convoy_cuda_overflow_ask(&device->gpu, &net->overflow, number, set, job->rows, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (marks[CONVOY_CUDA_END], stream));
    if (failed)
        return failed;
    device->marks_used |= (uint64_t)1 << set;
    device->busy[number]++;
    device->flights[device->flight_count++] =
        (struct convoy_cuda_flight){.job = *job,
                                    .net = net,
                                    .stream = number,
                                    .place = set,
                                    .marks = plan->marks,
                                    .again = again,
                                    .decode_us = decoded != NULL ? decoded->decode_us : 0};
    return 0;
}

/* Starts a job, or lets it wait for its files or for a stream. fitting: of the network that it was given to.
 * again, first: it is rows from `first` on of a job that ran before. */
static int begin(struct convoy_device *device, struct convoy_net *net,
                 const struct convoy_image_fitting *fitting, const struct convoy_job *job, bool again,
                 uint32_t first, struct convoy_error *error)
{
    bool decodes = job->layout == CONVOY_LAYOUT_JPEG && !job->keep_input;
    uint32_t stream = stream_for(device, net, job);
    if (!decodes && stream < CONVOY_CUDA_MAX_STREAMS)
        return start(device, net, job, NULL, stream, again, error);
    struct convoy_cuda_waiting *waiting = device->waiting;
    while (waiting->used)
        waiting++;
    waiting->used = true;
    waiting->decodes = decodes;
    waiting->number = device->waited++;
    waiting->job = *job;
    waiting->net = net;
    waiting->again = again;
    waiting->first = first;
    device->waiting_count++;
    if (decodes) {
        waiting->task.input = job->input;
        waiting->task.input_bytes = job->input_bytes;
        waiting->task.rows = job->rows;
        waiting->task.fitting = fitting;
        waiting->task.image_bytes = net->input_stride[CONVOY_LAYOUT_U8_HWC];
        convoy_jpeg_decoder_submit(device->decoder, &waiting->task);
    }
    return 0;
}

/* Tells which files could not be decoded. */
static void tell_undecoded(const struct convoy_cuda_waiting *waiting)
{
    struct convoy_job_times *times = waiting->job.times;
    if (times == NULL)
        return;
    if (!waiting->again)
        memset(times->undecoded, 0, sizeof(times->undecoded));
    for (uint32_t row = 0; row < waiting->job.rows; row++)
        if (waiting->task.undecoded[row / 64] >> row % 64 & 1) {
            uint32_t at = waiting->first + row;
            times->undecoded[at / 64] |= (uint64_t)1 << at % 64;
        }
}

/* Starts the jobs that wait and can be started, the oldest first. */
static int start_waiting(struct convoy_device *device, struct convoy_error *error)
{
    for (uint32_t left = device->waiting_count; left > 0; left--) {
        struct convoy_cuda_waiting *oldest = NULL;
        for (struct convoy_cuda_waiting *at = device->waiting; at < device->waiting + CONVOY_CUDA_MAX_JOBS;
             at++)
            if (at->used && (!at->decodes || convoy_jpeg_task_ended(&at->task)) &&
                stream_for(device, at->net, &at->job) < CONVOY_CUDA_MAX_STREAMS &&
                (oldest == NULL || at->number < oldest->number))
                oldest = at;
        if (oldest == NULL)
            return 0;
        if (oldest->decodes && oldest->task.code != 0) {
            *error = oldest->task.error;
            return oldest->task.code;
        }
        if (oldest->decodes)
            tell_undecoded(oldest);
        oldest->used = false;
        device->waiting_count--;
        int failed = start(device, oldest->net, &oldest->job, oldest->decodes ? &oldest->task : NULL,
                           stream_for(device, oldest->net, &oldest->job), oldest->again, error);
        if (failed)
            return failed;
    }
    return 0;
}

int convoy_cuda_submit(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                       struct convoy_error *error)
{
    int failed = check_job(device, net, job, error);
    if (failed)
        return failed;
    const struct convoy_image_fitting *fitting = &net->fitting;
    if (!job->repeatable && convoy_cuda_overflow_goes_wide(&net->overflow))
        net = net->overflow.wide;
    return begin(device, net, fitting, job, false, 0, error);
}

/* Adds the time between two events. */
static int elapsed_us(cudaEvent_t from, cudaEvent_t to, float *us, struct convoy_error *error)
{
    float ms = 0;
    int failed = CONVOY_CUDA(error, cudaEventElapsedTime, (&ms, from, to));
    *us += ms * 1000;
    return failed;
}

/* Writes a job's times, or adds them to those of when it ran first. */
static int tell_times(const struct convoy_device *device, const struct convoy_cuda_flight *flight,
                      struct convoy_error *error)
{
    const cudaEvent_t *marks = device->marks[flight->place];
    struct convoy_job_times *times = flight->job.times;
    if (times == NULL)
        return 0;
    if (!flight->again)
        times->input_us = times->compute_us = times->output_us = 0;
    times->input_us += flight->decode_us;
    int failed = elapsed_us(marks[CONVOY_CUDA_BEGIN], marks[CONVOY_CUDA_COPIED_IN], &times->input_us, error);
    if (!failed)
        failed =
            elapsed_us(marks[CONVOY_CUDA_COPIED_IN], marks[CONVOY_CUDA_COMPUTED], &times->compute_us, error);
    if (!failed)
        failed = elapsed_us(marks[CONVOY_CUDA_COMPUTED], marks[CONVOY_CUDA_END], &times->output_us, error);
    return failed;
}

/* Rows that nothing can compute: not a number. */
static void give_up(const struct convoy_net *net, const struct convoy_job *job)
{
    for (uint32_t row = 0; row < job->rows; row++)
        memset((char *)job->output + row * job->output_stride, 0xff,
               net->info.outputs_per_row * sizeof(float));
}

/* Runs rows of a job again on the network's second one, with float32 tensors. 0: they are in flight; 1: they
 * are not, and the answer stands; or an error that loses the device. */
static int run_again(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *whole,
                     const struct convoy_cuda_marked *marked, struct convoy_error *error)
{
    struct convoy_job job = *whole;
    job.rows = marked->count;
    job.input = (const char *)whole->input + marked->first * whole->input_stride;
    if (job.layout == CONVOY_LAYOUT_JPEG) /* the files lie behind all headers */
        job.input_bytes -= marked->first * whole->input_stride;
    job.output = (float *)(void *)((char *)whole->output + marked->first * whole->output_stride);
    job.keep_input = job.profile = false;
    bool first = net->overflow.wide == NULL && !net->overflow.no_wide;
    convoy_cuda_log(
        &device->gpu, first ? "warn" : "debug",
        "model '%s': fp16 does not hold a result of '%.100s'; %u of %u rows run again with float32 tensors",
        net->name, net->source.graph->nodes[net->groups.groups[marked->group].anchor].name, marked->count,
        whole->rows);
    int failed = first ? convoy_cuda_net_load_wide(&device->gpu, net, error) : 0;
    if (failed == -ENODEV || (failed && convoy_cuda_is_lost(&device->gpu)))
        return failed;
    if (failed) {
        net->overflow.no_wide = true;
        convoy_cuda_log(
            &device->gpu, "error",
            "model '%s': %s; the answer of such rows is not a number: set its precision to tf32 or "
            "fp32, or leave more memory",
            net->name, error->message);
    }
    if (net->overflow.no_wide) {
        give_up(net, &job);
        return 1;
    }
    return begin(device, net->overflow.wide, &net->fitting, &job, true, marked->first, error);
}

/* 1 with the tag of a job that has ended; 0 if some of its rows run again. */
static int finish(struct convoy_device *device, uint32_t index, uint64_t *tag, struct convoy_error *error)
{
    struct convoy_cuda_flight flight = device->flights[index];
    struct convoy_cuda_marked marked = {0};
    device->flight_count--;
    memmove(&device->flights[index], &device->flights[index + 1],
            (device->flight_count - index) * sizeof(flight));
    device->busy[flight.stream]--;
    device->marks_used &= ~((uint64_t)1 << flight.place);
    *tag = flight.job.tag;
    int failed = tell_times(device, &flight, error);
    if (!failed && flight.job.profile)
        failed = convoy_cuda_read_profile(
            flight.net, flight.stream, flight.job.times != NULL ? flight.job.times->layer_us : NULL, error);
    if (failed || !flight.marks)
        return failed ? failed : 1;
    int overflowed =
        convoy_cuda_overflow_read(&device->gpu, &flight.net->overflow, flight.net->name, flight.stream,
                                  flight.place, flight.job.rows, !flight.job.repeatable, &marked, error);
    if (overflowed <= 0)
        return overflowed < 0 ? overflowed : 1;
    return run_again(device, flight.net, &flight.job, &marked, error);
}

/* Asks once for the oldest job of each stream; 1 with its tag, 0 if none has ended. */
static int poll_streams(struct convoy_device *device, uint64_t *tag, struct convoy_error *error)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < device->flight_count; i++) {
        uint32_t bit = 1u << device->flights[i].stream;
        if (seen & bit)
            continue;
        seen |= bit;
        convoy_cuda_count(CONVOY_CUDA_cudaEventQuery);
        cudaError_t code = cudaEventQuery(device->marks[device->flights[i].place][CONVOY_CUDA_END]);
        if (code == cudaSuccess)
            return finish(device, i, tag, error);
        if (code != cudaErrorNotReady)
            return convoy_cuda_check(code, "cudaEventQuery", error);
    }
    return 0;
}

int convoy_cuda_collect(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                        struct convoy_error *error)
{
    /* Waiting in the kernel for an event would take longer than most batches. The worker calls this only
     * while something runs; otherwise it sleeps in poll(). */
    uint64_t end = convoy_now_us() + (timeout_us > 0 ? (uint64_t)timeout_us : 0);
    for (;;) {
        int got = device->waiting_count > 0 ? start_waiting(device, error) : 0;
        if (got == 0)
            got = poll_streams(device, tag, error);
        if (got != 0 || device->flight_count + device->waiting_count == 0 || convoy_now_us() >= end)
            return got;
    }
}
