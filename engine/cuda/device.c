#include "engine/cuda/device.h"

#include "engine/base/clock.h"
#include "engine/cuda/net/net.h"
#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/no_gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEALTH_PERIOD_MS 1000 /* between two samples */
#define HEALTH_LIMIT_MS  1000 /* that a worker's start may be later because of them */

static int make_marks(struct convoy_device *device, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < CONVOY_CUDA_MAX_JOBS && !failed; i++)
        for (int k = 0; k < CONVOY_CUDA_MARKS && !failed; k++)
            failed = CONVOY_CUDA(error, cudaEventCreateWithFlags, (&device->marks[i][k], cudaEventDefault));
    return failed;
}

/* A GPU for which this module has no code counts as none: with "auto" the CPU serves instead. */
static int check_code(const struct cudaDeviceProp *properties, struct convoy_error *error)
{
    if (convoy_kernels_run_here() == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    return convoy_fail(error, -ENODEV,
                       "%.64s is of sm_%d%d, for which this build has no code: build with "
                       "-DCONVOY_CUDA_ARCHITECTURES=%d%d",
                       properties->name, properties->major, properties->minor, properties->major,
                       properties->minor);
}

static int count_devices(int *count, struct convoy_error *error)
{
    int driver = 0;
    convoy_cuda_count(CONVOY_CUDA_cudaGetDeviceCount);
    cudaError_t code = cudaGetDeviceCount(count);
    if (code == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    convoy_cuda_count(CONVOY_CUDA_cudaDriverGetVersion);
    (void)cudaDriverGetVersion(&driver); /* 0 says that there is none */
    return convoy_cuda_no_gpu(code, driver, CUDART_VERSION, error);
}

int convoy_cuda_open(uint32_t index, const struct convoy_open_options *options, struct convoy_device **result,
                     struct convoy_device_info *info, struct convoy_error *error)
{
    int count = 0, driver = 0;
    struct cudaDeviceProp properties;
    int failed = count_devices(&count, error);
    if (failed)
        return failed;
    if (index >= (uint32_t)count)
        return convoy_fail(error, -ENODEV, "there is no GPU %u, only %d", index, count);
    struct convoy_device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for a device");
    if (options->health)
        device->health = convoy_cuda_health_begin(HEALTH_PERIOD_MS, options->context, options->log);
    convoy_cuda_tuner_init(&device->tuner, options, &device->gpu, &device->choices, &device->cache);
    failed = convoy_cuda_gpu_open(&device->gpu, index, options, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGetDeviceProperties, (&properties, device->gpu.index));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaDriverGetVersion, (&driver));
    if (!failed)
        failed = check_code(&properties, error);
    if (!failed)
        failed = make_marks(device, error);
    if (!failed)
        failed = convoy_cuda_cache_open(&device->cache, &device->gpu, options->cache_dir, properties.name,
                                        driver, error);
    if (failed) {
        convoy_cuda_close(device);
        return failed;
    }
    if (options->tune != CONVOY_TUNING_FORCE)
        convoy_cuda_cache_read(&device->cache, &device->gpu, &device->choices);
    convoy_cuda_kernel_choices_remember(&device->choices); /* not before: reading replaces all of choices */
    if (device->health != NULL) {
        char bus[32];
        snprintf(bus, sizeof(bus), "%08x:%02x:%02x.0", (unsigned)properties.pciDomainID,
                 (unsigned)properties.pciBusID, (unsigned)properties.pciDeviceID);
        convoy_cuda_health_watch(device->health, bus, HEALTH_LIMIT_MS);
    }
    *info = (struct convoy_device_info){.device_count = (uint32_t)count, .streams = device->gpu.stream_count};
    snprintf(info->name, sizeof(info->name), "cuda:%u", index);
    snprintf(info->description, sizeof(info->description), "%.64s, sm_%d%d, %zu MiB, driver for CUDA %d.%d",
             properties.name, properties.major, properties.minor, properties.totalGlobalMem >> 20,
             driver / 1000, driver % 1000 / 10);
    *result = device;
    return 0;
}

void convoy_cuda_close(struct convoy_device *device)
{
    struct convoy_error ignored;
    if (device == NULL)
        return;
    convoy_cuda_health_end(device->health);
    convoy_cuda_tuner_free(&device->tuner);
    if (device->pinned != NULL)
        (void)CONVOY_CUDA(&ignored, cudaHostUnregister, (device->pinned));
    for (int i = 0; i < CONVOY_CUDA_MAX_JOBS; i++)
        for (int k = 0; k < CONVOY_CUDA_MARKS; k++)
            if (device->marks[i][k] != NULL)
                (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (device->marks[i][k]));
    convoy_cuda_gpu_close(&device->gpu);
    convoy_cuda_kernel_choices_free(&device->choices);
    convoy_cuda_cache_close(&device->cache);
    free(device);
}

int convoy_cuda_enter(struct convoy_device *device, struct convoy_error *error)
{
    return CONVOY_CUDA(error, cudaSetDevice, (device->gpu.index));
}

int convoy_cuda_attach(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error)
{
    int failed = CONVOY_CUDA(error, cudaHostRegister, (base, bytes, cudaHostRegisterDefault));
    if (failed)
        return convoy_fail_in(error, failed, "the channel's %zu bytes cannot be pinned", bytes);
    device->pinned = base;
    return 0;
}

int convoy_cuda_load(struct convoy_device *device, const struct convoy_graph *graph,
                     const struct convoy_load_options *options, struct convoy_net **net,
                     struct convoy_net_info *info, struct convoy_error *error)
{
    int failed = convoy_cuda_net_load(&device->gpu, &device->choices, graph, options, net, info, error);
    if (failed)
        return failed;
    struct convoy_net **link = &device->nets;
    while (*link != NULL)
        link = &(*link)->next;
    *link = *net;
    return 0;
}

void convoy_cuda_unload(struct convoy_device *device, struct convoy_net *net)
{
    if (net == NULL)
        return;
    convoy_cuda_tuner_forget(&device->tuner, net);
    struct convoy_net **link = &device->nets;
    while (*link != net)
        link = &(*link)->next;
    *link = net->next;
    convoy_cuda_net_unload(&device->gpu, net);
}

int convoy_cuda_idle(struct convoy_device *device, int64_t budget_us, struct convoy_error *error)
{
    if (device->tuner.mode == CONVOY_TUNING_OFF)
        return 0;
    if (device->flight_count > 0)
        return 1;
    return convoy_cuda_tuner_go_on(&device->tuner, device->nets, budget_us, error);
}

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
    if (device->flight_count == CONVOY_CUDA_MAX_JOBS)
        return convoy_fail(error, -EBUSY, "more than %d jobs are in flight", CONVOY_CUDA_MAX_JOBS);
    return 0;
}

static uint32_t least_busy(const struct convoy_device *device)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < device->gpu.stream_count; i++)
        if (device->busy[i] < device->busy[best])
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

/* Puts a job that was checked in flight. */
static int start(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                 bool again, struct convoy_error *error)
{
    int failed;
    uint32_t number = least_busy(device);
    if (job->profile && net->profiling[number])
        return convoy_fail(error, -EBUSY, "a profiled job does not wait for another");
    const struct convoy_cuda_bucket *bucket = convoy_cuda_bucket(net, job->rows);
    const struct convoy_cuda_plan *plan = &bucket->plans[job->layout];
    cudaStream_t stream = device->gpu.streams[number];
    char *workspace = net->workspace->memory[number];
    size_t elements = (size_t)net->info.channels * net->info.height * net->info.width;
    uint32_t set = (uint32_t)__builtin_ctzll(~device->marks_used);
    cudaEvent_t *marks = device->marks[set];

    failed = CONVOY_CUDA(error, cudaEventRecord, (marks[CONVOY_CUDA_BEGIN], stream));
    if (!failed && !job->keep_input)
        failed = copy_rows(workspace, net->input_stride[job->layout], job->input, job->input_stride,
                           elements * (job->layout == CONVOY_LAYOUT_U8_HWC ? 1 : sizeof(float)), job->rows,
                           cudaMemcpyHostToDevice, stream, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (marks[CONVOY_CUDA_COPIED_IN], stream));
    if (!failed)
        failed = job->profile
                     ? convoy_cuda_run_profiled(&device->gpu, net, plan, number, error)
                     : CONVOY_CUDA(error, cudaGraphLaunch, (bucket->graphs[job->layout][number], stream));
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
    device->flights[device->flight_count++] = (struct convoy_cuda_flight){
        .job = *job, .net = net, .stream = number, .place = set, .marks = plan->marks, .again = again};
    return 0;
}

int convoy_cuda_submit(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                       struct convoy_error *error)
{
    int failed = check_job(device, net, job, error);
    if (failed)
        return failed;
    if (!job->repeatable && convoy_cuda_overflow_goes_wide(&net->overflow))
        net = net->overflow.wide;
    return start(device, net, job, false, error);
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
    return start(device, net->overflow.wide, &job, true, error);
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
        int got = poll_streams(device, tag, error);
        if (got != 0 || device->flight_count == 0 || convoy_now_us() >= end)
            return got;
    }
}

int convoy_cuda_verify(struct convoy_device *device, struct convoy_net *net, int64_t budget_us,
                       struct convoy_error *error)
{
    return convoy_cuda_net_verify(&device->gpu, net, budget_us, error);
}

int convoy_cuda_memory(struct convoy_device *device, struct convoy_device_memory *memory,
                       struct convoy_error *error)
{
    size_t available = 0, total = 0;
    int failed = CONVOY_CUDA(error, cudaMemGetInfo, (&available, &total));
    *memory = (struct convoy_device_memory){.free = available, .total = total};
    for (const struct convoy_net *net = device->nets; net != NULL; net = net->next)
        memory->weights +=
            net->weights.bytes + (net->overflow.wide != NULL ? net->overflow.wide->weights.bytes : 0);
    for (const struct convoy_cuda_workspace *w = device->gpu.workspaces; w != NULL; w = w->next)
        memory->workspace += w->bytes * device->gpu.stream_count;
    return failed;
}
